"""Is it alive, is it ready: for orchestrators, balancers and people."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from aiohttp import web
from msgspec import Struct

from monitor.db.postgres import connection
from monitor.errors import StorageUnavailable
from monitor.tsdb.client import TSDB
from monitor.web.codec import reply

CHECK_SECONDS = 3.0  # a store that answers later is as good as away
DRAINING: web.AppKey[asyncio.Event] = web.AppKey("DRAINING", asyncio.Event)


class Health(Struct, frozen=True):
    """The process answers."""

    status: str


class NotReady(Struct, frozen=True):
    """What is down."""

    error: str
    down: list[str]


async def healthz(request: web.Request) -> web.Response:
    """Answer while the process lives, whatever is down beneath it."""
    return reply(Health("ok"))


async def readyz(request: web.Request) -> web.Response:
    """Answer 200 while everything works that requests need, else 503 naming what is down."""
    return await readiness(request.app)


async def readiness(app: web.Application) -> web.Response:
    """Return the answer to "is *app* ready?"."""
    down = await what_is_down(app)
    if down:
        return reply(NotReady("not_ready", down), status=503, headers={"Retry-After": "5"})
    return reply(Health("ready"))


async def what_is_down(app: web.Application) -> list[str]:
    """Return which of ``postgres``, ``victoriametrics`` and ``server`` (ending) cannot serve."""
    stores = {"postgres": _postgres(app), "victoriametrics": app[TSDB].started()}
    answers = await asyncio.gather(*map(_answers, stores.values()))
    down = [name for name, up in zip(stores, answers, strict=True) if not up]
    return ["server", *down] if app[DRAINING].is_set() else down


async def _answers(check: Awaitable[Any]) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check
    except (StorageUnavailable, TimeoutError):
        return False
    return True


async def _postgres(app: web.Application) -> None:
    async with connection(app) as conn:
        await conn.execute("SELECT 1")
