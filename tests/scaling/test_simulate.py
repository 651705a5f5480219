"""A policy tried on stored history."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from monitor.scaling import simulate as module
from monitor.scaling.replay import Replay, Series, agent_selectors, replica_selectors
from monitor.scaling.spec import Inputs, PolicySpec, Replica
from monitor.scaling.timeline import POINTS_AT_ONCE, Timeline, pieces
from tests.scaling.worlds import UNSEEN_SECONDS, VISIBLE_SECONDS, containers, simulate

PATH = "/api/v1/scaling/simulate"
POLICY = {"name": "web", "runtime": "docker", "targetRef": "default/web", "cpuTargetPercent": 50}
SPEC = PolicySpec(runtime="docker", target_ref="default/web", cpu_target_percent=50.0)
HOUR = 3600


async def tried(api: Any, wanted: int, body: dict[str, Any]) -> Any:
    """Return a simulation when it shows *wanted* points with replicas, or what there is after a while."""
    await asyncio.sleep(UNSEEN_SECONDS)
    deadline = time.monotonic() + VISIBLE_SECONDS
    while True:
        answer = await simulate(api, body)
        if sum(it["current"] > 0 for it in answer["timeline"]) >= wanted or time.monotonic() > deadline:
            return answer


async def test_a_simulation_says_what_was_seen_and_decided(api, agent, other):
    end = time.time() // 15 * 15 - 600
    for number in range(4):
        at = end - 60 + 15 * number - 8
        samples = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}Z"
        await agent.pushed(**containers(100, 60), collectedAt=samples)
    body = {**POLICY, "start": end - 60, "end": end - 15}

    answer = await tried(api, 4, body)

    points = answer.pop("timeline")
    assert answer == {"changes": 1, "secondsOverTarget": 60}
    assert len(points) == 4
    assert points[0] == {
        "ts": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(end - 60))}Z",
        "current": 2,
        "desired": 3,
        "values": {"cpu": 80.0},
        "action": "dry_run",
        "direction": "up",
        "reason": "Up from 2 to 3: cpu is at 80 % of a target of 50 %, which asks for 4 replicas."
        " One step is 1 replica.",
    }
    assert [(it["desired"], it["action"], it["direction"]) for it in points[1:]] == [(3, "", "")] * 3
    foreign = await simulate(other, body)
    assert [it["current"] for it in foreign["timeline"]] == [0] * 4
    assert foreign["changes"] == foreign["secondsOverTarget"] == 0


async def test_a_stored_policy_is_tried_as_it_is_set(api, agent):
    async with api.post("/api/v1/scaling/policies", json=POLICY) as response:
        policy_id = (await response.json())["id"]
    end = time.time() // 15 * 15 - 600

    async with api.post(
        f"/api/v1/scaling/policies/{policy_id}/simulate", json={"start": end - 30, "end": end}
    ) as response:
        answer = await response.json()

    assert response.status == 200
    assert [it["reason"] for it in answer["timeline"]] == ["No online agent reports default/web."] * 3


async def test_seven_days_are_simulated(api):
    end = int(time.time()) // 15 * 15
    answer = await simulate(api, {**POLICY, "start": end - 7 * 86_400, "end": end})

    assert len(answer["timeline"]) == 40_321
    assert answer["changes"] == 0


async def test_what_is_before_the_retention_is_left_out(api):
    assert await simulate(api, {**POLICY, "start": 1000, "end": 2000}) == {
        "timeline": [],
        "changes": 0,
        "secondsOverTarget": 0,
    }


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"start": None}, "start"),
        ({"start": "now"}, "start"),
        ({"end": 0}, "end"),
        ({"end": 8 * 86_400 + 1}, "start"),
        ({"start": 1e300}, "start"),
        ({"targetRef": "web"}, "targetRef"),
        ({"cpuTargetPercent": None}, "cpuTargetPercent"),
        ({"policyType": "spot_shift", "runtime": "kubernetes", "spotNodeLabel": "spot"}, "policyType"),
    ],
)
async def test_what_cannot_be_simulated_is_refused_with_its_field(api, change, field):
    async with api.post(PATH, json={**POLICY, "start": 1000, "end": 2000, **change}) as response:
        assert response.status == 400
        assert (await response.json())["field"] == field


async def test_an_organization_has_a_share_of_the_simulations(api):
    with module._places.held(api.org_id), module._places.held(api.org_id):
        end = time.time() // 15 * 15
        async with api.post(PATH, json={**POLICY, "start": end - HOUR, "end": end}) as response:
            assert response.status == 429

    await simulate(api, {**POLICY, "start": end - HOUR, "end": end})


async def test_more_history_than_fits_is_refused(api, monkeypatch):
    monkeypatch.setattr(module, "MOST_VALUES", -1)
    end = time.time() // 15 * 15

    async with api.post(PATH, json={**POLICY, "start": end - HOUR, "end": end}) as response:
        assert response.status == 400
        assert "use a shorter window" in (await response.json())["error"]


async def test_spans_of_any_length_decide_the_same(api, agent, monkeypatch):
    end = time.time() // 15 * 15 - 300
    for number in range(12):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end - 165 + 15 * number - 8))
        await agent.pushed(**containers(*[5 if 3 < number < 9 else 100] * 2), collectedAt=at)
    body = {**POLICY, "cooldownScaleDownSeconds": 30, "start": end - 165, "end": end}
    whole = await tried(api, 12, body)

    monkeypatch.setattr(module, "FIRST_POINTS", 3)
    monkeypatch.setattr(module, "SPAN_VALUES", 25)

    assert await simulate(api, body) == whole
    assert whole["changes"] == 3


def test_the_encoded_pieces_are_one_document():
    for count in (0, 1, POINTS_AT_ONCE, POINTS_AT_ONCE + 1):
        timeline = Timeline(SPEC)
        busy = Inputs(agents=("a",), replicas=(Replica(cpu=100),))
        timeline.follow((15.0 * number, busy) for number in range(count))

        assert b"".join(pieces(timeline.told())) == msgspec.json.encode(timeline.told())


def test_the_selectors_bind_every_name_that_was_given():
    odd = replace(SPEC, target_ref='pool/web"} or {x="', node_pressure_target_percent=50.0)
    chosen = {**replica_selectors(odd), **agent_selectors(odd, ["agent_1", "agent_2"])}

    texts = {kind: selector.for_tenant("org_1").text for kind, selector in chosen.items()}

    assert texts["present"] == ('{__name__="container_running",group="web\\"} or {x=\\"",org_id="org_1"}')
    assert texts["up"] == '{__name__="agent_up",agent_id=~"agent_1|agent_2",org_id="org_1"}'
    assert texts.keys() == {
        "present", "cpu", "memory", "up", "reported", "nodes", "node_cpu", "node_memory"
    }  # fmt: skip


def series(values: list[float | None], **labels: str) -> Series:
    return Series({"agent_id": "agent_1", "agent": "a", **labels}, values)


def test_agents_of_other_pools_do_not_count():
    replay = Replay(SPEC, ["agent_2"])
    span: Any = {
        "present": [series([1.0], container_id="c1")],
        "up": [series([1.0])],
        "reported": [series([1.0])],
    }

    assert replay.agent_ids(span) == set()
    assert [inputs for _, inputs in replay.inputs([0.0], span)] == [Inputs()]


def test_the_largest_value_of_the_wake_metric_counts():
    span: Any = {"wake": [series([None, 1.0, 3.0]), series([None, 2.0, None])]}

    assert [it.wake for _, it in Replay(SPEC).inputs([0.0, 15.0, 30.0], span)] == [None, 2.0, 3.0]


def test_an_agent_said_to_be_offline_is_so_at_once():
    span: Any = {
        "present": [series([1.0, None, None], container_id="c1")],
        "cpu": [series([70.0, None, None], container_id="c1")],
        "up": [series([1.0, 0.0, None])],
        "reported": [series([1.0, None, None])],
    }

    online, offline, still = (it for _, it in Replay(SPEC).inputs([0.0, 15.0, 30.0], span))

    assert online == Inputs(
        agents=("a",), replicas=(Replica(cpu=70.0),), online_hosts=1, node_pressure=(None,)
    )
    assert offline == still == Inputs(offline_replicas=1)
