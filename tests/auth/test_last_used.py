from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from monitor.auth import last_used
from monitor.auth.last_used import LAST_USED, flush, note
from monitor.db.postgres import POOL, create_pool
from monitor.errors import StorageUnavailable


async def stored(pool, org):
    return await pool.fetchval("SELECT last_used_at FROM api_keys WHERE id = $1", org.api_key_id)


@pytest.fixture
def noting(pool):
    app = web.Application()
    app[POOL] = pool
    app[LAST_USED] = {}
    return app


async def test_the_use_of_a_key_is_stored_with_the_next_flush(noting, pool, org):
    started = datetime.now(UTC)
    note(noting, org.api_key_id)
    before = await stored(pool, org)
    await flush(noting)

    assert before is None
    assert started <= await stored(pool, org) <= datetime.now(UTC)
    assert noting[LAST_USED] == {}


async def test_the_stored_time_never_goes_back(noting, pool, org):
    now = datetime.now(UTC)
    for at in (now, now - timedelta(hours=1)):
        noting[LAST_USED][org.api_key_id] = at
        await flush(noting)

    assert await stored(pool, org) == now


async def test_a_key_that_was_revoked_meanwhile_is_no_error(noting, pool, org):
    note(noting, "key_revoked")
    note(noting, org.api_key_id)
    await flush(noting)

    assert await stored(pool, org) is not None


async def test_what_could_not_be_stored_is_kept(noting, unused_tcp_port):
    noting[POOL] = await create_pool(
        f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none", size=1, min_size=0
    )
    note(noting, "key_1")
    with pytest.raises(StorageUnavailable):
        await flush(noting)
    await noting[POOL].close()

    assert list(noting[LAST_USED]) == ["key_1"]


async def test_a_stopping_service_stores_what_was_noted(serve, pool, org, monkeypatch):
    monkeypatch.setattr(last_used, "FLUSH_SECONDS", 3600.0)
    async with serve(pool) as short:
        assert (await short.get("/probe/unmarked", headers={"X-API-Key": org.api_key})).status == 200
        assert await stored(pool, org) is None

    assert await stored(pool, org) is not None


async def test_a_service_stops_in_order_although_its_store_is_away(noting, unused_tcp_port):
    noting[POOL] = await create_pool(
        f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none", size=1, min_size=0
    )
    life = last_used.last_used(noting)
    await anext(life)
    note(noting, "key_1")

    ended = await anext(life, "ended")
    await noting[POOL].close()

    assert ended == "ended"
    assert list(noting[LAST_USED]) == ["key_1"]


async def test_a_running_service_stores_every_few_seconds(serve, pool, org, monkeypatch):
    monkeypatch.setattr(last_used, "FLUSH_SECONDS", 0.02)
    async with serve(pool) as short:
        await short.get("/probe/unmarked", headers={"X-API-Key": org.api_key})
        for _ in range(500):
            if seen := await stored(pool, org):
                break

    assert seen is not None


async def test_a_refused_key_is_not_noted(serve, pool, org):
    await pool.execute("UPDATE organizations SET suspended = true WHERE id = $1", org.id)
    async with serve(pool) as short:
        assert (await short.get("/probe/unmarked", headers={"X-API-Key": org.api_key})).status == 402

    assert await stored(pool, org) is None
