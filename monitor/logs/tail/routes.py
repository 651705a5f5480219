"""The live tail: streams to viewers, and the lines for them from agents."""

from __future__ import annotations

from aiohttp import web

from monitor.auth.middleware import agent, requires
from monitor.auth.models import AGENT, TENANT
from monitor.logs.parameters import Parameters
from monitor.logs.routes import check_media
from monitor.logs.tail.lines.receive import receive
from monitor.logs.tail.lines.show import show
from monitor.logs.tail.models import LogEvent, PodTailQuery, TailQuery, Target
from monitor.logs.tail.parameters import place_of, tail_of
from monitor.logs.tail.requests import open_tail, resume_tail
from monitor.web.openapi import describes
from monitor.web.sse import MEDIA
from monitor.wire.tail import TailLine, TailReply

routes = web.RouteTableDef()


@routes.get("/api/v1/logs/containers/{id}", allow_head=False)
@requires(feature="log_streaming")
@describes(query=TailQuery, reply=LogEvent, media=MEDIA)
async def tail_container(request: web.Request) -> web.StreamResponse:
    """Stream a Docker container's log as server-sent events."""
    given = Parameters(request)
    return await _tail(request, Target("docker", container_id=request.match_info["id"]), given)


@routes.get("/api/v1/logs/pods/{namespace}/{name}", allow_head=False)
@requires(feature="log_streaming")
@describes(query=PodTailQuery, reply=LogEvent, media=MEDIA)
async def tail_pod(request: web.Request) -> web.StreamResponse:
    """Stream a pod's log as server-sent events."""
    given = Parameters(request)
    target = Target(
        "kubernetes",
        namespace=request.match_info["namespace"],
        pod=request.match_info["name"],
        container=given.text("container") or "",
    )
    return await _tail(request, target, given)


async def _tail(request: web.Request, target: Target, given: Parameters) -> web.StreamResponse:
    org_id, asked, place = request[TENANT].org_id, tail_of(given), place_of(request)
    if place is None:
        opened = await open_tail(request.app, org_id, target, asked)
    else:
        opened = await resume_tail(request.app, org_id, target, place)
    return await show(request, opened.request, opened.next_seq)


@routes.post("/api/v1/agents/{agentId}/log-streams/{requestId}")
@agent
@describes(body=TailLine, reply=TailReply)
async def take_lines(request: web.Request) -> web.Response:
    """Take lines for those who watch, one JSON object a line; ``?end=1``: no more come."""
    check_media(request)
    return await receive(request, request[AGENT], request.match_info["requestId"])
