"""Docker to the end: one command a host, spread over the pool; health from results, failures in the log."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.auth.tokens import new_id
from monitor.scaling.apply import Order
from monitor.scaling.live.store import insert_commands
from monitor.scaling.spread import spread
from tests.conftest import Agent
from tests.scaling.conftest import (
    LIVE,
    act,
    actions,
    changed,
    containers,
    decisions,
    docker,
    new_policy,
    shown,
)


async def taken(agent: Agent) -> list[Any]:
    """Take every command that waits for *agent*."""
    found = []
    while True:
        async with agent.api.get(f"{agent.path}/commands", params={"wait": "0"}) as response:
            if response.status == 204:
                return found
            found.append(json.loads(await response.text()))


async def report(agent: Agent, command: Any, status: str, message: str | None = None) -> None:
    path = f"{agent.path}/commands/{command['command_id']}/result"
    async with agent.api.post(path, json={"status": status, "message": message}) as response:
        assert response.status == 204


@pytest.fixture
async def hosts(api, make_agent) -> list[Agent]:
    """Two hosts of the pool ``web``."""
    return [await make_agent(api, name, pool="web") for name in ("host-1", "host-2")]


def of_pool(**fields: Any) -> dict[str, Any]:
    return docker(targetRef="web/web", **LIVE, **fields)


async def test_a_live_policy_orders_one_command_a_host(api, hosts, round_):
    for host, count in zip(hosts, (2, 1), strict=True):
        await host.pushed(containers=containers(count, cpu=100))
    policy = await new_policy(api, of_pool(lbPoolRef="lb-1"))
    await round_()

    orders = [await taken(host) for host in hosts]

    assert await actions(api) == [("apply", 3, 6)]
    assert [[(it["type"], it["payload"]) for it in of_one] for of_one in orders] == [
        [("docker.scale", {"group": "web", "replicas": 3, "lbPoolRef": "lb-1"})]
    ] * 2
    now = await shown(api, policy)
    assert (now["desiredReplicas"], now["applyHealth"], now["generation"]) == (6, "pending", 1)


async def test_an_agent_that_waits_gets_its_command_at_once(api, agent, round_, pool):
    await agent.pushed(containers=containers(2, cpu=100))
    await new_policy(api, docker(**LIVE, enabled=False))

    async def wait() -> Any:
        async with agent.api.get(f"{agent.path}/commands", params={"wait": "30"}) as response:
            return json.loads(await response.text())

    poll = asyncio.create_task(wait())
    async with asyncio.timeout(60):
        while not await pool.fetchval("SELECT 1 FROM command_polls WHERE agent_id = $1", agent.agent_id):
            await asyncio.sleep(0.02)
    await new_policy(api, docker(**LIVE))
    await round_()

    assert (await poll)["payload"] == {"group": "web", "replicas": 4}


async def test_a_host_that_does_not_change_gets_no_command(api, hosts, round_):
    for host, count in zip(hosts, (3, 1), strict=True):
        await host.pushed(containers=containers(count, cpu=75))
    await new_policy(api, of_pool())
    await round_()

    assert await actions(api) == [("apply", 4, 6)]
    assert await taken(hosts[0]) == []
    (order,) = await taken(hosts[1])
    assert order["payload"] == {"group": "web", "replicas": 3}


async def test_no_host_gets_more_than_it_may_have(api, hosts, round_):
    for host in hosts:
        await host.pushed(containers=containers(1, cpu=500))
    await new_policy(api, of_pool(maxReplicasPerHost=2))
    await round_()

    (row,) = await decisions(api)
    assert (row["toReplicas"], row["limitedBy"]) == (4, ["max_replicas_per_host"])
    assert [[it["payload"]["replicas"] for it in await taken(host)] for host in hosts] == [[2], [2]]


async def test_hosts_of_other_pools_and_without_the_group_are_left_alone(api, hosts, make_agent, round_):
    other = await make_agent(api, "host-3", pool="db")
    await other.pushed(containers=containers(1, cpu=100))
    await hosts[0].pushed(containers=containers(2, cpu=100))
    await hosts[1].pushed(containers=[{"id": "x", "name": "db-1", "state": "running"}])
    await new_policy(api, of_pool())
    await round_()

    assert await actions(api) == [("apply", 2, 4)]
    assert [len(await taken(it)) for it in (*hosts, other)] == [1, 0, 0]


async def test_an_agents_name_is_a_pool(api, hosts, round_):
    for host in hosts:
        await host.pushed(containers=containers(2, cpu=100))
    await new_policy(api, docker(targetRef="host-2/web", **LIVE))
    await round_()

    assert await actions(api) == [("apply", 2, 4)]
    assert [len(await taken(it)) for it in hosts] == [0, 1]


async def test_replicas_on_offline_hosts_are_kept(api, hosts, round_, pool):
    for host in hosts:
        await host.pushed(containers=containers(3, cpu=5))
    policy = await new_policy(api, of_pool(minReplicas=1))
    await pool.execute(
        "UPDATE agent_state SET last_seen = last_seen - interval '91 s' WHERE agent_id = $1",
        hosts[1].agent_id,
    )
    await round_()

    (row,) = await decisions(api)
    assert row["fromReplicas"] == 6
    assert row["toReplicas"] >= 3
    (order,) = await taken(hosts[0])
    assert order["payload"]["replicas"] == row["toReplicas"] - 3
    assert (await shown(api, policy))["currentReplicas"] == 6


async def test_good_results_make_the_change_applied(api, hosts, round_):
    for host in hosts:
        await host.pushed(containers=containers(1, cpu=100))
    policy = await new_policy(api, of_pool())
    await round_()
    for host in hosts:
        for command in await taken(host):
            await report(host, command, "succeeded", "1 to 2")
        await round_()

    now = await shown(api, policy)

    assert (now["applyHealth"], now["applyMessage"]) == ("applied", "host-2: 1 to 2")
    assert await actions(api) == [("apply", 2, 4)]


async def test_a_failed_command_is_logged_with_its_host_and_its_reason(api, hosts, round_):
    for host in hosts:
        await host.pushed(containers=containers(1, cpu=100))
    policy = await new_policy(api, of_pool())
    await round_()
    (good,), (bad,) = [await taken(host) for host in hosts]
    await report(hosts[0], good, "succeeded")
    await report(hosts[1], bad, "failed", "port 80 is fixed")
    await round_()

    now = await shown(api, policy)

    assert (now["applyHealth"], now["applyMessage"]) == ("failed", "host-2: port 80 is fixed")
    assert await actions(api) == [("apply", 2, 4), ("apply_failed", 2, 4)]
    assert (await decisions(api))[1]["outcome"] == "Failed: host-2: port 80 is fixed"
    assert "tried again" in now["lastReason"]
    assert (await api.json("/api/v1/scaling/decisions/verify"))["ok"] is True


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE commands SET expires_at = clock_timestamp() WHERE org_id = $1", "within two minutes"),
        ("DELETE FROM commands WHERE org_id = $1", "deleted"),
    ],
)
async def test_a_command_without_a_result_is_logged_once_as_failed(
    api, hosts, round_, pool, statement, reason
):
    await hosts[0].pushed(containers=containers(1, cpu=100))
    policy = await new_policy(api, of_pool())
    await round_()
    await pool.execute(statement, api.org_id)

    for _ in range(2):
        await round_()

    assert [action for action, _, _ in await actions(api)] == ["apply", "apply_failed"]
    assert reason in (await shown(api, policy))["applyMessage"]


async def test_what_failed_is_tried_again_after_a_while(api, hosts, round_, pool):
    await hosts[0].pushed(containers=containers(1, cpu=100))
    await new_policy(api, of_pool())
    await round_()
    (bad,) = await taken(hosts[0])
    await report(hosts[0], bad, "failed", "no room")
    await round_()
    await pool.execute(
        "UPDATE scaling_states SET applied_at = applied_at - interval '61 s' WHERE org_id = $1", api.org_id
    )
    await round_()

    assert await actions(api) == [("apply", 1, 2), ("apply_failed", 1, 2), ("apply", 1, 2)]


async def test_a_rollback_is_a_command_of_its_own(api, hosts, round_):
    await hosts[0].pushed(containers=containers(2, cpu=100))
    policy = await new_policy(api, of_pool())
    await round_()
    await taken(hosts[0])
    await hosts[0].pushed(containers=containers(4, cpu=50))

    after = await act(api, policy, "rollback")

    (order,) = await taken(hosts[0])
    assert (order["type"], order["payload"]) == ("docker.rollback", {"group": "web", "replicas": 2})
    assert (after["desiredReplicas"], after["applyHealth"]) == (2, "pending")
    assert await actions(api) == [("apply", 2, 4), ("rollback", 4, 2)]


async def test_a_paused_policy_still_learns_what_became_of_its_commands(api, hosts, round_):
    await hosts[0].pushed(containers=containers(1, cpu=100))
    policy = await new_policy(api, of_pool())
    await new_policy(api, docker(targetRef="web/other"))
    await round_()
    await changed(api, policy, enabled=False)
    (command,) = await taken(hosts[0])
    await report(hosts[0], command, "succeeded")
    await round_()

    assert (await shown(api, policy))["applyHealth"] == "applied"


async def test_a_deleted_agent_stops_no_evaluation(api, hosts, round_):
    await hosts[0].pushed(containers=containers(1, cpu=100))
    policy = await new_policy(api, of_pool())
    await round_()
    async with api.delete(hosts[0].path) as response:
        assert response.status == 204
    await round_()

    assert [action for action, _, _ in await actions(api)] == ["apply", "apply_failed"]
    assert "No online agent" in (await shown(api, policy))["lastReason"]


async def test_a_command_for_an_agent_that_is_being_deleted_is_left_out(api, hosts, pool):
    gone, there = hosts
    order = {"group": "web", "replicas": 2}
    commands = [(new_id("cmd"), Order(host.agent_id, "docker.scale", order)) for host in (gone, there)]
    async with pool.acquire() as deleting, pool.acquire() as ordering:
        deletion = deleting.transaction()
        await deletion.start()
        await deleting.execute("DELETE FROM agents WHERE id = $1", gone.agent_id)
        ordered = asyncio.create_task(insert_commands(ordering, api.org_id, commands))
        await asyncio.wait([ordered], timeout=0.2)  # whether it waits already or not
        await deletion.commit()
        await ordered

    assert [it["payload"] for it in await taken(there)] == [order]


RUNNING = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 12), min_size=1)


@given(RUNNING, st.integers(0, 60), st.none() | st.integers(1, 12))
def test_spreading_gives_what_there_is_room_for_and_moves_nothing(running, total, per_host):
    wanted = spread(running, total, per_host)

    have = sum(running.values())
    assert wanted.keys() == running.keys()
    if total >= have:
        room = sum(max(0, per_host - count) for count in running.values()) if per_host else total
        assert sum(wanted.values()) == have + min(total - have, room)
        assert all(wanted[host] >= count for host, count in running.items())
    else:
        assert sum(wanted.values()) == total
        assert all(0 <= wanted[host] <= count for host, count in running.items())


@pytest.mark.parametrize(
    ("running", "total", "per_host", "wanted"),
    [
        ({"a": 0, "b": 0}, 5, None, {"a": 3, "b": 2}),
        ({"a": 3, "b": 0}, 4, None, {"a": 3, "b": 1}),
        ({"a": 3, "b": 1}, 2, None, {"a": 1, "b": 1}),
        ({"a": 1, "b": 1}, 9, 2, {"a": 2, "b": 2}),
        ({"a": 5, "b": 1}, 7, 3, {"a": 5, "b": 2}),
        ({"a": 2}, 0, None, {"a": 0}),
        ({}, 3, None, {}),
    ],
)
def test_replicas_are_spread_evenly(running, total, per_host, wanted):
    assert spread(running, total, per_host) == wanted
