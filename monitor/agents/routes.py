"""Register an agent; list agents."""

from __future__ import annotations

from aiohttp import web

from monitor.agents import store
from monitor.agents.models import Agent
from monitor.agents.register import register
from monitor.auth.middleware import public
from monitor.auth.models import TENANT
from monitor.db.postgres import connection
from monitor.web.codec import reply
from monitor.web.openapi import describes
from monitor.wire.push import Registered, Registration

routes = web.RouteTableDef()


@routes.post("/api/v1/agents/register")
@public  # the API key may stand in the body: register() checks it
@describes(body=Registration, reply=Registered)
async def register_agent(request: web.Request) -> web.Response:
    """Register an agent with an API key; the token is shown this once."""
    return reply(await register(request))


@routes.get("/api/v1/agents")
@describes(reply=list[Agent])
async def list_agents(request: web.Request) -> web.Response:
    """List the organization's agents in the order of their creation."""
    async with connection(request.app) as conn:
        return reply(await store.list_agents(conn, request[TENANT].org_id))
