"""One route for each way a route can be marked, and what a test shows to open it."""

from __future__ import annotations

from aiohttp import web

from monitor.auth import store, tokens
from monitor.auth.middleware import admitted_agent, agent, public, requires, tenant_by_api_key
from monitor.auth.models import AGENT, AGENT_TOKEN_HASH, TENANT
from monitor.db.postgres import connection
from monitor.web.codec import reply

PASSWORD = "correct horse battery staple"
SECRETS = ("new-secret-" + "n" * 32, "old-secret-" + "o" * 32)

probes = web.RouteTableDef()


@probes.route("*", "/probe/unmarked")
async def unmarked(request: web.Request) -> web.Response:
    return reply({"subject": request[TENANT].subject_id})


@probes.get("/probe/public")
@public
async def opened(request: web.Request) -> web.Response:
    return reply({"identified": TENANT in request})


@probes.route("*", "/probe/viewer")
@requires(role="viewer")
async def for_viewers(request: web.Request) -> web.Response:
    return reply({"subject": request[TENANT].subject_id})


@probes.route("*", "/probe/admin")
@requires(role="admin")
async def for_admins(request: web.Request) -> web.Response:
    return reply({"subject": request[TENANT].subject_id})


@probes.post("/probe/streaming")
@requires(role="admin", feature="log_streaming")
async def streaming(request: web.Request) -> web.Response:
    return reply({})


@probes.get("/probe/gpu")
@requires(feature="gpu_policies")
async def gpu(request: web.Request) -> web.Response:
    return reply({})


@probes.get("/probe/bearer-key")
@requires(api_key_bearer=True)
async def bearer_key(request: web.Request) -> web.Response:
    return reply({"subject": request[TENANT].subject_id})


@probes.post("/probe/key-in-body")
@public
async def key_in_body(request: web.Request) -> web.Response:
    tenant = await tenant_by_api_key(request, await request.json())
    return reply({"subject": tenant.subject_id, "kept": request[TENANT] is tenant})


@probes.post("/probe/agents/{agentId}")
@agent
async def own_path(request: web.Request) -> web.Response:
    return reply({"agent": request[AGENT].agent_id})


@probes.post("/probe/agents/{agentId}/deferred")
@agent(deferred=True)
async def deferred(request: web.Request) -> web.Response:
    async with connection(request.app) as conn:
        caller = await store.agent_by_token(conn, request[AGENT_TOKEN_HASH])
    return reply({"agent": admitted_agent(request, caller).agent_id})


def session_of(user_id: str, org_id: str, role: str = "member", now: float = 4e9) -> str:
    """Return a session's token that does not end in this century's tests."""
    return tokens.issue(SECRETS, user_id=user_id, org_id=org_id, role=role, plan="pro", now=now)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
