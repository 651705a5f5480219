"""Policies: defaults, checks, plan gates, partial changes (api.md; contract 8)."""

from __future__ import annotations

import pytest

from tests.scaling.conftest import POLICIES, changed, containers, docker, kubernetes, new_policy, shown

MINIMAL = {"name": "web", "runtime": "docker", "targetRef": "default/web", "cpuTargetPercent": 60}
GPU_TYPES = ("scale_to_zero_on_idle", "rightsize", "spot_shift")


async def test_a_policy_has_the_documented_fields_and_defaults(api):
    policy = await new_policy(api, MINIMAL)

    assert policy["id"].startswith("scp_")
    assert policy["createdAt"].endswith("Z")
    assert (
        policy.items()
        >= {
            **MINIMAL,
            "strategy": "containers",
            "enabled": True,
            "dryRun": True,
            "minReplicas": 1,
            "maxReplicas": 10,
            "stepSize": 1,
            "cooldownScaleUpSeconds": 60,
            "cooldownScaleDownSeconds": 300,
            "memoryTargetPercent": None,
            "nodePressureTargetPercent": None,
            "maxReplicasPerHost": None,
            "approvalRequired": False,
            "currentReplicas": 0,
            "desiredReplicas": 0,
            "applyHealth": "unknown",
            "lbPoolRef": None,
            "policyType": None,
            "agentId": None,
            "pendingApproval": None,
        }.items()
    )
    assert await api.json(POLICIES) == [policy]


async def test_policies_are_listed_in_the_order_of_their_creation(api):
    names = [f"policy-{number}" for number in (3, 1, 2)]
    for name in names:
        await new_policy(api, docker(name=name))

    assert [policy["name"] for policy in await api.json(POLICIES)] == names


async def test_the_strategy_follows_the_runtime(api):
    policy = await new_policy(api, kubernetes(strategy="pods"))

    assert policy["strategy"] == "pods"


async def test_what_the_service_computes_and_what_is_unknown_is_ignored(api):
    extra = {"id": "scp_mine", "currentReplicas": 7, "applyHealth": "applied", "orgId": "x", "colour": "red"}

    policy = await new_policy(api, docker(**extra))

    assert policy["id"] != "scp_mine"
    assert (policy["currentReplicas"], policy["applyHealth"]) == (0, "unknown")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "  "}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"runtime": "nomad"}, "runtime"),
        ({"targetRef": "web"}, "targetRef"),
        ({"targetRef": "/web"}, "targetRef"),
        ({"targetRef": "default/"}, "targetRef"),
        ({"strategy": "pods"}, "strategy"),
        ({"cpuTargetPercent": None}, "cpuTargetPercent"),
        ({"cpuTargetPercent": 0}, "cpuTargetPercent"),
        ({"cpuTargetPercent": 1000.1}, "cpuTargetPercent"),
        ({"cpuTargetPercent": "60"}, "cpuTargetPercent"),
        ({"memoryTargetPercent": -1}, "memoryTargetPercent"),
        ({"nodePressureTargetPercent": 1001}, "nodePressureTargetPercent"),
        ({"minReplicas": -1}, "minReplicas"),
        ({"minReplicas": 11}, "minReplicas"),
        ({"minReplicas": 1.5}, "minReplicas"),
        ({"maxReplicas": 1001}, "maxReplicas"),
        ({"stepSize": 0}, "stepSize"),
        ({"cooldownScaleUpSeconds": -1}, "cooldownScaleUpSeconds"),
        ({"cooldownScaleDownSeconds": "5m"}, "cooldownScaleDownSeconds"),
        ({"maxReplicasPerHost": 0}, "maxReplicasPerHost"),
        ({"approvalRequired": "yes"}, "approvalRequired"),
        ({"dryRun": 1}, "dryRun"),
        ({"policyType": "guess"}, "policyType"),
        ({"policyType": "spot_shift"}, "policyType"),  # of docker
        ({"policyType": "scale_to_zero_on_idle", "wakeMetric": "rate(x[5m])"}, "wakeMetric"),
        ({"idleGpuPercent": 101}, "idleGpuPercent"),
        ({"maxSpotPercent": -1}, "maxSpotPercent"),
    ],
    ids=str,
)
async def test_a_wrong_field_of_a_new_policy_is_named(api, fields, field):
    async with api.post(POLICIES, json={**MINIMAL, **fields}) as response:
        assert response.status == 400
        answer = await response.json()

    assert answer["field"] == field
    assert answer["error"].startswith(field)
    assert await api.json(POLICIES) == []


@pytest.mark.parametrize(
    ("target_ref", "good"),
    [
        ("shop/web", True),
        ("shop/Deployment/web", True),
        ("shop/StatefulSet/db-1", True),
        ("web", False),
        ("shop/DaemonSet/web", False),
        ("Shop/web", False),
        ("shop/web/", False),
        ("shop/Deployment/web/x", False),
        ("shop/we b", False),
        ("shop/web\n", False),
    ],
)
async def test_a_kubernetes_target_is_a_namespace_and_a_workload(api, target_ref, good):
    async with api.post(POLICIES, json=kubernetes(targetRef=target_ref)) as response:
        assert response.status == (201 if good else 400)
        if not good:
            assert (await response.json())["field"] == "targetRef"


