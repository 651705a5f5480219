"""What 100 and 1,000 alert rules add to a push of 50 containers, against none.

First the part that they concern alone, in this process: samples and judgement.  Then
the whole path: three organizations with 0, 100 and 1,000 rules whose agents push in
turns, and what each push costs all processes in processor time.  The rules watch every
metric of containers and the agent's, by every kind of matcher, and none of them fires:
what fires pays for its statements.
"""

from __future__ import annotations

import argparse
import asyncio
import time
import timeit
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from benchmarks.flood import Clock, Flood, Snapshots
from benchmarks.stack import Agent, Stack, print_figures, print_table, started_stack
from monitor.alerts.evaluate import judge
from monitor.alerts.live.turn import plan_of
from monitor.alerts.models import Operator
from monitor.alerts.rules import RuleText
from monitor.alerts.watch import AgentAt, Watch
from monitor.auth import provision
from monitor.ingest.counters import counters_of, rates
from monitor.ingest.samples import AgentRef, samples_of
from monitor.tsdb.catalogue import metrics_of
from monitor.wire.push import Push

RULES = (0, 100, 1000)
CONNECTIONS = 8
PAST_MS = 270_000  # agents' clocks start here: older samples are not judged
CALLS = 100  # of the judged part, in each of REPEATS
REPEATS = 15
WATCHED = [
    metric.name
    for resource in ("container", "agent")
    for metric in metrics_of(resource)  # type: ignore[arg-type]
    if "gpu" not in metric.name
]


class Sizes(msgspec.Struct, frozen=True):
    """Agents of each organization, and how often each pushes (every 15 s of its own time)."""

    agents: int
    turns: int


FULL = Sizes(agents=300, turns=30)
QUICK = Sizes(agents=50, turns=6)


def rule_bodies(count: int) -> list[dict[str, Any]]:
    """Return rules of which none fires: of five, two watch all series, two one container, one some by regex."""
    bodies = []
    for number in range(count):
        metric = WATCHED[number % len(WATCHED)]
        one = f'{{container="service-{number % 12}-{number % 5 + 1}"}}'
        matchers = ("", "", one, '{agent!="x"}', '{image=~".*/service-[0-5]:.*|redis:.*"}')
        operator: Operator = "lt" if number % 7 == 0 else "gt"
        bodies.append(
            {
                "name": f"rule {number}",
                "metric": metric + matchers[number % 5],
                "operator": operator,
                "threshold": -1 - number if operator == "lt" else 1e15 + number,
            }
        )
    return bodies


def judged_part(snapshots: Snapshots) -> list[dict[str, Any]]:
    """Return the microseconds of making samples, and of judging the push, by number of rules."""
    agent = Agent("agent_" + "0" * 24, "host-00000", "")
    ref = AgentRef("org_1", agent.agent_id, agent.name)
    at = AgentAt("org_1", agent.agent_id, agent.name, 1, 1, 1)
    decode = msgspec.json.Decoder(Push).decode
    now_ms = time.time_ns() // 1_000_000
    before, push = (
        decode(snapshots.push(agent, number, now_ms).partition(b"\r\n\r\n")[2]) for number in (0, 1)
    )
    previous = counters_of(before.containers or [], now_ms - 15_000)
    counters = samples_of(push, ref, previous, now_ms).counters
    assert counters is not None
    samples_us = _best(lambda: samples_of(push, ref, previous, now_ms))
    rows = []
    for count in RULES[1:]:
        plan = plan_of(
            [
                RuleText(str(number), body["metric"], body["operator"], float(body["threshold"]))
                for number, body in enumerate(rule_bodies(count))
            ]
        )

        def judged(watch: Watch, plan: Any = plan) -> Watch:
            increase = rates(previous, counters)
            options = {"at_ms": now_ms, "now_ms": now_ms, "late": False}
            found = judge(plan, watch, at, push, rates=increase, new_id=str, **options)
            assert not found.changes
            return found.watch

        watch = judged(Watch(1, 1, 1, {}, {}))
        row = {"rules": count, "samples_us": samples_us, "judge_us": _best(lambda w=watch: judged(w))}
        rows.append({**row, "first_us": _best(lambda j=judged: j(Watch(1, 1, 1, {}, {})), calls=5)})
    return rows


