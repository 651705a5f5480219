"""From the push to the receiver, with the process killed in between."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import asyncpg
import yaml

from monitor.auth import provision
from monitor.db.migrate import migrate
from tests.conftest import Addresses, settings
from tests.db.fresh import fresh_database
from tests.notify.receivers import Receiver

ARRIVAL_SECONDS = 60.0  # a process needs some of them to start
RULE = {
    "name": "busy",
    "metric": 'container_cpu_usage_percent{container="web"}',
    "operator": "gt",
    "threshold": 80,
    "severity": "critical",
}


@asynccontextmanager
async def serving(config: Path, role: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run one process of the service; it is killed at the end, if not before."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor", "serve", "--role", role, "--config", str(config)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_ready(api: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(ARRIVAL_SECONDS):
        while True:
            try:
                async with api.get("/readyz") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)


async def made(api: aiohttp.ClientSession, path: str, body: object, **options: object) -> dict[str, object]:
    async with api.post(path, json=body, **options) as response:  # type: ignore[arg-type]
        assert response.status in (200, 201), await response.text()
        answer: dict[str, object] = await response.json()
        return answer


async def test_a_violation_is_told_though_the_process_that_took_the_push_was_killed(
    servers: Addresses, receiver: Receiver, tmp_path: Path, unused_tcp_port: int
):
    listen = f"127.0.0.1:{unused_tcp_port}"
    async with fresh_database(servers) as database:
        await migrate(database.owner_dsn)
        conn = await asyncpg.connect(database.app_dsn)
        org_id = await provision.create_org(conn, "an organization", "pro")
        _, key = await provision.create_api_key(conn, org_id, "a key")
        await provision.create_user(conn, org_id, f"admin@{org_id}.example", "admin", "a long password 1")
        await conn.close()
        addresses = Addresses(database.owner_dsn, database.app_dsn, servers.superuser_dsn, servers.vm_url)
        values = settings(
            addresses,
            server={"listen": listen, "internal_listen": "", "public_url": "https://monitor.example.com"},
            notifications={"allow_private_targets": True},
        )
        config = tmp_path / "monitor.yaml"
        config.write_text(yaml.safe_dump(values))

        async with (
            serving(config, "web") as web,
            aiohttp.ClientSession(f"http://{listen}", headers={"X-API-Key": key}) as api,
        ):
            await until_ready(api)
            login = {"email": f"admin@{org_id}.example", "password": "a long password 1"}
            session = await made(api, "/auth/login", login)
            as_admin = {"Authorization": f"Bearer {session['token']}"}
            channel = {"name": "on call", "type": "webhook", "settings": {"url": receiver.url}}
            await made(api, "/api/v1/settings/channels", channel, headers=as_admin)
            rule = await made(api, "/api/v1/alerts/rules", RULE)
            body = {"name": "host-1", "type": "docker", "version": "1"}
            agent = await made(api, "/api/v1/agents/register", body)
            container = {"id": "c1", "name": "web", "image": "nginx", "state": "running", "cpuPercent": 95.5}
            token = {"Authorization": f"Bearer {agent['token']}"}
            await made(
                api, f"/api/v1/agents/{agent['agentId']}/push", {"containers": [container]}, headers=token
            )
            web.kill()
            await web.wait()

        assert receiver.requests == []
        async with serving(config, "background"), asyncio.timeout(ARRIVAL_SECONDS):
            await receiver.arrived.wait()

    [alert] = receiver.requests[0].json["alerts"]
    assert alert["state"] == "firing"
    assert alert["ruleId"] == rule["id"]
    assert (alert["value"], alert["threshold"]) == (95.5, 80)
    assert alert["link"] == f"https://monitor.example.com/alerts/{alert['id']}"
