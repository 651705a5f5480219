"""Ask again, but not too soon: what every loop does that talks to the service."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from monitor.collector.failure import ServiceAway

log = structlog.get_logger(__name__)

BACKOFF_FIRST_SECONDS = 1.0
BACKOFF_LIMIT_SECONDS = 60.0  # a service that came back is found within a minute, below its 90 s to offline
BACKOFF_DOUBLINGS = 6  # 2^6 is past the limit


async def keep_trying(attempt: Callable[[], Awaitable[None]], what: str) -> None:
    """Repeat *attempt* for ever, backing off while the service is away; *what* names it in the log."""
    failures = 0
    while True:
        try:
            await attempt()
            if failures:
                log.info("the service is back", loop=what)
            failures = 0
        except ServiceAway as error:
            seconds = backoff_seconds(failures, error.retry_after_seconds, random.random())  # noqa: S311 (jitter)
            failures += 1
            log.warning("service away", loop=what, error=str(error), retry_in_seconds=round(seconds, 1))
            await asyncio.sleep(seconds)


def backoff_seconds(failures: int, retry_after_seconds: float, fraction: float) -> float:
    """Return how long to wait before the next attempt.

    Full jitter, ``fraction * min(limit, first * 2^failures)``, on top of what the
    service asked for: a fleet that was told the same does not come back at once.
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/

    Args:
        failures: Attempts that failed before this one, from 0.
        retry_after_seconds: What the service asked for, 0 if nothing.
        fraction: A random number in [0, 1).
    """
    ceiling = min(BACKOFF_LIMIT_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(failures, BACKOFF_DOUBLINGS))
    return retry_after_seconds + fraction * ceiling
