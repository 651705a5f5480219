"""When API keys were last used: noted in memory, written every few seconds.

A request never waits for it.  What a killed process had not written yet is lost:
at most ten seconds of ``lastUsedAt``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import structlog
from aiohttp import web

from monitor.auth import store
from monitor.db.postgres import transaction
from monitor.errors import StorageUnavailable
from monitor.web.background import background

FLUSH_SECONDS = 10.0

# Times of use by id of the key, since the last flush.
LAST_USED: web.AppKey[dict[str, datetime]] = web.AppKey("LAST_USED", dict)

log = structlog.get_logger()


def note(app: web.Application, key_id: str) -> None:
    """Note that the key is used now."""
    app[LAST_USED][key_id] = datetime.now(UTC)


async def flush(app: web.Application) -> None:
    """Write what was noted; keep it if Postgres is away.

    Raises:
        StorageUnavailable: Postgres is away.
    """
    noted = app[LAST_USED]
    used = dict(noted)
    if not used:
        return
    noted.clear()
    try:
        async with transaction(app) as conn:
            await store.touch_api_keys(conn, used)
    except BaseException:
        for key_id, at in used.items():
            noted.setdefault(key_id, at)
        raise


async def last_used(app: web.Application) -> AsyncIterator[None]:
    """Write the times of use while the app lives, and once more at its end.

    A cleanup context, to stand after the one that opens the pool.
    """
    app[LAST_USED] = {}
    rounds = background(FLUSH_SECONDS, flush)(app)
    await anext(rounds)
    yield
    await anext(rounds, None)
    try:
        await flush(app)
    except StorageUnavailable as error:
        log.warning("last use of API keys lost", keys=len(app[LAST_USED]), cause=repr(error.__cause__))
