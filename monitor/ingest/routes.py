"""The push of an agent."""

from __future__ import annotations

from aiohttp import web

from monitor.auth.middleware import agent
from monitor.ingest.push import INGEST
from monitor.web.codec import reply
from monitor.web.openapi import describes
from monitor.wire.push import Push, PushReply

routes = web.RouteTableDef()


@routes.post("/api/v1/agents/{agentId}/push")
@agent(deferred=True)  # the push's own transaction says who may push
@describes(body=Push, reply=PushReply)
async def push(request: web.Request) -> web.Response:
    """Store a snapshot of containers, pods, nodes and samples; durable when answered."""
    log_requests = await request.app[INGEST].push(request)
    return reply(PushReply(ok=True, log_requests=log_requests))
