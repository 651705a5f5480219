"""A second replica, and compaction at a word of command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from monitor.db.claims import claim
from monitor.db.postgres import connection
from monitor.logs import compact, store
from tests.conftest import Addresses, Api, Service, settings, start_service


@pytest.fixture(scope="session")
async def replica(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory, app: Service
) -> AsyncIterator[Service]:
    """A second service on the same stores."""
    service = await start_service(
        tmp_path_factory.mktemp("replica") / "monitor.yaml", settings(servers), "web"
    )
    yield service
    await service.stop()


@pytest.fixture(scope="session")
async def there(replica: Service) -> AsyncIterator[Callable[[Api], Api]]:
    """Turn a client of the first service into one of the second."""
    async with aiohttp.ClientSession(replica.base_url, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield lambda api: Api(session, api.org_id, api.secret, api.headers)


@pytest.fixture(scope="session")
async def alone(app: Service) -> Callable[[str], Awaitable[None]]:
    """Keep the background from compacting an organization as long as its test lasts."""
    held: set[str] = set()

    async def hold(org_id: str) -> None:
        while org_id not in held:
            async with connection(app.app) as conn:
                if await claim(conn, f"logs.compact.{org_id}", 600):
                    held.add(org_id)
            await asyncio.sleep(0.01)

    return hold


@pytest.fixture(scope="session")
async def compact_all(
    app: Service, alone: Callable[[str], Awaitable[None]]
) -> Callable[[str], Awaitable[int]]:
    """Compact every hot row of an organization; return how many chunks there are."""

    async def run(org_id: str) -> int:
        await alone(org_id)
        async with connection(app.app) as conn:
            dues = [due for due in await store.due(conn, 1, 0) if due.org_id == org_id]
        for due in dues:
            await compact.compact(app.app, due)
        async with connection(app.app) as conn:
            assert await conn.fetchval("SELECT count(*) FROM log_batches WHERE org_id = $1", org_id) == 0
            return await conn.fetchval("SELECT count(*) FROM log_chunks WHERE org_id = $1", org_id)

    return run
