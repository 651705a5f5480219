"""Nothing is lost and nothing comes twice: cut connections, killed processes, slow viewers, lost hints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
import yaml

from monitor.auth import provision
from monitor.db.migrate import migrate
from monitor.db.postgres import Pool
from monitor.db.wakeups import APPLICATION
from monitor.dev.postgres import PostgresServer
from monitor.errors import StorageUnavailable
from monitor.logs.tail.lines import receive, show
from monitor.logs.tail.lines.feeds import FEEDS
from monitor.web import sse
from tests.conftest import Addresses, Agent, Api, Service, settings, start_service
from tests.logs.tailing import CONTAINER, SECONDS, numbered, send, sent, until, watching
from tests.servers import FAST
from tests.test_serve import free_ports

DURABLE = FAST | {"synchronous_commit": "on"}  # what was answered survives the process
LINES = 10_000
CUTS = 20
KILLED_AT = (5, 12)  # cuts at which the serving process dies
BATCH = 50
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def agent(agent: Agent) -> Agent:
    """An agent that reports a container."""
    await agent.pushed(containers=[{"id": CONTAINER, "name": "web"}])
    return agent


class Process:
    """A web process of its own, which can be killed and started again."""

    def __init__(self, servers: Addresses, folder: Path) -> None:
        listen, internal = free_ports(2)
        self.config = folder / f"{listen}.yaml"
        server = {"listen": f"127.0.0.1:{listen}", "internal_listen": f"127.0.0.1:{internal}"}
        self.config.write_text(yaml.safe_dump(settings(servers, server=server, log={"level": "error"})))
        self.base_url = f"http://127.0.0.1:{listen}"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "monitor", "serve", "--role", "web", "--config", str(self.config)),
            cwd=ROOT,
        )
        async with aiohttp.ClientSession(self.base_url) as session:
            await until(lambda: self._answers(session))

    async def _answers(self, session: aiohttp.ClientSession) -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get("/healthz") as response:
                return response.status == 200
        return False

    async def kill(self) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()


@pytest.fixture
async def processes(servers: Addresses, tmp_path: Path, app: Service) -> AsyncIterator[list[Process]]:
    """Two web processes; the test's own service does what goes on in the background."""
    both = [Process(servers, tmp_path) for _ in range(2)]
    try:
        await asyncio.gather(*(process.start() for process in both))
        yield both
    finally:
        await asyncio.gather(*(process.kill() for process in both if process.process))


def at(client: Api, session: aiohttp.ClientSession) -> Api:
    """Return *client* talking over another session."""
    return Api(session, client.org_id, client.secret, client.headers)


async def ship(agent: Agent, sessions: list[aiohttp.ClientSession], request_id: str, seen: list[str]) -> None:
    """Send all lines, to one process after the other; what is not acknowledged, and some more, again."""
    acknowledged = turn = 0
    while acknowledged < LINES:
        turn += 1
        while acknowledged - len(seen) >= 10 * BATCH:
            await asyncio.sleep(0.001)  # near the viewer, so that he is cut off in the middle of things
        there = Agent(at(agent.api, sessions[turn % len(sessions)]), agent.agent_id)
        first = max(0, acknowledged - random.choice((0, 0, 7)))
        with contextlib.suppress(aiohttp.ClientError):
            acknowledged = await sent(there, request_id, numbered(first, min(BATCH, LINES - first)))


async def watch(api: Api, last_id: str, seen: list[str], count: int, serving: Process | None) -> str:
    """Add lines to *seen*, until there are *count* or the stream breaks; return the last id.

    With *serving*, kill it then and read what is still on its way.
    """
    with contextlib.suppress(aiohttp.ClientError):
        async with watching(api, last_id=last_id) as viewer:
            viewer.last_id = last_id
            while (serving or len(seen) < count) and (event := await viewer.next()) is not None:
                assert event.kind in ("connected", "waiting", "log"), event
                last_id = str(viewer.last_id)
                if event.kind == "log":
                    seen.append(event.body["line"])
                if serving and len(seen) == count:
                    await serving.kill()
    return last_id


