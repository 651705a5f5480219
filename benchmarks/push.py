"""Sustained pushes of 50 containers: the service, vmauth before VictoriaMetrics, VictoriaMetrics alone.

The service authenticates, validates, journals, stores the snapshot and makes the
samples; the other two get the samples made already, in a request for each push, over
as many connections.  The three take turns on one VictoriaMetrics, and a round ends
when that holds every sample.  Beside pushes a second stands what each push cost in
processor time, which does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping
from typing import Any, Literal
from urllib.request import urlopen

import asyncpg
import msgspec

from benchmarks.flood import Clock, Flood, Snapshots
from benchmarks.range import VmauthServer
from benchmarks.stack import Agent, Stack, pids, print_figures, print_table, process_seconds, started_stack
from monitor.journal import store

CONNECTIONS = 32
PUSHING = 1000  # of the registered agents, at the most
DAY_MS = 86_400_000
PAST_DAYS = 25  # agents' clocks start here and run fast; the default retention is 30 days
HOLD_SECONDS = 60.0  # for VictoriaMetrics to take what was acknowledged
POLL_SECONDS = 0.01
LAG_SECONDS = 1.5  # VictoriaMetrics' /metrics page is as old as a second
WAYS = ("service", "vmauth", "direct")

Way = Literal["service", "vmauth", "direct"]


class Sizes(msgspec.Struct, frozen=True):
    """How much is measured.

    Attributes:
        agents: Registered agents in the comparison.
        rounds: Rounds of each way.
        seconds: Length of a round.
        sweep: Numbers of registered agents with which the service alone is measured.
    """

    agents: int
    rounds: int
    seconds: float
    sweep: tuple[int, ...]


FULL = Sizes(agents=1000, rounds=4, seconds=3.0, sweep=(10, 100, 1000, 10_000))
QUICK = Sizes(agents=50, rounds=1, seconds=1.5, sweep=(10, 50))


class Round(msgspec.Struct, frozen=True):
    """One round: rates, latencies, and costs for each push.

    Attributes:
        pushes_per_second: Until VictoriaMetrics held every sample.
        p50_ms: Latency under this load.
        p99_ms: Latency under this load.
        cpu_us: Processor time of each part for each push.
        wal_bytes: Written to Postgres' log for each push.
    """

    pushes_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: dict[str, float]
    wal_bytes: float


class Bench:
    """Everything that runs, and the connections to it."""

    def __init__(self, stack: Stack, vmauth: VmauthServer) -> None:
        self.stack = stack
        self._vmauth = vmauth
        self._like = Agent("agent_" + "0" * 24, "host-00000", "")
        self._snapshots = Snapshots(stack.org_id, self._like)
        self._clock = Clock((time.time_ns() // 1_000_000 // DAY_MS - PAST_DAYS) * DAY_MS)

    def sizes(self) -> dict[str, int]:
        """Return what one push consists of."""
        made = self._snapshots
        return {"samples": made.sample_count, "push_bytes": made.push_bytes, "line_bytes": made.line_bytes}

    def floods(self, agents: list[Agent]) -> dict[Way, Flood]:
        """Open the connections of each way."""
        stack = self.stack
        return {
            "service": Flood(stack.service.port, agents, CONNECTIONS, as_lines=False),
            "vmauth": Flood(self._vmauth.port, agents, CONNECTIONS, as_lines=True),
            "direct": Flood(stack.victoriametrics.port, agents, CONNECTIONS, as_lines=True),
        }

    async def warm(self, floods: Mapping[Way, Flood]) -> None:
        """Push once from every agent: VictoriaMetrics knows its series, the service its snapshot."""
        for way in (floods["direct"], floods["service"]):
            await asyncio.to_thread(way.once, self._snapshots, self._clock)
        async with self.stack.connection() as conn:
            await _drained(conn)
        await asyncio.sleep(LAG_SECONDS)  # the first push of an agent makes no rates: it is not counted

    async def round(self, flood: Flood, seconds: float) -> Round:
        """Push for *seconds* and wait until VictoriaMetrics holds every sample.

        Raises:
            SystemExit: It holds fewer, or more.
        """
        async with self.stack.connection() as conn:
            # An agent found offline while others are measured makes samples of its own.
            await conn.execute("UPDATE agent_state SET last_seen = clock_timestamp()")
            inserted, wal, cpu = self._inserted(), await conn.fetchval(_WAL), self._cpu()
            began = time.perf_counter()
            flooded = await asyncio.to_thread(flood.run, self._snapshots, self._clock, seconds)
            await _drained(conn)
            elapsed = time.perf_counter() - began
            used = {name: after - cpu[name] for name, after in self._cpu().items()}
            used["client"] = flooded.cpu_seconds
            wal = await conn.fetchval(_WAL) - wal
        await self._check(inserted + flooded.pushes * self._snapshots.sample_count)
        return Round(
            pushes_per_second=flooded.pushes / elapsed,
            p50_ms=flooded.percentile_ms(50),
            p99_ms=flooded.percentile_ms(99),
            cpu_us={name: used[name] / flooded.pushes * 1e6 for name in used},
            wal_bytes=wal / flooded.pushes,
        )

    async def _check(self, expected: int) -> None:
        """Compare what VictoriaMetrics has counted in the end."""
        deadline = time.perf_counter() + HOLD_SECONDS
        while self._inserted() < expected and time.perf_counter() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(LAG_SECONDS)
        if (counted := self._inserted()) != expected:
            raise SystemExit(f"VictoriaMetrics has {counted - expected:+d} samples")

    def _inserted(self) -> int:
        with urlopen(f"{self.stack.victoriametrics.url}/metrics") as page:
            lines = page.read().decode().splitlines()
        [value] = [
            line.split()[1] for line in lines if line.startswith('vm_rows_inserted_total{type="influx"}')
        ]
        return int(value)

    def _cpu(self) -> dict[str, float]:
        vmauth = sum(map(process_seconds, pids(self._vmauth)))
        return {**self.stack.cpu_seconds(), "vmauth": vmauth}


_WAL = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"


async def _drained(conn: asyncpg.Connection[asyncpg.Record]) -> None:
    """Return when VictoriaMetrics has taken all that is journalled.

    Raises:
        TimeoutError: It has not within a minute.
    """
    async with asyncio.timeout(HOLD_SECONDS):
        while await store.unwritten(conn):
            await asyncio.sleep(POLL_SECONDS)


def medians(rounds: list[Round]) -> Round:
    """Return the median of each figure."""
    return Round(
        pushes_per_second=statistics.median([one.pushes_per_second for one in rounds]),
        p50_ms=statistics.median([one.p50_ms for one in rounds]),
        p99_ms=statistics.median([one.p99_ms for one in rounds]),
        cpu_us={name: statistics.median([one.cpu_us[name] for one in rounds]) for name in rounds[0].cpu_us},
        wal_bytes=statistics.median([one.wal_bytes for one in rounds]),
    )


def row_of(first: Mapping[str, Any], result: Round) -> dict[str, Any]:
    """Return a line of a table."""
    cpu = {f"{name}_us": value for name, value in result.cpu_us.items()}
    servers = sum(value for name, value in result.cpu_us.items() if name != "client")
    return {
        **first,
        "pushes/s": result.pushes_per_second,
        "p50_ms": result.p50_ms,
        "p99_ms": result.p99_ms,
        **cpu,
        "all_us": servers,
        "wal_bytes": result.wal_bytes,
    }


async def compared(bench: Bench, sizes: Sizes) -> dict[Way, Round]:
    """Return the medians of each way's rounds, which take turns."""
    agents = await bench.stack.register(sizes.agents)
    floods = bench.floods(agents)
    await bench.warm(floods)
    rounds: dict[Way, list[Round]] = {way: [] for way in floods}
    for number in range(sizes.rounds):
        ways = list(floods)
        for way in ways[number % 3 :] + ways[: number % 3]:  # none is always first
            rounds[way].append(await bench.round(floods[way], sizes.seconds))
    floods["service"].close()
    return {way: medians(of_way) for way, of_way in rounds.items()}


