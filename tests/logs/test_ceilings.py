"""How much an organization may send, whichever replica it sends it to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from monitor.auth import provision
from monitor.config import OrgLimits
from monitor.db.postgres import Pool
from monitor.logs.ingest.ceilings import CEILINGS, MIB, Account, refusal
from monitor.logs.ingest.store import Rate
from monitor.logs.times import format_ns
from tests.conftest import Addresses, Agent, Api, settings, start_service
from tests.logs.test_ingest import post

LIMITS = OrgLimits(log_lines_per_second=10, log_mib_per_day=1)
FULL = Rate(100.0, 0)


@pytest.mark.parametrize(
    ("account", "seconds", "limit"),
    [
        (Account(FULL, 0), 0, None),
        (Account(FULL, 0, lines=99), 0, None),
        (Account(FULL, 0, lines=100), 0, "log_lines_per_second"),
        (Account(FULL, 0, lines=100), 1, "log_lines_per_second"),
        (Account(Rate(0, 0), 0), 1, None),
        (Account(Rate(-1000, 0), 0), 100, "log_lines_per_second"),
        (Account(Rate(-1000, 0), 0), 101, None),
        (Account(FULL, 0, bytes=MIB - 1), 0, None),
        (Account(FULL, 0, bytes=MIB), 0, "log_mib_per_day"),
        (Account(Rate(100, MIB - 1), 0, bytes=1), 0, "log_mib_per_day"),
    ],
)
def test_what_is_left_fills_up_with_time(account: Account, seconds: float, limit: str | None):
    refused = refusal(account, LIMITS, seconds)

    assert (refused is None) is (limit is None)
    if refused is not None:
        assert refused.text.startswith(f"{limit}: ")
        assert refused.retry_after_seconds >= 1


def test_a_ceiling_of_0_lets_nothing_through():
    assert refusal(Account(FULL, 0), OrgLimits(log_lines_per_second=0), 1000) is not None
    assert refusal(Account(FULL, 0), OrgLimits(log_mib_per_day=0), 1000) is not None


def lines(count: int, message: str = "x") -> list[dict[str, Any]]:
    at = format_ns(time.time_ns())
    return [{"time": at, "stream": "stdout", "message": message, "containerId": "c"}] * count


async def test_above_its_ceiling_an_organization_gets_429_on_every_replica(
    servers: Addresses, tmp_path: Path, pool: Pool
):
    async with pool.acquire() as conn:
        org_id = await provision.create_org(conn, "limited", "pro")
        _, key = await provision.create_api_key(conn, org_id, "a key")
    limits = {"organizations": {org_id: {"log_lines_per_second": 5}}}
    services = [
        await start_service(tmp_path / f"{name}.yaml", {**settings(servers), "limits": limits}, "web")
        for name in ("here", "there")
    ]
    try:
        async with (
            aiohttp.ClientSession(services[0].base_url) as here,
            aiohttp.ClientSession(services[1].base_url) as there,
        ):
            body = {"name": "host", "type": "docker", "version": "1"}
            async with here.post(
                "/api/v1/agents/register", json=body, headers={"X-API-Key": key}
            ) as response:
                registered = await response.json()
            headers = {"Authorization": f"Bearer {registered['token']}"}
            first, second = (
                Agent(Api(session, org_id, "", headers), registered["agentId"]) for session in (here, there)
            )

            assert (await post(first, lines(40)))[0] == 200
            assert (await post(first, lines(300)))[0] == 200  # taken whole, on credit
            status, answer = await post(first, lines(1))
            assert status == 429
            assert answer["error"].startswith("log_lines_per_second: ")

            await services[0].app[CEILINGS].exchange()
            status, _ = await post(second, lines(1))
            assert status == 429
            left = await pool.fetchval("SELECT lines_left FROM log_rates WHERE org_id = $1", org_id)
            assert -290 < left < -250
    finally:
        for service in services:
            await service.stop()


async def test_the_bytes_of_a_day_begin_anew_with_the_next(app: Any, pool: Pool, api: Api, agent: Agent):
    ceilings = app.app[CEILINGS]
    assert (await post(agent, lines(1, "x" * 1000)))[0] == 200
    await ceilings.exchange()
    spent = await pool.fetchval("SELECT day_bytes FROM log_rates WHERE org_id = $1", api.org_id)
    assert 1_000 < spent < 1_300

    await pool.execute("UPDATE log_rates SET day = day - 1 WHERE org_id = $1", api.org_id)
    assert (await post(agent, lines(1, "x" * 10)))[0] == 200
    await ceilings.exchange()

    assert await pool.fetchval("SELECT day_bytes FROM log_rates WHERE org_id = $1", api.org_id) < 300
