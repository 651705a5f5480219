"""What a query may see, and who waits for it: the same for every way to ask."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web

from monitor.auth.models import TENANT
from monitor.config import CONFIG


def oldest_ms(request: web.Request, now: int) -> int:
    """Return the time before which the organization sees nothing, in unix milliseconds."""
    tenant, config = request[TENANT], request.app[CONFIG].config
    seconds = config.retention.effective(
        "metrics", tenant.org_id, tenant.plan, tenant.metrics_retention_seconds
    )
    return now - seconds * 1000


def gone(request: web.Request) -> Callable[[], bool]:
    """Return a function that tells whether the client of *request* has left."""
    return lambda: request.transport is None or request.transport.is_closing()


def now_ms() -> int:
    """Return the time in unix milliseconds."""
    return time.time_ns() // 1_000_000
