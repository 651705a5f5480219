"""Write ``alerts_firing``, the number of alerts that fire, by severity."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from monitor.alerts.live import store
from monitor.db.claims import claim
from monitor.db.postgres import transaction
from monitor.journal.journal import JOURNAL
from monitor.tsdb import influx

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

ROUND_SECONDS = 1.0  # how late a round may be that another process left out
WRITE_SECONDS = 15.0  # between two samples, as agents push


async def write_firing(app: web.Application) -> None:
    """Write the samples of all organizations, if no other process did within 15 s."""
    async with transaction(app) as conn:
        if not await claim(conn, "alerts.firing", WRITE_SECONDS):
            return
    async with app[JOURNAL].entry() as entry:
        counts = await store.firing(entry.conn)
        entry.lines = firing_lines(counts, time.time_ns() // 1_000_000)
        entry.sample_count = len(counts)


def firing_lines(counts: Sequence[store.Severity], at_ms: int) -> bytes:
    """Return a line for each organization and severity."""
    return "".join(
        f"alerts,org_id={influx.escape(it.org_id)},severity={influx.escape(it.severity)}"
        f" firing={it.firing} {at_ms}\n"
        for it in counts
    ).encode()
