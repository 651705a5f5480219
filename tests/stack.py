"""A database and a VictoriaMetrics of a test's own: for tests that kill, stop and restart."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg

from monitor.auth import provision
from monitor.db.migrate import migrate
from monitor.dev.victoriametrics import VictoriaMetricsServer
from tests.conftest import Addresses, Agent, Api, Service, settings, start_service


@dataclass
class Stack:
    """A service with stores of its own; ``session`` talks to it."""

    addresses: Addresses
    victoriametrics: VictoriaMetricsServer
    service: Service
    session: aiohttp.ClientSession
    folder: Path
    conn: asyncpg.Connection[Any]

    async def kill_victoriametrics(self) -> None:
        """End it as a power cut would; ``victoriametrics.start()`` brings it back."""
        child = self.victoriametrics._child
        assert child is not None
        child.kill()
        child.wait()

    async def api(self, plan: str = "pro") -> Api:
        org_id = await provision.create_org(self.conn, "an organization", plan)
        _, key = await provision.create_api_key(self.conn, org_id, "a key")
        return Api(self.session, org_id, key, {"X-API-Key": key})

    async def agent(self, api: Api, name: str = "host-1") -> Agent:
        body = {"name": name, "type": "docker", "version": "1"}
        async with api.post("/api/v1/agents/register", json=body) as response:
            assert response.status == 200, await response.text()
            registered = await response.json()
        token = registered["token"]
        return Agent(
            Api(self.session, api.org_id, token, {"Authorization": f"Bearer {token}"}), registered["agentId"]
        )

    async def samples(self, match: str) -> list[tuple[dict[str, str], int, float]]:
        """Return every stored sample of the series that *match*, flushed first."""
        async with aiohttp.ClientSession() as session:
            await (await session.get(f"{self.victoriametrics.url}/internal/force_flush")).read()
            url = f"{self.victoriametrics.url}/api/v1/export"
            # Without an end VictoriaMetrics leaves the present second out.
            query = {"match[]": match, "end": f"{time.time() + 86_400:.0f}"}
            async with session.get(url, params=query) as response:
                assert response.status == 200, await response.text()
                rows = [json.loads(line) for line in (await response.text()).splitlines()]
        return [
            (row["metric"], at, value)
            for row in rows
            for at, value in zip(row["timestamps"], row["values"], strict=True)
        ]

    async def until_samples(self, match: str, count: int, seconds: float = 60.0) -> list[Any]:
        """Wait until *count* samples are stored and return them."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = await self.samples(match)
            except aiohttp.ClientError:
                found = []
            if len(found) >= count or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.2)


@asynccontextmanager
async def own_stack(servers: Addresses, folder: Path, **changes: Any) -> AsyncIterator[Stack]:
    """Run a service on a new database of the session's Postgres and a new VictoriaMetrics."""
    name = f"test_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(servers.superuser_dsn)
    await admin.execute(f"CREATE DATABASE {name} OWNER monitor_owner")
    addresses = Addresses(
        owner_dsn=_database(servers.owner_dsn, name),
        app_dsn=_database(servers.app_dsn, name),
        superuser_dsn=_database(servers.superuser_dsn, name),
        vm_url="",
    )
    victoriametrics = VictoriaMetricsServer(folder / "victoriametrics")
    await victoriametrics.start()
    try:
        addresses = Addresses(**{**vars(addresses), "vm_url": victoriametrics.url})
        await migrate(addresses.owner_dsn)
        conn = await asyncpg.connect(addresses.app_dsn)
        service = await start_service(folder / "monitor.yaml", {**settings(addresses), **changes})
        async with aiohttp.ClientSession(service.base_url) as session:
            yield Stack(addresses, victoriametrics, service, session, folder, conn)
        await service.stop()
        await conn.close()
    finally:
        await victoriametrics.stop()
        await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await admin.close()


def _database(dsn: str, name: str) -> str:
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()
