"""Serve one viewer: connected, waiting, lines, and why it ends.

Whether the viewer still may is asked with every ping: who has lost the right (a revoked
key, another plan, an expired session) gets lines that come within the next 15 s, and no later ones.
"""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web
from prometheus_client import Counter

from monitor.auth.middleware import admit_again
from monitor.db.postgres import connection
from monitor.errors import OrgSuspended, ServiceError, StorageUnavailable
from monitor.logs.tail.lines import store
from monitor.logs.tail.lines.events import event, place_id
from monitor.logs.tail.lines.feeds import FEEDS, ROWS_A_READ, Feed, Viewer
from monitor.logs.tail.models import Connected, End, Failed, Place, Request, Skipped, Waiting
from monitor.web.sse import PING, PING_SECONDS, EventStream, frame, open_stream

BEHIND_SECONDS = 0.02  # between two looks at a client that has much to take
STALLED_SECONDS = 300.0  # a client that has taken nothing for so long is cut off
AWAY_SECONDS = 1.0  # before a failed read of the table is tried again

SKIPPED = Counter("monitor_tail_lines_skipped_total", "Lines that a viewer was too slow for.")

_PING = frame(PING)
_LOST = "the live tail was lost: connect again"


async def show(request: web.Request, watched: Request, next_seq: int) -> web.StreamResponse:
    """Answer *request* with the lines of *watched* from the number *next_seq* on, to their end."""
    place = Place(watched.id, next_seq)
    connected = event("connected", Connected(watched.id, watched.agent_id), place_id(place))
    stream = await open_stream(request, connected)
    viewer = Viewer(stream, next_seq)
    feeds = request.app[FEEDS]
    with feeds.watching(watched, viewer) as feed:
        try:
            await _serve(request, feed, viewer)
        finally:
            viewer.live = False
    with contextlib.suppress(StorageUnavailable):
        await feeds.leave(feed)
    await stream.end()
    return stream.response


async def _serve(request: web.Request, feed: Feed, viewer: Viewer) -> None:
    """Return when the client has left or was told why the stream ends."""
    app, stream, loop = request.app, viewer.stream, asyncio.get_running_loop()
    ping_at = loop.time() + PING_SECONDS
    if feed.request is not None and not feed.request.opened:
        stream.send_events(event("waiting", Waiting("waiting for the agent")))
    while not stream.is_gone:
        viewer.wake.clear()
        if loop.time() >= ping_at:
            ping_at = loop.time() + PING_SECONDS
            stream.send(_PING)
            if refusal := await _refusal(request):
                stream.send_events(refusal)
                return
        if app[FEEDS].closed:
            stream.send_events(event("end", End("shutdown")))
            return
        if feed.request is None:
            stream.send_events(event("error", Failed(_LOST)))
            return
        if not viewer.live:
            await _catch_up(app, feed, viewer)
        elif feed.is_over:
            stream.send_events(_last_event(feed.request))
            return
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ping_at):
                    await viewer.wake.wait()


async def _refusal(request: web.Request) -> bytes | None:
    """Return the last event for a viewer who may not watch any more; None if he may, or nobody knows."""
    try:
        await admit_again(request)
    except StorageUnavailable:
        return None
    except OrgSuspended:
        return event("end", End("suspended"))
    except ServiceError as error:
        return event("error", Failed(error.text))
    return None


def _last_event(request: Request) -> bytes:
    if request.end_reason == "error":
        return event("error", Failed(request.error or _LOST))
    return event("end", End(request.end_reason or ""))


async def _catch_up(app: web.Application, feed: Feed, viewer: Viewer) -> None:
    """Send the next rows from the table; the viewer is live when there are none."""
    if not await _is_taken(app, viewer.stream):
        return
    shown = feed.next_seq  # what comes while we read is not missing
    try:
        async with connection(app) as conn:
            rows = await store.read_lines(conn, feed.org_id, feed.id, viewer.next_seq, ROWS_A_READ)
    except StorageUnavailable:
        await asyncio.sleep(AWAY_SECONDS)
        return
    for row in rows:
        if row.first_seq > viewer.next_seq:
            _skip(viewer, row.first_seq)
        viewer.show(row)
        if not await _is_taken(app, viewer.stream):
            return
    # No turn of the event loop between the look and the change: nothing is shown in between.
    if not rows and viewer.next_seq < shown:
        _skip(viewer, shown)
    viewer.live = viewer.next_seq >= feed.next_seq


def _skip(viewer: Viewer, next_seq: int) -> None:
    """Tell the viewer that the lines before *next_seq* are gone."""
    count = next_seq - viewer.next_seq
    SKIPPED.inc(count)
    viewer.stream.send_events(event("skipped", Skipped(count)))
    viewer.next_seq = next_seq


async def _is_taken(app: web.Application, stream: EventStream) -> bool:
    """Wait until the client has taken most of what it was sent; False if it must not be waited for."""
    waited = 0.0
    backlog = stream.backlog
    while stream.is_behind:
        if stream.is_gone or app[FEEDS].closed:
            return False
        await asyncio.sleep(BEHIND_SECONDS)
        waited = 0.0 if stream.backlog < backlog else waited + BEHIND_SECONDS
        backlog = stream.backlog
        if waited > STALLED_SECONDS:
            stream.abort()
            return False
    return True
