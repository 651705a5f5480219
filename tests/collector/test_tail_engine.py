"""A live tail, whole: a real engine's container, our agent, the serving processes, a viewer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest

from monitor.auth import provision
from tests.conftest import Api
from tests.logs.tailing import Event, Viewer
from tests.test_serve import running as serving

pytestmark = pytest.mark.xdist_group("docker")

LINES = 10_000
CUTS = 20
KILLS = 2
RETRY_SECONDS = 0.1
STEP_SECONDS = 120.0  # no step takes so long, however busy the machine is
# Written over about five seconds, from the moment that the file is there.
SCRIPT = f"""
while [ ! -e /tmp/go ]; do sleep 0.05; done
i=0
while [ $i -lt {LINES} ]; do
  i=$((i+1)); echo line $i
  [ $((i % 100)) = 0 ] && sleep 0.03
done
echo done >&2
"""


@pytest.fixture
async def program(servers, tmp_path):
    """``monitor serve`` with two workers, which a supervisor restarts."""
    async with serving(servers, tmp_path) as started:
        yield started


@pytest.fixture
async def api(program, pool):
    async with pool.acquire() as conn:
        org_id = await provision.create_org(conn, "an organization", "pro")
        _, key = await provision.create_api_key(conn, org_id, "a key")
    async with aiohttp.ClientSession(program.base_url) as session:
        yield Api(session, org_id, key, {"X-API-Key": key})


@pytest.fixture
async def agent(program, api, docker_engine, tmp_path):
    """``monitor agent`` as a user starts it, pushing every five seconds."""
    async with agent_of(program, api, docker_engine, tmp_path, "5s"):
        yield


@asynccontextmanager
async def agent_of(program, api, docker_engine, tmp_path, interval):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor", "agent", "--type", "docker", "--name", "tailed"),
        *("--url", program.base_url, "--docker-host", docker_engine.host, "--interval", interval),
        *("--state-dir", str(tmp_path / "agent"), "--log-level", "debug"),
        env={**os.environ, "MONITOR_API_KEY": api.secret},
        stderr=asyncio.subprocess.PIPE,
    )
    shown = asyncio.create_task(process.stderr.read())
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        status = await process.wait()
        print((await shown).decode()[-5000:])  # if the test fails
    assert status == 0


async def reported(api, container_id):
    """Wait until the service knows a container."""
    async with asyncio.timeout(STEP_SECONDS):
        while container_id not in {row["id"] for row in await api.json("/api/v1/containers")}:
            await asyncio.sleep(0.1)


class Watch:
    """A viewer who connects again, with the id of the last event, whenever the stream breaks.

    Attributes:
        lines: All that were shown, in order.
        connections: Streams so far.
        last: The event that ended the stream for good.
    """

    def __init__(self, api: Api, container_id: str, **params: str) -> None:
        self._api = api
        self._path = f"/api/v1/logs/containers/{container_id}"
        self._params = params
        self._last_id: str | None = None
        self.lines: list[Event] = []
        self.connections = 0
        self.last: Event | None = None

    async def connect(self) -> None:
        """Open a stream, and cut it at once."""
        while not self.connections:
            await self._watch(0)

    async def until(self, count: int) -> None:
        """Watch until *count* lines were shown or the stream has ended, then cut the connection."""
        while len(self.lines) < count and self.last is None:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                await self._watch(count)
                continue
            await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, count: int) -> None:
        headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
        limit = aiohttp.ClientTimeout(total=None)
        async with self._api.get(self._path, params=self._params, headers=headers, timeout=limit) as response:
            if response.status == 503:  # the process has just been started
                await asyncio.sleep(RETRY_SECONDS)
                return
            assert response.status == 200, await response.text()
            self.connections += 1
            viewer = Viewer(response)
            try:
                while len(self.lines) < count and (event := await viewer.next()) is not None:
                    self._last_id = event.id or self._last_id
                    if event.kind == "log":
                        self.lines.append(event)
                    elif event.kind == "end" and event.body["reason"] == "shutdown":
                        return
                    elif event.kind not in ("connected", "waiting"):
                        self.last = event
                        return
            finally:
                response.close()

    def texts(self, stream: str = "stdout") -> list[str]:
        return [event.body["line"] for event in self.lines if event.body["stream"] == stream]


async def test_ten_thousand_lines_arrive_once_and_in_order_whatever_is_cut_and_killed(
    api, program, agent, docker_engine
):
    container_id = docker_engine.run("tailed", "sh", "-c", SCRIPT)
    try:
        await reported(api, container_id)
        watch = Watch(api, container_id, follow="1", tail="100")
        killed: list[int] = []
        async with asyncio.timeout(STEP_SECONDS):
            await watch.connect()
            docker_engine.call("exec", "tailed", "sh", "-c", ": > /tmp/go")
            for cut in range(1, CUTS + 1):
                await watch.until(cut * LINES // (CUTS + 1))
                if cut in (CUTS // 3, 2 * CUTS // 3):
                    for pid in [pid for pid, role in program.children.items() if role == "web"]:
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)
            await watch.until(LINES + 2)
    finally:
        docker_engine.remove("tailed")

    assert watch.texts() == [f"line {number}" for number in range(1, LINES + 1)]
    assert watch.texts("stderr") == ["done"]
    assert watch.last is not None
    assert (watch.last.kind, watch.last.body) == ("end", {"reason": "complete"})
    assert watch.connections > CUTS
    assert len(killed) > KILLS  # at the second time, too


async def test_the_first_line_of_a_quiet_container_comes_at_once_by_the_waiting_command_poll(
    api, program, docker_engine, tmp_path
):
    container_id = docker_engine.run("quiet", "sh", "-c", "echo hello; sleep 1000")
    took = []
    try:
        async with agent_of(program, api, docker_engine, tmp_path, "60s"):
            await reported(api, container_id)
            for number in range(5):
                watch = Watch(api, container_id, follow="1", tail=str(number + 1))  # no request is shared
                began = time.monotonic()
                async with asyncio.timeout(STEP_SECONDS):
                    await watch.until(1)
                took.append(time.monotonic() - began)
                assert watch.texts() == ["hello"]
    finally:
        docker_engine.remove("quiet")

    print(f"first line after {sorted(took)[2] * 1000:.0f} ms", file=sys.stderr)
    assert sum(took) < 30.0  # half the time to the next push, which would bring it otherwise


async def test_history_a_one_shot_and_what_cannot_be_tailed(api, agent, docker_engine):
    zeros = "x=$(printf '%040960d' 0)"
    ids = {
        "plain": docker_engine.run(
            "plain", "sh", "-c", "for i in $(seq 50); do echo out $i; done; sleep 1; echo err >&2"
        ),
        "long": docker_engine.run(
            "long", "sh", "-c", f"{zeros}; for i in 1 2 3; do echo $i $x; done; sleep 1000"
        ),
        "tty": docker_engine.call(
            *("run", "--detach", "--tty", "--stop-signal", "KILL", "--name", "tty", "--network", "none"),
            *("monitor-test:busybox", "sh", "-c", "for i in 1 2 3; do echo tty $i; done; sleep 1000"),
        ),
        "mute": docker_engine.call(
            *("run", "--detach", "--stop-signal", "KILL", "--name", "mute", "--network", "none"),
            *("--log-driver", "none", "monitor-test:busybox", "sleep", "1000"),
        ),
    }
    try:
        watches = {name: Watch(api, container_id, tail="3") for name, container_id in ids.items()}
        for container_id in ids.values():
            await reported(api, container_id)
        async with asyncio.timeout(STEP_SECONDS):
            for watch in watches.values():
                await watch.until(100)
    finally:
        for name in ids:
            docker_engine.remove(name)

    ends = {name: (watch.last.kind, watch.last.body) for name, watch in watches.items()}
    assert ends["mute"][0] == "error"
    assert "does not support reading" in ends["mute"][1]["error"]
    assert {ends[name] == ("end", {"reason": "complete"}) for name in ("plain", "long", "tty")} == {True}
    assert sorted(watches["plain"].texts() + watches["plain"].texts("stderr")) == ["err", "out 49", "out 50"]
    assert [(text[0], len(text)) for text in watches["long"].texts()] == [(str(n), 40_962) for n in (1, 2, 3)]
    assert watches["tty"].texts() == ["tty 1", "tty 2", "tty 3"]
