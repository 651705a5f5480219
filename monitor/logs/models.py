"""Log lines as searches find them, and what is asked for."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from monitor.logs.query import Query
from monitor.wire.logs import Stream

SourceName: TypeAlias = Literal["docker", "kubernetes"]
Position: TypeAlias = tuple[int, int, int]  # time in ns, hot row, line number


class Source(Struct, frozen=True, array_like=True):
    """Where a line comes from; what does not apply is empty."""

    source: SourceName
    agent_id: str
    namespace: str
    pod: str
    container: str
    container_id: str


class FoundLine(Struct, frozen=True, rename="camel"):
    """A line that was found.

    Attributes:
        id: Names the line for ever: for ``/api/v1/logs/context``.
        truncated: The message was longer than 64 KiB and is cut.
    """

    id: str
    time: str
    source: SourceName
    agent_id: str
    namespace: str
    pod: str
    container: str
    container_id: str
    stream: Stream
    message: str
    truncated: bool


class Search(Struct, frozen=True):
    """Which lines of an organization are asked for.

    Attributes:
        start: Oldest time, ns since 1970, inclusive.
        end: Newest time, ns since 1970, inclusive.
        arrived_since: Lines that came before have outlived the retention; microseconds since 1970.
        beyond: Only lines further on than this position, in the direction of reading.
        newest_first: The direction.
    """

    org_id: str
    query: Query
    start: int
    end: int
    arrived_since: int
    limit: int
    source: SourceName | None = None
    agent_id: str | None = None
    container_id: str | None = None
    container_name: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    stream: Stream | None = None
    beyond: Position | None = None
    newest_first: bool = True


class FilterQuery(Struct, frozen=True, rename="camel"):
    """Parameters that say which lines are meant."""

    q: Annotated[str, Meta(description='Words, "phrases" and -exclusions')] = ""
    source: SourceName | None = None
    agent_id: str | None = None
    container_id: str | None = None
    container_name: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    stream: Stream | None = None
    start: Annotated[str | None, Meta(description="RFC 3339; default: an hour before end")] = None
    end: Annotated[str | None, Meta(description="RFC 3339; default: now")] = None


class SearchQuery(FilterQuery, frozen=True, rename="camel"):
    """Parameters of a search."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    cursor: Annotated[str | None, Meta(description="X-Next-Cursor of the page before")] = None


class HistogramQuery(FilterQuery, frozen=True, rename="camel"):
    """Parameters of a histogram."""

    interval: Annotated[str | None, Meta(description="A duration such as 1m")] = None


class Bucket(Struct, frozen=True):
    """The lines of one interval: its beginning, and how many there are by stream."""

    time: str
    stdout: int
    stderr: int


class Histogram(Struct, frozen=True, rename="camel"):
    """How many lines there are in each interval, oldest first, empty ones included."""

    interval_seconds: float
    buckets: list[Bucket]
    count: int


class ContextQuery(Struct, frozen=True):
    """Parameters of a context."""

    id: Annotated[str, Meta(description="id of a line that a search found")]
    before: Annotated[int, Meta(ge=0, le=500)] = 20
    after: Annotated[int, Meta(ge=0, le=500)] = 20


class Context(Struct, frozen=True):
    """A line and those around it, of the same container and agent, all oldest first."""

    before: list[FoundLine]
    line: FoundLine
    after: list[FoundLine]
