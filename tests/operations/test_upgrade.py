"""A rolling upgrade: the server from before the newest migration serves on the schema after it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import asyncpg
import pytest
import yaml

from monitor.auth import provision
from monitor.db.migrate import migrate
from tests.conftest import Addresses, settings
from tests.db.fresh import fresh_database

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def before_the_newest_migration(folder: Path) -> set[str]:
    """Put the service of the last commit with fewer migrations into *folder*; return its migrations."""
    newest = git("log", "-1", "--diff-filter=A", "--format=%H", "--", "migrations/*.sql").decode().strip()
    if not newest:
        pytest.skip("no history here: a shallow clone")
    packed = git("archive", f"{newest}^", "monitor", "migrations")
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return {path.name for path in (folder / "migrations").glob("0*.sql")}


async def test_the_server_before_an_upgrade_serves_on_the_new_schema(
    servers: Addresses, tmp_path: Path, unused_tcp_port: int
):
    old = tmp_path / "old"
    known = await asyncio.to_thread(before_the_newest_migration, old)
    async with fresh_database(servers) as database:
        assert set(await migrate(database.owner_dsn)) > known
        conn = await asyncpg.connect(database.app_dsn)
        org_id = await provision.create_org(conn, "an organization", "pro")
        _, key = await provision.create_api_key(conn, org_id, "a key")
        await conn.close()
        addresses = Addresses(database.owner_dsn, database.app_dsn, servers.superuser_dsn, servers.vm_url)
        url = f"http://127.0.0.1:{unused_tcp_port}"
        config = tmp_path / "monitor.yaml"
        config.write_text(yaml.safe_dump(settings(addresses, server={"listen": url.removeprefix("http://")})))
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "monitor", "serve", "--config", config, "--role", "all"),
            cwd=old,
            env={**os.environ, "PYTHONPATH": str(old)},
        )
        try:
            await pushes_and_reads(server, url, key)
        finally:
            if server.returncode is None:
                server.terminate()
            await server.wait()


async def pushes_and_reads(server: asyncio.subprocess.Process, url: str, key: str) -> None:
    """Do the main job by *server*."""
    async with aiohttp.ClientSession(url, headers={"X-API-Key": key}) as api:
        async with asyncio.timeout(START_SECONDS):
            while not await answers(api):
                assert server.returncode is None
                await asyncio.sleep(0.1)
        body = {"name": "host-1", "type": "docker", "version": "1"}
        async with api.post("/api/v1/agents/register", json=body) as response:
            assert response.status == 200, await response.text()
            agent = await response.json()
        token = {"Authorization": f"Bearer {agent['token']}"}
        container = {"id": "c1", "name": "web", "image": "nginx", "state": "running"}
        path = f"/api/v1/agents/{agent['agentId']}/push"
        async with api.post(path, json={"containers": [container]}, headers=token) as response:
            assert response.status == 200, await response.text()
        async with api.get("/api/v1/containers") as response:
            assert [row["name"] for row in await response.json()] == ["web"]
        async with api.get("/api/v1/alerts/rules") as response:
            assert (response.status, await response.json()) == (200, [])


async def answers(api: aiohttp.ClientSession) -> bool:
    """Tell whether the service is ready."""
    try:
        async with api.get("/readyz") as response:
            return response.status == 200
    except aiohttp.ClientConnectionError:
        return False
