"""The loop: what it reads and decides, what it writes, and that it does each once."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from monitor.scaling.reconcile import reconcile
from monitor.scaling.step import step
from tests.scaling.conftest import (
    LIVE,
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


async def test_a_dry_run_logs_each_new_action_once_and_orders_nothing(api, agent, round_, pool):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker())

    for _ in range(3):
        await round_()

    (row,) = await decisions(api)
    assert (row["action"], row["dryRun"], row["direction"]) == ("dry_run", True, "up")
    assert (row["triggerMetric"], row["triggerValue"], row["threshold"]) == ("cpu", 100, 50)
    assert (row["fromReplicas"], row["toReplicas"]) == (2, 4)
    assert '"docker.scale"' in row["renderedManifest"]
    assert await pool.fetchval("SELECT count(*) FROM commands WHERE org_id = $1", api.org_id) == 0
    now = await shown(api, policy)
    assert (now["currentReplicas"], now["desiredReplicas"], now["applyHealth"]) == (2, 4, "unknown")
    assert now["lastEvaluatedAt"].endswith("Z")


async def test_a_dry_run_logs_another_action_when_usage_asks_for_another(api, agent, round_):
    await new_policy(api, docker())

    for cpu in (100, 150, 50):
        await agent.pushed(containers=containers(2, cpu=cpu))
        await round_()

    assert await actions(api) == [("dry_run", 2, 4), ("dry_run", 2, 6)]


async def test_a_paused_policy_is_not_evaluated(api, agent, round_):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker(enabled=False))
    await new_policy(api, docker(targetRef="default/other"))

    await round_()

    assert (await shown(api, policy))["lastEvaluatedAt"] is None
    assert await decisions(api) == []


async def test_what_no_online_agent_reports_is_left_alone_and_told(api, agent, round_, pool):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker())
    await pool.execute(
        "UPDATE agent_state SET last_seen = last_seen - interval '91 s' WHERE agent_id = $1", agent.agent_id
    )

    await round_()

    assert await decisions(api) == []
    assert "No online agent reports" in (await shown(api, policy))["lastReason"]


async def test_missing_metrics_never_scale_down(api, agent, round_):
    no_stats = {"memoryUsageMB": 0, "memoryPercent": 0}
    await agent.pushed(containers=containers(4, cpu=0, **no_stats))
    await new_policy(api, docker())

    await round_()

    assert await actions(api) == []


async def test_a_live_policy_goes_back_to_what_usage_asks_for(api, agent, round_):
    await agent.pushed(containers=containers(4, cpu=10))
    await new_policy(api, docker(**LIVE))

    await round_()

    assert await actions(api) == [("apply", 4, 1)]


async def test_the_cooldown_holds_back_the_second_change(api, agent, round_):
    policy = await new_policy(api, docker(**LIVE, cooldownScaleUpSeconds=3600))
    await agent.pushed(containers=containers(2, cpu=100))
    await round_()
    await agent.pushed(containers=containers(4, cpu=100))
    await round_()

    assert await actions(api) == [("apply", 2, 4)]
    assert "cooldown" in (await shown(api, policy))["lastReason"].lower()


async def test_going_live_starts_without_the_cooldowns_of_the_dry_run(api, agent, round_):
    policy = await new_policy(api, docker(cooldownScaleUpSeconds=3600))
    await agent.pushed(containers=containers(2, cpu=100))
    await round_()
    await changed(api, policy, dryRun=False)
    await round_()

    assert await actions(api) == [("dry_run", 2, 4), ("apply", 2, 4)]


async def test_a_pod_that_has_ended_is_no_replica(api, cluster, round_):
    ended = [pod | {"name": f"old-{pod['name']}", "phase": "Failed"} for pod in pods(3)]
    await cluster.pushed(pods=[*pods(2), *ended])
    policy = await new_policy(api, kubernetes())

    await round_()

    assert (await shown(api, policy))["currentReplicas"] == 2


async def test_a_workload_that_two_agents_report_needs_an_agent_id(api, cluster, make_agent, round_):
    second = await make_agent(api, "second", type="kubernetes")
    for one in (cluster, second):
        await one.pushed(pods=pods(2, cpu=100))
    policy = await new_policy(api, kubernetes())
    await round_()
    assert await decisions(api) == []
    assert "2 agents report" in (await shown(api, policy))["lastReason"]

    await changed(api, policy, agentId=second.agent_id)
    await round_()

    assert await actions(api) == [("dry_run", 2, 4)]


async def test_busy_nodes_are_a_target_of_their_own(api, cluster, round_):
    node = {"name": "node-1", "allocatable": {"cpu": "4", "memory": "8Gi"}, "usage": {"cpuCores": 3.6}}
    await cluster.pushed(pods=pods(2, cpu=50), nodes=[node])
    await new_policy(api, kubernetes(nodePressureTargetPercent=60))

    await round_()

    (row,) = await decisions(api)
    assert (row["triggerMetric"], row["triggerValue"], row["toReplicas"]) == ("node_pressure", 90, 3)


async def test_a_policy_that_cannot_be_evaluated_keeps_no_other_from_it(api, agent, round_, monkeypatch):
    await agent.pushed(containers=containers(2, cpu=100))
    bad, good = [await new_policy(api, docker(name=name)) for name in ("bad", "good")]

    def failing(policy, *args, **options):
        if policy.name == "bad":
            raise RuntimeError("a bug")
        return step(policy, *args, **options)

    monkeypatch.setattr("monitor.scaling.reconcile.step", failing)
    with capture_logs() as told:
        await round_()

    assert [row["policyId"] for row in await decisions(api)] == [good["id"]]
    assert "fault of the service" in (await shown(api, bad))["lastReason"]
    assert bad["id"] in [it.get("policy_id") for it in told if it["log_level"] == "error"]


async def test_a_suspended_organization_is_not_evaluated(api, agent, round_, pool, app):

    await agent.pushed(containers=containers(2, cpu=100))
    await pool.execute("UPDATE organizations SET suspended = true WHERE id = $1", api.org_id)
    await pool.execute("UPDATE organizations SET suspended = false WHERE id = $1", api.org_id)
    policy = await new_policy(api, docker())
    await round_()
    await pool.execute("UPDATE organizations SET suspended = true WHERE id = $1", api.org_id)
    mark = "SELECT evaluated_at FROM scaling_states WHERE policy_id = $1"
    before = await pool.fetchval(mark, policy["id"])
    await pool.execute(
        "UPDATE scaling_shards SET due_at = due_at - interval '1 min' WHERE org_id = $1", api.org_id
    )

    await reconcile(app.app)

    assert await pool.fetchval(mark, policy["id"]) == before


async def test_policies_show_as_samples(api, agent, round_):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker())
    await round_()

    async with asyncio.timeout(60):
        while True:
            found = await api.json(
                "/api/v1/metrics/instant", params={"metric": "scaling_policy_desired_replicas"}
            )
            if found["count"]:
                break
            await asyncio.sleep(0.3)

    (series,) = found["series"]
    assert series["value"] == 4
    assert series["metric"] == {
        "__name__": "scaling_policy_desired_replicas",
        "policy_id": policy["id"],
        "policy": "web",
        "target_ref": "default/web",
        "runtime": "docker",
    }


async def test_a_gpu_policy_rests_while_the_plan_has_none(api, agent, round_, pool):
    await agent.pushed(containers=containers(2, cpu=100, gpuPercent=0))
    policy = await new_policy(api, docker(policyType="scale_to_zero_on_idle"))
    await pool.execute("UPDATE organizations SET plan = 'free' WHERE id = $1", api.org_id)

    await round_()

    assert "Pro plan" in (await shown(api, policy))["lastReason"]
    await act(api, policy, "wake", 403)
