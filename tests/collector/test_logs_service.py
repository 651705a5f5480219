"""Logs, whole: a real engine's containers, our agent, the service and its log store, and its search.

The agent is killed five times and the service is away for a while; then every line is
found exactly once, by pages, before and after compaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from monitor.auth import provision
from tests.conftest import Api
from tests.logs.conftest import alone, compact_all
from tests.test_serve import running as serving
from tests.test_serve import start as start_serving
from tests.test_serve import until

__all__ = ["alone", "compact_all"]

pytestmark = pytest.mark.xdist_group("docker")

STEP_SECONDS = 120.0  # no step takes so long, however busy the machine is
PAGE = "700"  # lines: the larger logs come in several pages
LONG = 40 * 1024
LOOP = "i=0; while [ $i -lt {count} ]; do i=$((i+1)); {body}; done; sleep 1000"
PLAIN, TTY, LONG_LINES, ROTATED = 500, 250, 16, 4000


class Agent:
    """``monitor agent`` as a user starts it, killed and started again on one state directory."""

    def __init__(self, url: str, key: str, docker_host: str, state: str) -> None:
        self._command = (
            *(sys.executable, "-m", "monitor", "agent", "--type", "docker", "--name", "host-1"),
            *("--url", url, "--docker-host", docker_host, "--state-dir", state, "--interval", "60s"),
        )
        self._environment = {**os.environ, "MONITOR_API_KEY": key}
        self._process: asyncio.subprocess.Process | None = None
        self.kills = 0

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command, env=self._environment)

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None
            self.kills += 1

    async def kill_and_start(self) -> None:
        await self.kill()
        await self.start()


@pytest.fixture
async def program(servers, tmp_path):
    """``monitor serve`` as a program; a test may end it and start it again."""
    async with serving(servers, tmp_path) as started:
        yield started
        if started.process.returncode is None:
            await started.end()


@pytest.fixture
async def api(program, pool):
    async with pool.acquire() as conn:
        org_id = await provision.create_org(conn, "an organization", "free")
        _, key = await provision.create_api_key(conn, org_id, "a key")
    async with aiohttp.ClientSession(program.base_url) as session:
        yield Api(session, org_id, key, {"X-API-Key": key})


@pytest.fixture
async def agent(program, api, docker_engine, tmp_path):
    made = Agent(program.base_url, api.secret, docker_engine.host, str(tmp_path / "agent"))
    await made.start()
    yield made
    await made.kill()


@pytest.fixture
def run(docker_engine):
    """Start containers that are removed after the test."""
    names = []

    def start(name: str, script: str, *options: str) -> str:
        names.append(name)
        arguments = ["run", "--detach", "--stop-signal", "KILL", "--name", name, "--network", "none"]
        return docker_engine.call(*arguments, *options, "monitor-test:busybox", "sh", "-c", script)

    yield start
    for name in names:
        docker_engine.remove(name)


@asynccontextmanager
async def away(program) -> AsyncIterator[None]:
    """Keep the service away until the block ends; afterwards it is another process at the same address."""
    await program.end()
    yield
    process = await start_serving(program.config)
    program.process, program.log = process, asyncio.create_task(process.stderr.read())
    await until(program.ready)


async def found(api: Api, **filters: str) -> list[dict[str, Any]]:
    """Return every line that a search finds, read page by page, oldest first."""
    lines: list[dict[str, Any]] = []
    start = (datetime.now(UTC) - timedelta(minutes=30)).isoformat()
    asked = {"start": start, "limit": PAGE, **filters}
    while True:
        async with api.get("/api/v1/logs/search", params=asked) as response:
            assert response.status == 200, await response.text()
            lines += await response.json()
            cursor = response.headers.get("X-Next-Cursor")
        if cursor is None:
            return lines[::-1]
        asked["cursor"] = cursor


async def arrived(api: Api, container: str, count: int) -> None:
    """Wait until at least *count* lines of the containers with this name are stored."""
    async with asyncio.timeout(STEP_SECONDS):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                histogram = await api.json("/api/v1/logs/histogram", params={"containerName": container})
                if histogram["count"] >= count:
                    return
            await asyncio.sleep(0.2)


def messages(lines: list[dict[str, Any]], stream: str = "stdout") -> list[str]:
    return [line["message"] for line in lines if line["stream"] == stream]


def assert_each_once(lines: list[str], expected: list[str]) -> None:
    """Fail with where the lines differ first, in few words however long they are."""
    different = next((at for at, (a, b) in enumerate(zip(lines, expected, strict=False)) if a != b), None)
    if different is None:
        assert len(lines) == len(expected), f"{len(lines)} of {len(expected)}, the last {outline(lines[-1:])}"
    else:
        around = slice(max(0, different - 1), different + 3)
        seen, wanted = outline(lines[around]), outline(expected[around])
        pytest.fail(f"line {different} of {len(lines)}/{len(expected)}: {seen} instead of {wanted}")


def outline(lines: list[str]) -> str:
    """Return head, tail and length of each line."""
    return ", ".join(f"{line[:12]!r}..{line[-12:]!r} ({len(line)})" for line in lines)


async def check_every_line(api: Api, first: str, second: str) -> None:
    """Every line of every container is found once, in its order."""
    plain = await found(api, containerName="plain")
    for stream, word in (("stdout", "out"), ("stderr", "err")):
        expected = [f"{word} {number}" for number in range(1, PLAIN + 1)]
        assert_each_once(messages(plain, stream), expected)
        one_stream = await found(api, containerName="plain", stream=stream)
        assert_each_once(messages(one_stream, stream), expected)
    tty = messages(await found(api, containerName="tty"))
    assert_each_once(tty, [f"tty {number}" for number in range(1, TTY + 1)])
    long = messages(await found(api, containerName="long"))
    assert_each_once(long, [f"{number} {'0' * LONG}" for number in range(1, LONG_LINES + 1)])
    rotated = messages(await found(api, containerName="rotated"))
    assert_each_once(rotated, [f"rot {number}" for number in range(1, ROTATED + 1)])
    generations = {
        first: [f"first {number}" for number in (1, 2, 3)],
        second: [f"second {number}" for number in (1, 2, 3)],
    }
    both = await found(api, containerName="twice")
    assert messages(both) == generations[first] + generations[second]
    for container_id, expected in generations.items():
        one = await found(api, containerId=container_id)
        assert messages(one) == expected
        assert {line["containerId"] for line in one} == {container_id}
    everything = await found(api)
    assert len(everything) == 2 * PLAIN + TTY + LONG_LINES + ROTATED + 6
    assert len({line["id"] for line in everything}) == len(everything)


async def test_every_line_is_found_once_after_five_kills_and_an_outage_before_and_after_compaction(
    program, api, agent, docker_engine, run, alone, compact_all
):
    await alone(api.org_id)  # nothing is compacted before we say so
    async with asyncio.timeout(STEP_SECONDS):
        while not (await api.json("/api/v1/agents")):
            await asyncio.sleep(0.1)
    run("plain", LOOP.format(count=PLAIN, body="echo out $i; echo err $i >&2; sleep 0.01"))
    run("tty", LOOP.format(count=TTY, body="echo tty $i; sleep 0.02"), "--tty")
    zeros = f"x=$(printf '%0{LONG}d' 0); "
    run("long", zeros + LOOP.format(count=LONG_LINES, body="echo $i $x; sleep 0.4"))
    rotation = ("--log-opt", "max-size=60k", "--log-opt", "max-file=20")
    lines = LOOP.format(count=ROTATED, body="echo rot $i; [ $((i % 500)) = 0 ] && sleep 0.8")
    run("rotated", lines, *rotation)
    first = run("twice", "for i in 1 2 3; do echo first $i; done; sleep 1000")
    await arrived(api, "twice", 3)  # what was not read goes with its container
    for _ in range(2):
        await asyncio.sleep(0.5)
        await agent.kill_and_start()
    async with away(program):
        await asyncio.sleep(1.0)  # lines go on
        await agent.kill_and_start()
        await asyncio.sleep(1.0)
    docker_engine.remove("twice")
    second = run("twice", "for i in 1 2 3; do echo second $i; done; sleep 1000")
    for _ in range(2):
        await asyncio.sleep(1.0)
        await agent.kill_and_start()
    counts = {"plain": 2 * PLAIN, "tty": TTY, "long": LONG_LINES, "rotated": ROTATED, "twice": 6}
    for container, count in counts.items():
        await arrived(api, container, count)
    await asyncio.sleep(1.5)  # what comes twice would come now
    await agent.kill()

    await check_every_line(api, first, second)
    assert await compact_all(api.org_id) > 0
    await check_every_line(api, first, second)

    assert agent.kills > 5
