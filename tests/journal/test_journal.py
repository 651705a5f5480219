"""What was acknowledged is in VictoriaMetrics afterwards, once, whatever happened between."""

from __future__ import annotations

import asyncio
import time

import pytest
import zstandard

from monitor.journal import store, upkeep
from monitor.journal.journal import JOURNAL
from tests.conftest import settings, start_service
from tests.stack import own_stack

pytestmark = pytest.mark.xdist_group("own-stack")


@pytest.fixture
async def stack(servers, tmp_path):
    tmp_path.chmod(0o755)
    async with own_stack(servers, tmp_path) as running:
        yield running


def sample(value: float) -> dict:
    return {"metric": "counted", "value": value}


async def push_values(agent, values, start_ms: int) -> None:
    for value in values:
        moment = start_ms + int(value)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment / 1000)) + f".{moment % 1000:03d}Z"
        await agent.pushed(samples=[sample(value)], collectedAt=stamp, seq=int(value))


async def test_pushed_samples_reach_victoriametrics_with_the_organizations_label(stack):
    api = await stack.api()
    agent = await stack.agent(api)

    await agent.pushed(
        samples=[{"metric": "up", "value": 3, "labels": {"org_id": "other", "job": "x y,z=\\"}}]
    )
    [(labels, _, value)] = await stack.until_samples("up", 1)

    assert labels == {
        "__name__": "up",
        "org_id": api.org_id,
        "agent_id": agent.agent_id,
        "agent": "host-1",
        "job": "x y,z=\\",
    }
    assert value == 3


async def test_pushes_are_acknowledged_while_victoriametrics_is_away_and_written_later(stack):
    agent = await stack.agent(await stack.api())
    await stack.victoriametrics.stop()
    start_ms = int(time.time() * 1000) - 5000

    await push_values(agent, range(20), start_ms)
    await stack.victoriametrics.start()
    found = await stack.until_samples("counted", 20)

    assert sorted(value for _, _, value in found) == list(range(20))


async def test_a_killed_victoriametrics_gets_its_last_minute_again(stack):
    agent = await stack.agent(await stack.api())
    start_ms = int(time.time() * 1000) - 5000
    await push_values(agent, range(30), start_ms)
    await stack.until_samples("counted", 30)
    await push_values(agent, range(30, 40), start_ms)
    await asyncio.sleep(1.1)  # its start is told in whole seconds

    await stack.kill_victoriametrics()
    await stack.victoriametrics.start()
    found = await stack.until_samples("counted", 40)

    assert sorted(value for _, _, value in found) == list(range(40))


async def test_a_stream_whose_process_died_is_adopted_and_drained(stack):
    api = await stack.api()
    line = f"dead,org_id={api.org_id},agent_id=a,agent=b letter=1.5 {int(time.time() * 1000)}\n".encode()
    stream_id = await store.open_stream(stack.conn, "a dead process", 0.0)
    await store.append(stack.conn, 0, stream_id, 1, zstandard.compress(line), 1)

    found = await stack.until_samples("dead_letter", 1)

    assert [value for _, _, value in found] == [1.5]
    row = await stack.conn.fetchrow("SELECT * FROM journal_streams WHERE id = $1", stream_id)
    assert row["owner"] == stack.service.app[JOURNAL].owner
    assert row["retired_at"] is not None


async def test_rows_of_deleted_agents_are_not_written_from_the_table(stack):
    api = await stack.api()
    now = int(time.time() * 1000)
    lines = b"".join(
        f"gone,org_id={api.org_id},agent_id={agent},agent=x value=1 {now}\n".encode()
        for agent in ("agent_deleted", "agent_living")
    )
    await stack.conn.execute(
        "INSERT INTO agent_deletions (agent_id, org_id, agent_name) VALUES ('agent_deleted', $1, 'x')",
        api.org_id,
    )
    stream_id = await store.open_stream(stack.conn, "a dead process", 0.0)
    await store.append(stack.conn, 0, stream_id, 1, zstandard.compress(lines), 2)

    found = await stack.until_samples("gone_value", 1)

    assert [labels["agent_id"] for labels, _, _ in found] == ["agent_living"]


async def test_terminated_connections_lose_nothing_that_was_acknowledged(stack, superuser):
    api = await stack.api()
    agents = [await stack.agent(api, f"host-{number}") for number in range(6)]
    database = stack.addresses.app_dsn.rsplit("/", 1)[1].split("?")[0]
    start_ms = int(time.time() * 1000) - 60_000
    acknowledged: set[tuple[str, int]] = set()

    async def push(agent) -> None:
        for value in range(60):
            moment = start_ms + value
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment / 1000)) + f".{moment % 1000:03d}Z"
            for _ in range(100):
                reply = await agent.push(samples=[sample(value)], collectedAt=stamp, seq=value)
                assert reply.status in (200, 503)
                if reply.status == 200:
                    acknowledged.add((agent.agent_id, moment))
                    break
                await asyncio.sleep(0.01)

    async def terminate() -> None:
        for _ in range(8):
            await asyncio.sleep(0.05)
            await superuser.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = $1 AND pid <> pg_backend_pid() AND application_name = 'monitor'",
                database,
            )

    await asyncio.gather(terminate(), *(push(agent) for agent in agents))
    found = await stack.until_samples("counted", 360)

    assert len(acknowledged) == 360
    assert sorted((labels["agent_id"], at) for labels, at, _ in found) == sorted(acknowledged)


async def test_a_full_backlog_refuses_pushes_and_says_when_to_come_back(stack, monkeypatch):
    agent = await stack.agent(await stack.api())
    await agent.pushed(samples=[sample(1)])

    async def huge(conn) -> int:
        return 2**60

    with monkeypatch.context() as patched:
        patched.setattr(store, "size_bytes", huge)
        await stack.service.app[JOURNAL].tick()
    refused = await agent.push(samples=[sample(2)])
    await stack.service.app[JOURNAL].tick()
    accepted = await agent.push(samples=[sample(3)])

    assert refused.status == 503
    assert refused.headers["Retry-After"] == "30"
    assert await refused.json() == {"error": "storage_unavailable"}
    assert accepted.status == 200


async def test_a_slot_is_emptied_when_its_rows_are_safe_and_not_before(stack, monkeypatch):
    agent = await stack.agent(await stack.api())
    monkeypatch.setattr(store, "SLOT_SECONDS", 0.0)
    await agent.pushed(samples=[sample(1)])
    await stack.until_samples("counted", 1)

    async def rows(slot: int) -> int:
        return await stack.conn.fetchval(f"SELECT count(*) FROM journal_{slot}")

    await store.rotate(stack.conn)
    await upkeep.empty_slots(stack.service.app)
    before = await rows(0)
    monkeypatch.setattr(store, "SAFE_SECONDS", 0.0)
    for _ in range(2):
        await upkeep.watch(stack.service.app)
    await upkeep.empty_slots(stack.service.app)
    after = await rows(0)

    assert (before, after) == (1, 0)
    assert await stack.conn.fetchval("SELECT in_use FROM journal_slots WHERE slot = 0") is False


async def test_a_second_service_drains_what_the_first_left(stack):
    agent = await stack.agent(await stack.api())
    await stack.victoriametrics.stop()
    start_ms = int(time.time() * 1000) - 5000
    await push_values(agent, range(10), start_ms)

    await stack.service.stop()
    await stack.victoriametrics.start()
    second = await start_service(stack.folder / "second.yaml", settings(stack.addresses))
    found = await stack.until_samples("counted", 10)
    await second.stop()

    assert sorted(value for _, _, value in found) == list(range(10))
