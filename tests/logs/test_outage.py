"""Postgres away: every route says so, nothing acknowledged is lost, and all goes on when it is back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from monitor.auth import provision
from monitor.commands import store as commands
from monitor.db.migrate import migrate
from monitor.dev.postgres import PostgresServer
from monitor.logs.times import format_ns
from tests.conftest import Addresses, settings, start_service
from tests.servers import FAST

DURABLE = FAST | {"synchronous_commit": "on"}  # what was answered survives the process, if not the machine
UNAVAILABLE = {"error": "storage_unavailable"}


async def status_of(response: aiohttp.ClientResponse) -> tuple[int, Any]:
    text = await response.text()
    return response.status, await response.json() if text else None


async def test_logs_and_commands_survive_an_outage_of_postgres(servers: Addresses, tmp_path: Path):
    tmp_path.chmod(0o755)  # Postgres runs as another user
    postgres = PostgresServer(tmp_path / "postgres", settings=DURABLE)
    await postgres.start()
    try:
        await migrate(postgres.owner_dsn)
        own = Addresses(postgres.owner_dsn, postgres.app_dsn, postgres.superuser_dsn, servers.vm_url)
        conn = await asyncpg.connect(postgres.app_dsn)
        org_id = await provision.create_org(conn, "an organization", "pro")
        _, key = await provision.create_api_key(conn, org_id, "a key")
        await conn.close()
        service = await start_service(tmp_path / "monitor.yaml", settings(own))
        tenant = {"X-API-Key": key}
        async with aiohttp.ClientSession(service.base_url) as client:
            body = {"name": "host", "type": "docker", "version": "1"}
            async with client.post("/api/v1/agents/register", json=body, headers=tenant) as response:
                registered = await response.json()
            path = f"/api/v1/agents/{registered['agentId']}"
            token = {"Authorization": f"Bearer {registered['token']}"}

            async def ship(number: int) -> tuple[int, Any]:
                at = format_ns(time.time_ns())
                line = {"time": at, "stream": "stdout", "message": f"line {number}", "containerId": "c"}
                headers = {**token, "X-Batch-Id": f"e:{number}", "Content-Type": "application/x-ndjson"}
                async with client.post(f"{path}/logs", json=line, headers=headers) as response:
                    return await status_of(response)

            async def found() -> tuple[int, Any]:
                async with client.get("/api/v1/logs/search", headers=tenant) as response:
                    return await status_of(response)

            assert await ship(1) == (200, {"accepted": 1})
            assert (await found())[0] == 200
            waiting = asyncio.create_task(client.get(f"{path}/commands?wait=30", headers=token).__aenter__())
            await asyncio.sleep(0.3)

            await postgres.stop()
            assert await ship(2) == (503, UNAVAILABLE)
            assert await found() == (503, UNAVAILABLE)
            async with client.get(f"{path}/commands?wait=0", headers=token) as response:
                assert await status_of(response) == (503, UNAVAILABLE)

            await postgres.start()
            async with asyncio.timeout(30):
                while (await ship(2))[0] != 200:
                    await asyncio.sleep(0.1)
            status, lines = await found()
            assert status == 200
            assert [line["message"] for line in lines] == ["line 2", "line 1"]
            again = asyncio.create_task(client.get(f"{path}/commands?wait=20", headers=token).__aenter__())
            await asyncio.sleep(0.3)
            conn = await asyncpg.connect(postgres.app_dsn)
            made_at = time.monotonic()
            command_id = await commands.enqueue(
                conn, org_id, registered["agentId"], "docker.scale", {"group": "web", "replicas": 1}
            )
            status, command = await status_of(await again)
            assert (status, command["command_id"]) == (200, command_id)
            assert time.monotonic() - made_at < 15  # the poll itself lasts 20 s
            assert (await waiting).status in (204, 503)  # the one that waited was ended, not forgotten
            await conn.close()
        await service.stop()
    finally:
        await postgres.stop()
