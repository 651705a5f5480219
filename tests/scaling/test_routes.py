"""What people do by hand: approve, reject, roll back, wake, simulate."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.scaling.conftest import (
    LIVE,
    POLICIES,
    act,
    actions,
    changed,
    containers,
    decisions,
    docker,
    kubernetes,
    new_policy,
    pods,
    shown,
)


@pytest.fixture
async def proposed(api, agent, round_):
    """A live policy whose change from two to four waits for approval."""
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker(**LIVE, approvalRequired=True))
    await round_()
    return await shown(api, policy)


async def commands(pool: Any, api: Any) -> int:
    count: int = await pool.fetchval("SELECT count(*) FROM commands WHERE org_id = $1", api.org_id)
    return count


async def test_a_proposal_waits_and_nothing_happens(api, pool, proposed, round_):
    proposal = proposed["pendingApproval"]

    assert (
        proposal.items() >= {"generation": 1, "fromReplicas": 2, "toReplicas": 4, "direction": "up"}.items()
    )
    assert '"docker.scale"' in proposal["renderedManifest"]
    assert "waits for approval" in proposed["lastReason"]
    assert (await actions(api), await commands(pool, api)) == ([], 0)


async def test_a_proposal_is_frozen(api, agent, proposed, round_):
    for cpu in (200, 10, 50):
        await agent.pushed(containers=containers(2, cpu=cpu))
        await round_()

    assert (await shown(api, proposed))["pendingApproval"] == proposed["pendingApproval"]


@pytest.mark.parametrize("body", [{}, {"generation": 1}, {"generation": 1, "comment": "go"}])
async def test_an_approved_proposal_is_carried_out(api, admin, pool, proposed, body):
    after = await act(admin, proposed, "approve", **body)

    assert (after["desiredReplicas"], after["applyHealth"], after["generation"]) == (4, "pending", 1)
    assert after["pendingApproval"] is None
    (row,) = await decisions(api)
    assert (row["action"], row["fromReplicas"], row["toReplicas"]) == ("apply", 2, 4)
    assert "Approved by " in row["outcome"]
    assert row["outcome"].endswith(": go" if "comment" in body else "@example.com.")
    assert await commands(pool, api) == 1
    assert (await api.json("/api/v1/scaling/decisions/verify"))["recomputed"] == 1


@pytest.mark.parametrize("action", ["approve", "reject"])
async def test_only_the_proposal_that_waits_is_decided(api, proposed, action):
    await act(api, proposed, action, 409, generation=7)
    await act(api, proposed, action, generation=1)
    await act(api, proposed, action, 409, generation=1)
    await act(api, proposed, action, 409)


async def test_a_rejected_proposal_comes_again_after_the_cooldown(api, pool, agent, proposed, round_):
    await changed(api, proposed, cooldownScaleUpSeconds=3600)
    await round_()
    waiting = await shown(api, proposed)
    assert waiting["pendingApproval"]["generation"] == 2  # made by the new settings

    after = await act(api, proposed, "reject", comment="not tonight")
    await round_()

    assert after["pendingApproval"] is None
    assert after["lastReason"].endswith("not tonight")
    assert (await shown(api, proposed))["pendingApproval"] is None
    await changed(api, proposed, cooldownScaleUpSeconds=0)
    await round_()
    assert (await shown(api, proposed))["pendingApproval"]["generation"] == 3
    assert (await actions(api), await commands(pool, api)) == ([], 0)


async def test_a_proposal_of_fifteen_minutes_ago_is_made_anew(api, agent, pool, proposed, round_):
    await agent.pushed(containers=containers(2, cpu=150))
    await pool.execute(
        "UPDATE scaling_states SET pending = jsonb_set(pending::jsonb, '{expires_at}', to_jsonb(clock_timestamp()))"
        " WHERE org_id = $1",
        api.org_id,
    )

    await act(api, proposed, "approve", 409, generation=1)
    await round_()

    proposal = (await shown(api, proposed))["pendingApproval"]
    assert (proposal["generation"], proposal["toReplicas"]) == (2, 6)


@pytest.mark.parametrize("fields", [{"enabled": False}, {"dryRun": True}, {"cpuTargetPercent": 60}])
async def test_a_change_of_the_policy_drops_its_proposal(api, proposed, fields):
    assert (await changed(api, proposed, **fields))["pendingApproval"] is None


async def test_without_a_host_nothing_is_approved(api, agent, pool, proposed):
    await pool.execute(
        "UPDATE agent_state SET last_seen = last_seen - interval '91 s' WHERE agent_id = $1", agent.agent_id
    )

    answer = await act(api, proposed, "approve", 409)

    assert "no online agent" in answer["error"]


async def test_rollback_goes_back_step_by_step(api, cluster, round_):
    policy = await new_policy(api, kubernetes(**LIVE, maxReplicas=20))
    for count in (1, 2, 4):
        await cluster.pushed(pods=pods(count, cpu=100))
        await round_()
    assert await actions(api) == [("apply", 1, 2), ("apply", 2, 4), ("apply", 4, 8)]

    seen = [(await act(api, policy, "rollback"))["desiredReplicas"] for _ in range(3)]

    assert seen == [4, 2, 1]
    assert (await actions(api))[3:] == [("rollback", 8, 4), ("rollback", 4, 2), ("rollback", 2, 1)]
    assert await act(api, policy, "rollback", 400) == {"error": "nothing to roll back"}


async def test_a_change_after_a_rollback_is_rolled_back_first(api, cluster, round_):
    policy = await new_policy(api, kubernetes(**LIVE))
    for count in (1, 2):
        await cluster.pushed(pods=pods(count, cpu=100))
        await round_()
    await act(api, policy, "rollback")
    await cluster.pushed(pods=pods(2, cpu=150))
    await changed(api, policy, cooldownScaleUpSeconds=0)
    await round_()
    assert (await actions(api))[-1] == ("apply", 2, 6)

    seen = [(await act(api, policy, "rollback"))["desiredReplicas"] for _ in range(2)]

    assert seen == [2, 1]
    await act(api, policy, "rollback", 400)


async def test_a_rollback_starts_both_cooldowns(api, agent, round_):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker(**LIVE))
    await round_()
    await act(api, policy, "rollback")
    await changed(api, policy, cooldownScaleUpSeconds=3600, cooldownScaleDownSeconds=3600)
    for cpu in (200, 1):
        await agent.pushed(containers=containers(2, cpu=cpu))
        await round_()

    assert await actions(api) == [("apply", 2, 4), ("rollback", 4, 2)]


async def test_a_dry_run_has_nothing_to_roll_back(api, agent, round_):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker())
    await round_()

    assert await act(api, policy, "rollback", 400) == {"error": "nothing to roll back"}


async def test_what_another_target_had_is_not_rolled_back(api, cluster, round_):
    policy = await new_policy(api, kubernetes(**LIVE))
    await cluster.pushed(pods=pods(2, cpu=100))
    await round_()
    await changed(api, policy, targetRef="shop/StatefulSet/web")
    await act(api, policy, "rollback", 400)
    await cluster.pushed(pods=[pod | {"workload": "StatefulSet/web"} for pod in pods(2, cpu=100)])
    await round_()

    assert (await act(api, policy, "rollback"))["desiredReplicas"] == 2
    await act(api, policy, "rollback", 400)


IDLE = {"policyType": "scale_to_zero_on_idle", "idleMinutes": 1}


@pytest.fixture
async def asleep(api, cluster, round_, pool):
    """A live policy that has gone to zero."""
    await cluster.pushed(pods=pods(2, gpuPercent=0))
    policy = await new_policy(api, kubernetes(**LIVE, **IDLE, wakeMetric="queue_depth", minReplicas=2))
    await round_()
    await pool.execute(
        "UPDATE scaling_states SET memory = jsonb_set(memory::jsonb, '{idleSince}',"
        " to_jsonb((memory::jsonb->>'idleSince')::float8 - 61)) WHERE org_id = $1",
        api.org_id,
    )
    await round_()
    await cluster.pushed(pods=[])
    await round_()
    return await shown(api, policy)


async def test_an_idle_policy_goes_to_zero_and_is_woken_by_hand(api, asleep):
    assert await actions(api) == [("apply", 2, 0)]
    assert (asleep["currentReplicas"], asleep["desiredReplicas"]) == (0, 0)

    after = await act(api, asleep, "wake")

    assert (await actions(api))[1:] == [("apply", 0, 2)]
    assert after["desiredReplicas"] == 2
    assert await act(api, asleep, "wake") == after  # awake already


async def test_an_idle_policy_is_woken_by_its_metric(api, cluster, asleep, round_, pool):
    await cluster.pushed(samples=[{"metric": "queue_depth", "labels": {}, "value": 3}])

    async with asyncio.timeout(90):
        while len(await actions(api)) < 2:
            await pool.execute("DELETE FROM claims WHERE name = 'scaling.wake'")  # do not wait 15 s
            await asyncio.sleep(0.5)
            await round_()

    assert (await actions(api))[1] == ("apply", 0, 2)
    assert (await decisions(api))[1]["triggerMetric"] == "gpu"


async def test_an_idle_policy_is_woken_by_rollback(api, asleep):
    assert (await act(api, asleep, "rollback"))["desiredReplicas"] == 2


async def test_only_policies_that_sleep_are_woken(api):
    policy = await new_policy(api, docker())

    assert (await act(api, policy, "wake", 400))["field"] == "policyType"


@pytest.mark.parametrize("stored", [True, False])
async def test_a_policy_is_tried_on_history(api, agent, stored):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker())
    window = {"start": time.time() - 60, "end": time.time() + 30}
    path = f"{POLICIES}/{policy['id']}/simulate" if stored else "/api/v1/scaling/simulate"

    async with asyncio.timeout(60):
        while True:
            async with api.post(path, json=window if stored else docker() | window) as response:
                assert response.status == 200, await response.text()
                simulated = await response.json()
            if simulated["changes"]:
                break
            window["end"] = time.time() + 30
            await asyncio.sleep(0.5)

    points = [point for point in simulated["timeline"] if point["action"]]
    assert [(it["current"], it["desired"], it["action"], it["direction"]) for it in points] == [
        (2, 4, "dry_run", "up")
    ]
    assert simulated["secondsOverTarget"] > 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"start": None}, "start"), ({"end": "now"}, "end"), ({"start": 100, "end": 0}, "end")],
)
async def test_a_wrong_window_is_named(api, fields, field):
    policy = await new_policy(api, docker())
    body = {"start": 0, "end": 60} | fields
    for path, more in ((f"{POLICIES}/{policy['id']}/simulate", {}), ("/api/v1/scaling/simulate", docker())):
        async with api.post(path, json={**more, **body}) as response:
            assert response.status == 400
            assert (await response.json())["field"] == field
