"""``monitor serve`` as a program: workers, supervisor, signals, refusals to start."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from monitor.auth import provision
from tests.conftest import settings
from tests.db.fresh import fresh_database

ROOT = Path(__file__).parents[1]
WORKERS = 2
START_SECONDS = 60.0  # three interpreters on a busy machine
END_SECONDS = 20.0  # with nothing under way


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def children_of(pid: int) -> dict[int, str]:
    """Return the children of a process with their ``--role``."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in listed}
    return {child: command[command.index(b"--role") + 1].decode() for child, command in commands.items()}


async def until(condition: Callable[[], Any], seconds: float = START_SECONDS) -> Any:
    """Wait for *condition*, which may fail with what a service does that is not there yet."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(aiohttp.ClientError, OSError, ValueError):
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.05)


class Program:
    """A running ``monitor serve``."""

    def __init__(self, process: asyncio.subprocess.Process, values: dict[str, Any], config: Path) -> None:
        self.process = process
        self.values = values
        self.config = config
        self.base_url = f"http://{values['server']['listen']}"
        self.internal_url = f"http://{values['server']['internal_listen']}"

    @property
    def children(self) -> dict[int, str]:
        return children_of(self.process.pid)

    async def status(self, url: str, **options: Any) -> int:
        """GET *url* on a new connection, which any worker may take, and return the status."""
        async with aiohttp.ClientSession() as client, client.get(url, **options) as response:
            await response.read()
            return response.status

    async def ready(self) -> bool:
        web, internal = await asyncio.gather(
            self.status(f"{self.base_url}/readyz"), self.status(f"{self.internal_url}/readyz")
        )
        return (web, internal) == (200, 200)

    async def requests(self) -> float:
        """Return how often all workers together answered ``/healthz``."""
        async with aiohttp.ClientSession() as client, client.get(f"{self.internal_url}/metrics") as response:
            assert response.status == 200
            text = await response.text()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "monitor_http_requests_total" and sample.labels["route"] == "/healthz"
        )

    async def end(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(END_SECONDS):
            return await self.process.wait()


async def start(config: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor", "serve", "--config", str(config), *arguments),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )


@asynccontextmanager
async def running(servers: Any, folder: Path) -> AsyncIterator[Program]:
    """Serve with two workers until the block ends."""
    listen, internal = free_ports(2)
    server = {"listen": f"127.0.0.1:{listen}", "internal_listen": f"127.0.0.1:{internal}", "workers": WORKERS}
    values = settings(servers, server=server)
    config = folder / "monitor.yaml"
    config.write_text(yaml.safe_dump(values))
    process = await start(config)
    log = asyncio.create_task(process.stderr.read())  # type: ignore[union-attr]
    program = Program(process, values, config)
    try:
        await until(program.ready)
        yield program
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        print((await log).decode()[-5000:])  # shown if the test fails


@pytest.fixture(scope="module")
async def program(servers, tmp_path_factory) -> AsyncIterator[Program]:
    async with running(servers, tmp_path_factory.mktemp("serve")) as started:
        yield started


async def test_two_workers_and_one_background_process_serve(program, pool, make_org):
    org_id = await make_org()
    async with pool.acquire() as conn:
        _, key = await provision.create_api_key(conn, org_id, "a key")

    roles = sorted(program.children.values())
    statuses = [
        await program.status(f"{program.base_url}/api/v1/containers", headers={"X-API-Key": key})
        for _ in range(8)
    ]

    assert roles == ["background", "web", "web"]
    assert statuses == [200] * 8


async def test_the_internal_page_counts_the_requests_of_all_workers(program):
    before = await program.requests()
    await asyncio.gather(*(program.status(f"{program.base_url}/healthz") for _ in range(40)))

    assert await program.requests() == before + 40
    assert await program.status(f"{program.base_url}/metrics") == 404


async def test_the_background_process_leaves_requests_the_first_turn(program):
    niceness = {role: os.getpriority(os.PRIO_PROCESS, pid) for pid, role in program.children.items()}

    assert niceness["background"] > niceness["web"]


@pytest.mark.parametrize("role", ["web", "background"])
async def test_a_process_that_is_killed_comes_back(program, role):
    before = program.children
    victim = next(pid for pid, its in before.items() if its == role)
    os.kill(victim, signal.SIGKILL)

    def replaced() -> bool:
        now = program.children
        return victim not in now and sorted(now.values()) == sorted(before.values())

    await until(replaced)
    await until(program.ready)

    assert program.process.returncode is None
    newcomer = (program.children.keys() - before.keys()).pop()
    # Serving means listening, too: it takes its share of new connections.
    if role == "web":
        await until(lambda: listens(newcomer, int(program.base_url.rsplit(":", 1)[1])))


def listens(pid: int, port: int) -> bool:
    """Return whether a process has a listening socket on *port*."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    inodes = {row[9] for row in rows if row[3] == "0A" and int(row[1].rsplit(":", 1)[1], 16) == port}
    targets = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(str(descriptor.readlink()))
    return any(f"socket:[{inode}]" in targets for inode in inodes)


