"""Let the agent work beside a service that fails all the time, then count what arrived.

The agent program watches a stand-in of an engine, whose containers write numbered
lines and use more memory in each snapshot, and follows commands to scale a group.
Between it and the real service a proxy refuses, delays, cuts and lies, in an order
that the seed fixes.  At the end everything must have come through, and nothing twice.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.busy import STEADY, STEP_BYTES, Commander, Host
from benchmarks.chaos import settle
from benchmarks.stack import Agent, Stack, print_figures, print_table, started_stack
from benchmarks.unreliable import Unreliable
from monitor.collector.health import Health, read_health
from monitor.tsdb.client import Tsdb
from tests.collector.fakes import served

MEMORY = "container_memory_working_set_bytes"
SETTLE_SECONDS = 180.0  # the longest backoff, a lost command's lease, and time to send what was held
PAGE = 1_000
# By default an export ends with the last full second, and misses what has just been stored.
EXPORT_AHEAD_SECONDS = 60.0


class Plan(msgspec.Struct, frozen=True):
    """How long the service fails, and how badly.

    Attributes:
        seconds: Of faults.
        hang_seconds: How long a request hangs before it is cut; the agent waits for 30.
        loses_polls: Whether commands may get lost on their way.
        command_seconds: From the result of one command to the next.
        interval_seconds: From one snapshot to the next; what is held back must not pass its bound.
    """

    seconds: float
    hang_seconds: float
    loses_polls: bool
    command_seconds: float
    interval_seconds: float


FULL = Plan(600.0, 40.0, True, 5.0, 5.0)
SHORT = Plan(15.0, 1.0, False, 1.0, 1.0)


class Outcome(msgspec.Struct, frozen=True):
    """What came of a run; what is missing, twice, wrong, failed, held or dropped must be 0.

    Attributes:
        snapshots: Stored.
        snapshots_missing: Acknowledged to the agent, or between two stored ones, and not there.
        snapshots_twice: There more than once.
        snapshots_wrong: There with another value, or never pushed.
        lines: Written by the container.
        lines_missing: Not found.
        lines_twice: Found more than once.
        commands: Enqueued.
        commands_expired: Not got through within their two minutes, which faults may bring about.
        commands_failed: Reported as failed.
        commands_twice: Containers made or removed that no command had asked for.
        held: Snapshots and batches that the agent still held back at the end.
        dropped: Snapshots and lines that it gave up.
    """

    snapshots: int
    snapshots_missing: int
    snapshots_twice: int
    snapshots_wrong: int
    lines: int
    lines_missing: int
    lines_twice: int
    commands: int
    commands_expired: int
    commands_failed: int
    commands_twice: int
    held: int
    dropped: int

    @property
    def is_clean(self) -> bool:
        """Tell whether everything came through, once."""
        return not any(n for key, n in msgspec.structs.asdict(self).items() if key not in COUNTED)


COUNTED = frozenset({"snapshots", "lines", "commands", "commands_expired"})


def samples_tally(
    collected: Mapping[int, float], acknowledged: set[int], stored: list[tuple[int, float]]
) -> tuple[int, int, int]:
    """Return how many snapshots are missing, there twice, and wrong.

    Args:
        collected: Value of each pushed snapshot by its time in milliseconds; values count up.
        acknowledged: Times that the agent was told to be stored.
        stored: Times and values that are there.
    """
    times = Counter(at for at, _ in stored)
    steps = {round(value / STEP_BYTES) for _, value in stored}
    gaps = (max(steps) - min(steps) + 1 - len(steps)) if steps else 0
    wrong = sum(collected.get(at) != value for at, value in stored)
    return len(acknowledged - times.keys()) + gaps, times.total() - len(times), wrong


def lines_tally(written: int, found: Counter[str]) -> tuple[int, int]:
    """Return how many of the lines 1 to *written* are missing, and how many were found beyond once."""
    missing = sum(f"line {number}" not in found for number in range(1, written + 1))
    return missing, found.total() - len(found)


async def run(plan: Plan, seed: int) -> tuple[Outcome, Counter[str]]:
    """Do all of *plan* and count; return the faults too."""
    async with started_stack() as stack, aiohttp.ClientSession() as session:
        host = Host()
        proxy = Unreliable(
            stack.service.url, seed, hang_seconds=plan.hang_seconds, loses_polls=plan.loses_polls
        )
        since = time.time()
        async with (
            served(host.app()) as engine_url,
            proxy.served() as url,
            _agent(stack, engine_url, url, plan.interval_seconds) as (agent, state),
        ):
            commander = Commander(stack, agent.agent_id, host)
            work = [
                asyncio.create_task(host.write_forever()),
                asyncio.create_task(commander.run(plan.command_seconds)),
            ]
            try:
                await asyncio.sleep(plan.seconds)
                proxy.is_failing = False
                work[0].cancel()
                commander.is_to_end = True
                await asyncio.wait_for(work[1], SETTLE_SECONDS)
                found = await _until(lambda: _found(session, stack), lambda one: len(one) >= host.lines)
                health = await _until(lambda: asyncio.to_thread(read_health, state), _has_delivered)
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
        stored = await _stored(stack, session, agent, since)
        return _outcome(proxy, host, commander, health, stored, found), proxy.faults


def _outcome(
    proxy: Unreliable,
    host: Host,
    commander: Commander,
    health: Health,
    stored: list[tuple[int, float]],
    found: Counter[str],
) -> Outcome:
    collected = {
        at: next(one["memoryUsageMB"] for one in containers if one["id"] == STEADY) * 1024 * 1024
        for at, containers in proxy.collected.items()
    }
    missing, twice, wrong = samples_tally(collected, proxy.acknowledged, stored)
    lines_missing, lines_twice = lines_tally(host.lines, found)
    for text in commander.failed:
        print(text, file=sys.stderr)
    return Outcome(
        snapshots=len(stored),
        snapshots_missing=missing,
        snapshots_twice=twice,
        snapshots_wrong=wrong,
        lines=host.lines,
        lines_missing=lines_missing,
        lines_twice=lines_twice,
        commands=commander.count,
        commands_failed=len(commander.failed),
        commands_expired=commander.expired,
        commands_twice=commander.beyond,
        held=health.held_snapshots + health.held_batches,
        dropped=health.dropped_snapshots + health.dropped_lines,
    )


@asynccontextmanager
async def _agent(
    stack: Stack, engine_url: str, url: str, interval: float
) -> AsyncIterator[tuple[Agent, Path]]:
    """Run the agent program for a block; gives who it is and its state directory."""
    [agent] = await stack.register(1)
    state = Path(tempfile.mkdtemp(prefix="monitor-agent-"))
    # Registered before: a registration whose answer is lost leaves an agent that never comes.
    identity = {"agentId": agent.agent_id, "token": agent.token, "url": url}
    (state / "agent.json").write_bytes(msgspec.json.encode(identity))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor", "agent", "--url", url, "--docker-host", engine_url),
        *("--state-dir", str(state), "--interval", f"{interval:g}s"),
        *("--logs-since", "1h", "--log-level", "error"),
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )
    try:
        yield agent, state
        process.terminate()
        if await process.wait():
            raise RuntimeError(f"the agent ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        shutil.rmtree(state)


async def _until(look: Callable[[], Awaitable[Any]], is_enough: Callable[[Any], bool]) -> Any:
    """Return what *look* sees once it is enough, or after three minutes what it sees then."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        seen = await look()
        if is_enough(seen) or time.monotonic() > deadline:
            return seen
        await asyncio.sleep(0.5)


