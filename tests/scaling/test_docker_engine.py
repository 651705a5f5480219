"""A live policy, the service, the agent program and a real engine: from two containers to four and back."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.docker_engine import docker_engine
from tests.scaling.conftest import LIVE, act, actions, changed, docker, new_policy, shown

__all__ = ["docker_engine"]

pytestmark = pytest.mark.xdist_group("docker")

WAIT_SECONDS = 120.0


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    """Wait until *condition* is true."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not await condition():
            await asyncio.sleep(0.1)


@pytest.fixture
async def start(app, api, docker_engine, tmp_path):
    """Start ``monitor agent`` on the engine; each time with the same state."""
    started: list[asyncio.subprocess.Process] = []

    async def agent() -> asyncio.subprocess.Process:
        started.append(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "monitor", "agent", "--type", "docker", "--name", "engine"),
                *("--url", app.base_url, "--docker-host", docker_engine.host, "--pool", "engines"),
                *("--interval", "1s", "--state-dir", str(tmp_path / "agent"), "--no-logs"),
                env={**os.environ, "MONITOR_API_KEY": api.secret},
                stderr=asyncio.subprocess.DEVNULL,
            )
        )
        return started[-1]

    yield agent
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()
    for name in names(docker_engine, "--all"):
        docker_engine.remove(name)


def names(engine: Any, *options: str) -> dict[str, str]:
    """Return the running containers of the group with their ids."""
    listed = engine.call(
        "ps", *options, "--no-trunc", "--format", "{{.Names}} {{.ID}}", "--filter", "name=shop-web"
    )
    return dict(line.split() for line in listed.splitlines())


async def test_a_live_policy_scales_real_containers_and_a_rollback_brings_back_two(
    api, docker_engine, start, round_, pool
):
    for number in (1, 2):
        docker_engine.run(f"shop-web-{number}", "sleep", "100000")
    agent = await start()
    policy = await new_policy(api, docker(targetRef="engines/shop-web", **LIVE, enabled=False))

    async def listed() -> bool:
        return len(await api.json("/api/v1/containers")) == 2

    async def is_applied() -> bool:
        await round_()
        return (await shown(api, policy))["applyHealth"] == "applied"

    await until(listed)
    await changed(api, policy, enabled=True, minReplicas=4)
    await until(is_applied)

    four = await asyncio.to_thread(names, docker_engine)
    assert sorted(four) == [f"shop-web-{number}" for number in (1, 2, 3, 4)]
    assert await actions(api) == [("apply", 2, 4)]

    agent.kill()
    await agent.wait()
    seen = "SELECT last_seen FROM agent_state WHERE org_id = $1"
    before = await pool.fetchval(seen, api.org_id)
    await start()

    async def is_back() -> bool:
        return bool(await pool.fetchval(seen, api.org_id) > before)

    await until(is_back)
    assert await asyncio.to_thread(names, docker_engine) == four

    # Paused, or the bound would bring the four back at once.
    await changed(api, policy, enabled=False)
    after = await act(api, policy, "rollback")
    assert (after["desiredReplicas"], after["applyHealth"]) == (2, "pending")
    other = await new_policy(api, docker(targetRef="engines/nothing"))  # keeps the rounds going
    await until(is_applied)

    two = await asyncio.to_thread(names, docker_engine)
    assert two == {name: four[name] for name in ("shop-web-1", "shop-web-2")}
    assert await actions(api) == [("apply", 2, 4), ("rollback", 4, 2)]
    assert (await shown(api, other))["applyHealth"] == "unknown"
    assert (await api.json("/api/v1/scaling/decisions/verify"))["ok"] is True
    attempts = await pool.fetch("SELECT attempt, status FROM commands WHERE org_id = $1", api.org_id)
    assert [tuple(row) for row in attempts] == [(1, "succeeded")] * 2
