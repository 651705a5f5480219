"""Delete an agent; show what became of deletions."""

from __future__ import annotations

from aiohttp import web

from monitor.auth.models import TENANT
from monitor.db.postgres import connection
from monitor.lifecycle import deletion, store
from monitor.lifecycle.models import Deletion
from monitor.web.codec import no_content, reply
from monitor.web.openapi import describes

routes = web.RouteTableDef()


@routes.delete("/api/v1/agents/{agentId}")
@describes(status=204)
async def delete_agent(request: web.Request) -> web.Response:
    """Delete an agent and all its stored metrics, irreversibly; its token is dead at once."""
    await deletion.delete_agent(request.app, request[TENANT].org_id, request.match_info["agentId"])
    return no_content()


@routes.get("/api/v1/settings/deletions")
@describes(reply=list[Deletion])
async def list_deletions(request: web.Request) -> web.Response:
    """List deleted agents with the series found and the time when none was left."""
    async with connection(request.app) as conn:
        return reply(await store.list_deletions(conn, request[TENANT].org_id))