async def test_ten_thousand_lines_survive_cut_connections_and_killed_processes(
    api: Api, agent: Agent, processes: list[Process]
):
    seen: list[str] = []
    restarts: list[asyncio.Future[None]] = []
    async with contextlib.AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(aiohttp.ClientSession(process.base_url)) for process in processes
        ]
        async with watching(at(api, sessions[0]), follow=1) as viewer:
            event = await viewer.until("connected")
        request_id, last_id = event.body["requestId"], str(event.id)
        shipping = asyncio.ensure_future(ship(agent, sessions, request_id, seen))
        turn = 0
        for cut in range(CUTS + 1):
            count = LINES if cut == CUTS else len(seen) + random.randint(100, 400)
            while len(seen) < count:
                turn += 1
                serving = processes[turn % 2]
                doomed = serving if cut in KILLED_AT else None
                last_id = await watch(at(api, sessions[turn % 2]), last_id, seen, count, doomed)
            if cut in KILLED_AT:
                restarts.append(asyncio.ensure_future(serving.start()))
        await shipping
        await asyncio.gather(*restarts)

    assert seen == [f"line {seq}" for seq in range(LINES)]


async def test_a_hint_that_is_lost_costs_time_and_no_line(
    api: Api, agent: Agent, superuser: asyncpg.Connection[Any]
):
    async with watching(api, follow=1) as viewer:
        request_id = (await viewer.until("connected")).body["requestId"]
        await sent(agent, request_id, numbered(0, 1))
        assert await viewer.lines(1) == ["line 0"]
        await superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", APPLICATION
        )
        await sent(agent, request_id, numbered(1, 1))
        assert await viewer.lines(1) == ["line 1"]


async def backlog_of(app: Service, request_id: str) -> int:
    """Return what the one viewer of a request has not taken."""
    feed = app.app[FEEDS]._feeds.get(request_id)
    return max((viewer.stream.backlog for viewer in feed.viewers), default=0) if feed else 0


