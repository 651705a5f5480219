"""Delete alerts that were resolved longer ago than ``retention.alerts`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.alerts.live import store
from monitor.config import CONFIG
from monitor.db.postgres import transaction

if TYPE_CHECKING:
    from aiohttp import web

ROUND_SECONDS = 300.0  # how much longer than said an alert may be kept
ROWS_AT_ONCE = 1_000  # in one transaction, so that it is a short one


async def forget_resolved(app: web.Application) -> None:
    """Delete what is too old, of all organizations, bit by bit."""
    deleted = ROWS_AT_ONCE
    while deleted == ROWS_AT_ONCE:
        async with transaction(app) as conn:
            seconds = app[CONFIG].config.retention.alerts
            deleted = await store.forget_resolved(conn, seconds, ROWS_AT_ONCE)
