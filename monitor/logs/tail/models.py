"""What viewers of a live tail ask for and get (api.md "Events", contract 11)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from monitor.wire.logs import Stream
from monitor.wire.tail import DEFAULT_TAIL, MAX_TAIL

Source: TypeAlias = Literal["docker", "kubernetes"]
# complete: the agent has no more lines; expired: the request's hour is over; unwatched: nobody
# was there for a minute; suspended: the organization is; error: it went wrong, as told beside.
EndReason: TypeAlias = Literal["complete", "expired", "unwatched", "suspended", "error"]


class TailQuery(Struct, frozen=True, rename="camel"):
    """Parameters of a live tail."""

    tail: Annotated[int, Meta(ge=0, le=MAX_TAIL, description="Newest lines first shown")] = DEFAULT_TAIL
    since_seconds: Annotated[int | None, Meta(description="Of those, none older than this")] = None
    follow: Annotated[bool, Meta(description="1: new lines too; else the stream ends after the tail")] = False
    agent_id: Annotated[str | None, Meta(description="Whose, where several agents report the same")] = None


class PodTailQuery(TailQuery, frozen=True, rename="camel"):
    """Parameters of a pod's live tail."""

    container: Annotated[str | None, Meta(description="Of a pod with several containers")] = None


class Target(Struct, frozen=True, omit_defaults=True):
    """What is watched: a Docker container by its id, or a pod."""

    source: Source
    container_id: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""


class Connected(Struct, frozen=True, rename="camel"):
    """First event of every stream."""

    request_id: str
    agent_id: str


class Waiting(Struct, frozen=True):
    """The agent has not begun to send."""

    message: str


class LogEvent(Struct, frozen=True):
    """A line; ``ts`` is RFC 3339 with nine digits."""

    line: str
    source: Source
    ts: str
    stream: Stream


class Skipped(Struct, frozen=True):
    """So many lines are missing here: the viewer was too slow, or the agent."""

    lines: int


class End(Struct, frozen=True):
    """The stream is over; ``shutdown`` asks to connect again with ``Last-Event-ID``."""

    reason: str


class Failed(Struct, frozen=True):
    """The stream is over because something went wrong."""

    error: str


class Place(Struct, frozen=True):
    """Where a viewer is: of this request, the line with this number is next."""

    request_id: str
    next_seq: int


class Row(Struct, frozen=True):
    """Stored events, for the lines from *first_seq* to *last_seq*."""

    first_seq: int
    last_seq: int
    events: bytes


class Request(Struct, frozen=True):
    """A stored log request, as a viewer's process knows it.

    Attributes:
        next_seq: The number of the next line that comes.
        opened: The agent's stream has begun.
        end_reason: Why no more lines come; None while they may.
        error: What went wrong, in words for the viewer.
    """

    id: str
    org_id: str
    agent_id: str
    next_seq: int
    opened: bool
    end_reason: EndReason | None = None
    error: str | None = None


class Receiver(Struct, frozen=True, kw_only=True):
    """A stored log request, locked, as the process that takes its lines knows it.

    Attributes:
        bytes: Of all events that ever came.
        opened: There was a sign of the agent's stream before.
        alive: Lines are still wanted.
        watched: Somebody watches now.
    """

    source: Source
    next_seq: int
    bytes: int
    opened: bool
    alive: bool
    watched: bool
    end_reason: EndReason | None
