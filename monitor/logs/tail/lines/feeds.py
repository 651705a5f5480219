"""The requests that are watched in this process: read once, shown to every viewer here.

A hint makes a request's new rows read, those of all hinted requests in one query, and
written to each viewer who has all before.  Who has not (a new viewer, one who comes
back, a slow one) reads from the table at his own pace, and joins the others when he has
caught up.  A hint may be lost: once a second one query looks for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from prometheus_client import Gauge

from monitor.db.postgres import connection
from monitor.db.wakeups import WAKEUPS
from monitor.errors import StorageUnavailable
from monitor.logs.tail.lines import store
from monitor.logs.tail.lines.events import events_from
from monitor.logs.tail.models import Request, Row
from monitor.web.sse import frame

if TYPE_CHECKING:
    from monitor.web.sse import EventStream

LOOK_SECONDS = 1.0  # how much later a line comes whose hint was lost
WATCH_SECONDS = 5.0  # between two notes that a request is watched; well below store.WATCH_SECONDS
ROWS_A_READ = 4  # of a request: about 128 KiB at most
REQUESTS_A_READ = 100  # in one query
GATHER_SECONDS = 0.02  # between two reads: what comes meanwhile shares the next; nobody sees the difference

VIEWERS = Gauge("monitor_tail_viewers", "Live tails that are watched.", multiprocess_mode="livesum")

log = structlog.get_logger()


class Viewer:
    """One client who watches a request here.

    Attributes:
        next_seq: The number of the line that he gets next.
        live: He has all lines that were read; new ones are written to him at once.
        wake: Set when there is something to do for whoever serves him.
    """

    def __init__(self, stream: EventStream, next_seq: int) -> None:
        self.stream = stream
        self.next_seq = next_seq
        self.live = False
        self.wake = asyncio.Event()

    def show(self, row: Row) -> None:
        """Write what he lacks of *row*."""
        if row.last_seq >= self.next_seq:
            self.stream.send_events(events_from(row, self.next_seq))
            self.next_seq = row.last_seq + 1


class Feed:
    """A request that is watched here.

    Attributes:
        request: As it was read last; None once it is gone from the table.
        next_seq: The number of the line that is read next.
        listening: Closed when nobody watches here any more.
    """

    def __init__(self, request: Request) -> None:
        self.id = request.id
        self.org_id = request.org_id
        self.request: Request | None = request
        self.next_seq = request.next_seq
        self.viewers: set[Viewer] = set()
        self.listening = ExitStack()

    @property
    def is_over(self) -> bool:
        """Whether no more lines come than those that were read."""
        request = self.request
        return request is None or (request.end_reason is not None and self.next_seq >= request.next_seq)

    def take(self, request: Request | None, row: Row | None) -> bool:
        """Take over what was read, and write the row to the viewers who have all before.

        Return whether there is more to read.
        """
        before = self.request
        self.request = request
        if row is not None and row.last_seq >= self.next_seq:
            self._show(row)
            self.next_seq = row.last_seq + 1
        elif request is not None and request.end_reason is not None and self.next_seq < request.next_seq:
            self.next_seq = request.next_seq  # the rest is forgotten already
            for viewer in self.viewers:
                viewer.live = False
        if self.is_over or before is None or request is None or before.opened != request.opened:
            self.wake()
        return request is not None and row is not None and self.next_seq < request.next_seq

    def _show(self, row: Row) -> None:
        chunk = frame(row.events)
        for viewer in self.viewers:
            if not viewer.live:
                continue
            if viewer.next_seq == row.first_seq:
                viewer.stream.send(chunk)
                viewer.next_seq = row.last_seq + 1
            elif viewer.next_seq < row.first_seq:  # older rows were trimmed before they were read
                viewer.live = False
            else:
                viewer.show(row)
            if viewer.stream.is_behind:
                viewer.live = False
            if not viewer.live:
                viewer.wake.set()

    def wake(self) -> None:
        """Wake whoever serves the viewers."""
        for viewer in self.viewers:
            viewer.wake.set()


class Feeds:
    """The feeds of one process."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._feeds: dict[str, Feed] = {}
        self._hinted: dict[str, Feed] = {}
        self._reader: asyncio.Task[None] | None = None
        self.closed = False

    @contextmanager
    def watching(self, request: Request, viewer: Viewer) -> Iterator[Feed]:
        """Add *viewer* to the feed of *request*; whoever leaves last calls ``leave`` then."""
        feed = self._feeds.get(request.id)
        if feed is None:
            feed = self._feeds[request.id] = Feed(request)
            feed.listening.enter_context(
                self._app[WAKEUPS].calling(store.wakeup_key(feed.id), partial(self.hint, feed))
            )
            self.hint(feed)  # something may have come before we listened
        feed.viewers.add(viewer)
        VIEWERS.inc()
        try:
            yield feed
        finally:
            VIEWERS.dec()
            feed.viewers.discard(viewer)
            if not feed.viewers:
                del self._feeds[request.id]
                feed.listening.close()
                self._hinted.pop(request.id, None)

    async def leave(self, feed: Feed) -> None:
        """Note that nobody watches *feed* here any more, if so.

        Raises:
            StorageUnavailable: Postgres is away; it is found out by itself.
        """
        if feed.id not in self._feeds:
            async with connection(self._app) as conn:
                await store.note_left(conn, feed.org_id, feed.id)

    def hint(self, feed: Feed) -> None:
        """Read what is new of *feed*, with whatever else was hinted at."""
        self._hinted[feed.id] = feed
        if self._reader is None:
            self._reader = asyncio.create_task(self._read(), name="logs.tail.read")

    async def _read(self) -> None:
        """Read, one query at a time, until nothing is hinted at."""
        try:
            while self._hinted:
                some = [self._hinted.pop(id_) for id_ in list(self._hinted)[:REQUESTS_A_READ]]
                places = {feed.id: (feed.org_id, feed.next_seq) for feed in some}
                async with connection(self._app) as conn:
                    found = await store.read_new(conn, places, ROWS_A_READ)
                pause = GATHER_SECONDS
                for feed in some:
                    if feed.take(*found.get(feed.id, (None, None))) and feed.viewers:
                        self._hinted[feed.id] = feed
                        pause = 0.0  # a fast one must not fall behind
                await asyncio.sleep(pause)
        except StorageUnavailable as error:
            self._hinted.clear()  # look() hints at all of them again
            log.warning("live tails are not read", cause=repr(error.__cause__))
        except Exception:
            self._hinted.clear()
            log.exception("live tails are not read")
        finally:
            self._reader = None

    def look(self) -> None:
        """Read all feeds, whatever was hinted at; wake whoever serves a viewer who has left."""
        for feed in self._feeds.values():
            self.hint(feed)
            for viewer in feed.viewers:
                if viewer.stream.is_gone:
                    viewer.wake.set()

    async def note_watched(self) -> None:
        """Note that the requests of all feeds are watched."""
        feeds = list(self._feeds.values())
        if feeds:
            async with connection(self._app) as conn:
                await store.note_watched(conn, [feed.org_id for feed in feeds], [feed.id for feed in feeds])

    def close(self) -> None:
        """End every stream, and each that is still to come."""
        self.closed = True
        for feed in self._feeds.values():
            feed.wake()

    async def stop(self) -> None:
        """Wait for the reading under way."""
        if self._reader is not None:
            self._hinted.clear()
            await asyncio.wait([self._reader])


FEEDS: web.AppKey[Feeds] = web.AppKey("FEEDS", Feeds)


async def look(app: web.Application) -> None:
    """Look for what the feeds may have missed."""
    app[FEEDS].look()


async def note_watched(app: web.Application) -> None:
    """Say that this process's requests are watched."""
    await app[FEEDS].note_watched()


async def feeds_context(app: web.Application) -> AsyncIterator[None]:
    """Keep the feeds of this process."""
    feeds = app[FEEDS] = Feeds(app)
    yield
    await feeds.stop()


async def end_feeds(app: web.Application) -> None:
    """End the streams at shutdown: clients are told to connect again."""
    app[FEEDS].close()
