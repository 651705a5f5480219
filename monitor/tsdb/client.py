"""The client of VictoriaMetrics: one organization's series, by bound selectors and numbers alone.

No text of a caller gets here.  Every read carries the organization twice: in
the selector, and in the URL as ``extra_label``, which VictoriaMetrics ANDs to
whatever else it is asked.  The paths are those written below and no others.
What VictoriaMetrics says about an error stays in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from aiohttp import web

from monitor.errors import BadRequest, StorageUnavailable
from monitor.tsdb import instance
from monitor.tsdb.exchange import LINES_REFUSED, Refused, ask, failure, refused
from monitor.tsdb.keepalive import Origin
from monitor.tsdb.places import Places
from monitor.tsdb.request import below, form, seconds, target
from monitor.tsdb.selector import NAME, BoundSelector, Matcher, Selector

if TYPE_CHECKING:
    from monitor.tsdb.window import Grid

T = TypeVar("T")

WRITE_SECONDS = 30.0  # a write of 1 MiB takes 10 ms; what takes this long is stuck
WATCH_SECONDS = 5.0  # a page of its own metrics takes a few ms
DELETE_SECONDS = 60.0  # grows with the number of series
LISTED_SERIES = 30_000  # -search.maxSeries, as it is by default
_RANGE = "/api/v1/query_range"
_END_OF_TIME = "9000000000"  # the year 2255: what VictoriaMetrics can count to

__all__ = ["EVERYTHING", "TSDB", "Refused", "Tsdb"]

EVERYTHING = Selector((Matcher(NAME, "!=", ""),))


class Tsdb:
    """One VictoriaMetrics, single node or cluster.

    Every method raises StorageUnavailable when it cannot be reached, does not
    answer in time, or fails.
    """

    def __init__(
        self,
        write_base: str,
        read_base: str,
        watch_bases: Sequence[str],
        *,
        query_seconds: float = 30.0,
        concurrent_queries: int = 16,
    ) -> None:
        """Take the URLs below which is written, read, and watched.

        Of a cluster these are ``http://vminsert:8480/insert/0``,
        ``http://vmselect:8481/select/0`` and each ``http://vmstorage:8482``.
        """
        self._writes = Origin(below(write_base, "/insert/", "influx"))
        self._reads = Origin(below(read_base, "/select/", "prometheus"))
        self._deletes = Origin(below(read_base, "/select/", "prometheus").replace("/select/", "/delete/"))
        self._watched = tuple(Origin(base) for base in watch_bases)
        self._query_seconds = query_seconds
        self._timeout = f"{query_seconds:g}s"
        self._places = Places(concurrent_queries)

    async def close(self) -> None:
        """Close the idle connections."""
        for origin in (self._writes, self._reads, self._deletes, *self._watched):
            origin.close()
        await asyncio.sleep(0)  # the transports end in the loop's next turn

    async def query(
        self, selector: BoundSelector, at_ms: int, left: Callable[[], bool] | None = None
    ) -> bytes:
        """Return the newest samples in the 5 minutes up to *at_ms*: an answer of ``/api/v1/query``.

        Args:
            selector: Whose samples.
            at_ms: Unix milliseconds.
            left: Tells whether whoever asked has gone; the query is given up then.

        Raises:
            BadRequest: The selector selects too much.
            TooManyRequests: The organization has too many queries under way.
            ConnectionResetError: *left* said so.
        """
        # max_lookback: without it a series of one sample in ten minutes is shown for ten.
        body = form("query", (selector,), time=seconds(at_ms), max_lookback="5m", timeout=self._timeout)
        return await self._read("/api/v1/query", selector.org_id, body, left)

    async def query_range(
        self, selector: BoundSelector, grid: Grid, left: Callable[[], bool] | None = None
    ) -> bytes:
        """Return the values on *grid*: an answer of ``/api/v1/query_range``.  Errors as of ``query``."""
        return await self._read(_RANGE, selector.org_id, self._range_form(selector, grid), left)

    async def stream_range(
        self,
        selector: BoundSelector,
        grid: Grid,
        sink: Callable[[bytes], None],
        left: Callable[[], bool] | None = None,
    ) -> None:
        """Give *sink* what ``query_range`` returns, piece by piece as it comes."""
        await self._read(_RANGE, selector.org_id, self._range_form(selector, grid), left, sink)

    def _range_form(self, selector: BoundSelector, grid: Grid) -> bytes:
        start, end, step = (seconds(ms) for ms in (grid.start_ms, grid.end_ms, grid.step_ms))
        return form("query", (selector,), start=start, end=end, step=step, timeout=self._timeout)

    async def series(
        self,
        selectors: Sequence[BoundSelector],
        start_ms: int,
        end_ms: int,
        left: Callable[[], bool] | None = None,
    ) -> bytes:
        """Return the label sets: an answer of ``/api/v1/series``.  Errors as of ``query``."""
        return await self._index("/api/v1/series", selectors, start_ms, end_ms, left)

    async def labels(
        self,
        selectors: Sequence[BoundSelector],
        start_ms: int,
        end_ms: int,
        left: Callable[[], bool] | None = None,
    ) -> bytes:
        """Return the label names: an answer of ``/api/v1/labels``.  Errors as of ``query``."""
        return await self._index("/api/v1/labels", selectors, start_ms, end_ms, left)

    async def label_values(
        self,
        label: str,
        selectors: Sequence[BoundSelector],
        start_ms: int,
        end_ms: int,
        left: Callable[[], bool] | None = None,
    ) -> bytes:
        """Return the values of *label*: an answer of ``/api/v1/label/…/values``.  Errors as of ``query``.

        Raises:
            ValueError: *label* is none, one that newer versions read as another, or the organization's.
        """
        if label != NAME:
            Matcher(label, "=", "")  # checks the name
        if label.startswith("U__"):
            raise ValueError(f"not a label to list: {label}")
        path = f"/api/v1/label/{label}/values"
        return await self._index(path, selectors, start_ms, end_ms, left)

    async def series_count(self, org_id: str, agent_id: str | None = None, *, day: str | None = None) -> int:
        """Return how many series are stored of an organization, or of one agent of it.

        Args:
            org_id: The organization.
            agent_id: Only series with this label.
            day: Only series with a sample on this day, ``2030-01-31`` in UTC.  None: ever;
                then more than VictoriaMetrics lists at once count as LISTED_SERIES.
        """
        selector = _of_agent(org_id, agent_id) if agent_id is not None else EVERYTHING.for_tenant(org_id)
        if day is None:
            return await self._listed(selector)
        body = form("match[]", (selector,), topN="1", date=day, timeout=self._timeout)
        answer = await self._read("/api/v1/status/tsdb", org_id, body, None)
        return _decoded(answer, _Status).data.total_series

    async def _listed(self, selector: BoundSelector) -> int:
        # Newer versions know no status/tsdb over all days.  A start of zero would mean none.
        body = form("match[]", (selector,), start="1", end=_END_OF_TIME, timeout=self._timeout)
        try:
            answer = await self._read("/api/v1/series", selector.org_id, body, None)
        except BadRequest:
            return LISTED_SERIES
        return len(_decoded(answer, _SeriesList).data)

    async def delete_series(self, org_id: str, agent_id: str) -> None:
        """Delete all series of an agent, of any time.

        Samples that come later make them anew, and some not yet flushed are missed:
        stop the writes, ``force_flush``, delete, look at ``series_count``, and once more.
        """
        selector = _of_agent(org_id, agent_id)
        url = target("/api/v1/admin/tsdb/delete_series", org_id)
        answer = await ask(self._deletes, url, form("match[]", (selector,)), seconds=DELETE_SECONDS)
        if answer.status not in (200, 204):
            raise failure(url, answer)

    async def write(self, lines: bytes) -> None:
        """Store samples; several writes of the same ones are one.

        Args:
            lines: Influx lines with timestamps in milliseconds.

        Raises:
            Refused: VictoriaMetrics will never take these lines.
        """
        answer = await ask(self._writes, "/write?precision=ms", lines, seconds=WRITE_SECONDS, plain=True)
        if answer.status in LINES_REFUSED:
            raise refused(answer)
        if answer.status not in (200, 204):
            raise failure("/write", answer)

    async def started(self) -> tuple[str, ...]:
        """Return when each process that holds samples was started; another text is another start."""
        return tuple(instance.started(page) for page in await self._pages())

    async def dedup_enabled(self) -> bool:
        """Tell whether a sample written twice is kept once, everywhere."""
        return all(instance.dedup_enabled(page) for page in await self._pages())

    async def retention_seconds(self) -> float:
        """Return the shortest ``-retentionPeriod`` of the processes that hold samples."""
        return min(instance.retention_seconds(page) for page in await self._pages())

    async def force_flush(self) -> None:
        """Make all that was written visible to queries; takes about a second."""
        flushes = (
            ask(origin, "/internal/force_flush", None, seconds=WRITE_SECONDS) for origin in self._watched
        )
        for answer in await asyncio.gather(*flushes):
            if answer.status != 200:
                raise failure("/internal/force_flush", answer)

    async def _pages(self) -> list[str]:
        pages = (ask(origin, "/metrics", None, seconds=WATCH_SECONDS) for origin in self._watched)
        answers = await asyncio.gather(*pages)
        for answer in answers:
            if answer.status != 200:
                raise failure("/metrics", answer)
        return [answer.body.decode("utf-8", "replace") for answer in answers]

    async def _index(
        self,
        path: str,
        selectors: Sequence[BoundSelector],
        start_ms: int,
        end_ms: int,
        left: Callable[[], bool] | None,
    ) -> bytes:
        """Ask for names, for series that have samples in a span of time."""
        org_id = selectors[0].org_id
        if any(selector.org_id != org_id for selector in selectors):
            raise ValueError("selectors of several organizations")
        start, end = seconds(start_ms), seconds(end_ms)
        body = form("match[]", selectors, start=start, end=end, timeout=self._timeout)
        return await self._read(path, org_id, body, left)

    async def _read(
        self,
        path: str,
        org_id: str,
        body: bytes,
        left: Callable[[], bool] | None,
        sink: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """Ask one organization's question within its share and its time."""
        with self._places.held(org_id):
            answer = await ask(
                self._reads, target(path, org_id), body, seconds=self._query_seconds, left=left, sink=sink
            )
        if answer.status == 200:
            return answer.body
        raise failure(path, answer)


TSDB: web.AppKey[Tsdb] = web.AppKey("TSDB", Tsdb)


class _Total(msgspec.Struct, rename="camel"):
    total_series: int


class _Status(msgspec.Struct):
    """The part of ``/api/v1/status/tsdb`` that is used."""

    data: _Total


class _SeriesList(msgspec.Struct):
    data: list[msgspec.Raw]


def _decoded(answer: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=type_)
    except msgspec.DecodeError as error:
        raise StorageUnavailable from error


def _of_agent(org_id: str, agent_id: str) -> BoundSelector:
    return Selector((Matcher("agent_id", "=", agent_id),)).for_tenant(org_id)
