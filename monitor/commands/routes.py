"""What an agent asks for, and what it reports."""

from __future__ import annotations

import math
import re

from aiohttp import web

from monitor.auth.middleware import agent
from monitor.auth.models import AGENT
from monitor.commands import store
from monitor.commands.models import PollQuery
from monitor.commands.poll import POLLS, hand_out
from monitor.db.postgres import connection, found
from monitor.errors import BadRequest, NotFound
from monitor.web.codec import no_content, read_body
from monitor.web.openapi import describes
from monitor.wire.commands import Command, CommandResult

WAIT_SECONDS = 25.0  # when the agent does not say (api.md)
MAX_WAIT_SECONDS = 30.0  # below the idle timeouts of proxies

_COMMAND_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

routes = web.RouteTableDef()


@routes.get("/api/v1/agents/{agentId}/commands", allow_head=False)
@agent
@describes(query=PollQuery, reply=Command)
async def poll(request: web.Request) -> web.StreamResponse:
    """Wait for a command and lease it for 30 s; 204 when none comes."""
    caller = request[AGENT]
    command = await request.app[POLLS].command_for(caller, wait_seconds(request), request.transport)
    if command is None:
        return no_content()
    return await hand_out(request, caller.org_id, command)


@routes.post("/api/v1/agents/{agentId}/commands/{cid}/result")
@agent
@describes(body=CommandResult, status=204)
async def result(request: web.Request) -> web.Response:
    """Report what became of a command; the first report stays."""
    caller, command_id = request[AGENT], request.match_info["cid"]
    outcome = await read_body(request, CommandResult)
    if not _COMMAND_ID.fullmatch(command_id):
        raise NotFound
    async with connection(request.app) as conn:
        found(await store.note_result(conn, caller.org_id, caller.agent_id, command_id, outcome))
    return no_content()


def wait_seconds(request: web.Request) -> float:
    """Return how long *request* may wait.

    Raises:
        BadRequest: ``wait`` is no number, or given with different values.
    """
    given = set(request.query.getall("wait", []))
    if not given:
        return WAIT_SECONDS
    if len(given) > 1:
        raise BadRequest("wait: given with different values", field="wait")
    try:
        seconds = float(given.pop())
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise BadRequest("wait: expected a number of seconds", field="wait")
    return min(max(seconds, 0.0), MAX_WAIT_SECONDS)
