"""Whose an API key is: asked of Postgres in every request, for all requests that wait in one query.

A request never shares a query that was sent before the request came, so a key that was
revoked is refused from the next request on.  One connection of the pool stays with the
lookups while they follow each other: taking and giving it back costs as much as asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice
from typing import TypeAlias

from aiohttp import web

from monitor.auth import store
from monitor.auth.models import Tenant
from monitor.db.postgres import POOL, Connection, connection, is_open, translated

Waiting: TypeAlias = dict[bytes, list[asyncio.Future[Tenant | None]]]

KEEP_SECONDS = 1.0  # without a request, before the connection goes back to the pool


class Lookups:
    """The requests of one process that wait to know whose their key is."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._waiting: Waiting = {}
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def tenant(self, key_hash: bytes) -> Tenant | None:
        """Return the tenant whose key has this SHA-256, as Postgres knows it now.

        Raises:
            StorageUnavailable: Postgres is away.
        """
        found: asyncio.Future[Tenant | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key_hash, []).append(found)
        self._came.set()
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="auth.lookups")
        return await found

    async def _drain(self) -> None:
        """Look up, one query at a time, until nobody waits; then keep the connection for a while."""
        try:
            while self._waiting:
                try:
                    async with connection(self._app) as conn:
                        while await self._somebody_waits() and is_open(conn):
                            await self._look(conn)
                            if self._app[POOL].get_max_size() == 1:
                                break  # those who were found need it
                except Exception as error:
                    failed, self._waiting = self._waiting, {}
                    _fail(failed, error)
        finally:
            self._task = None

    async def _somebody_waits(self) -> bool:
        if not self._waiting:
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_SECONDS):
                    await self._came.wait()
        return bool(self._waiting)

    async def _look(self, conn: Connection) -> None:
        keys = list(islice(self._waiting, store.KEYS))
        asked = {key_hash: self._waiting.pop(key_hash) for key_hash in keys}
        try:
            with translated():
                tenants = await store.tenants_by_api_key(conn, keys)
        except Exception as error:
            _fail(asked, error)
            raise
        for key_hash, waiting in asked.items():
            for found in waiting:
                if not found.done():
                    found.set_result(tenants.get(key_hash))

    async def close(self) -> None:
        """Give the connection back."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


def _fail(asked: Waiting, error: Exception) -> None:
    """Tell all who wait that they wait in vain."""
    for waiting in asked.values():
        for found in waiting:
            if not found.done():
                found.set_exception(error)


LOOKUPS: web.AppKey[Lookups] = web.AppKey("LOOKUPS", Lookups)


async def lookups_context(app: web.Application) -> AsyncIterator[None]:
    """Keep the lookups of this process."""
    app[LOOKUPS] = Lookups(app)
    yield
    await app[LOOKUPS].close()
