"""What agents and service exchange for a live tail (contract 11).

A ``LogRequest`` reaches the agent in ``logRequests`` of a push reply and as the payload
of a ``logs.tail`` command, possibly both and more than once: one that is known already
changes nothing.  The agent sends its lines to ``POST
/api/v1/agents/{agentId}/log-streams/{requestId}``: NDJSON, one ``TailLine`` a line,
chunked and long or short and repeated, gzip or zstd or plain.  Each answer is a
``TailReply`` and acknowledges every line below ``next``: those are stored and need not
be kept any longer.

``seq`` counts the lines of a request from 0, one up for each line.  A line sent again
under its number is stored once; numbers left out are shown to viewers as lines that were
skipped.  An agent that does not know what it sent (it was restarted) posts an empty body
first and goes on from ``next``.  Without ``seq`` the service counts, and a repeated line
is shown twice.

An agent without new lines posts an empty body every ``SIGN_SECONDS``: that tells the
service that it lives, and tells it by 410 that nobody watches any more.  ``?end=1`` says
that no more lines come, ``?end=1&error=<text>`` that they cannot be read and why.

The service answers a long body before its end, with the connection closed behind the
answer, when it shuts down (200: go on with another POST) or the request has ended (410).

404: unknown, or not this agent's.  410: ended, or nobody has watched for 60 s: stop.
503: whether the lines are stored is unknown; send them again.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from monitor.wire.logs import Stream

COMMAND_TYPE = "logs.tail"
SIGN_SECONDS = 10.0  # between two signs of an agent that has no new lines
MAX_TAIL = 10_000  # lines of history (contract 11)
DEFAULT_TAIL = 100  # api.md


class LogRequest(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A container or pod whose log somebody watches.

    A Docker container is named by ``container_id``; a pod by ``namespace`` and ``pod``, and
    by ``container`` where it has several.

    Attributes:
        tail: So many of the newest lines first, 0-10000.
        since_seconds: Of those, only lines not older than this.
        follow: Then new lines as they come; without it ``?end=1`` follows the history.
    """

    request_id: str
    source: Literal["docker", "kubernetes"]
    tail: int
    follow: Annotated[bool, Meta(description="Whether new lines are wanted too")]
    container_id: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    since_seconds: int | None = None


class TailLine(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A line; ``time`` is RFC 3339 with up to nine digits after the point."""

    time: str
    stream: Stream
    message: str
    seq: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class TailReply(Struct, frozen=True):
    """Answer to a POST: every line below ``next`` is stored."""

    next: int