def _has_delivered(health: Health) -> bool:
    return not health.held_batches and health.held_snapshots <= 1  # one may just have been collected


async def _found(session: aiohttp.ClientSession, stack: Stack) -> Counter[str]:
    """Return the messages of the busy container that a search finds, page after page."""
    found: Counter[str] = Counter()
    query = {"containerId": STEADY, "limit": str(PAGE)}
    while True:
        async with session.get(
            f"{stack.service.url}/api/v1/logs/search", params=query, headers={"X-API-Key": stack.api_key}
        ) as answer:
            answer.raise_for_status()
            found.update(line["message"] for line in await answer.json())
            cursor = answer.headers.get("X-Next-Cursor")
        if not cursor:
            return found
        query["cursor"] = cursor


async def _stored(
    stack: Stack, session: aiohttp.ClientSession, agent: Agent, since: float
) -> list[tuple[int, float]]:
    """Return times in milliseconds and values of the busy container's memory, once the journal is empty."""
    url = stack.victoriametrics.url
    tsdb = Tsdb(url, url, [url])
    await settle(stack, tsdb)
    await tsdb.close()
    selector = f'{MEMORY}{{agent_id="{agent.agent_id}",container_id="{STEADY}"}}'
    return await stored_samples(session, url, selector, since - 60)


async def stored_samples(
    session: aiohttp.ClientSession, url: str, selector: str, since: float
) -> list[tuple[int, float]]:
    """Return times (ms) and values of what VictoriaMetrics at *url* has from *since* (unix seconds) on."""
    span = {"start": f"{since:.0f}", "end": f"{time.time() + EXPORT_AHEAD_SECONDS:.0f}"}
    async with session.get(f"{url}/api/v1/export", params={"match[]": selector} | span) as response:
        response.raise_for_status()
        lines = (await response.read()).splitlines()
    return [
        (at, value)
        for one in map(msgspec.json.decode, lines)
        for at, value in zip(one["timestamps"], one["values"], strict=True)
    ]


def main() -> None:
    """Run from the command line; exit with 1 if anything is missing or there twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of a minute, milder faults")
    parser.add_argument("--seconds", type=float, help="how long the service fails")
    parser.add_argument("--seed", type=int, default=1, help="fixes the order of the faults")
    options = parser.parse_args()
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # streams that their reader has left
    plan = SHORT if options.quick else FULL
    plan = msgspec.structs.replace(plan, seconds=options.seconds or plan.seconds)
    outcome, faults = asyncio.run(run(plan, options.seed))
    print_table(("answer", "times"), [{"answer": fault, "times": n} for fault, n in faults.most_common()])
    figures = {"benchmark": "faults", "seconds": plan.seconds, "seed": options.seed, "faults": dict(faults)}
    print_figures(figures | msgspec.structs.asdict(outcome))
    sys.exit(0 if outcome.is_clean else 1)


if __name__ == "__main__":
    main()