class Stalled:
    """A viewer who does not read: a connection with small buffers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request_id(self) -> str:
        head = await self.reader.readuntil(b'"requestId":"')
        assert b" 200 " in head
        return (await self.reader.readuntil(b'"'))[:-1].decode()

    async def rest(self, count: int) -> list[str]:
        """Read to the line with number *count*; return the kinds and bodies of all events."""
        text = b""
        async with asyncio.timeout(SECONDS):
            while f"line {count - 1} ".encode() not in text:
                text += await self.reader.read(65536)
        return text.decode().replace("\r\n", "\n").split("\n")


@contextlib.asynccontextmanager
async def stalled_viewer(app: Service, api: Api) -> AsyncIterator[Stalled]:
    host, port = app.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=4096)
    path = f"/api/v1/logs/containers/{CONTAINER}?follow=1"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {api.secret}\r\n\r\n".encode())
    try:
        yield Stalled(reader, writer)
    finally:
        writer.transport.abort()


async def test_a_viewer_who_reads_nothing_costs_bounded_memory_and_slows_nobody(
    app: Service, api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receive, "KEPT_BYTES", 2 * 1024 * 1024)
    monkeypatch.setattr(receive, "TRIM_BYTES", 256 * 1024)
    count = 8_000  # of 4 KiB: more than the buffers of a connection hold
    async with stalled_viewer(app, api) as stalled:
        request_id = await stalled.request_id()
        async with watching(api, follow=1) as viewer:
            for first in range(0, count, 50):
                await sent(agent, request_id, numbered(first, 50, "line {} " + "x" * 4096))
                shown = await viewer.lines(50)
                assert shown[-1].startswith(f"line {first + 49} ")
                assert await backlog_of(app, request_id) < 4 * sse.BACKLOG_BYTES

            # When he reads again he is told how much he missed, and gets what follows.
            lines = await stalled.rest(count)
    skipped = sum(
        int(lines[number + 1].split(":")[2].rstrip("}"))
        for number, line in enumerate(lines)
        if line == "event: skipped"
    )
    shown_lines = sum(line.startswith('data: {"line":') for line in lines)
    assert skipped > 0
    assert skipped + shown_lines == count


async def test_a_viewer_who_takes_nothing_for_minutes_is_cut_off(
    app: Service, api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(show, "STALLED_SECONDS", 0.2)
    async with stalled_viewer(app, api) as stalled:
        request_id = await stalled.request_id()
        first = 0
        async with asyncio.timeout(SECONDS):
            while request_id in app.app[FEEDS]._feeds:
                await sent(agent, request_id, numbered(first, 100, "line {} " + "x" * 4096))
                first += 100


async def test_only_the_newest_lines_are_kept(
    api: Api, agent: Agent, pool: Pool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receive, "KEPT_BYTES", 64 * 1024)
    monkeypatch.setattr(receive, "TRIM_BYTES", 8 * 1024)
    async with watching(api, follow=1) as viewer:
        request_id = (await viewer.until("connected")).body["requestId"]
        for first in range(0, 2_000, 50):
            await sent(agent, request_id, numbered(first, 50))
        stored = await pool.fetchval(
            "SELECT sum(length(events)) FROM tail_lines WHERE request_id = $1", request_id
        )
        assert 32 * 1024 < stored < 96 * 1024
    async with watching(api, last_id=f"{request_id}:-1") as late:
        skipped = await late.until("skipped")
        first_line = await late.next()
        assert skipped.body["lines"] == int(first_line.body["line"].removeprefix("line ")) > 1000


async def test_storage_that_is_away_for_a_while_interrupts_and_loses_nothing(
    app: Service, api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    async with watching(api, follow=1) as viewer:
        request_id = (await viewer.until("connected")).body["requestId"]
        real = show.store.read_new

        async def away(*args: Any) -> Any:
            raise StorageUnavailable

        monkeypatch.setattr("monitor.logs.tail.lines.feeds.store.read_new", away)
        await sent(agent, request_id, numbered(0, 10))
        monkeypatch.setattr("monitor.logs.tail.lines.feeds.store.read_new", real)
        await sent(agent, request_id, numbered(10, 10))
        assert await viewer.lines(20) == [f"line {seq}" for seq in range(20)]


async def test_a_crash_of_postgres_ends_the_streams(servers: Addresses, tmp_path: Path):
    tmp_path.chmod(0o755)  # Postgres runs as another user
    postgres = PostgresServer(tmp_path / "postgres", settings=DURABLE)
    await postgres.start()
    try:
        await migrate(postgres.owner_dsn)
        own = Addresses(postgres.owner_dsn, postgres.app_dsn, postgres.superuser_dsn, servers.vm_url)
        conn = await asyncpg.connect(postgres.app_dsn)
        org_id = await provision.create_org(conn, "an organization", "pro")
        _, key = await provision.create_api_key(conn, org_id, "a key")
        service = await start_service(tmp_path / "monitor.yaml", settings(own))
        async with aiohttp.ClientSession(service.base_url) as session:
            api = Api(session, org_id, key, {"X-API-Key": key})
            body = {"name": "host", "type": "docker", "version": "1"}
            async with api.post("/api/v1/agents/register", json=body) as response:
                registered = await response.json()
            token = {"Authorization": f"Bearer {registered['token']}"}
            agent = Agent(Api(session, org_id, registered["token"], token), registered["agentId"])
            await agent.pushed(containers=[{"id": CONTAINER, "name": "web"}])
            async with watching(api, follow=1) as viewer:
                request_id = (await viewer.until("connected")).body["requestId"]
                await sent(agent, request_id, numbered(0, 1))
                assert await viewer.lines(1) == ["line 0"]

                # One killed backend makes Postgres start over: it empties unlogged tables.
                os.kill(await conn.fetchval("SELECT pg_backend_pid()"), signal.SIGKILL)
                events = await viewer.rest()

                assert (events[-1].kind, list(events[-1].body)) == ("error", ["error"])
                assert await until(lambda: status_of(agent, request_id)) == 404
        await service.stop()
    finally:
        await postgres.stop()


async def status_of(agent: Agent, request_id: str) -> int | None:
    """Return how a line is answered, None while Postgres is away."""
    status, _ = await send(agent, request_id, numbered(1, 1))
    return None if status == 503 else status
