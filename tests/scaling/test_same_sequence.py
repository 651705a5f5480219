"""A policy that runs over scripted pushes, and is simulated over the same minutes: the same decisions."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import convert

from monitor.scaling.models import Settings
from monitor.scaling.state import State
from monitor.scaling.step import step
from tests.scaling.worlds import (
    AGE,
    STEP,
    UNSEEN_SECONDS,
    VISIBLE_SECONDS,
    Script,
    container,
    containers,
    node,
    observations,
    pod,
    pods,
    simulate,
)

SEEN_SECONDS = 180.0  # of two evaluations, on a machine that does much else
KUBERNETES = {
    "name": "web",
    "runtime": "kubernetes",
    "targetRef": "shop/web",
    "cpuTargetPercent": 50,
    "stepSize": 3,
    "minReplicas": 1,
    "maxReplicas": 8,
    "cooldownScaleUpSeconds": 30,
    "cooldownScaleDownSeconds": 60,
}
DOCKER = {**KUBERNETES, "runtime": "docker", "targetRef": "default/web"}

BUSY, CALM, IDLE = pods(100, 90), pods(50, 52), pods(5, 5)
GONE = {"pods": [], "nodes": []}
OTHER = pods(80, 80, namespace="other")
CASES: list[tuple[str, dict[str, Any], Script]] = [
    (
        "load comes and goes",
        KUBERNETES,
        {"a": [CALM] * 3 + [BUSY] * 8 + [CALM] * 4 + [IDLE] * 12 + [CALM] * 3 + [BUSY] * 4},
    ),
    (
        "pods come, start, end and are replaced",
        KUBERNETES,
        {
            "a": [
                pods(60, 60),
                {"pods": [pod("0", 90), pod("1", 90), pod("2", None, phase="Pending", ready=False)]},
                {"pods": [pod("0", 90), pod("1", 90), pod("2", 400, ready=False)]},
                {"pods": [pod("0", 90), pod("1", 90), pod("2", 90)]},
                {"pods": [pod("0", 90), pod("3", 90), pod("2", 90), pod("1", 90, phase="Failed")]},
                {"pods": [pod("3", 10), pod("2", 10), pod("1", 10, phase="Failed")]},
                {"pods": [pod("3", 10), pod("4", None)]},
                *[pods(10, None, 10)] * 6,
                GONE,
                GONE,
                pods(100),
            ]
        },
    ),
    (
        "the agent is silent, offline, and back",
        KUBERNETES,
        {"a": [BUSY, None, None, BUSY, *[None] * 9, IDLE, None, IDLE, {"version": "2"}, IDLE, *[IDLE] * 3]},
    ),
    (
        "two agents report it for a while",
        KUBERNETES,
        {"a": [BUSY] * 10, "b": [OTHER] * 3 + [BUSY] * 3 + [OTHER] * 4},
    ),
    (
        "nodes are under pressure",
        {**KUBERNETES, "nodePressureTargetPercent": 60},
        {
            "a": [
                pods(50, 50, nodes=[node("n1", 60), node("n2", 100)]),
                *[pods(50, 50, nodes=[node("n1", 95), node("n2", 1)])] * 5,
                *[pods(50, 50, nodes=[])] * 3,
                *[pods(10, 10, nodes=[node("n1", 5)])] * 8,
            ]
        },
    ),
    (
        "hosts of a pool, one of them lost",
        {**DOCKER, "maxReplicasPerHost": 4},
        {
            "a": [containers(90, 80)] * 6 + [containers(10, 10)] * 20,
            "b": [containers(100)] * 4 + [containers(100, 90)] * 3 + [None] * 12 + [containers(10)] * 7,
        },
    ),
    (
        "containers stop, fail to tell, and are of other groups",
        DOCKER,
        {
            "a": [
                containers(90, 80),
                {"containers": [container("web-1", 90), container("web-2", 0, state="exited")]},
                {
                    "containers": [
                        container("web-1", 90),
                        container("web-2", 0, memoryPercent=0, memoryUsageMB=0, netRxBytes=0),
                    ]
                },
                {"containers": [container("web-1", 20), container("db-1", 100)]},
                *[{"containers": [container("web-1", 0, state="exited")]}] * 3,
                *[containers(5, 5, 5)] * 8,
                *[{"containers": []}] * 2,
                containers(200),
            ]
        },
    ),
    (
        "a group sleeps when its GPUs idle",
        {**DOCKER, "policyType": "scale_to_zero_on_idle", "idleMinutes": 1},
        {"a": [containers(50, 50, gpuPercent=80)] * 3 + [containers(50, 50, gpuPercent=1)] * 8},
    ),
    (
        "a live policy asks once",
        {**KUBERNETES, "dryRun": False},
        {"a": [BUSY] * 3 + [pods(100, 90, None)] * 3 + [pods(60, 60, 60, 60)] * 3 + [pods(50, 50, 50, 50, 50)] * 3},
    ),
]  # fmt: skip


def followed(policy: dict[str, Any], script: Script, ids: dict[str, str], start: float) -> list[Any]:
    """Return what the loop decides at each step: (time, from, to, action, reason)."""
    settings, state, found = convert(policy, Settings), State("scp_1", "org_1"), []
    for now, observation in observations(script, ids, start, settings):
        seen = observation.of(settings, state.reported_by, None)
        turn = step(settings, state, seen, datetime.fromtimestamp(now, UTC), gpu_allowed=True)
        state = turn.state
        row = turn.rows[0] if turn.rows else None
        told = (row.from_replicas, row.to_replicas, row.action) if row else ()
        found.append((now, *told, state.last_reason))
    return found


def simulated(answer: dict[str, Any]) -> list[Any]:
    """Return the same of a simulation."""
    return [
        (
            datetime.fromisoformat(it["ts"]).timestamp(),
            *((it["current"], it["desired"], it["action"]) if it["action"] else ()),
            it["reason"],
        )
        for it in answer["timeline"]
    ]


@pytest.mark.parametrize(("_name", "policy", "script"), CASES, ids=[name for name, _, _ in CASES])
async def test_a_simulation_decides_what_was_decided(api, make_agent, _name, policy, script):
    kind = policy["runtime"]
    agents = {name: await make_agent(api, name, type=kind) for name in script}
    steps = max(map(len, script.values()))
    start = time.time() // STEP * STEP - STEP * (steps + 8)
    for number in range(steps):
        at = datetime.fromtimestamp(start + STEP * number - AGE, UTC).isoformat()
        for name, bodies in script.items():
            if number < len(bodies) and (body := bodies[number]) is not None:
                await agents[name].pushed(**body, collectedAt=at)
    expected = followed(policy, script, {name: it.agent_id for name, it in agents.items()}, start)
    deadline = time.monotonic() + VISIBLE_SECONDS
    body = {**policy, "start": start, "end": start + STEP * (steps - 1)}

    await asyncio.sleep(UNSEEN_SECONDS)
    answer = await simulate(api, body)
    while simulated(answer) != expected and time.monotonic() < deadline:
        await asyncio.sleep(0.2)  # VictoriaMetrics shows new series after a while
        answer = await simulate(api, body)

    assert simulated(answer) == expected
    assert answer["changes"] == sum(len(it) > 2 for it in expected) > 0


async def test_a_dry_run_and_a_simulation_of_the_same_minutes_decide_the_same(api, agent):
    """The service's own loop: each phase lasts until it was seen there, and for a point of history at least."""
    phases = [  # what is pushed, and what the loop says when it has seen it
        (containers(100, 100), ("Up from 2 to 4", "2 to 4 was logged")),
        (containers(50, 50, 50), ("Stays at 3: cpu is at 50 %",)),
        (containers(20, 20, 20), ("Down from 3 to 2", "3 to 2 was logged")),
    ]
    policy = {**DOCKER, "cooldownScaleUpSeconds": 0, "cooldownScaleDownSeconds": 0}
    await agent.pushed(**phases[0][0])
    async with api.post("/api/v1/scaling/policies", json=policy) as response:
        path = f"/api/v1/scaling/policies/{(await response.json())['id']}"
    start = time.time()
    for body, told in phases:
        begun = time.monotonic()
        seen = ""
        while time.monotonic() - begun < STEP + 1 or not seen.startswith(told):
            assert time.monotonic() - begun < SEEN_SECONDS, seen
            await agent.pushed(**body)
            await asyncio.sleep(1)
            seen = (await api.json(path))["lastReason"]
    window = {"start": start, "end": time.time()}
    rows = await api.json("/api/v1/scaling/decisions")
    decided = [(it["fromReplicas"], it["toReplicas"], it["direction"], it["action"]) for it in reversed(rows)]

    async def tried() -> list[Any]:
        async with api.post(f"{path}/simulate", json=window) as response:
            timeline = (await response.json())["timeline"]
        return [
            (it["current"], it["desired"], it["direction"], it["action"]) for it in timeline if it["action"]
        ]

    deadline = time.monotonic() + VISIBLE_SECONDS
    while await tried() != decided and time.monotonic() < deadline:
        await asyncio.sleep(0.5)

    assert decided == [(2, 4, "up", "dry_run"), (3, 2, "down", "dry_run")]
    assert await tried() == decided
