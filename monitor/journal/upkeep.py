"""What the journal needs besides writing: leases, adoption, replay, empty slots.

VictoriaMetrics is asked first and Postgres afterwards: no connection is held
while another server is waited for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Counter

from monitor.config import CONFIG
from monitor.db.postgres import connection, transaction
from monitor.errors import StorageUnavailable
from monitor.journal import store
from monitor.journal.journal import JOURNAL
from monitor.journal.writer import ROWS, unpack, without
from monitor.tsdb.client import TSDB

if TYPE_CHECKING:
    from aiohttp import web

LOOK_SECONDS = 2.0  # a restart of VictoriaMetrics is noticed this fast
FORGET_SECONDS = 300.0  # a commit whose reply was lost is there long before
REPLAY_PAUSE_SECONDS = 0.02  # between two writes of a replay: live writes come first

REPLAYED = Counter("monitor_journal_replayed_rows_total", "Rows written again after a restart.")

log = structlog.get_logger()


async def keep_leases(app: web.Application) -> None:
    """Hold this process's streams and look at the journal's size."""
    await app[JOURNAL].tick()


async def keep_journal(app: web.Application) -> None:
    """Adopt, watch VictoriaMetrics, replay, rotate and empty slots."""
    await app[JOURNAL].adopt()
    try:
        await watch(app)
    except StorageUnavailable:
        log.warning("VictoriaMetrics is away: the journal is kept")
    else:
        await replay(app)
        await empty_slots(app)
    async with connection(app) as conn:
        await store.rotate(conn)
        await store.forget_streams(conn, FORGET_SECONDS)


async def watch(app: web.Application) -> None:
    """Order a replay where VictoriaMetrics restarted; else move the marks.

    Its start is told in whole seconds: one that is killed and started again within
    the second of its own start is not noticed.

    Raises:
        StorageUnavailable: VictoriaMetrics does not answer: nothing becomes safe.
    """
    async with connection(app) as conn:
        alive_at = await store.clock(conn)
    starts = await app[TSDB].started()
    urls = app[CONFIG].config.victoriametrics.watch_bases
    async with transaction(app) as conn:
        known = sorted(zip(urls, starts, strict=True))
        changed = [url for url, started in known if await store.note_start(conn, url, started)]
        if changed:
            count = await store.order_replay(conn)
            log.warning(
                "VictoriaMetrics restarted: writing its last minute again", urls=changed, streams=count
            )
        else:
            await store.advance_marks(conn, alive_at)


async def replay(app: web.Application) -> None:
    """Write ordered rows again.

    Raises:
        StorageUnavailable: VictoriaMetrics went away; it goes on in the next round.
    """
    while True:
        async with connection(app) as conn:
            orders = await store.replays(conn)
            if not orders:
                return
            order = orders[0]
            rows = await store.rows_between(conn, order.stream_id, order.after, order.until, ROWS)
            deleted = await store.deleted_agents(conn)
        if rows and (lines := without(deleted, unpack(rows))):
            await app[JOURNAL].write(lines)
        REPLAYED.inc(len(rows))
        async with connection(app) as conn:
            await store.move_replay(conn, order, rows[-1].seq if rows else order.until)
        await asyncio.sleep(REPLAY_PAUSE_SECONDS)


async def empty_slots(app: web.Application) -> None:
    """Empty the slots that nothing needs any more; one that is busy waits for the next round."""
    async with connection(app) as conn:
        slots = await store.slots_to_empty(conn)
    for slot in slots:
        try:
            async with transaction(app) as conn:
                await store.empty_slot(conn, slot)
        except StorageUnavailable:
            log.debug("slot is busy", slot=slot)
