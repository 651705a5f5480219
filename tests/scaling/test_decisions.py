"""The decision log: what it shows, that nobody changes it, and what its check finds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import click
import pytest
import yaml
from click.testing import CliRunner
from structlog.testing import capture_logs

from monitor.scaling.chain import GENESIS, next_hash, row_of
from monitor.scaling.log.append import append, tell_heads
from monitor.scaling.log.commands import decisions as command
from monitor.scaling.log.store import newest, try_check_lock
from monitor.scaling.step import failure_row
from tests.scaling.conftest import (
    DECISIONS,
    act,
    containers,
    decisions,
    docker,
    kubernetes,
    new_policy,
    pods,
)

VERIFY = f"{DECISIONS}/verify"
DOCUMENTED = (
    "id",
    "policyId",
    "ts",
    "runtime",
    "triggerMetric",
    "triggerValue",
    "threshold",
    "direction",
    "fromReplicas",
    "toReplicas",
    "action",
    "dryRun",
    "renderedManifest",
    "outcome",
)


@pytest.fixture
async def log(api, agent, round_):
    """Five decisions of one policy, those of people among them, oldest first."""
    policy = await new_policy(api, docker(dryRun=False))
    for count, cpu in ((2, 100), (4, 100), (8, 10)):
        await agent.pushed(containers=containers(count, cpu=cpu))
        await round_()
    for _ in range(2):
        await act(api, policy, "rollback")
    rows = await decisions(api)
    assert [row["action"] for row in rows] == ["apply", "apply", "apply", "rollback", "rollback"]
    return rows


async def test_a_decision_has_the_documented_fields_and_what_led_to_it(log):
    row = log[0]

    assert set(DOCUMENTED) <= row.keys()
    assert row["ts"].endswith("Z")
    assert row["inputs"]["policy"]["cpuTargetPercent"] == 50
    assert [it["cpu"] for it in row["inputs"]["inputs"]["replicas"]] == [100, 100]
    assert row["decideVersion"] == 1
    assert log[1]["limitedBy"] == []


async def test_decisions_are_numbered_and_chained(log):
    assert [row["id"] for row in log] == [1, 2, 3, 4, 5]
    assert [row["prevHash"] for row in log] == [GENESIS, *(row["hash"] for row in log[:-1])]


async def test_limiters_are_named(api, agent, round_):
    await agent.pushed(containers=containers(2, cpu=500))
    await new_policy(api, docker(stepSize=1))
    await round_()

    (row,) = await decisions(api)

    assert (row["toReplicas"], row["limitedBy"]) == (3, ["step_size"])


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"limit": "2"}, [5, 4]),
        ({"policyId": "scp_unknown"}, []),
        ({"policyId": "\0"}, []),
    ],
)
async def test_the_log_is_listed_newest_first(api, log, query, ids):
    assert [row["id"] for row in await api.json(DECISIONS, params=query)] == ids


async def test_the_log_of_one_policy_holds_no_other(api, cluster, log, round_):
    await cluster.pushed(pods=pods(2, cpu=100))
    other = await new_policy(api, kubernetes())
    await round_()

    rows = await api.json(DECISIONS, params={"policyId": other["id"]})

    assert [row["policyId"] for row in rows] == [other["id"]]


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "1.5", "x", "", "١"])
async def test_a_wrong_limit_is_named(api, limit):
    async with api.get(DECISIONS, params={"limit": limit}) as response:
        assert response.status == 400
        assert (await response.json())["field"] == "limit"


async def test_another_organizations_policy_has_no_decisions_here(other, log):
    assert await other.json(DECISIONS, params={"policyId": log[0]["policyId"]}) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE scaling_decisions SET body = body WHERE org_id = $1",
        "DELETE FROM scaling_decisions WHERE org_id = $1",
    ],
)
async def test_the_serving_role_changes_no_row(pool, api, log, statement):
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
        await pool.execute(statement, api.org_id)


async def test_the_serving_role_empties_no_table(pool, log):
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
        await pool.execute("TRUNCATE scaling_decisions")


STATEMENTS = [
    "UPDATE scaling_decisions SET id = id",
    "DELETE FROM scaling_decisions",
    "TRUNCATE scaling_decisions",
]


@pytest.fixture
async def superuser(servers) -> AsyncIterator[Any]:
    """A superuser in the service's own database."""
    path = urlsplit(servers.owner_dsn).path
    conn = await asyncpg.connect(urlsplit(servers.superuser_dsn)._replace(path=path).geturl())
    yield conn
    await conn.close()


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_trigger_refuses_the_owner(servers, statement):
    owner = await asyncpg.connect(servers.owner_dsn)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await owner.execute(statement)
    await owner.close()


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("mode", ["origin", "replica"])
async def test_a_trigger_refuses_a_superuser_even_one_that_replicates(superuser, statement, mode):
    await superuser.execute(f"SET session_replication_role = {mode}")

    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await superuser.execute(statement)


async def test_a_good_log_is_verified_and_says_what_that_cannot_prove(api, log):
    checked = await api.json(VERIFY)

    assert checked.pop("cannotProve")
    assert checked == {
        "ok": True,
        "rows": 5,
        "recomputed": 3,
        "headId": 5,
        "headHash": log[-1]["hash"],
        "fault": None,
    }


async def test_a_log_is_checked_by_one_at_a_time(api, other, pool):
    async with pool.acquire() as conn, conn.transaction():
        assert await try_check_lock(conn, api.org_id)
        async with api.get(VERIFY) as response:
            assert response.status == 429
        assert (await other.json(VERIFY))["ok"] is True

    assert (await api.json(VERIFY))["ok"] is True


