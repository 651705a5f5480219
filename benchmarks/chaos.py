"""Kill servers under load, then count every acknowledged sample in VictoriaMetrics.

Agents push with times and values of their own and repeat each push until it is
acknowledged.  Meanwhile the service, one of its processes, VictoriaMetrics and
Postgres are killed with SIGKILL in an order that the seed fixes, and VictoriaMetrics
is away for a while.  What was acknowledged must be there, each sample once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import aiohttp
import msgspec

from benchmarks.patient import MARK, Load
from benchmarks.stack import Agent, Stack, pids, print_figures, print_table, started_stack
from monitor.dev.servers import Server
from monitor.journal import store
from monitor.tsdb.client import Tsdb

AGENTS = 20
LIFE_SECONDS = 1.1  # VictoriaMetrics tells its start in whole seconds: a shorter life is not seen
LAST_SECONDS = 1.0  # of undisturbed pushes at the end
EXPORT_AHEAD_SECONDS = 60.0
SETTLE_SECONDS = 120.0  # leases of dead processes run out, streams are adopted and drained
EXPECTED = frozenset((200, 503))

Event = Literal["server", "process", "victoriametrics", "postgres", "away"]
# A series by its labels, and the times in milliseconds of its samples with their values.
Exported = Iterable[tuple[Mapping[str, str], list[int], list[float]]]


class Plan(msgspec.Struct, frozen=True):
    """How often what is killed.

    Attributes:
        kills: Number of each event.
        away_seconds: How long VictoriaMetrics is stopped in each ``away``.
        pause_seconds: Shortest and longest time from one event to the next.
    """

    kills: dict[Event, int]
    away_seconds: float
    pause_seconds: tuple[float, float]


FULL = Plan({"server": 50, "process": 20, "victoriametrics": 10, "postgres": 5, "away": 1}, 30.0, (0.5, 2.5))
SHORT = Plan({"server": 3, "process": 2, "victoriametrics": 2, "postgres": 1, "away": 1}, 3.0, (0.1, 0.4))


class Tally(msgspec.Struct, frozen=True):
    """What came of the samples; samples are counted series by series.

    Attributes:
        acknowledged: Samples of pushes that were answered with 200.
        lost: Acknowledged samples that are not there.
        duplicated: Samples that are there more than once.
        wrong: Samples that are there with another value.
        unacknowledged: Samples that are there although nobody was told so: harmless.
    """

    acknowledged: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    unacknowledged: int = 0

    def __add__(self, other: Tally) -> Tally:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Tally(*map(sum, pairs))


class Outcome(msgspec.Struct, frozen=True):
    """What a run came to.

    Attributes:
        tally: The samples.
        pushes: Acknowledged pushes.
        repeats: Requests beyond the first of each push.
        statuses: Answers by status; 0 is a connection that broke.
        longest_seconds: The longest that one push took until it was acknowledged.
        settle_seconds: From the end of the load until VictoriaMetrics had everything.
        seconds: Length of the load.
    """

    tally: Tally
    pushes: int
    repeats: int
    statuses: dict[int, int]
    longest_seconds: float
    settle_seconds: float
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing was lost, doubled or changed, and no answer was a surprise."""
        surprises = self.statuses.keys() - EXPECTED - {0}
        return not (self.tally.lost or self.tally.duplicated or self.tally.wrong or surprises)


def order(plan: Plan, seed: int) -> list[tuple[Event, float]]:
    """Return the events in their order, each with the pause before it in seconds."""
    rng = random.Random(seed)
    events = [event for event, number in plan.kills.items() for _ in range(number)]
    rng.shuffle(events)
    return [(event, rng.uniform(*plan.pause_seconds)) for event in events]


def tally(acknowledged: Mapping[int, int], exported: Exported) -> Tally:
    """Compare one agent's acknowledged pushes with what VictoriaMetrics holds of it.

    Every push has made a sample of every series but of the rates, which need two
    pushes a second apart.

    Args:
        acknowledged: Number of each push by its time in milliseconds.
        exported: The agent's series.
    """
    total = Tally()
    marked = False
    for labels, times, values in exported:
        name = labels["__name__"]
        counts = Counter(times)
        doubled = len(times) - len(counts)
        if name.endswith("_per_second"):
            total += Tally(duplicated=doubled)
            continue
        marked = marked or name == MARK
        wrong = sum(
            name == MARK and acknowledged.get(at, value) != value
            for at, value in zip(times, values, strict=True)
        )
        lost = len(acknowledged.keys() - counts.keys())
        total += Tally(len(acknowledged), lost, doubled, wrong, len(counts.keys() - acknowledged.keys()))
    return total if marked else total + Tally(acknowledged=len(acknowledged), lost=len(acknowledged))


