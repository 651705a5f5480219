"""The command channel: at least once, oldest first, one poll an agent, on any replica."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import asyncpg
import pytest

from monitor.commands import store
from monitor.commands.poll import POLLS
from monitor.db.postgres import Pool
from monitor.db.wakeups import APPLICATION
from monitor.errors import NotFound
from tests.conftest import Addresses, Agent, Api, Service, settings, start_service

SCALE = {"group": "web", "replicas": 3}


async def enqueue(pool: Pool, agent: Agent, payload: dict[str, Any] = SCALE) -> str:
    async with pool.acquire() as conn:
        return await store.enqueue(conn, agent.api.org_id, agent.agent_id, "docker.scale", payload)


async def poll(agent: Agent, wait: str = "0") -> tuple[int, Any]:
    async with agent.api.get(f"{agent.path}/commands", params={"wait": wait}) as response:
        text = await response.text()
        return response.status, json.loads(text) if text else None


async def report(agent: Agent, command_id: str, **body: Any) -> int:
    path = f"{agent.path}/commands/{command_id}/result"
    async with agent.api.post(path, json=body or {"status": "succeeded"}) as response:
        await response.read()
        return response.status


async def set_back(pool: Pool, command_id: str, column: str) -> None:
    await pool.execute(
        f"UPDATE commands SET {column} = clock_timestamp() - interval '1 ms' WHERE id = $1", command_id
    )


async def until_polls(pool: Pool, agent: Agent, other_than: str | None = None) -> str:
    """Wait until a poll of *agent* holds and return its id."""
    async with asyncio.timeout(30):
        while True:
            poll_id = await pool.fetchval(
                "SELECT poll_id FROM command_polls WHERE agent_id = $1", agent.agent_id
            )
            if poll_id not in (None, other_than):
                return poll_id
            await asyncio.sleep(0.01)


@pytest.fixture
def hints_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process looks by itself within a poll: what comes was hinted at."""
    monkeypatch.setattr("monitor.commands.poll.LOOK_SECONDS", 600.0)


@pytest.fixture(scope="module")
async def replica(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory, app: Service
) -> AsyncIterator[Service]:
    """A second service on the same stores."""
    path = tmp_path_factory.mktemp("replica") / "monitor.yaml"
    service = await start_service(path, settings(servers), "web")
    yield service
    await service.stop()


@pytest.fixture
async def elsewhere(replica: Service, agent: Agent) -> AsyncIterator[Agent]:
    """The same agent, talking to the second replica."""
    async with aiohttp.ClientSession(replica.base_url) as session:
        yield Agent(Api(session, agent.api.org_id, agent.api.secret, agent.api.headers), agent.agent_id)


async def test_without_a_command_a_poll_is_204_after_its_wait(agent: Agent):
    started = time.monotonic()

    assert await poll(agent, "0.3") == (204, None)

    assert 0.3 <= time.monotonic() - started < 20  # not the wait of who says none


async def test_a_command_is_handed_out_as_documented(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)

    status, command = await poll(agent)

    assert status == 200
    created, expires = command.pop("created_at"), command.pop("expires_at")
    assert command == {"command_id": command_id, "type": "docker.scale", "payload": SCALE, "attempt": 1}
    assert created.endswith("Z")
    assert expires.endswith("Z")


async def test_a_command_expires_two_minutes_after_it_was_made(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)
    lives = await pool.fetchval("SELECT expires_at - created_at FROM commands WHERE id = $1", command_id)
    assert 119.9 < lives.total_seconds() < 120.1

    await set_back(pool, command_id, "expires_at")

    assert await poll(agent) == (204, None)


async def test_commands_come_oldest_first_and_each_once_while_leased(pool: Pool, agent: Agent):
    made = [await enqueue(pool, agent, {"replicas": number}) for number in range(3)]

    given = [(await poll(agent))[1]["command_id"] for _ in made]

    assert given == made
    assert await poll(agent) == (204, None)


async def test_a_lease_hides_a_command_for_30_seconds(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)
    await poll(agent)

    lease = await pool.fetchval(
        "SELECT leased_until - clock_timestamp() FROM commands WHERE id = $1", command_id
    )

    assert 25 < lease.total_seconds() <= 30


async def test_a_command_without_a_result_is_handed_out_again_after_its_lease(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)
    await poll(agent)
    await set_back(pool, command_id, "leased_until")

    status, command = await poll(agent)

    assert (status, command["command_id"], command["attempt"]) == (200, command_id, 2)