async def swept(bench: Bench, sizes: Sizes) -> dict[int, Round]:
    """Return the service's medians with more and more registered agents.

    All have a stored snapshot, and at most 1,000 push: what VictoriaMetrics pays for
    millions of series is its own affair, and the same for every way.
    """
    results = {}
    async with bench.stack.connection() as conn:
        await conn.execute("DELETE FROM agent_state")
        await conn.execute("DELETE FROM agents")
        agents: list[Agent] = []
        for count in sizes.sweep:
            agents += await bench.stack.register(count - len(agents))
            floods = bench.floods(agents[:PUSHING])
            await bench.warm(floods)
            await conn.execute(_COPY)
            rounds = range(max(1, sizes.rounds // 2))
            results[count] = medians([await bench.round(floods["service"], sizes.seconds) for _ in rounds])
            floods["service"].close()
    return results


# Gives every agent that has not pushed the snapshot of one that has.
_COPY = (
    "UPDATE agent_state s SET version = 1, container_count = p.container_count, containers = p.containers,"
    " collected_at = p.collected_at, containers_at = p.containers_at, last_seen = p.last_seen"
    " FROM (SELECT * FROM agent_state WHERE version > 0 LIMIT 1) p WHERE s.version = 0"
)


async def run(sizes: Sizes) -> dict[str, Any]:
    """Measure everything; print the tables and return the figures."""
    async with started_stack() as stack:
        vmauth = VmauthServer(stack.victoriametrics.data_dir.parent / "vmauth", stack.victoriametrics.url)
        try:
            await vmauth.start()
            bench = Bench(stack, vmauth)
            ways = await compared(bench, sizes)
            sweep = await swept(bench, sizes)
        finally:
            await vmauth.stop()
    rows = [row_of({"way": way}, result) for way, result in ways.items()]
    print(f"one push: {bench.sizes()}; {sizes.agents} agents, {CONNECTIONS} connections; *_us: CPU of a push")
    print_table(tuple(rows[0]), rows)
    rows = [row_of({"agents": count}, result) for count, result in sweep.items()]
    print_table(tuple(rows[0]), rows)
    rate = {way: result.pushes_per_second for way, result in ways.items()}
    ratios = {"vmauth": rate["service"] / rate["vmauth"], "direct": rate["service"] / rate["direct"]}
    cost = {way: sum(of.cpu_us.values()) for way, of in ways.items()}
    costs = {way: cost["service"] / cost[way] for way in ("vmauth", "direct")}
    print(f"pushes/s: {ratios['vmauth']:.2f} x vmauth, {ratios['direct']:.2f} x direct")
    print(f"CPU of a push: {costs['vmauth']:.2f} x vmauth, {costs['direct']:.2f} x direct")
    return {
        "benchmark": "push",
        "push": bench.sizes(),
        "ways": msgspec.to_builtins(ways),
        "rate_to": ratios,
        "cpu_to": costs,
        "sweep": {str(count): msgspec.to_builtins(result) for count, result in sweep.items()},
    }


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    options = parser.parse_args()
    print_figures(asyncio.run(run(QUICK if options.quick else FULL)))


if __name__ == "__main__":
    main()
