"""A deleted agent: dead at once, unreadable at once, and gone from VictoriaMetrics for good."""

from __future__ import annotations

import asyncio
import time

import pytest

from monitor.lifecycle import deletion, offline, store
from tests.stack import own_stack

pytestmark = pytest.mark.xdist_group("own-stack")


@pytest.fixture
async def stack(servers, tmp_path):
    tmp_path.chmod(0o755)
    async with own_stack(servers, tmp_path) as running:
        yield running


async def seen_agents(api) -> set[str]:
    """Return the agents of which the organization sees something, whichever way it asks."""
    instant = await api.json("/api/v1/metrics/instant", params={"metric": '{__name__!=""}'})
    ranged = await api.json("/api/v1/metrics/range", params={"metric": "agent_up"})
    series = await api.json("/prometheus/api/v1/series", params={"match[]": '{__name__!=""}'})
    values = await api.json("/prometheus/api/v1/label/agent_id/values")
    labels = [row["metric"] for row in instant["series"] + ranged["series"]] + series["data"]
    return {found["agent_id"] for found in labels} | set(values["data"])


async def receipt(api, agent_id):
    [row] = [row for row in await api.json("/api/v1/settings/deletions") if row["agentId"] == agent_id]
    return row


async def until_verified(api, agent_id, passes=1, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        row = await receipt(api, agent_id)
        if row["passes"] >= passes:
            return row
        await asyncio.sleep(0.1)
    raise AssertionError(row)


async def test_deletion_while_four_connections_push_leaves_nothing(stack, monkeypatch):
    monkeypatch.setattr(store, "PASS_SECONDS", (1.0, 2.0))
    api = await stack.api()
    agent, kept = await stack.agent(api, "deleted"), await stack.agent(api, "kept")
    await kept.pushed(samples=[{"metric": "whole", "value": 1}])
    await stack.until_samples("whole", 1)
    statuses: list[int] = []
    deleted = asyncio.Event()

    async def push() -> None:
        for _ in range(400):
            reply = await agent.push(samples=[{"metric": "gone", "value": 1}])
            statuses.append(reply.status)
            if deleted.is_set() and reply.status == 401:
                return
            await asyncio.sleep(0.005)

    async def delete() -> int:
        await asyncio.sleep(0.5)
        async with api.delete(agent.path) as response:
            deleted.set()
            return response.status

    status, *_ = await asyncio.gather(delete(), *(push() for _ in range(4)))
    at_once = await seen_agents(api)
    row = await until_verified(api, agent.agent_id, passes=3)
    mine = await stack.samples(f'{{agent_id="{agent.agent_id}"}}')
    whole = await stack.until_samples("whole", 1)

    assert status == 204
    assert 200 in statuses
    assert statuses[-4:] == [401] * 4
    assert (await agent.push()).status == 401
    assert at_once == await seen_agents(api) == {kept.agent_id}
    assert mine == []
    assert len(whole) == 1
    assert row["seriesFound"] > 0
    assert row["verifiedAt"].endswith("Z")
    assert [listed["name"] for listed in await api.json("/api/v1/agents")] == ["kept"]


async def test_a_restarted_victoriametrics_is_looked_at_again(stack, monkeypatch):
    monkeypatch.setattr(store, "PASS_SECONDS", (0.2, 0.2))
    api = await stack.api()
    agent = await stack.agent(api)
    await agent.pushed(samples=[{"metric": "gone", "value": 1}])
    await stack.until_samples("gone", 1)
    await api.delete(agent.path)
    before = await until_verified(api, agent.agent_id, passes=3)
    await asyncio.sleep(1.1)

    await stack.kill_victoriametrics()
    unreadable = [row["agentId"] for row in await api.json("/api/v1/settings/deletions")]
    await stack.victoriametrics.start()
    after = await until_verified(api, agent.agent_id, passes=before["passes"] + 1)

    assert unreadable == [agent.agent_id]
    assert await seen_agents(api) == set()
    assert await stack.samples(f'{{agent_id="{agent.agent_id}"}}') == []
    assert after["verifiedAt"] > before["verifiedAt"]


async def test_an_agent_is_deleted_while_victoriametrics_is_away(stack):
    api = await stack.api()
    agent = await stack.agent(api)
    await agent.pushed(samples=[{"metric": "gone", "value": 1}])
    await stack.until_samples("gone", 1)
    await stack.victoriametrics.stop()

    async with api.delete(agent.path) as response:
        status = response.status
    row = await receipt(api, agent.agent_id)
    await stack.victoriametrics.start()
    await until_verified(api, agent.agent_id)

    assert status == 204
    assert row["verifiedAt"] is None
    assert row["seriesFound"] is None
    assert await stack.samples(f'{{agent_id="{agent.agent_id}"}}') == []


async def test_an_agent_of_another_organization_is_not_found(api, other, make_agent):
    theirs = await make_agent(other)

    async with api.delete(theirs.path) as response:
        assert response.status == 404
        assert await response.json() == {"error": "not_found"}
    assert (await theirs.push()).status == 200


async def test_a_deleted_agents_containers_leave_the_lists_at_once(api, agent, make_agent):
    stays = await make_agent(api, "stays")
    await stays.pushed(containers=[{"id": "1", "name": "stays"}])
    await agent.pushed(containers=[{"id": "2", "name": "goes"}])
    await api.json("/api/v1/containers")

    await api.delete(agent.path)

    assert [c["name"] for c in await api.json("/api/v1/containers")] == ["stays"]


async def test_an_offline_agent_is_down_every_15_seconds_by_one_process(stack, pool):
    api = await stack.api()
    agent = await stack.agent(api)
    await agent.pushed()
    fresh = await stack.agent(api, "never pushed")
    await stack.conn.execute(
        "UPDATE agent_state SET last_seen = clock_timestamp() - interval '91 s' WHERE agent_id = $1",
        agent.agent_id,
    )
    await stack.conn.execute("DELETE FROM claims")

    await asyncio.gather(*(offline.mark_offline(stack.service.app) for _ in range(4)))
    found = await stack.until_samples(f'agent_up{{agent_id="{agent.agent_id}"}}', 2)
    [listed] = [a for a in await api.json("/api/v1/agents") if a["id"] == agent.agent_id]

    assert sorted(value for _, _, value in found) == [0, 1]
    assert listed["status"] == "offline"
    assert await stack.samples(f'agent_up{{agent_id="{fresh.agent_id}"}}') == []


def test_the_last_pass_comes_after_what_a_kill_can_bring_back():
    assert store.PASS_SECONDS[-1] > 13  # seconds that VictoriaMetrics may lose
    assert deletion.LEASE_SECONDS > deletion.PASS_WAIT_SECONDS
