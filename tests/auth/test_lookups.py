"""Lookups of API keys share queries, and never one that was sent before the request came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from monitor.auth import lookups, provision, store, tokens
from monitor.auth.lookups import Lookups
from monitor.db.postgres import POOL, Connection, Pool, create_pool
from monitor.errors import StorageUnavailable


class Queries:
    """Counts the queries, and holds each until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        self.answered = asyncio.Event()
        self.before = asyncio.Event()
        self.before.set()
        self.after = asyncio.Event()
        self.after.set()
        self.failure: Exception | None = None
        self._real = store.tenants_by_api_key
        monkeypatch.setattr(store, "tenants_by_api_key", self._look)

    async def _look(self, conn: Connection, keys: list[bytes]) -> dict[bytes, store.Tenant]:
        self.asked.append(len(keys))
        await self.before.wait()
        if self.failure is not None:
            raise self.failure
        found = await self._real(conn, keys)
        self.answered.set()
        await self.after.wait()
        return found

    async def has_asked(self, times: int) -> None:
        async with asyncio.timeout(30):
            while len(self.asked) < times:
                await asyncio.sleep(0.01)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    return Queries(monkeypatch)


@pytest.fixture
async def looking(servers) -> AsyncIterator[Lookups]:
    app = web.Application()
    async with await create_pool(servers.app_dsn, size=2) as pool:
        app[POOL] = pool
        looking = Lookups(app)
        yield looking
        await looking.close()


async def make_key(pool: Pool, org_id: str) -> tuple[str, bytes]:
    async with pool.acquire() as conn:
        key_id, key = await provision.create_api_key(conn, org_id, "one more")
    return key_id, tokens.digest(key)


async def test_each_gets_its_own_key_and_an_unknown_one_nothing(looking, pool, make_organization):
    org_ids = [(await make_organization()).id for _ in range(2)] * 5
    keys = [await make_key(pool, org_id) for org_id in org_ids]
    unknown = tokens.digest("mk_unknown")

    found = await asyncio.gather(looking.tenant(unknown), *(looking.tenant(key) for _, key in keys))

    assert found[0] is None
    assert [it.subject_id for it in found[1:]] == [key_id for key_id, _ in keys]
    assert [it.org_id for it in found[1:]] == org_ids


async def test_those_that_wait_share_a_query(looking, queries, pool, org):
    keys = [await make_key(pool, org.id) for _ in range(3)]
    queries.after.clear()
    first = asyncio.create_task(looking.tenant(keys[0][1]))
    await queries.has_asked(1)
    waiting = [asyncio.create_task(looking.tenant(key)) for _, key in keys for _ in range(5)]
    await asyncio.sleep(0)

    queries.after.set()
    found = await asyncio.gather(first, *waiting)

    assert queries.asked == [1, 3]
    assert [it.subject_id for it in found[1:]] == [key_id for key_id, _ in keys for _ in range(5)]


async def test_a_request_never_shares_a_query_that_was_sent_before_it_came(looking, queries, pool, org):
    key_id, key = await make_key(pool, org.id)
    queries.after.clear()
    before = asyncio.create_task(looking.tenant(key))
    async with asyncio.timeout(30):
        await queries.answered.wait()  # and nobody has seen the answer
    assert await pool.fetchval("DELETE FROM api_keys WHERE id = $1 RETURNING true", key_id)
    after = asyncio.create_task(looking.tenant(key))
    await asyncio.sleep(0)

    queries.after.set()

    assert (await before).subject_id == key_id
    assert await after is None
    assert queries.asked == [1, 1]


async def test_a_failure_reaches_all_who_wait_and_nobody_later(looking, queries, pool, org):
    _, key = await make_key(pool, org.id)
    queries.before.clear()
    queries.failure = OSError("away")
    asked = [asyncio.create_task(looking.tenant(key)) for _ in range(2)]
    await queries.has_asked(1)
    asked.append(asyncio.create_task(looking.tenant(key)))
    await asyncio.sleep(0)

    queries.before.set()
    failed = await asyncio.gather(*asked, return_exceptions=True)
    queries.failure = None

    assert [type(it) for it in failed] == [StorageUnavailable] * 3
    assert (await looking.tenant(key)).org_id == org.id


async def test_whoever_leaves_takes_nobody_along(looking, queries, pool, org):
    _, key = await make_key(pool, org.id)
    queries.after.clear()
    leaving, staying = (asyncio.create_task(looking.tenant(key)) for _ in range(2))
    await queries.has_asked(1)

    leaving.cancel()
    queries.after.set()

    assert (await staying).org_id == org.id


async def test_a_connection_that_ended_while_it_was_kept_is_replaced(looking, pool, superuser, org):
    _, key = await make_key(pool, org.id)
    await looking.tenant(key)
    (holder,) = [it for it in looking._app[POOL]._holders if it._in_use]
    conn = holder._con

    await superuser.execute("SELECT pg_terminate_backend($1)", conn.get_server_pid())
    async with asyncio.timeout(30):
        while not conn.is_closed():
            await asyncio.sleep(0.01)

    assert (await looking.tenant(key)).org_id == org.id


async def test_a_pool_of_one_connection_serves_others_too(servers, pool, org):
    _, key = await make_key(pool, org.id)
    app = web.Application()
    async with await create_pool(servers.app_dsn, size=1) as alone:
        app[POOL] = alone
        looking = Lookups(app)

        async def request() -> None:
            assert (await looking.tenant(key)).org_id == org.id
            async with alone.acquire(timeout=5) as conn:
                assert await conn.fetchval("SELECT 1") == 1

        await asyncio.gather(*(request() for _ in range(20)))
        await looking.close()


async def test_without_requests_the_connection_goes_back(looking, pool, org, monkeypatch):
    monkeypatch.setattr(lookups, "KEEP_SECONDS", 0.05)
    _, key = await make_key(pool, org.id)
    own: Pool = looking._app[POOL]

    await looking.tenant(key)

    async with asyncio.timeout(30):
        while own.get_idle_size() < own.get_size():
            await asyncio.sleep(0.01)
    assert (await looking.tenant(key)).org_id == org.id
