"""Work that runs beside the requests: named, restarted after a bad round, ended with the app."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog
from aiohttp import web
from prometheus_client import Counter

from monitor.errors import StorageUnavailable

FAILURES = Counter("monitor_background_failures_total", "Background rounds that failed.", ["task"])

log = structlog.get_logger()


def background(
    seconds: float, work: Callable[[web.Application], Awaitable[None]]
) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return a cleanup context that runs ``work(app)`` every *seconds* while the app lives.

    A round that fails is logged and counted; the next one comes in its time.
    """
    name = f"{work.__module__.removeprefix('monitor.')}.{work.__qualname__}"

    async def rounds(app: web.Application) -> None:
        while True:
            try:
                await work(app)
            except StorageUnavailable as error:
                FAILURES.labels(name).inc()
                log.warning("background round failed", task=name, cause=repr(error.__cause__))
            except Exception:
                FAILURES.labels(name).inc()
                log.exception("background round failed", task=name)
            await asyncio.sleep(seconds * random.uniform(0.95, 1.05))  # noqa: S311 - spreads replicas

    async def context(app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(rounds(app), name=name)
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    return context
