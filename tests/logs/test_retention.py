"""How long lines can be found, and when they go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from monitor.db.postgres import Pool, connection
from monitor.errors import StorageUnavailable
from monitor.logs import retention, store
from monitor.logs.times import format_ns
from tests.conftest import Addresses, Agent, Api, Service
from tests.logs.corpus import search, send
from tests.stack import own_stack

DAY = timedelta(days=1)


def line(message: str, **changes: str) -> dict[str, str]:
    at = format_ns(time.time_ns())
    return {"time": at, "stream": "stdout", "message": message, "containerId": "c", **changes}


async def messages(api: Api, **params: str) -> list[str]:
    return sorted(it["message"] for it in (await search(api, params))[0])


async def came_before(pool: Pool, org_id: str, age: timedelta) -> None:
    """Let the hot rows of an organization have come *age* ago."""
    await pool.execute(
        "UPDATE log_batches SET arrived_at = arrived_at - $2::interval WHERE org_id = $1", org_id, age
    )


@pytest.mark.parametrize("compacted", [False, True], ids=["hot rows", "chunks"])
async def test_lines_that_outlived_the_own_setting_are_neither_found_nor_kept(
    app: Service,
    pool: Pool,
    api: Api,
    agent: Agent,
    admin: Api,
    compact_all: Callable[[str], Awaitable[int]],
    compacted: bool,
):
    async with admin.put("/api/v1/settings/limits", json={"logsRetention": "30s"}) as response:
        assert response.status == 200
    await send(agent, [line("old")])
    await came_before(pool, api.org_id, timedelta(seconds=50))
    await send(agent, [line("new")])
    assert await messages(api) == ["new"]
    is_one_day = datetime.now(UTC).date() == (datetime.now(UTC) - timedelta(seconds=50)).date()
    if compacted:  # into one chunk, which the new line keeps alive
        await compact_all(api.org_id)
        assert await messages(api) == ["new"]

    async with connection(app.app) as conn:
        await store.drop_before(conn, [api.org_id], 30)

    assert await messages(api) == ["new"]
    table = "log_chunks" if compacted else "log_batches"
    kept = await pool.fetchval(f"SELECT sum(line_count) FROM {table} WHERE org_id = $1", api.org_id)
    assert kept == (2 if compacted and is_one_day else 1)


async def test_a_longer_setting_counts_up_to_the_ceiling(pool: Pool, api: Api, agent: Agent, admin: Api):
    async with admin.put("/api/v1/settings/limits", json={"logsRetention": "90d"}) as response:
        assert (await response.json())["effective"]["logsRetention"] == "7d"
    await send(agent, [line("six days"), line("eight days")])
    await came_before(pool, api.org_id, 6 * DAY)
    assert await messages(api) == ["eight days", "six days"]

    await came_before(pool, api.org_id, 2 * DAY)

    assert await messages(api) == []


async def test_the_times_of_lines_have_no_part_in_it(api: Api, agent: Agent):
    await send(agent, [line("1970", time="1970-01-01T00:00:00Z"), line("2099", time="2099-01-01T00:00:00Z")])

    assert await messages(api) == []
    assert await messages(api, start="1960-01-01T00:00:00Z", end="2200-01-01T00:00:00Z") == ["1970", "2099"]


async def test_what_is_used_is_counted_and_freed(
    app: Service, pool: Pool, api: Api, agent: Agent, compact_all: Callable[[str], Awaitable[int]]
):
    async with connection(app.app) as conn:
        assert await store.usage(conn, api.org_id) == 0
        await send(agent, [line(f"hello {number}") for number in range(1_000)])
        hot = await store.usage(conn, api.org_id)
        await compact_all(api.org_id)
        compacted = await store.usage(conn, api.org_id)
        await store.drop_before(conn, [api.org_id], 0)
        dropped = await store.usage(conn, api.org_id)

    assert hot > 1_000
    assert 1_000 < compacted < 20_000
    assert dropped == 0


async def days(conn: asyncpg.Connection | Pool) -> list[str]:
    rows = await conn.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'log_chunks'::regclass ORDER BY c.relname"
    )
    return [row["relname"] for row in rows]


def name_of(day: datetime) -> str:
    return f"log_chunks_{day:%Y%m%d}"


async def test_days_come_a_week_ahead_and_go_with_the_longest_retention(servers: Addresses, tmp_path: Path):
    now = datetime.now(UTC)
    changes = {"retention": {"default": {"logs": "3d"}, "plans": {"pro": {"logs": "5d"}}}}
    async with own_stack(servers, tmp_path, **changes) as stack:
        api = await stack.api()
        agent = await stack.agent(api)
        owner = await asyncpg.connect(stack.addresses.owner_dsn)
        await owner.execute("SELECT log_add_days($1, $2)", (now - 9 * DAY).date(), (now - 2 * DAY).date())
        await send(agent, [line("hello")])
        await stack.conn.execute("UPDATE claims SET until = clock_timestamp()")

        # Somebody reads the oldest day: nobody is made to wait for it.
        reader = await asyncpg.connect(stack.addresses.owner_dsn)
        reading = reader.transaction()
        await reading.start()
        await reader.fetch(f"SELECT * FROM {name_of(now - 9 * DAY)}")
        started = time.monotonic()
        with pytest.raises(StorageUnavailable):
            await retention.keep_days(stack.service.app)
        assert time.monotonic() - started < 15
        assert await messages(api) == ["hello"]
        assert name_of(now - 9 * DAY) in await days(owner)
        await reading.rollback()
        await reader.close()

        await stack.conn.execute("UPDATE claims SET until = clock_timestamp()")
        await retention.keep_days(stack.service.app)
        assert await days(owner) == [name_of(now + number * DAY) for number in range(-5, 8)]
        assert await messages(api) == ["hello"]

        # A service that stood still: what it compacts first finds its day.
        await stack.conn.execute("UPDATE log_batches SET arrived_at = arrived_at - interval '4 days'")
        await owner.execute(f"DROP TABLE {name_of(now - 4 * DAY)}")
        await stack.conn.execute("UPDATE claims SET until = clock_timestamp()")
        await retention.keep_days(stack.service.app)
        async with asyncio.timeout(30):
            while await stack.conn.fetchval("SELECT count(*) FROM log_batches"):
                await asyncio.sleep(0.1)
        assert await messages(api) == ["hello"]
        assert await owner.fetchval(f"SELECT count(*) FROM {name_of(now - 4 * DAY)}") == 1
        await owner.close()


async def test_the_serving_role_can_drop_no_present_day(pool: Pool):
    today = name_of(datetime.now(UTC))
    before = await days(pool)

    await pool.fetchval("SELECT log_drop_days('2999-01-01')")

    kept = await days(pool)
    assert today in kept
    assert [name for name in before if name >= today] == [name for name in kept if name >= today]
