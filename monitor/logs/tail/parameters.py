"""Read what a viewer of a live tail asks for; a wrong parameter is named."""

from __future__ import annotations

from aiohttp import web

from monitor.errors import BadRequest
from monitor.logs.parameters import Parameters
from monitor.logs.tail.lines.events import parse_place
from monitor.logs.tail.models import Place, TailQuery
from monitor.wire.tail import DEFAULT_TAIL, MAX_TAIL

MAX_SINCE_SECONDS = 999_999_999  # 31 years
LAST_EVENT_ID = "Last-Event-ID"
_FLAGS = {"1": True, "true": True, "0": False, "false": False}


def tail_of(given: Parameters) -> TailQuery:
    """Return what is asked for.

    Raises:
        BadRequest: A parameter is wrong; names it.
    """
    follow = given.text("follow") or "0"
    if follow not in _FLAGS:
        raise BadRequest("follow: expected 1 or 0", field="follow")
    since = given.integer("sinceSeconds", 0, 1, MAX_SINCE_SECONDS)
    return TailQuery(
        tail=given.integer("tail", DEFAULT_TAIL, 0, MAX_TAIL),
        since_seconds=since or None,
        follow=_FLAGS[follow],
        agent_id=given.text("agentId"),
    )


def place_of(request: web.Request) -> Place | None:
    """Return where a viewer who was here before goes on; None for a new one.

    Raises:
        BadRequest: ``Last-Event-ID`` is none of ours.
    """
    text = request.headers.get(LAST_EVENT_ID)
    return parse_place(text) if text else None