async def test_a_command_with_a_result_is_not_handed_out_again(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)
    await poll(agent)
    assert await report(agent, command_id) == 204
    await set_back(pool, command_id, "leased_until")

    assert await poll(agent) == (204, None)


async def test_the_first_result_stays(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)

    first = await report(agent, command_id, status="failed", message="no \0 such group")
    again = await report(agent, command_id, status="succeeded", message="done")

    assert (first, again) == (204, 204)
    row = await pool.fetchrow("SELECT status, message FROM commands WHERE id = $1", command_id)
    assert tuple(row) == ("failed", "no \ufffd such group")


async def test_a_result_of_an_unknown_command_is_not_found(agent: Agent):
    for command_id in ("cmd_unknown", "%00", "x" * 70):
        assert await report(agent, command_id) == 404


async def test_a_result_of_another_agents_command_is_not_found(
    pool: Pool, agent: Agent, api: Api, make_agent: Callable[..., Awaitable[Agent]]
):
    command_id = await enqueue(pool, await make_agent(api, name="host-2"))

    assert await report(agent, command_id) == 404
    assert await pool.fetchval("SELECT status FROM commands WHERE id = $1", command_id) is None


@pytest.mark.parametrize("body", [{"status": "done"}, {"status": 1}, {"message": "x"}])
async def test_a_result_of_another_shape_is_refused(pool: Pool, agent: Agent, body: dict[str, Any]):
    command_id = await enqueue(pool, agent)

    path = f"{agent.path}/commands/{command_id}/result"
    async with agent.api.post(path, json=body) as response:
        assert response.status == 400
        assert (await response.json())["field"] == "status"


@pytest.mark.parametrize("wait", ["x", "", "nan", "1s"])
async def test_a_wait_that_is_no_number_is_refused(agent: Agent, wait: str):
    status, answer = await poll(agent, wait)

    assert status == 400
    assert answer["field"] == "wait"


async def test_a_wait_below_0_is_0(agent: Agent):
    async with asyncio.timeout(20):
        assert await poll(agent, "-5") == (204, None)


async def test_a_command_reaches_a_waiting_agent_at_once(pool: Pool, agent: Agent, hints_alone: None):
    waiting = asyncio.create_task(poll(agent, "20"))
    await until_polls(pool, agent)

    command_id = await enqueue(pool, agent)
    status, command = await waiting

    assert (status, command["command_id"]) == (200, command_id)


async def test_a_command_made_by_one_replica_reaches_an_agent_at_another(
    pool: Pool, agent: Agent, elsewhere: Agent, hints_alone: None
):
    waiting = asyncio.create_task(poll(elsewhere, "20"))
    await until_polls(pool, agent)

    await enqueue(pool, agent)

    assert (await waiting)[0] == 200


async def test_a_command_of_a_transaction_comes_when_it_commits(pool: Pool, agent: Agent):
    waiting = asyncio.create_task(poll(agent, "20"))
    await until_polls(pool, agent)
    async with pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await store.enqueue(conn, agent.api.org_id, agent.agent_id, "docker.scale", SCALE)
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await transaction.commit()

    assert (await waiting)[0] == 200


async def test_a_lost_hint_costs_a_second(pool: Pool, agent: Agent):
    waiting = asyncio.create_task(poll(agent, "20"))
    await until_polls(pool, agent)

    async with asyncio.timeout(15):
        await pool.execute(
            "INSERT INTO commands (id, org_id, agent_id, type, payload)"
            " VALUES ('unannounced-' || $2, $1, $2, 'docker.scale', '{}')",
            agent.api.org_id,
            agent.agent_id,
        )
        assert (await waiting)[0] == 200


async def test_commands_come_after_the_listening_connection_was_cut(
    pool: Pool, superuser: asyncpg.Connection, agent: Agent, hints_alone: None
):
    listening = "SELECT pid FROM pg_stat_activity WHERE application_name = $1"
    before = {row["pid"] for row in await superuser.fetch(listening, APPLICATION)}
    assert before
    for pid in before:
        await superuser.execute("SELECT pg_terminate_backend($1)", pid)
    async with asyncio.timeout(30):
        while not {row["pid"] for row in await superuser.fetch(listening, APPLICATION)} - before:
            await asyncio.sleep(0.05)
    waiting = asyncio.create_task(poll(agent, "20"))
    await until_polls(pool, agent)

    await enqueue(pool, agent)

    assert (await waiting)[0] == 200


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_newer_poll_releases_the_older_one(
    pool: Pool, agent: Agent, elsewhere: Agent, where: str, hints_alone: None
):
    older = asyncio.create_task(poll(agent, "20"))
    first = await until_polls(pool, agent)

    newer = asyncio.create_task(poll(agent if where == "here" else elsewhere, "20"))
    async with asyncio.timeout(15):
        assert await older == (204, None)
    await until_polls(pool, agent, other_than=first)
    await enqueue(pool, agent)

    assert (await newer)[0] == 200