def _best(work: Any, calls: int = CALLS) -> float:
    return min(timeit.repeat(work, number=calls, repeat=REPEATS, timer=time.process_time)) / calls * 1e6


async def organizations(stack: Stack, sizes: Sizes) -> dict[int, list[Agent]]:
    """Make an organization with agents for each number of rules."""
    agents: dict[int, list[Agent]] = {}
    for count in RULES:
        async with stack.connection() as conn:
            stack.org_id = await provision.create_org(conn, f"{count} rules", "enterprise")
            _, key = await provision.create_api_key(conn, stack.org_id, "benchmark")
        base = f"http://127.0.0.1:{stack.service.port}"
        async with aiohttp.ClientSession(base, headers={"X-API-Key": key}) as session:
            for body in rule_bodies(count):
                async with session.post("/api/v1/alerts/rules", json=body) as response:
                    response.raise_for_status()
        agents[count] = await stack.register(sizes.agents)
    return agents


async def whole_path(stack: Stack, snapshots: Snapshots, sizes: Sizes) -> list[dict[str, Any]]:
    """Return the processor time of a push, by number of rules; the organizations take turns."""
    agents = await organizations(stack, sizes)
    clock = Clock(time.time_ns() // 1_000_000 - PAST_MS)
    floods = {
        count: Flood(stack.service.port, of_one, CONNECTIONS, as_lines=False)
        for count, of_one in agents.items()
    }
    used: dict[int, dict[str, float]] = {count: {} for count in RULES}
    for turn in range(sizes.turns + 2):
        order = RULES[turn % 3 :] + RULES[: turn % 3]  # none is always first
        for count in order:
            before = stack.cpu_seconds()
            await asyncio.to_thread(floods[count].once, snapshots, clock)
            if turn >= 2:  # the first pushes make no rates and find nothing remembered
                for name, after in stack.cpu_seconds().items():
                    used[count][name] = used[count].get(name, 0.0) + after - before[name]
    for flood in floods.values():
        flood.close()
    async with stack.connection() as conn:
        fired = await conn.fetchval("SELECT count(*) FROM fired_alerts")
    assert fired == 0, "a rule fired: the figures are not those of quiet rules"
    pushes = sizes.agents * sizes.turns
    return [
        _row(count, {name: seconds / pushes * 1e6 for name, seconds in used[count].items()})
        for count in RULES
    ]


def _row(count: int, cpu_us: dict[str, float]) -> dict[str, Any]:
    path = cpu_us["web"] + cpu_us["postgres"]  # the others do the same for any rules
    return {"rules": count, "web_us": cpu_us["web"], "postgres_us": cpu_us["postgres"], "path_us": path}


def _ratios(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {str(row["rules"]): row["path_us"] / rows[0]["path_us"] for row in rows[1:]}


async def run(sizes: Sizes) -> dict[str, Any]:
    """Measure both; print the tables and return the figures."""
    snapshots = Snapshots("org_" + "0" * 24, Agent("agent_" + "0" * 24, "host-00000", ""))
    part = judged_part(snapshots)
    print("in one process, microseconds a push; first_us: nothing is remembered of the agent yet")
    print_table(tuple(part[0]), part)
    async with started_stack() as stack:
        path = await whole_path(stack, snapshots, sizes)
    ratios = _ratios(path)
    print(f"whole path, {sizes.agents * sizes.turns} pushes of each organization; *_us: CPU of a push")
    print_table(tuple(path[0]), path)
    print(", ".join(f"{count} rules: {ratio:.2f} x none" for count, ratio in ratios.items()))
    return {"benchmark": "alerts", "part": part, "path": path, "to_none": ratios}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few agents, few pushes")
    options = parser.parse_args()
    print_figures(asyncio.run(run(QUICK if options.quick else FULL)))


if __name__ == "__main__":
    main()
