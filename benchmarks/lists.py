"""The list of 5,000 containers, against building it anew with orjson.

Between two reads no agent has pushed, as many as push in a second, or all.  The
rebuild reads the same rows, decodes, shapes, sorts and encodes; the second peer
has everything decoded and sorted in memory and only encodes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import asyncpg
import orjson
import zstandard
from aiohttp import web

from benchmarks.flood import CONTAINERS, Clock, Flood, Snapshots
from benchmarks.stack import Agent, Stack, print_figures, print_table, started_stack
from monitor.db.postgres import POOL, create_pool
from monitor.inventory.lists import Inventory
from monitor.serve import MEMORY

AGENTS = 100
PUSHED = (0, 7, AGENTS)  # agents that pushed between two reads; 7 push in a second, at 15 s each
CONNECTIONS = 8

Read = Callable[[], Awaitable[bytes]]

# What a push may leave out, with what is shown then.
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("shortId", "name", "image", "status", "state", "created"), ""),
    "source": "docker",
    **dict.fromkeys(("cpuPercent", "memoryUsageMB", "memoryLimitMB", "memoryPercent"), 0),
    **dict.fromkeys(("netRxBytes", "netTxBytes", "blkReadBytes", "blkWriteBytes"), 0),
    "ports": [],
}


class Peer:
    """The plain way: no cache, orjson."""

    def __init__(self, conn: asyncpg.Connection[asyncpg.Record], org_id: str) -> None:
        self._conn = conn
        self._org_id = org_id
        self._decompressor = zstandard.ZstdDecompressor()

    async def decoded(self) -> list[dict[str, Any]]:
        """Return all containers as they are listed, in order."""
        rows = await self._conn.fetch(
            "SELECT agent_id, containers FROM agent_state WHERE org_id = $1", self._org_id
        )
        listed = []
        for agent_id, blob in rows:
            for sent in orjson.loads(self._decompressor.decompress(blob)):
                listed.append({"id": sent["id"], **_DEFAULTS, **sent, "agentId": agent_id})
        listed.sort(key=lambda one: (one["name"], one["id"], one["agentId"]))
        return listed

    async def rebuilt(self) -> bytes:
        """Return the list, built anew."""
        return orjson.dumps(await self.decoded())


async def median_ms(read: Read, change: Callable[[], Awaitable[None]], times: int) -> float:
    """Return the median time of a read, each after a change."""
    taken = []
    for _ in range(times):
        await change()
        began = time.perf_counter()
        await read()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


async def over_http(stack: Stack, times: int) -> float:
    """Return the median time in ms of a whole request, one connection after the other."""
    headers = {"X-API-Key": stack.api_key, "Accept-Encoding": "identity"}
    taken = []
    async with aiohttp.ClientSession(stack.service.url, headers=headers) as session:
        for _ in range(times):
            began = time.perf_counter()
            async with session.get("/api/v1/containers") as response:
                await response.read()
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


async def measured(stack: Stack, agents: list[Agent], times: int, rounds: int) -> list[dict[str, Any]]:
    """Return one row for each number of agents that pushed; the ways take turns."""
    app = web.Application()
    async with stack.connection() as conn, await create_pool(stack.postgres.app_dsn, size=2) as pool:
        app[POOL] = pool
        inventory = Inventory(app)
        peer = Peer(conn, stack.org_id)
        listed = await peer.decoded()
        _check(orjson.loads(await inventory.body(stack.org_id, "containers")), listed)

        async def encoded() -> bytes:
            return orjson.dumps(listed)

        async def ours() -> bytes:
            return await inventory.body(stack.org_id, "containers")

        rows = []
        for pushed in PUSHED:
            ids = [agent.agent_id for agent in agents[:pushed]]

            async def change(ids: list[str] = ids) -> None:
                if ids:
                    await conn.execute(
                        "UPDATE agent_state SET version = version + 1 WHERE agent_id = ANY($1)", ids
                    )

            ways: dict[str, Read] = {"service": ours, "rebuild": peer.rebuilt, "encode": encoded}
            results: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, read in ways.items():
                    results[way].append(await median_ms(read, change, times))
            medians = {way: statistics.median(result) for way, result in results.items()}
            rows.append(
                {
                    "agents_pushed": pushed,
                    **{f"{way}_ms": value for way, value in medians.items()},
                    "of_rebuild": medians["rebuild"] / medians["service"],
                    "of_encode": medians["encode"] / medians["service"],
                }
            )
        return rows


def _check(ours: list[dict[str, Any]], peers: list[dict[str, Any]]) -> None:
    """Make sure that both list the same."""
    assert len(ours) == len(peers) == AGENTS * CONTAINERS
    for one, other in zip(ours, peers, strict=True):
        assert all(one[key] == value for key, value in other.items()), (one, other)


async def run(times: int, rounds: int) -> dict[str, Any]:
    """Measure everything; print the table and return the figures."""
    async with started_stack() as stack:
        agents = await stack.register(AGENTS)
        flood = Flood(stack.service.port, agents, CONNECTIONS, as_lines=False)
        now_ms = time.time_ns() // 1_000_000
        await asyncio.to_thread(flood.once, Snapshots(stack.org_id, agents[0]), Clock(now_ms))
        flood.close()
        rows = await measured(stack, agents, times, rounds)
        http_ms = await over_http(stack, times)
    print(f"{AGENTS * CONTAINERS} containers of {AGENTS} agents; a whole request takes {http_ms:.2f} ms")
    print_table(tuple(rows[0]), rows)
    return {"benchmark": "lists", "containers": AGENTS * CONTAINERS, "http_ms": http_ms, "rows": rows}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few reads")
    options = parser.parse_args()
    if not MEMORY.keys() <= os.environ.keys():  # glibc reads it at start: as the service's processes
        command = [sys.executable, "-m", "benchmarks.lists", *sys.argv[1:]]
        os.execve(sys.executable, command, {**MEMORY, **os.environ})
    print_figures(asyncio.run(run(*((5, 1) if options.quick else (30, 5)))))


if __name__ == "__main__":
    main()