async def test_a_client_that_left_takes_no_command(pool: Pool, agent: Agent):
    left = asyncio.create_task(poll(agent, "20"))
    first = await until_polls(pool, agent)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    await asyncio.sleep(0.05)

    command_id = await enqueue(pool, agent)
    status, command = await poll(agent, "5")

    assert (status, command["command_id"], command["attempt"]) == (200, command_id, 1)
    assert await pool.fetchval("SELECT count(*) FROM command_polls WHERE poll_id = $1", first) == 0


async def test_a_command_that_could_not_be_written_is_free_at_once(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)
    async with pool.acquire() as conn:
        command = await store.take(conn, agent.api.org_id, agent.agent_id)
        assert command is not None
        await store.release(conn, agent.api.org_id, command)

    status, again = await poll(agent)

    assert (status, again["command_id"], again["attempt"]) == (200, command_id, 2)


async def test_a_late_release_leaves_the_next_lease_alone(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)
    async with pool.acquire() as conn:
        first = await store.take(conn, agent.api.org_id, agent.agent_id)
        assert first is not None
        await set_back(pool, command_id, "leased_until")
        await store.take(conn, agent.api.org_id, agent.agent_id)
        await store.release(conn, agent.api.org_id, first)

    assert await poll(agent) == (204, None)


async def test_a_poll_gets_204_when_the_service_ends(
    servers: Addresses, tmp_path: Any, pool: Pool, agent: Agent
):
    service = await start_service(tmp_path / "monitor.yaml", settings(servers), "web")
    async with aiohttp.ClientSession(service.base_url) as session:
        there = Agent(Api(session, agent.api.org_id, agent.api.secret, agent.api.headers), agent.agent_id)
        waiting = asyncio.create_task(poll(there, "25"))
        await until_polls(pool, agent)

        started = time.monotonic()
        await service.stop()

        assert await waiting == (204, None)
        assert time.monotonic() - started < 20
    assert service.app[POLLS]._polls == {}


async def test_deleting_an_agent_ends_its_commands(pool: Pool, api: Api, agent: Agent):
    command_id = await enqueue(pool, agent)

    async with api.delete(agent.path) as response:
        assert response.status == 204

    assert await pool.fetchval("SELECT count(*) FROM commands WHERE id = $1", command_id) == 0
    with pytest.raises(NotFound):
        await enqueue(pool, agent)


async def test_another_organization_cannot_enqueue(pool: Pool, agent: Agent, other: Api):
    async with pool.acquire() as conn:
        with pytest.raises(NotFound):
            await store.enqueue(conn, other.org_id, agent.agent_id, "docker.scale", SCALE)


async def test_old_commands_and_polls_of_dead_processes_are_forgotten(pool: Pool, agent: Agent):
    command_id = await enqueue(pool, agent)
    await pool.execute(
        "UPDATE commands SET created_at = created_at - interval '25 hours' WHERE id = $1", command_id
    )
    await pool.execute(
        "INSERT INTO command_polls VALUES ($1, $2, 'dead', clock_timestamp() - interval '1 minute')",
        agent.agent_id,
        agent.api.org_id,
    )

    async with pool.acquire() as conn:
        await store.forget_old(conn)

    assert await pool.fetchval("SELECT count(*) FROM commands WHERE id = $1", command_id) == 0
    assert await pool.fetchval("SELECT count(*) FROM command_polls WHERE poll_id = 'dead'") == 0


async def test_nobody_is_notified_while_nobody_waits(pool: Pool, servers: Addresses, agent: Agent):
    heard: list[Any] = []
    conn = await asyncpg.connect(servers.app_dsn)
    await conn.add_listener("monitor", lambda *hint: heard.append(hint[3]))
    await enqueue(pool, agent)
    await asyncio.sleep(0.2)
    await conn.close()

    assert store.wakeup_key(agent.agent_id) not in heard
