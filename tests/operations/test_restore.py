"""A backup as docs/operations.md says, restored into stores that were empty: `make test-restore`."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from monitor.db.migrate import migrate
from monitor.dev.postgres import PostgresServer
from monitor.dev.victoriametrics import VictoriaMetricsServer
from tests.conftest import Addresses, Agent, Api, settings, start_service
from tests.db.fresh import fresh_database
from tests.logs.corpus import search, send
from tests.stack import Stack, own_stack

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
DUMP = ["--format=custom", "--no-unlogged-table-data", "--exclude-table-data=journal_[0-9]"]
RESTORE = ["--no-owner", "--role=monitor_owner"]
RULE = {"name": "busy", "metric": "container_cpu_usage_percent", "operator": "gt", "threshold": 80}

pytestmark = pytest.mark.skipif(
    shutil.which("vmbackup") is None, reason="vmbackup (Debian: victoria-metrics) is missing"
)


def run(program: str | Path, *arguments: str | Path) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def postgres_program(folder: Path, name: str) -> Path:
    """Return a client program beside the server's."""
    return PostgresServer(folder)._folder_of_programs() / name


async def lived(stack: Stack) -> tuple[Api, Agent]:
    """Give the stack an organization with something of everything."""
    api = await stack.api()
    agent = await stack.agent(api)
    container = {"id": "c1", "name": "web", "image": "nginx", "state": "running", "cpuPercent": 95.0}
    async with agent.api.post(f"{agent.path}/push", json={"containers": [container]}) as response:
        assert response.status == 200, await response.text()
    await send(agent, [{"time": "2030-01-01T00:00:00Z", "stream": "stdout", "message": "kept", "containerId": "c1",
                        "container": "web"}])  # fmt: skip
    async with api.post("/api/v1/alerts/rules", json=RULE) as response:
        assert response.status in (200, 201), await response.text()
    assert (
        len(await stack.until_samples(f'{{__name__="container_cpu_usage_percent",org_id="{api.org_id}"}}', 1))
        == 1
    )
    return api, agent


async def told(api: Api) -> dict[str, Any]:
    """Return what the organization can read, in all its kinds."""
    lines, _ = await search(api, {"start": "2029-12-31T00:00:00Z", "end": "2030-01-02T00:00:00Z"})
    async with api.get(
        "/api/v1/metrics/instant", params={"metric": "container_cpu_usage_percent"}
    ) as response:
        metrics = await response.json()
    return {
        "logs": [(line["message"], line["source"]) for line in lines],
        "metrics": [(one["metric"]["container"], one["value"]) for one in metrics["series"]],
        "containers": [row["name"] for row in await api.json("/api/v1/containers")],
        "agents": [row["id"] for row in await api.json("/api/v1/agents")],
        "rules": [rule["id"] for rule in await api.json("/api/v1/alerts/rules")],
        "alerts": [(alert["id"], alert["state"]) for alert in await api.json("/api/v1/alerts")],
    }


def test_the_page_tells_the_commands_that_are_tested():
    text = OPERATIONS.read_text()

    assert f"pg_dump {' '.join(DUMP).replace('journal_[0-9]', QUOTED)} --file=monitor.dump" in text
    assert f"pg_restore {' '.join(RESTORE)} --dbname=" in text
    assert "vmbackup -storageDataPath=/storage -snapshotName=NAME -dst=fs:///backup/monitor" in text
    assert "vmrestore -src=fs:///backup/monitor -storageDataPath=/storage" in text


QUOTED = "'journal_[0-9]'"


async def test_what_was_backed_up_is_all_there_after_a_restore(servers: Addresses, tmp_path: Path):
    dump, backup = tmp_path / "monitor.dump", tmp_path / "backup"
    pg_dump, pg_restore = (postgres_program(tmp_path, name) for name in ("pg_dump", "pg_restore"))
    async with own_stack(servers, tmp_path / "old") as stack:
        api, agent = await lived(stack)
        before = await told(api)
        assert all(before.values()), before
        await asyncio.to_thread(run, pg_dump, *DUMP, f"--file={dump}", stack.addresses.owner_dsn)
        url = stack.victoriametrics.url
        async with aiohttp.ClientSession() as client, client.get(f"{url}/snapshot/create") as response:
            name = re.search(r'"snapshot":"([^"]+)"', await response.text())
        assert name is not None
        storage = stack.victoriametrics.data_dir / "storage"
        await asyncio.to_thread(
            run, "vmbackup", f"-storageDataPath={storage}", f"-snapshotName={name[1]}", f"-dst=fs://{backup}"
        )

    (tmp_path / "new").mkdir()
    victoriametrics = VictoriaMetricsServer(tmp_path / "new" / "victoriametrics")
    storage = victoriametrics.data_dir / "storage"
    await asyncio.to_thread(run, "vmrestore", f"-src=fs://{backup}", f"-storageDataPath={storage}")
    await victoriametrics.start()
    try:
        async with fresh_database(servers) as database:
            superuser = re.sub(r"/[^/]+$", f"/{database.owner_dsn.rpartition('/')[2]}", servers.superuser_dsn)
            await asyncio.to_thread(run, pg_restore, *RESTORE, f"--dbname={superuser}", dump)
            assert await migrate(database.owner_dsn) == []
            addresses = Addresses(database.owner_dsn, database.app_dsn, superuser, victoriametrics.url)
            service = await start_service(tmp_path / "new.yaml", settings(addresses))
            try:
                await still_lives(service.base_url, api, agent, before)
            finally:
                await service.stop()
    finally:
        await victoriametrics.stop()


async def still_lives(base_url: str, api: Api, agent: Agent, before: dict[str, Any]) -> None:
    """Read everything again by the same key, and push by the same token."""
    async with aiohttp.ClientSession(base_url) as session:
        again = Api(session, api.org_id, api.secret, api.headers)
        assert await told(again) == before
        async with session.post(
            f"{agent.path}/push",
            json={"containers": [], "collectedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
            headers=agent.api.headers,
        ) as response:
            assert response.status == 200, await response.text()
        assert (await told(again))["containers"] == []
        async with asyncio.timeout(30):  # a new journal brings new samples where the old ones are
            while not (await up_points(again)) > 1:
                await asyncio.sleep(0.2)


async def up_points(api: Api) -> int:
    """Return how many points of agent_up can be read."""
    async with api.get("/api/v1/metrics/instant", params={"metric": "agent_up"}) as response:
        series = (await response.json())["series"]
    return len(series) + sum(one["value"] == 1 for one in series)
