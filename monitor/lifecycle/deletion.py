"""Delete what is stored of a deleted agent, and look again until it stays away.

The tombstone comes first and the token is dead with it.  Then the journal's
streams have to pass it, because VictoriaMetrics makes a deleted series anew when a
sample comes late; then flush, delete, look.  Twice more later, and after each
restart of VictoriaMetrics, which may bring back what it had not yet flushed.
Until all that is done, queries leave the agent out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from monitor.alerts.define import close_agent
from monitor.db.postgres import connection, transaction
from monitor.errors import NotFound, StorageUnavailable
from monitor.journal import store as journal_store
from monitor.lifecycle import store
from monitor.tsdb.client import TSDB

if TYPE_CHECKING:
    from aiohttp import web

ROUND_SECONDS = 1.0
BATCH = 100  # deletions of one round, which share the flushes
LEASE_SECONDS = 60.0  # a process that died in a pass is followed by another
LATER_SECONDS = 5.0  # until a pass is tried again that could not be finished
PASS_WAIT_SECONDS = 20.0  # for the streams to pass the tombstone

log = structlog.get_logger()


async def delete_agent(app: web.Application, org_id: str, agent_id: str) -> None:
    """Delete an agent: its token is dead and its data unreadable when this returns.

    Raises:
        NotFound: Not an agent of this organization.
    """
    async with transaction(app) as conn:
        if await store.delete_agent(conn, org_id, agent_id) is None:
            raise NotFound
        await close_agent(conn, org_id, agent_id)


async def delete_due(app: web.Application) -> None:
    """Do the passes that are due, all of them with the same flushes."""
    tsdb = app[TSDB]
    try:
        started = ",".join(await tsdb.started())
    except StorageUnavailable:
        return  # with VictoriaMetrics down it waits: nothing can be read either
    async with transaction(app) as conn:
        await store.stop_hiding(conn)
        dues = await store.claim_due(conn, started, LEASE_SECONDS, BATCH)
    if not dues:
        return
    if not await _streams_passed(app):
        await _note(app, dues, {}, started)
        return
    await tsdb.force_flush()
    found = {due.agent_id: await tsdb.series_count(due.org_id, due.agent_id) for due in dues}
    for due in dues:
        if found[due.agent_id]:
            await tsdb.delete_series(due.org_id, due.agent_id)
    await _note(app, dues, found, started)


async def _streams_passed(app: web.Application) -> bool:
    """Wait until VictoriaMetrics has what was journalled before now."""
    async with connection(app) as conn:
        targets = await journal_store.unwritten(conn)
    try:
        async with asyncio.timeout(PASS_WAIT_SECONDS):
            while targets:
                await asyncio.sleep(0.1)
                async with connection(app) as conn:
                    targets = await journal_store.unwritten(conn, targets)
    except TimeoutError:
        return False
    return True


async def _note(app: web.Application, dues: list[store.Due], found: dict[str, int], started: str) -> None:
    """Look once more and write down what each pass came to."""
    tsdb = app[TSDB]
    for due in dues:
        clean = due.agent_id in found and await tsdb.series_count(due.org_id, due.agent_id) == 0
        after = (*store.PASS_SECONDS, 0.0)[min(due.passes, len(store.PASS_SECONDS))]
        async with connection(app) as conn:
            await store.note_pass(
                conn,
                due,
                found=found.get(due.agent_id, 0),
                clean=clean,
                started=started,
                next_seconds=after if clean else LATER_SECONDS,
            )
        log.info(
            "agent deletion pass",
            agent_id=due.agent_id,
            org_id=due.org_id,
            found=found.get(due.agent_id),
            clean=clean,
        )