async def test_sighup_brings_new_limits_to_every_worker(program, pool, make_org):
    org_id = await make_org()
    async with pool.acquire() as conn:
        _, key = await provision.create_api_key(conn, org_id, "a key")
    headers = {"X-API-Key": key}

    async def register() -> int:
        body = {"name": "host", "type": "docker", "version": "1"}
        url = f"{program.base_url}/api/v1/agents/register"
        async with (
            aiohttp.ClientSession() as client,
            client.post(url, json=body, headers=headers) as response,
        ):
            await response.read()
            return response.status

    before = await register()
    limits = {"limits": {"organizations": {org_id: {"agents": 1}}}}
    program.config.write_text(yaml.safe_dump({**program.values, **limits}))
    program.process.send_signal(signal.SIGHUP)

    async def everywhere() -> bool:
        return set(await asyncio.gather(*(register() for _ in range(12)))) == {429}

    await until(everywhere)
    assert before == 200


async def test_sighup_brings_lines_of_every_request_with_the_level_debug(servers, tmp_path):
    [listen] = free_ports(1)
    values = settings(servers, server={"listen": f"127.0.0.1:{listen}"})
    config = tmp_path / "monitor.yaml"
    config.write_text(yaml.safe_dump(values))
    process = await start(config, "--role", "web")
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{listen}") as client:

            async def asked(request_id: str) -> bool:
                async with client.get("/healthz", headers={"X-Request-Id": request_id}) as response:
                    return response.status == 200

            await until(lambda: asked("at-info"))
            config.write_text(yaml.safe_dump({**values, "log": {"level": "debug", "format": "json"}}))
            process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(START_SECONDS):
                lines = [await process.stderr.readline()]
                while b"at-debug" not in lines[-1]:
                    await asked("at-debug")
                    with contextlib.suppress(TimeoutError):
                        lines.append(await asyncio.wait_for(process.stderr.readline(), 0.2))
    finally:
        process.kill()
        await process.communicate()

    assert not any(b"at-info" in line for line in lines)
    shown = json.loads(lines[-1])
    assert (shown["event"], shown["path"], shown["status"]) == ("request", "/healthz", 200)


async def test_sigterm_ends_every_process_within_seconds(servers, tmp_path):
    async with running(servers, tmp_path) as program:
        children = program.children

        status = await program.end()

        assert status == 0
        assert len(children) == WORKERS + 1
        assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


async def test_the_processes_end_with_a_supervisor_that_was_killed(servers, tmp_path):
    async with running(servers, tmp_path) as program:
        children = program.children
        program.process.kill()
        await program.process.wait()

        await until(lambda: not any(is_alive(pid) for pid in children), END_SECONDS)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def refused(config: Path, values: dict[str, Any], *arguments: str) -> tuple[int | None, str]:
    """Start what must not start; return exit status and stderr."""
    config.write_text(yaml.safe_dump(values))
    process = await start(config, *arguments)
    async with asyncio.timeout(START_SECONDS):
        _, err = await process.communicate()
    return process.returncode, err.decode()


async def test_it_does_not_start_on_a_schema_that_lacks_something(servers, tmp_path):
    async with fresh_database(servers) as database:
        dsns = {"postgres": {"dsn": database.app_dsn, "owner_dsn": database.owner_dsn}}
        status, err = await refused(tmp_path / "monitor.yaml", settings(servers, **dsns), "--role", "web")

    assert status not in (0, None)
    assert "the database lacks 0001_identity.sql" in err
    assert "run `monitor migrate` first" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"auth": {"jwt_secrets": ["short"]}}, "jwt_secrets"),
        ({"auth": {"jwt_secrets": []}}, "jwt_secrets"),
        ({"server": {"listen": "nowhere"}}, "listen"),
        ({"nonsense": 1}, "nonsense"),
    ],
    ids=str,
)
async def test_it_does_not_start_on_a_bad_configuration(servers, tmp_path, changes, named):
    status, err = await refused(tmp_path / "monitor.yaml", settings(servers, **changes))

    assert status == 2
    assert f"{tmp_path / 'monitor.yaml'}:" in err
    assert named in err
    assert "Traceback" not in err
