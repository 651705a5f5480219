"""A push: what it stores, what it shows, what it refuses."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import pytest
import zstandard

CONTAINER = {
    "id": "c1" * 32,
    "shortId": "c1c1c1c1c1c1",
    "name": "web-1",
    "image": "nginx:1.25",
    "status": "Up 3 hours",
    "state": "running",
    "source": "docker",
    "cpuPercent": 12.5,
    "memoryUsageMB": 100.25,
    "memoryLimitMB": 512,
    "memoryPercent": 19.58,
    "netRxBytes": 1000,
    "netTxBytes": 2000,
    "blkReadBytes": 3000,
    "blkWriteBytes": 4000,
    "ports": [{"PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}],
}


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {**CONTAINER, "id": name.encode().hex().ljust(64, "0"), "name": name, **fields}


async def test_a_pushed_container_is_listed_with_every_documented_field(api, agent):
    await agent.pushed(containers=[CONTAINER], version="1.1")

    [listed] = await api.json("/api/v1/containers")

    assert {key: listed[key] for key in CONTAINER} == CONTAINER
    assert listed["agentId"] == agent.agent_id
    assert listed["created"] == ""


async def test_an_element_without_numbers_is_listed_with_zeros_and_empty_strings(api, agent):
    await agent.pushed(containers=[{"id": "abcdef0123456789", "name": "bare"}])

    [listed] = await api.json("/api/v1/containers")

    assert listed["shortId"] == "abcdef012345"
    assert listed["source"] == "docker"
    assert [listed[key] for key in ("image", "status", "state", "created")] == ["", "", "", ""]
    numbers = [value for value in listed.values() if isinstance(value, int | float)]
    assert len(numbers) == 8
    assert set(numbers) == {0}
    assert listed["ports"] == []


async def test_pods_and_nodes_are_listed_as_sent(api, agent):
    pod = {
        "name": "web-5d9f8c7b6d-x2x4z",
        "namespace": "shop",
        "phase": "Running",
        "nodeName": "n1",
        "podIP": "10.0.0.7",
        "labels": {"app": "web"},
        "containers": [{"name": "web", "image": "w:1", "ready": True, "restarts": 2, "state": "running"}],
        "startTime": "2026-01-02T03:04:05Z",
        "restarts": 2,
        "ready": True,
        "cpuCores": 0.25,
        "memoryBytes": 123456789,
    }
    node = {
        "name": "n1",
        "status": "Ready",
        "roles": ["control-plane"],
        "kubeletVersion": "v1.31.0",
        "osImage": "Debian",
        "architecture": "amd64",
        "capacity": {"cpu": "8", "memory": "16384Ki", "pods": "110", "ephemeralStorage": "100Gi"},
        "allocatable": {"cpu": "7500m", "memory": "16000Ki", "pods": "110", "ephemeralStorage": "90Gi"},
        "usage": {"cpuCores": 1.5, "memoryGiB": 2.25, "pods": 110, "podsUsed": 12},
        "labels": {"zone": "a"},
    }
    await agent.pushed(pods=[pod], nodes=[node])

    [listed_pod] = await api.json("/api/v1/pods")
    [listed_node] = await api.json("/api/v1/nodes")
    summary = await api.json("/api/v1/cluster/summary")

    assert {key: listed_pod[key] for key in pod} == pod
    assert listed_pod["workload"] == "Deployment/web"
    assert "cpuPercent" not in listed_pod
    assert {key: listed_node[key] for key in node} == node
    assert summary == {
        "totalNodes": 1,
        "readyNodes": 1,
        "totalPods": 1,
        "runningPods": 1,
        "pendingPods": 0,
        "failedPods": 0,
        "namespaces": 1,
    }


async def test_an_absent_kind_stays_and_an_empty_one_goes(api, agent):
    await agent.pushed(containers=[CONTAINER], pods=[{"name": "p", "namespace": "n"}])

    await agent.pushed(pods=[])

    assert [c["name"] for c in await api.json("/api/v1/containers")] == ["web-1"]
    assert await api.json("/api/v1/pods") == []


async def test_lists_are_the_union_of_all_agents_in_the_order_of_names(api, make_agent):
    one, two = await make_agent(api, "one"), await make_agent(api, "two")
    await one.pushed(containers=[container("b"), container("d")])
    await two.pushed(containers=[container("c"), container("a")])
    before = await api.json("/api/v1/containers")

    await one.pushed(containers=[container("b", cpuPercent=99), container("d")])
    changed = await api.json("/api/v1/containers")
    await two.pushed(containers=[container("e")])
    after = await api.json("/api/v1/containers")

    assert [c["name"] for c in before] == ["a", "b", "c", "d"]
    assert [c["cpuPercent"] for c in changed] == [12.5, 99, 12.5, 12.5]
    assert [c["name"] for c in after] == ["b", "d", "e"]


async def test_an_agent_shows_its_counts_version_and_status(api, agent):
    [before] = await api.json("/api/v1/agents")
    await agent.pushed(
        containers=[container("a"), container("b")],
        pods=[{"name": "p", "namespace": "n"}],
        nodes=[{"name": "n"}],
        version="2.0",
    )
    [after] = await api.json("/api/v1/agents")

    assert before["status"] == "offline"
    assert before["lastSeen"] is None
    assert before["version"] == "1.0"
    assert after["status"] == "online"
    assert after["lastSeen"].endswith("Z")
    assert (after["containerCount"], after["podCount"], after["nodeCount"]) == (2, 1, 1)
    assert after["version"] == "2.0"


def rfc3339(offset_seconds: float) -> str:
    moment = time.time() + offset_seconds
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"


async def test_a_late_push_leaves_the_newer_snapshot(api, agent):
    await agent.pushed(containers=[container("new")], collectedAt=rfc3339(-5))

    await agent.pushed(containers=[container("old")], collectedAt=rfc3339(-60))

    assert [c["name"] for c in await api.json("/api/v1/containers")] == ["new"]


async def test_a_push_with_the_same_seq_and_time_is_stored_once(api, agent):
    push = {"seq": 7, "collectedAt": rfc3339(-5)}
    await agent.pushed(containers=[container("first")], **push)

    await agent.pushed(containers=[container("second")], **push)
    same_time = [c["name"] for c in await api.json("/api/v1/containers")]
    await agent.pushed(containers=[container("third")], seq=8, collectedAt=push["collectedAt"])

    assert same_time == ["first"]
    assert [c["name"] for c in await api.json("/api/v1/containers")] == ["third"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_a_compressed_push_is_stored(api, agent, encoding):
    body = json.dumps({"containers": [CONTAINER]}).encode()
    packed = gzip.compress(body) if encoding == "gzip" else zstandard.compress(body)

    response = await agent.api.post(
        f"{agent.path}/push",
        data=packed,
        headers={"Content-Encoding": encoding, "Content-Type": "application/json"},
    )

    assert response.status == 200
    assert await response.json() == {"ok": True, "logRequests": []}
    assert len(await api.json("/api/v1/containers")) == 1


REFUSED = [
    ({"containers": {}}, "containers: expected array"),
    ({"containers": [{"id": "a", "name": 5}]}, "containers[0].name: expected string"),
    ({"containers": [{"id": "a"}]}, "containers[0].name: required"),
    ({"containers": [{"id": "a", "name": ""}]}, "containers[0].name: expected string that is not empty"),
    (
        {"containers": [{"id": "a", "name": "b", "cpuPercent": "9"}]},
        "containers[0].cpuPercent: expected number",
    ),
    ({"containers": [container("a"), container("a")]}, "containers[1]"),
    ({"pods": [{"name": "a"}]}, "pods[0].namespace: required"),
    ({"pods": [{"name": "a", "namespace": "n"}] * 2}, "pods[1]"),
    ({"nodes": [{"name": "a"}] * 2}, "nodes[1]"),
    ({"nodes": [{"name": "a", "capacity": {"cpu": "lots"}}]}, "nodes[0].capacity.cpu"),
    ({"containers": [{"id": "a", "name": "b" * 1025}]}, "containers[0].name"),
    ({"containers": [{"id": "a", "name": "b\0"}]}, "containers[0].name"),
    ({"samples": [{"metric": "1up", "value": 1}]}, "samples[0].metric"),
    ({"samples": [{"metric": "up", "value": "1"}]}, "samples[0].value: expected number"),
    ({"samples": [{"metric": "up", "value": 1, "labels": {"a-b": "c"}}]}, "samples[0].labels"),
    ({"collectedAt": "yesterday"}, "collectedAt"),
    ({"collectedAt": "2001-01-01T00:00:00Z"}, "collectedAt"),
    ({"collectedAt": rfc3339(86_400)}, "collectedAt"),
    ({"seq": "1"}, "seq: expected integer"),
]


@pytest.mark.parametrize(("body", "text"), REFUSED)
async def test_an_invalid_push_is_refused_whole_and_names_the_field(api, agent, body, text):
    await agent.pushed(containers=[container("before")])

    response = await agent.push(**{"containers": [container("after")], **body})

    assert response.status == 400
    assert (await response.json())["error"].startswith(text)
    assert [c["name"] for c in await api.json("/api/v1/containers")] == ["before"]


async def test_concurrent_pushes_of_one_agent_are_all_stored(api, agent):
    bodies = [[container(f"c{n}")] for n in range(40)]

    replies = await asyncio.gather(*(agent.push(containers=body) for body in bodies))

    assert {reply.status for reply in replies} == {200}
    assert len(await api.json("/api/v1/containers")) == 1


async def test_a_culprit_fails_alone(api, make_agent, monkeypatch):
    from monitor.ingest import batch

    agents = [await make_agent(api, f"host-{n}") for n in range(8)]
    culprit = agents[3].agent_id
    real = batch.samples_of

    def samples_of(push, agent, *rest):
        if agent.agent_id == culprit:
            raise ZeroDivisionError
        return real(push, agent, *rest)

    monkeypatch.setattr(batch, "samples_of", samples_of)
    replies = await asyncio.gather(*(agent.push(containers=[container("a")]) for agent in agents))

    assert [reply.status for reply in replies] == [500 if n == 3 else 200 for n in range(8)]
    assert len(await api.json("/api/v1/containers")) == 7


async def test_a_push_of_more_series_than_allowed_names_the_limit(api, agent, app, monkeypatch):
    from monitor.config import OrgLimits

    limits = OrgLimits(agents=1, series_per_push=20, rules=1, policies=1)
    monkeypatch.setattr(type(app.app_config.limits), "for_org", lambda self, org_id: limits)

    refused = await agent.push(containers=[container("a"), container("b")])

    assert refused.status == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert "series_per_push" in (await refused.json())["error"]


async def test_an_organization_has_no_more_agents_than_allowed(api, app, make_agent, monkeypatch):
    from monitor.config import OrgLimits

    limits = OrgLimits(agents=2, series_per_push=20, rules=1, policies=1)
    monkeypatch.setattr(type(app.app_config.limits), "for_org", lambda self, org_id: limits)
    body = {"name": "host", "type": "docker", "version": "1"}

    async def register() -> int:
        async with api.post("/api/v1/agents/register", json=body) as response:
            return response.status

    statuses = await asyncio.gather(*(register() for _ in range(6)))

    assert sorted(statuses) == [200, 200, 429, 429, 429, 429]
