"""Keep logs as long as each organization's retention says, by their arrival.

A search leaves out what has outlived it at once; here it is deleted.  The tables of
the days are made a week ahead and dropped when no organization can need them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import structlog

from monitor.config import CONFIG
from monitor.db.claims import claim
from monitor.db.postgres import connection
from monitor.logs import store

if TYPE_CHECKING:
    from aiohttp import web

ROUND_SECONDS = 60.0  # a lock that was not free is asked for again then
CLAIM_SECONDS = 50.0
DAYS_AHEAD = 7  # a service that stood still makes what it missed before it compacts

log = structlog.get_logger()


async def keep_days(app: web.Application) -> None:
    """Make the coming days, delete what has outlived its retention, drop past days."""
    retention = app[CONFIG].config.retention
    async with connection(app) as conn:
        if not await claim(conn, "logs.days", CLAIM_SECONDS):
            return
        await store.add_days(conn, DAYS_AHEAD)
        by_seconds: dict[int, list[str]] = defaultdict(list)
        for org_id, plan, own_seconds in await store.retentions(conn):
            by_seconds[retention.effective("logs", org_id, plan, own_seconds)].append(org_id)
        for seconds, org_ids in by_seconds.items():
            await store.drop_before(conn, org_ids, seconds)
        dropped = await store.drop_days(conn, retention.longest("logs"))
    if dropped:
        log.info("dropped days of logs", days=dropped)
