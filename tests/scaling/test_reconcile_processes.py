"""Two background processes and a thousand live policies, one process killed in the middle of a round."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec
import pytest
import yaml
import zstandard

from monitor.agents.store import insert_agent
from monitor.auth import provision
from monitor.db.migrate import migrate
from monitor.scaling import store
from monitor.scaling.log.check import check_log
from monitor.scaling.models import Settings
from tests.conftest import settings
from tests.db.fresh import fresh_database

ORGANIZATIONS = 10
POLICIES = 100  # of each organization: one shard
WAIT_SECONDS = 120.0  # processes need some of them to start

# Notes every evaluation, and every due time that was done with.
WATCH = """
CREATE TABLE evaluations (policy_id text NOT NULL);
CREATE TABLE rounds (org_id text NOT NULL, shard int NOT NULL, due_at timestamptz NOT NULL);
CREATE FUNCTION note_evaluation() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
  $$ BEGIN INSERT INTO evaluations VALUES (NEW.policy_id); RETURN NULL; END $$;
CREATE FUNCTION note_round() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
  $$ BEGIN INSERT INTO rounds VALUES (OLD.org_id, OLD.shard, OLD.due_at); RETURN NULL; END $$;
CREATE TRIGGER evaluated AFTER UPDATE ON scaling_states FOR EACH ROW
  WHEN (OLD.evaluated_at IS DISTINCT FROM NEW.evaluated_at) EXECUTE FUNCTION note_evaluation();
CREATE TRIGGER done AFTER UPDATE ON scaling_shards FOR EACH ROW
  WHEN (OLD.due_at <> NEW.due_at) EXECUTE FUNCTION note_round();
"""


async def organization(conn: Any) -> str:
    """Make an organization with a host of 100 groups, each too busy, and a live policy for each."""
    org_id = await provision.create_org(conn, "an organization", "pro")
    agent_id = f"agent_{secrets.token_hex(8)}"
    await insert_agent(
        conn,
        org_id,
        agent_id=agent_id,
        name="host-1",
        type_="docker",
        pool="default",
        version="1",
        token_hash=secrets.token_bytes(32),
    )
    containers = [
        {"id": f"c{number}", "name": f"group{number}-1", "state": "running", "cpuPercent": 100}
        for number in range(POLICIES)
    ]
    await conn.execute(
        "UPDATE agent_state SET last_seen = clock_timestamp() + interval '1 hour', containers = $2"
        " WHERE agent_id = $1",
        agent_id,
        zstandard.compress(msgspec.json.encode(containers)),
    )
    for number in range(POLICIES):
        policy = Settings(
            name=f"policy {number}",
            runtime="docker",
            target_ref=f"default/group{number}",
            cpu_target_percent=50.0,
            dry_run=False,
            cooldown_scale_up_seconds=0,
        )
        await store.insert_policy(conn, org_id, f"scp_{secrets.token_hex(8)}", 0, policy)
    return org_id


@pytest.fixture
async def start(servers, tmp_path):
    """Start a background process on a database: ``await start(dsn)``."""
    started = []

    async def process(dsn: str) -> asyncio.subprocess.Process:
        values = settings(servers)
        values["server"]["internal_listen"] = ""
        values["postgres"] = {"dsn": dsn}
        config = tmp_path / f"{len(started)}.yaml"
        config.write_text(yaml.safe_dump(values))
        started.append(
            await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "monitor", "serve", "--role", "background", "--config", str(config)),
                cwd=Path(__file__).parents[2],
                stderr=asyncio.subprocess.DEVNULL,
            )
        )
        return started[-1]

    yield process
    for it in started:
        if it.returncode is None:
            it.kill()
        await it.wait()


async def until(conn: Any, statement: str, *values: Any) -> None:
    """Wait until a statement answers true."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not await conn.fetchval(statement, *values):
            await asyncio.sleep(0.05)


EVALUATED = "SELECT count(DISTINCT policy_id) >= $1 FROM evaluations"
BLOCKED = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
BLOCKED += " AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO scaling_heads%')"


async def test_each_policy_is_evaluated_once_per_interval_whoever_dies(servers, start):
    async with fresh_database(servers) as database:
        await migrate(database.owner_dsn)
        path = urlsplit(database.owner_dsn).path
        conn = await asyncpg.connect(urlsplit(servers.superuser_dsn)._replace(path=path).geturl())
        await conn.execute(WATCH)
        org_ids = [await organization(conn) for _ in range(ORGANIZATIONS)]
        # Whoever decides for this organization stops at the very end of its transaction.
        stuck = org_ids[3]
        await conn.execute("INSERT INTO scaling_heads VALUES ($1, 0, repeat('0', 64))", stuck)
        holding = await asyncpg.connect(database.owner_dsn)
        held = holding.transaction()
        await held.start()
        await holding.execute("SELECT 1 FROM scaling_heads WHERE org_id = $1 FOR UPDATE", stuck)

        doomed = await start(database.app_dsn)
        await until(conn, BLOCKED)
        await start(database.app_dsn)
        await until(conn, EVALUATED, (ORGANIZATIONS - 1) * POLICIES)
        doomed.send_signal(signal.SIGKILL)
        await doomed.wait()
        await held.rollback()
        await until(conn, f"SELECT NOT {BLOCKED.removeprefix('SELECT ')}")
        # The dead process's lease ends; the due time stays what it was.
        await conn.execute("UPDATE scaling_shards SET leased_until = '-infinity' WHERE org_id = $1", stuck)
        await until(conn, EVALUATED, ORGANIZATIONS * POLICIES)
        await conn.execute("UPDATE scaling_shards SET leased_until = 'infinity'")  # no further rounds

        async with conn.transaction(isolation="repeatable_read", readonly=True):
            evaluations = Counter(row[0] for row in await conn.fetch("SELECT policy_id FROM evaluations"))
            rounds = Counter(row[0] for row in await conn.fetch("SELECT org_id FROM rounds"))
            owners = await conn.fetch("SELECT id, org_id FROM scaling_policies")
            decided = Counter(row[0] for row in await conn.fetch("SELECT policy_id FROM scaling_decisions"))
            orders = Counter(row[0] for row in await conn.fetch("SELECT payload FROM commands"))
            logs = [await check_log(conn, org_id) for org_id in org_ids]
        await conn.close()
        await holding.close()

    assert len(owners) == ORGANIZATIONS * POLICIES
    assert all(evaluations[policy_id] == rounds[org_id] for policy_id, org_id in owners)
    assert set(decided.values()) == {1}
    assert len(decided) == len(owners)
    assert set(orders.values()) == {ORGANIZATIONS}
    assert len(orders) == POLICIES
    assert [(log.ok, log.rows, log.recomputed) for log in logs] == [
        (True, POLICIES, POLICIES)
    ] * ORGANIZATIONS