async def test_an_empty_log_is_good(api):
    checked = await api.json(VERIFY)

    assert (checked["ok"], checked["rows"], checked["headHash"]) == (True, 0, GENESIS)


@asynccontextmanager
async def tampering(superuser: Any) -> AsyncIterator[Any]:
    """Lend a transaction of a superuser in which the trigger rests."""
    async with superuser.transaction():
        await superuser.execute("ALTER TABLE scaling_decisions DISABLE TRIGGER scaling_decisions_stay")
        yield superuser
        await superuser.execute("ALTER TABLE scaling_decisions ENABLE ALWAYS TRIGGER scaling_decisions_stay")


def with_more_replicas(body: str) -> str:
    return body.replace('"toReplicas":4', '"toReplicas":9')


async def test_a_row_changed_by_a_superuser_is_named(api, log, superuser):
    body = await superuser.fetchval(
        "SELECT body FROM scaling_decisions WHERE org_id = $1 AND id = 1", api.org_id
    )
    async with tampering(superuser) as conn:
        await conn.execute(
            "UPDATE scaling_decisions SET body = $2 WHERE org_id = $1 AND id = 1",
            api.org_id,
            with_more_replicas(body),
        )

    checked = await api.json(VERIFY)

    assert checked["ok"] is False
    assert checked["fault"]["id"] == 1
    assert "text was changed" in checked["fault"]["found"]


async def test_a_row_changed_with_its_hashes_is_found_by_deciding_again(api, log, superuser):
    rows = await superuser.fetch("SELECT * FROM scaling_decisions WHERE org_id = $1 ORDER BY id", api.org_id)
    prev = GENESIS
    async with tampering(superuser) as conn:
        for row in rows:
            body = with_more_replicas(row["body"]) if row["id"] == 1 else row["body"]
            digest = next_hash(prev, body)
            await conn.execute(
                "UPDATE scaling_decisions SET body = $3, prev_hash = $4, hash = $5 WHERE org_id = $1 AND id = $2",
                *(api.org_id, row["id"], body, prev, digest),
            )
            prev = digest
        await conn.execute("UPDATE scaling_heads SET hash = $2 WHERE org_id = $1", api.org_id, prev)

    checked = await api.json(VERIFY)

    assert checked["ok"] is False
    assert checked["fault"] == {"id": 1, "found": "its inputs lead to 4 replicas, it says 9"}


@pytest.mark.parametrize(("removed", "named"), [(3, 4), (5, 5)])
async def test_a_removed_row_is_named(api, log, superuser, removed, named):
    async with tampering(superuser) as conn:
        await conn.execute("DELETE FROM scaling_decisions WHERE org_id = $1 AND id = $2", api.org_id, removed)

    checked = await api.json(VERIFY)

    assert (checked["ok"], checked["fault"]["id"]) == (False, named)


@pytest.fixture
def verify(servers, tmp_path):
    """Run ``monitor decisions verify``."""
    path = tmp_path / "monitor.yaml"
    settings = {
        "postgres": {"dsn": servers.app_dsn},
        "victoriametrics": {"url": servers.vm_url},
        "auth": {"jwt_secrets": ["x" * 32]},
    }
    path.write_text(yaml.safe_dump(settings))
    program = click.Group("monitor", {"decisions": command})

    async def run(org_id: str) -> Any:
        words = ("decisions", "verify", "--org", org_id, "--config", str(path))
        return await asyncio.to_thread(CliRunner().invoke, program, words)  # it runs a loop of its own

    return run


async def test_the_command_line_verifies_a_log(api, log, verify, superuser):
    good = await verify(api.org_id)
    async with tampering(superuser) as conn:
        await conn.execute("DELETE FROM scaling_decisions WHERE org_id = $1 AND id = 2", api.org_id)
    bad = await verify(api.org_id)

    assert good.exit_code == 0
    assert json.loads(good.stdout).items() >= {"ok": True, "rows": 5, "headHash": log[-1]["hash"]}.items()
    assert bad.exit_code == 1
    assert json.loads(bad.stdout)["fault"]["id"] == 3


async def test_the_command_line_knows_no_other_organization(verify):
    result = await verify("org_unknown")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "not_found" in result.stderr


async def test_a_head_is_told_once_a_day(api, app, log, pool):
    await pool.execute("UPDATE scaling_heads SET told_at = '-infinity' WHERE org_id = $1", api.org_id)

    with capture_logs() as told:
        for _ in range(2):
            await tell_heads(app.app)

    ours = [it for it in told if it.get("org_id") == api.org_id and "hash" in it]
    assert [(it["last_id"], it["hash"]) for it in ours] == [(5, log[-1]["hash"])]


async def test_processes_that_append_at_once_make_one_chain(api, pool, log):
    row = failure_row(await newest_row(pool, api.org_id), "host-1", "no reason")

    async def add() -> None:
        async with pool.acquire() as conn, conn.transaction():
            await append(conn, api.org_id, [row, row], datetime.now(UTC))

    await asyncio.gather(*(add() for _ in range(20)))

    assert (await api.json(VERIFY)).items() >= {"ok": True, "rows": 45, "recomputed": 3}.items()


async def newest_row(pool: Any, org_id: str) -> Any:

    async with pool.acquire() as conn:
        (stored,) = await newest(conn, org_id, None, 1)
    return row_of(stored.body)
