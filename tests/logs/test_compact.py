"""Compaction: whatever happens in the middle of it, every line is found exactly once."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from monitor.db.claims import claim
from monitor.db.postgres import Pool
from monitor.logs import compact, store
from monitor.logs.compact import Overtaken, mergeable
from monitor.logs.times import format_ns
from tests.conftest import Addresses, Agent, Api, Service
from tests.logs.corpus import search_all, send

ROOT = Path(__file__).parents[2]


async def send_rows(agent: Agent, rows: int, lines: int = 5, size: int = 1, epoch: str = "e") -> list[str]:
    """Send *rows* batches; return the messages."""
    sent = []
    for row in range(rows):
        batch = [f"{epoch} {row} {number} " + "x" * size for number in range(lines)]
        sent += batch
        await send(
            agent,
            [
                {"time": format_ns(time.time_ns()), "stream": "stdout", "message": it, "containerId": "c"}
                for it in batch
            ],
        )
    return sorted(sent)


async def messages(api: Api) -> list[str]:
    return sorted(line["message"] for line in await search_all(api, {"limit": "1000"}))


async def today(pool: Pool) -> object:
    return await pool.fetchval("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")


async def counts(pool: Pool, org_id: str) -> tuple[int, int]:
    """Return the numbers of hot rows and of chunks."""
    return tuple(
        [
            await pool.fetchval(f"SELECT count(*) FROM {table} WHERE org_id = $1", org_id)
            for table in ("log_batches", "log_chunks")
        ]
    )


@pytest.mark.parametrize("where", ["removed", "inserted", "committed"])
async def test_a_process_killed_in_the_middle_loses_and_repeats_nothing(
    servers: Addresses, pool: Pool, api: Api, agent: Agent, where: str
):
    sent = await send_rows(agent, 20)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.logs.compactor", servers.app_dsn, api.org_id, where),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None
    assert (await child.stdout.readline()).strip() == b"here"
    during = await messages(api)

    child.send_signal(signal.SIGKILL)
    await child.communicate()

    assert during == sent
    assert await messages(api) == sent
    assert await counts(pool, api.org_id) == ((0, 1) if where == "committed" else (20, 0))


async def test_a_process_killed_at_any_moment_loses_and_repeats_nothing(
    servers: Addresses, pool: Pool, api: Api, agent: Agent, compact_all: Callable[[str], Awaitable[int]]
):
    sent = await send_rows(agent, 60)
    for number in range(6):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.logs.compactor", servers.app_dsn, api.org_id, "nowhere"),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        assert child.stdout is not None
        await child.stdout.readline()
        await asyncio.sleep(0.007 * number)
        child.send_signal(signal.SIGKILL)
        await child.communicate()
        assert await messages(api) == sent

    await compact_all(api.org_id)
    assert await messages(api) == sent


async def test_two_processes_that_compact_the_same_rows_write_them_once(
    app: Service, pool: Pool, api: Api, agent: Agent
):
    sent = await send_rows(agent, 10)
    day = await today(pool)

    outcomes = await asyncio.gather(
        *(compact.write_chunk(app.app, api.org_id, day) for _ in range(4)), return_exceptions=True
    )

    assert await messages(api) == sent
    assert await counts(pool, api.org_id) == (0, 1)
    assert [it for it in outcomes if it not in (0, 10)] == [
        it for it in outcomes if isinstance(it, Overtaken)
    ]


async def test_small_chunks_are_merged_and_lines_keep_their_ids(
    app: Service, pool: Pool, api: Api, agent: Agent, compact_all: Callable[[str], Awaitable[int]]
):
    sent: list[str] = []
    ids: set[str] = set()
    for epoch in range(6):
        sent += await send_rows(agent, 4, epoch=str(epoch))
        ids |= {line["id"] for line in await search_all(api, {"limit": "1000"})}
        assert await compact_all(api.org_id) <= 3

    assert await messages(api) == sorted(sent)
    assert {line["id"] for line in await search_all(api, {})} == ids


async def test_chunks_are_about_a_mebibyte(
    pool: Pool,
    api: Api,
    agent: Agent,
    alone: Callable[[str], Awaitable[None]],
    compact_all: Callable[[str], Awaitable[int]],
):
    await alone(api.org_id)
    sent = await send_rows(agent, 10, lines=40, size=8_000)

    assert await compact_all(api.org_id) == 3

    sizes = [
        row["raw_bytes"]
        for row in await pool.fetch(
            "SELECT raw_bytes FROM log_chunks WHERE org_id = $1 ORDER BY id", api.org_id
        )
    ]
    assert all(store.CHUNK_BYTES <= size < 1.5 * store.CHUNK_BYTES for size in sizes[:2]), sizes
    assert await messages(api) == sent


@pytest.mark.parametrize(
    ("size", "small", "chosen"),
    [
        (100, [], []),
        (100, [(1, 150), (2, 300)], [1, 2]),
        (100, [(1, 201)], []),
        (100, [(1, 200), (2, 601)], [1]),
        (store.CHUNK_BYTES, [(1, 10)], []),
        (store.CHUNK_BYTES - 10, [(1, 10), (2, 11)], [1]),
    ],
)
def test_a_chunk_is_merged_with_what_is_at_least_half_as_large(
    size: int, small: list[tuple[int, int]], chosen: list[int]
):
    assert mergeable(size, small) == chosen


async def test_what_is_due_is_compacted_in_the_background(app: Service, pool: Pool, api: Api, agent: Agent):
    sent = await send_rows(agent, 3)
    await pool.execute(
        "UPDATE log_batches SET arrived_at = arrived_at - interval '61 seconds' WHERE org_id = $1", api.org_id
    )

    async with asyncio.timeout(15):
        while (await counts(pool, api.org_id))[0]:
            await asyncio.sleep(0.1)

    assert await messages(api) == sent


async def test_an_organization_that_another_process_compacts_is_left_alone(
    app: Service, pool: Pool, api: Api, agent: Agent
):
    await send_rows(agent, 3)
    async with pool.acquire() as conn:
        assert await claim(conn, f"logs.compact.{api.org_id}", 30)
    await pool.execute(
        "UPDATE log_batches SET arrived_at = arrived_at - interval '61 seconds' WHERE org_id = $1", api.org_id
    )

    await compact.compact_due(app.app)
    assert await counts(pool, api.org_id) == (3, 0)

    async with pool.acquire() as conn:
        await store.release_claim(conn, f"logs.compact.{api.org_id}")
    await compact.compact_due(app.app)
    assert await counts(pool, api.org_id) == (0, 1)


async def test_one_organizations_trouble_keeps_nobody_else_waiting(
    app: Service,
    pool: Pool,
    api: Api,
    agent: Agent,
    other: Api,
    make_agent: Callable[..., Awaitable[Agent]],
):
    await send_rows(agent, 2)
    sent = await send_rows(await make_agent(other), 2)
    await pool.execute("UPDATE log_batches SET meta = 'damaged' WHERE org_id = $1", api.org_id)
    older = "UPDATE log_batches SET arrived_at = arrived_at - $2::int * interval '1 second' WHERE org_id = $1"
    await pool.execute(older, api.org_id, 62)
    await pool.execute(older, other.org_id, 61)

    await compact.compact_due(app.app)

    assert await counts(pool, api.org_id) == (2, 0)
    assert await counts(pool, other.org_id) == (0, 1)
    assert await messages(other) == sent
    await pool.execute("DELETE FROM log_batches WHERE org_id = $1", api.org_id)
