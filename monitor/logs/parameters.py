"""Read the parameters of searches; a wrong one is named.

A parameter may be repeated only with one value.  Without ``end`` a window ends now,
or a little later: clocks of agents may be ahead.  Without ``start`` it is an hour long.
"""

from __future__ import annotations

import re
import time
from typing import Any, TypeVar, get_args

from aiohttp import web

from monitor.auth.models import Tenant
from monitor.config import CONFIG
from monitor.errors import BadRequest
from monitor.logs.messages import Around, Count
from monitor.logs.models import Search, SourceName
from monitor.logs.position import parse_cursor, parse_line_id
from monitor.logs.query import parse_query
from monitor.logs.times import EARLIEST, LATEST, SECOND, parse_ns
from monitor.wire.duration import parse_duration
from monitor.wire.logs import Stream

DEFAULT_LIMIT = 200
MAX_LIMIT = 1000
WINDOW_NS = 3_600 * SECOND
AHEAD_NS = 300 * SECOND  # as far as a push may be ahead (contract 3)
DEFAULT_AROUND = 20
MAX_AROUND = 500
BUCKETS = 60  # about as many intervals as a histogram has when nobody says
MAX_BUCKETS = 1_000
# Intervals that people read with ease, in seconds.
INTERVALS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)

_INTEGER = re.compile(r"-?\d{1,9}", re.ASCII)
T = TypeVar("T")


class Parameters:
    """The query of a request, read once."""

    def __init__(self, request: web.Request) -> None:
        self._values: dict[str, str] = {}
        for name, value in request.query.items():
            if self._values.setdefault(name, value) != value:
                raise BadRequest(f"{name}: given with different values", field=name)

    def text(self, name: str) -> str | None:
        """Return a text, None if it is not given.

        Raises:
            BadRequest: It is empty.
        """
        value = self._values.get(name)
        if value == "":
            raise BadRequest(f"{name}: must not be empty", field=name)
        return value

    def any_text(self, name: str) -> str:
        """Return a text that may be empty, and is if it is not given."""
        return self._values.get(name, "")

    def one_of(self, name: str, choices: Any) -> Any:
        """Return one of the *choices*, a Literal; None if it is not given.

        Raises:
            BadRequest: It is something else.
        """
        value = self._values.get(name)
        if value is not None and value not in get_args(choices):
            raise BadRequest(f"{name}: expected {' or '.join(get_args(choices))}", field=name)
        return value

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number from *least* to *most*.

        Raises:
            BadRequest: It is something else.
        """
        value = self._values.get(name)
        if value is None:
            return default
        if not _INTEGER.fullmatch(value) or not least <= int(value) <= most:
            raise BadRequest(f"{name}: expected a whole number from {least} to {most}", field=name)
        return int(value)

    def time(self, name: str) -> int | None:
        """Return a time in ns since 1970, None if it is not given.

        Raises:
            BadRequest: It is no RFC 3339 time.
        """
        value = self._values.get(name)
        if value is None:
            return None
        try:
            return parse_ns(value)
        except ValueError as error:
            raise BadRequest(f"{name}: {error}", field=name) from None


def search_of(request: web.Request, tenant: Tenant) -> Search:
    """Return the search that *request* asks for.

    Raises:
        BadRequest: A parameter is wrong; names it.
    """
    given = Parameters(request)
    cursor = given.text("cursor")
    beyond, first, last = parse_cursor(cursor) if cursor is not None else (None, None, None)
    start, end = _window(given, first, last)
    return Search(
        org_id=tenant.org_id,
        query=parse_query(given.any_text("q")),
        start=start,
        end=end,
        arrived_since=_arrived_since(request, tenant),
        limit=given.integer("limit", DEFAULT_LIMIT, 1, MAX_LIMIT),
        source=given.one_of("source", SourceName),
        agent_id=given.text("agentId"),
        container_id=given.text("containerId"),
        container_name=given.text("containerName"),
        namespace=given.text("namespace"),
        pod=given.text("pod"),
        container=given.text("container"),
        stream=given.one_of("stream", Stream),
        beyond=beyond,
    )


def count_of(request: web.Request, tenant: Tenant) -> Count:
    """Return the histogram that *request* asks for.

    Raises:
        BadRequest: A parameter is wrong, or there were too many intervals.
    """
    search = search_of(request, tenant)
    until = min(search.end, time.time_ns())
    span = max(until, search.start) - search.start
    text = Parameters(request).text("interval")
    if text is None:
        step = next((it for it in INTERVALS if span < (it + 1) * SECOND * BUCKETS), None)
        step_ns = SECOND * step if step else -(-span // (BUCKETS * 86_400 * SECOND)) * 86_400 * SECOND
    else:
        try:
            step_ns = round(parse_duration(text) * SECOND)
        except ValueError as error:
            raise BadRequest(f"interval: {error}", field="interval") from None
        if step_ns <= 0:
            raise BadRequest("interval: expected a duration above 0", field="interval")
    if (search.end - search.start) // step_ns >= MAX_BUCKETS:
        raise BadRequest(f"interval: it makes more than {MAX_BUCKETS:,} intervals", field="interval")
    return Count(search, step_ns, until)


def around_of(request: web.Request, tenant: Tenant) -> Around:
    """Return the context that *request* asks for.

    Raises:
        BadRequest: A parameter is wrong, or ``id`` is missing.
    """
    given = Parameters(request)
    line_id = given.text("id")
    if line_id is None:
        raise BadRequest("id: required", field="id")
    return Around(
        tenant.org_id,
        parse_line_id(line_id, "id"),
        _arrived_since(request, tenant),
        given.integer("before", DEFAULT_AROUND, 0, MAX_AROUND),
        given.integer("after", DEFAULT_AROUND, 0, MAX_AROUND),
    )


def _window(given: Parameters, first: int | None, last: int | None) -> tuple[int, int]:
    """Return start and end; those of the page before, *first* and *last*, if none are given."""
    start, end = given.time("start"), given.time("end")
    if start is None:
        start = first
    if end is None:
        end = last
    now = time.time_ns()
    if start is None:
        start = max((now if end is None else end) - WINDOW_NS, EARLIEST)
    if end is None:
        end = min(max(now + AHEAD_NS, start), LATEST)
    if start > end:
        raise BadRequest("start: after end", field="start")
    return start, end


def _arrived_since(request: web.Request, tenant: Tenant) -> int:
    """Return when the oldest lines came that the organization may read, microseconds since 1970."""
    retention = request.app[CONFIG].config.retention
    seconds = retention.effective("logs", tenant.org_id, tenant.plan, tenant.logs_retention_seconds)
    return time.time_ns() // 1_000 - seconds * 1_000_000