async def disturb(stack: Stack, event: Event, away_seconds: float, rng: random.Random) -> None:
    """Do what *event* says; return when what was killed answers again, or is on its way to."""
    if event == "process":  # the supervisor starts it again
        roles = stack.roles()
        _kill(rng.sample(sorted(roles["web"] + roles["background"]), 1))
    elif event == "server":
        _kill(stack.roles()["supervisor"] + pids(stack.service))
        await _restart(stack.service)
    elif event == "victoriametrics":
        await asyncio.sleep(LIFE_SECONDS)
        _kill(pids(stack.victoriametrics))
        await _restart(stack.victoriametrics)
    elif event == "postgres":
        postmaster = (stack.postgres.cluster / "postmaster.pid").read_text().split()[0]
        _kill([int(postmaster)])
        await _restart(stack.postgres)
    else:
        await stack.victoriametrics.stop()
        await asyncio.sleep(away_seconds)
        await stack.victoriametrics.start()


def _kill(victims: list[int]) -> None:
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


async def _restart(server: Server) -> None:
    await server.stop()  # takes the dead away
    await server.start()


async def settle(stack: Stack, tsdb: Tsdb) -> None:
    """Return when VictoriaMetrics has everything that the journal holds.

    Raises:
        TimeoutError: It has not within two minutes.
    """
    async with stack.connection() as conn, asyncio.timeout(SETTLE_SECONDS):
        while True:
            [started] = await tsdb.started()
            known = await conn.fetchval("SELECT started FROM tsdb_instances")
            if known == started and not await store.replays(conn) and not await store.unwritten(conn):
                break
            await asyncio.sleep(0.25)
    await tsdb.force_flush()


async def exported(stack: Stack, session: aiohttp.ClientSession, agent: Agent, since: float) -> Exported:
    """Return all series of an agent, as VictoriaMetrics exports them."""
    # Without an end VictoriaMetrics leaves the present second out.
    end = time.time() + EXPORT_AHEAD_SECONDS
    query = {"match[]": f'{{agent_id="{agent.agent_id}"}}', "start": f"{since:.0f}", "end": f"{end:.0f}"}
    async with session.get(f"{stack.victoriametrics.url}/api/v1/export", params=query) as response:
        response.raise_for_status()
        lines = (await response.read()).splitlines()
    decoded: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
    series: dict[tuple[tuple[str, str], ...], tuple[list[int], list[float]]] = {}
    for one in decoded:
        times, values = series.setdefault(tuple(sorted(one["metric"].items())), ([], []))
        times += one["timestamps"]
        values += one["values"]
    return [(dict(labels), times, values) for labels, (times, values) in series.items()]


async def run(plan: Plan, seed: int, *, verbose: bool) -> Outcome:
    """Do all of *plan* and count."""
    rng = random.Random(seed)
    async with started_stack() as stack:
        agents = await stack.register(AGENTS)
        load = Load(stack.service.url, agents)
        since = time.time()
        pushing = asyncio.create_task(load.run(), name="load")
        for event, pause in order(plan, seed):
            await asyncio.sleep(pause)
            begun = time.time()
            await disturb(stack, event, plan.away_seconds, rng)
            if verbose:
                print(f"{begun - since:6.1f} s  {event:16} {time.time() - begun:5.1f} s", flush=True)
        await asyncio.sleep(LAST_SECONDS)
        load.ended.set()
        await pushing
        ended = time.time()
        url = stack.victoriametrics.url
        tsdb = Tsdb(url, url, [url])
        await settle(stack, tsdb)
        settled = time.time()
        await tsdb.close()
        total = Tally()
        async with aiohttp.ClientSession() as session:
            for agent in agents:
                series = await exported(stack, session, agent, since - 60)
                total += tally(load.acknowledged[agent.agent_id], series)
    pushes = sum(map(len, load.acknowledged.values()))
    return Outcome(
        tally=total,
        pushes=pushes,
        repeats=load.statuses.total() - pushes,
        statuses=dict(load.statuses),
        longest_seconds=load.longest_seconds,
        settle_seconds=settled - ended,
        seconds=ended - since,
    )


def main() -> None:
    """Run from the command line; exit with 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few kills in half a minute")
    parser.add_argument("--seed", type=int, default=1, help="fixes the order of the kills")
    options = parser.parse_args()
    plan = SHORT if options.quick else FULL
    outcome = asyncio.run(run(plan, options.seed, verbose=True))
    print_table(("event", "times"), [{"event": e, "times": n} for e, n in plan.kills.items()])
    print(f"{outcome.tally.lost} acknowledged samples lost, {outcome.tally.duplicated} duplicates")
    print_figures(
        {"benchmark": "chaos", "kills": plan.kills, "seed": options.seed, **msgspec.to_builtins(outcome)}
    )
    sys.exit(0 if outcome.is_clean else 1)


if __name__ == "__main__":
    main()
