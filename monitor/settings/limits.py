"""What an organization may keep, keeps by its own wish, and uses."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web

from monitor.auth.checks import retention_text
from monitor.auth.models import Plan
from monitor.config import Config
from monitor.db.postgres import connection
from monitor.logs import store as log_store
from monitor.settings import store
from monitor.settings.models import Limits, Retention, Usage
from monitor.tsdb.client import TSDB


async def usage(app: web.Application, org_id: str) -> Usage:
    """Return what *org_id* uses now.

    Raises:
        StorageUnavailable: Postgres or VictoriaMetrics is away.
    """
    today = datetime.now(UTC).date().isoformat()
    async with connection(app) as conn:
        agents = await store.count_agents(conn, org_id)
        log_bytes = await log_store.usage(conn, org_id)
    series = await app[TSDB].series_count(org_id, day=today)
    return Usage(agents=agents, series=series, log_bytes=log_bytes)


def limits_of(
    config: Config,
    org_id: str,
    plan: Plan,
    used: Usage,
    *,
    metrics_seconds: int | None,
    logs_seconds: int | None,
) -> Limits:
    """Return the limits that follow from the configuration and the own settings in seconds."""
    retention = config.retention
    return Limits(
        metrics_retention=_duration(metrics_seconds),
        logs_retention=_duration(logs_seconds),
        effective=Retention(
            retention_text(retention.effective("metrics", org_id, plan, metrics_seconds)),
            retention_text(retention.effective("logs", org_id, plan, logs_seconds)),
        ),
        ceilings=Retention(
            retention_text(retention.ceiling("metrics", org_id, plan)),
            retention_text(retention.ceiling("logs", org_id, plan)),
        ),
        usage=used,
    )


def _duration(seconds: int | None) -> str | None:
    return None if seconds is None else retention_text(seconds)