async def test_replicas_per_host_are_for_docker(api):
    async with api.post(POLICIES, json=kubernetes(maxReplicasPerHost=2)) as response:
        assert response.status == 400
        assert (await response.json())["field"] == "maxReplicasPerHost"


@pytest.mark.parametrize("policy_type", GPU_TYPES)
async def test_gpu_types_need_the_pro_plan_whatever_else_is_wrong(make_api, policy_type):
    free = await make_api("free")
    policy = await new_policy(free, kubernetes())
    for method, path, body in (
        ("POST", POLICIES, kubernetes(policyType=policy_type)),
        ("POST", POLICIES, {"policyType": policy_type}),
        ("POST", "/api/v1/scaling/simulate", {"policyType": policy_type}),
        ("PUT", f"{POLICIES}/{policy['id']}", {"policyType": policy_type}),
    ):
        async with free.request(method, path, json=body) as response:
            assert response.status == 403
            assert await response.json() == {"error": "GPU-aware policies are available on the Pro plan"}


@pytest.mark.parametrize("policy_type", GPU_TYPES)
async def test_gpu_types_are_there_on_the_pro_plan(api, policy_type):
    policy = await new_policy(api, kubernetes(policyType=policy_type))

    assert policy["policyType"] == policy_type


async def test_a_change_leaves_what_it_does_not_name(api):
    policy = await new_policy(api, docker(enabled=False, maxReplicasPerHost=3, lbPoolRef="pool-1"))

    after = await changed(api, policy, maxReplicas=7, lbPoolRef=None)

    assert after == {**policy, "maxReplicas": 7, "lbPoolRef": None}
    assert await shown(api, policy) == after


async def test_a_policy_that_was_read_can_be_sent_back(api):
    policy = await new_policy(api, docker(enabled=False))

    assert await changed(api, policy, **policy) == policy


async def test_null_unsets_what_may_be_absent_and_leaves_the_rest(api):
    policy = await new_policy(api, docker(enabled=False, memoryTargetPercent=70, agentId="agent_1"))
    nulls = dict.fromkeys(("name", "cpuTargetPercent", "agentId", "maxReplicas", "dryRun", "runtime"))

    after = await changed(api, policy, **nulls)

    assert after == {**policy, "cpuTargetPercent": None, "agentId": None}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"runtime": "kubernetes"}, "runtime"),
        ({"strategy": "pods"}, "strategy"),
        ({"cpuTargetPercent": None}, "cpuTargetPercent"),
        ({"minReplicas": 11}, "minReplicas"),
        ({"maxReplicas": 0}, "minReplicas"),
        ({"targetRef": "nowhere"}, "targetRef"),
        ({"stepSize": None, "cooldownScaleUpSeconds": -5}, "cooldownScaleUpSeconds"),
    ],
    ids=str,
)
async def test_a_wrong_change_is_named_and_changes_nothing(api, fields, field):
    policy = await new_policy(api, docker(enabled=False))

    async with api.put(f"{POLICIES}/{policy['id']}", json={"name": "other", **fields}) as response:
        assert response.status == 400
        assert (await response.json())["field"] == field

    assert await shown(api, policy) == policy


async def test_a_new_target_is_a_new_beginning(api, agent, round_):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker(dryRun=False))
    await round_()

    after = await changed(api, policy, targetRef="default/db")

    assert (after["currentReplicas"], after["desiredReplicas"], after["generation"]) == (0, 0, 0)
    assert (after["applyHealth"], after["lastEvaluatedAt"]) == ("unknown", None)


async def test_a_deleted_policy_is_gone_and_its_decisions_stay(api, agent, round_):
    await agent.pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, docker())
    await round_()

    async with api.delete(f"{POLICIES}/{policy['id']}") as response:
        assert response.status == 204
    for method in ("GET", "PUT", "DELETE"):
        async with api.request(method, f"{POLICIES}/{policy['id']}", json={}) as response:
            assert response.status == 404

    rows = await api.json("/api/v1/scaling/decisions", params={"policyId": policy["id"]})
    assert [row["policyId"] for row in rows] == [policy["id"]]


async def test_the_ceiling_of_policies_is_a_429_that_names_it(api, app, monkeypatch):
    limits = app.app_config.limits
    monkeypatch.setattr(
        type(limits), "for_org", lambda self, org_id: type(limits.default)(policies=2), raising=True
    )
    for _ in range(2):
        await new_policy(api, docker())

    async with api.post(POLICIES, json=docker()) as response:
        assert response.status == 429
        assert (await response.json())["error"] == "limit reached: 2 policies"


async def test_a_shard_holds_at_most_two_hundred_policies(api, pool, monkeypatch):
    monkeypatch.setattr("monitor.scaling.store.SHARD_POLICIES", 2)
    policies = [await new_policy(api, docker(enabled=False)) for _ in range(5)]
    async with api.delete(f"{POLICIES}/{policies[0]['id']}") as response:
        assert response.status == 204
    await new_policy(api, docker(enabled=False))

    rows = await pool.fetch(
        "SELECT shard, count(*) FROM scaling_policies WHERE org_id = $1 GROUP BY shard ORDER BY shard",
        api.org_id,
    )

    assert [tuple(row) for row in rows] == [(0, 2), (1, 2), (2, 1)]
