"""The main job, whole: a real engine's container, our agent, the service, its organization."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time

import aiohttp
import pytest

pytestmark = pytest.mark.xdist_group("docker")

INTERVAL_SECONDS = 1.0


@pytest.fixture
async def running_agent(app, api, docker_engine, tmp_path):
    """``monitor agent`` as a user starts it, pushing every second."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor", "agent", "--type", "docker", "--name", "e2e"),
        *(
            "--url",
            app.base_url,
            "--interval",
            f"{INTERVAL_SECONDS:g}s",
            "--state-dir",
            str(tmp_path / "agent"),
        ),
        *("--docker-host", docker_engine.host),
        env={**os.environ, "MONITOR_API_KEY": api.secret},
        stderr=asyncio.subprocess.DEVNULL,
    )
    yield process
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    assert await process.wait() == 0


async def until(condition, seconds: float):
    """Return the first true value of *condition*, or its last one."""
    deadline = time.monotonic() + seconds
    while not (value := await condition()) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return value


async def test_a_real_container_is_listed_stored_and_read_back(
    app, api, other, docker_engine, running_agent, servers
):
    docker_engine.run("shop-web-1", "sh", "-c", "while :; do :; done")
    try:

        async def container():
            rows = [row for row in await api.json("/api/v1/containers") if row["name"] == "shop-web-1"]
            return rows[0] if rows and rows[0]["cpuPercent"] > 0 and rows[0]["memoryUsageMB"] > 0 else None

        listed = await until(container, 30)
        assert listed is not None
        assert listed["state"] == "running"
        assert listed["image"] == "monitor-test:busybox"
        assert listed["group"] == "shop-web"
        [agent] = await api.json("/api/v1/agents")
        assert (agent["name"], agent["status"], agent["type"]) == ("e2e", "online", "docker")

        query = {"metric": 'container_cpu_usage_percent{container="shop-web-1"}', "step": "1s"}

        async def series():
            end = time.time()
            answer = await api.json("/api/v1/metrics/range", params={**query, "start": end - 60, "end": end})
            # The first sample says 0: there is nothing to compare it with.
            return [row for row in answer["series"] if max(value for _, value in row["values"]) > 0]

        [found] = await until(series, 30)
        assert found["metric"]["container_id"] == listed["id"]
        assert "org_id" not in found["metric"]
        assert (await other.json("/api/v1/metrics/range", params=query))["count"] == 0
        assert await other.json("/api/v1/containers") == []
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"{servers.vm_url}/api/v1/series",
                params={"match[]": f'container_running{{org_id="{api.org_id}"}}'},
            ) as stored,
        ):
            [labels] = [row for row in (await stored.json())["data"] if row["container"] == "shop-web-1"]
        assert labels["org_id"] == api.org_id

        docker_engine.stop("shop-web-1")

        async def stopped():
            rows = [row for row in await api.json("/api/v1/containers") if row["name"] == "shop-web-1"]
            return rows[0]["state"] != "running" and rows[0]

        assert (await until(stopped, 30))["state"] == "exited"
    finally:
        docker_engine.remove("shop-web-1")
