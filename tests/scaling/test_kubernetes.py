"""Kubernetes: the manifests that an agent fetches, and what its reports change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Agent
from tests.scaling.conftest import (
    LIVE,
    act,
    actions,
    changed,
    decisions,
    kubernetes,
    new_policy,
    pods,
    shown,
)


async def desired(agent: Agent, etag: str | None = None) -> tuple[int, Any, str]:
    """Return status, manifests and ETag of what *agent* should apply."""
    headers = {} if etag is None else {"If-None-Match": etag}
    async with agent.api.get(f"{agent.path}/scaling/desired", headers=headers) as response:
        text = await response.text()
        return response.status, json.loads(text)["manifests"] if text else None, response.headers["ETag"]


async def report(agent: Agent, answer: int = 204, **fields: Any) -> None:
    async with agent.api.post(f"{agent.path}/scaling/status", json={"statuses": [fields]}) as response:
        assert response.status == answer, await response.text()


@pytest.fixture
async def policy(api, cluster, round_):
    """A live policy that has just asked for four pods instead of two."""
    await cluster.pushed(pods=pods(2, cpu=100))
    made = await new_policy(api, kubernetes(**LIVE))
    await round_()
    return await shown(api, made)


async def test_a_live_change_is_a_manifest_for_server_side_apply(api, cluster, policy):
    status, (entry,), _ = await desired(cluster)

    assert status == 200
    manifest = json.loads(entry.pop("manifest"))
    assert entry == {"policyId": policy["id"], "targetRef": "shop/web", "generation": 1}
    assert manifest == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 4},
    }
    (row,) = await decisions(api)
    assert json.loads(row["renderedManifest"]) == manifest
    assert (policy["applyHealth"], policy["desiredReplicas"], policy["generation"]) == ("pending", 4, 1)


async def test_what_an_agent_has_is_a_304(api, cluster, policy, round_):
    _, _, etag = await desired(cluster)

    assert (await desired(cluster, etag))[:2] == (304, None)
    assert (await desired(cluster, '"other", ' + etag))[0] == 304
    await cluster.pushed(pods=pods(4, cpu=100))
    await round_()
    status, (entry,), changed_etag = await desired(cluster, etag)
    assert (status, entry["generation"]) == (200, 2)
    assert changed_etag != etag


async def test_only_the_agent_that_reports_the_workload_gets_its_manifest(api, cluster, make_agent, policy):
    bystander = await make_agent(api, "bystander", type="kubernetes")

    assert (await desired(bystander))[1] == []
    await report(bystander, policyId=policy["id"], generation=1, status="applied")
    assert (await shown(api, policy))["applyHealth"] == "pending"


async def test_a_dry_run_and_a_paused_policy_have_no_manifest(api, cluster, policy):
    await report(cluster, policyId=policy["id"], generation=1, status="applied")
    await changed(api, policy, enabled=False)
    assert (await desired(cluster))[1] == []

    await changed(api, policy, enabled=True, dryRun=True)
    assert (await desired(cluster))[1] == []


async def test_a_report_is_mirrored_to_the_policy(api, cluster, policy):
    fields = {"policyId": policy["id"], "generation": 1, "observedReplicas": 4}

    await report(cluster, **fields, status="applied", message="done")

    now = await shown(api, policy)
    assert (now["applyHealth"], now["applyMessage"], now["currentReplicas"]) == ("applied", "done", 4)


@pytest.mark.parametrize("generation", [0, 2, -1])
async def test_a_report_on_another_generation_is_ignored(api, cluster, policy, generation):
    await report(cluster, policyId=policy["id"], generation=generation, status="failed", message="old")

    assert (await shown(api, policy))["applyHealth"] == "pending"
    assert await actions(api) == [("apply", 2, 4)]


async def test_a_failure_is_logged_once(api, cluster, policy):
    for message in ("conflict with kubectl", "still"):
        await report(cluster, policyId=policy["id"], generation=1, status="failed", message=message)

    now = await shown(api, policy)
    assert (now["applyHealth"], now["applyMessage"]) == ("failed", "still")
    assert await actions(api) == [("apply", 2, 4), ("apply_failed", 2, 4)]
    assert (await decisions(api))[1]["outcome"] == "Failed: conflict with kubectl"


async def test_what_nobody_knows_in_a_report_is_ignored(cluster):
    for policy_id in ("scp_unknown", "\0", ""):
        await report(cluster, policyId=policy_id, generation=1, status="applied")


@pytest.mark.parametrize(
    "fields",
    [
        {"generation": 1, "status": "applied"},
        {"policyId": "x", "generation": "1", "status": "applied"},
        {"policyId": "x", "generation": 1, "status": "done"},
        {"policyId": "x", "generation": 1, "status": "applied", "observedReplicas": "4"},
    ],
    ids=str,
)
async def test_a_wrong_report_is_refused(cluster, fields):
    await report(cluster, 400, **fields)


async def test_a_rollback_is_a_manifest_of_a_new_generation(api, cluster, policy):
    after = await act(api, policy, "rollback")

    _, (entry,), _ = await desired(cluster)
    assert json.loads(entry["manifest"])["spec"] == {"replicas": 2}
    assert entry["generation"] == after["generation"] == 2


async def test_a_change_under_way_is_not_decided_again(api, cluster, policy, round_):
    for _ in range(3):
        await round_()

    assert await actions(api) == [("apply", 2, 4)]
    assert (await shown(api, policy))["desiredReplicas"] == 4


async def test_a_deleted_agent_loses_the_workload(api, cluster, policy, round_):
    async with api.delete(cluster.path) as response:
        assert response.status == 204

    await round_()

    assert "No online agent" in (await shown(api, policy))["lastReason"]


async def test_a_recommendation_is_never_applied(api, cluster, round_):
    label = {"name": "node-1", "labels": {"spot": "true"}}
    await cluster.pushed(pods=pods(2, cpu=50, nodeName="node-2"), nodes=[label, {"name": "node-2"}])
    fields = {"policyType": "spot_shift", "spotNodeLabel": "spot=true", "maxSpotPercent": 50}
    policy = await new_policy(api, kubernetes(**LIVE, **fields))

    await round_()

    (row,) = await decisions(api)
    assert (row["action"], row["dryRun"]) == ("dry_run", True)
    assert "nodeAffinity" in row["renderedManifest"]
    assert (await desired(cluster))[1] == []
    assert (await shown(api, policy))["desiredReplicas"] == 2
