"""Live tails: 1,000 streams of ten lines a second in one worker, idle polls, and the first line.

    python -m benchmarks.tail [--seconds 10] [--firsts 1000] [--polls 5000]

Streams: lines are written to Postgres as the service writes them, ten a second for each
container, and one web worker shows them to viewers.  Beside it a bare server writes
such events to as many connections at the same pace: that is the least an event can cost.
Then agents wait for commands, and nothing comes.  Last, somebody opens the tail of an
idle container whose agent waits for its command and answers with one line.  Prints
tables, then one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import yaml

from benchmarks.stack import Agent, Stack, print_figures, print_table, process_seconds, started_stack
from monitor.db.wakeups import CHANNEL
from monitor.dev.files import LOOPBACK
from monitor.logs.tail.lines.events import Line, rows_of
from monitor.logs.tail.lines.store import wakeup_key
from monitor.logs.times import format_ns
from monitor.web.sse import frame

STREAMS = 1_000
VIEWERS_EACH = (1, 50)  # of a container: everybody his own, or a few that many watch
LINES_A_SECOND = 10  # of a stream
TURNS = 10  # in which the containers send, between two lines of one
OPENING = 50  # connections that are opened at once
SETTLE_SECONDS = 2.0  # before anything is measured
POLL_SECONDS = 30  # of waiting, the longest
POLLS_A_SECOND = 250  # that begin: as many as end later, when each has waited
TEXT = "2026-01-01 INFO shop.orders request handled path=/api/v1/orders/4711 status=200 ms=12 sent={} "
MARK = b"sent="

# What the service does for each POST of an agent, for many at once.
WRITE = """
WITH sent AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS s (id, seq, events)
), added AS (
    INSERT INTO tail_lines (request_id, org_id, first_seq, last_seq, end_byte, events)
    SELECT id, $4, seq, seq, seq, events FROM sent
)
UPDATE tail_requests r SET next_seq = s.seq + 1, streamed_at = clock_timestamp() FROM sent s WHERE r.id = s.id
"""
HINT = "SELECT pg_notify($1, key) FROM unnest($2::text[]) AS key"
KEYS_A_HINT = 20  # as when five processes take the POSTs of 1,000 streams
TRIM = "DELETE FROM tail_lines WHERE last_seq < $1"
REQUESTS = "SELECT id FROM tail_requests WHERE ended_at IS NULL AND left_at IS NULL ORDER BY id"


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement of streams")
    parser.add_argument("--firsts", type=int, default=1_000, help="tails whose first line is waited for")
    parser.add_argument("--polls", type=int, default=5_000, help="agents that wait for a command")
    parser.add_argument("--bare", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        asyncio.run(Bare(*arguments.bare).serve())
    else:
        asyncio.run(measure(arguments.seconds, arguments.firsts, arguments.polls))


async def measure(seconds: float, firsts: int, polls: int) -> None:
    """Measure everything and print it."""
    figures: dict[str, Any] = {}
    async with started_stack() as stack:
        rows = []
        for each in VIEWERS_EACH:
            async with worker(stack) as served:
                ours = await measure_streams(stack, served, each, seconds)
            async with bare(each) as served:
                least = await watch(served, itertools.repeat(b"", STREAMS), seconds)
            rows += [{"server": "service", **ours}, {"server": "bare writes", **least}]
            ratio = ours["us_per_event"] / least["us_per_event"]
            figures[f"streams_{each}_each"] = {"service": ours, "bare": least, "cpu_ratio": ratio}
            print(f"{STREAMS // each} containers, {each} viewers each: {ratio:.2f} of bare writes")
        print_table(list(rows[0]), rows)
        async with worker(stack) as served:
            figures["polls"] = await measure_polls(stack, served, polls)
            print_table(list(figures["polls"]), [figures["polls"]])
        async with worker(stack) as served:
            figures["first_line"] = await measure_first_lines(stack, served, firsts)
            print_table(list(figures["first_line"]), [figures["first_line"]])
    print_figures(figures)


class Served:
    """A process that serves on a port."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.pid = process.pid
        self.port = port
        self.url = f"http://{LOOPBACK}:{port}"

    @property
    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        return process_seconds(self.pid)

    @property
    def memory_kib(self) -> int:
        """Resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as opened:
        opened.bind((LOOPBACK, 0))
        port: int = opened.getsockname()[1]
        return port


@asynccontextmanager
async def serving(port: int, *arguments: str) -> AsyncIterator[Served]:
    """Run ``python -m`` with *arguments* until the block ends."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", *arguments)
    try:
        async with asyncio.timeout(60):
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(LOOPBACK, port)
                    writer.close()
                    break
                await asyncio.sleep(0.05)
        yield Served(process, port)
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def worker(stack: Stack) -> AsyncIterator[Served]:
    """Run one web process of the service on the stack's stores, without its limits."""
    port = free_port()
    settings = {
        "server": {"listen": f"{LOOPBACK}:{port}", "internal_listen": f"{LOOPBACK}:{free_port()}"},
        "postgres": {"dsn": stack.postgres.app_dsn},
        "victoriametrics": {"url": stack.victoriametrics.url},
        "auth": {"jwt_secrets": ["of the benchmark, and thirty-two bytes at least"]},
        "limits": {"default": {"tails": 1_000_000}},
        "log": {"level": "error"},
    }
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "monitor.yaml"
        config.write_text(yaml.safe_dump(settings))
        async with serving(port, "monitor", "serve", "--role", "web", "--config", str(config)) as served:
            yield served


@asynccontextmanager
async def bare(viewers_each: int) -> AsyncIterator[Served]:
    """Run the bare server."""
    port = free_port()
    async with serving(port, "benchmarks.tail", "--bare", str(port), str(viewers_each)) as served:
        yield served


class Bare:
    """Writes events to whoever connects, as soon as all have: *viewers_each* get the same."""

    def __init__(self, port: int, viewers_each: int) -> None:
        self._port = port
        self._each = viewers_each
        self._transports: list[asyncio.Transport] = []

    async def serve(self) -> None:
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(self._transports), LOOPBACK, self._port)
        async with server:
            while len(self._transports) < STREAMS:
                await asyncio.sleep(0.1)
            groups = [self._transports[start : start + self._each] for start in range(0, STREAMS, self._each)]
            async for turn in turns():
                chunk = frame(event("tail_" + "0" * 32, turn))
                for group in groups[turn % TURNS :: TURNS]:
                    for transport in group:
                        transport.write(chunk)


class Connection(asyncio.Protocol):
    """A connection that says that it wants to be written to by sending something."""

    def __init__(self, transports: list[asyncio.Transport]) -> None:
        self._transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Let it be written to."""
        assert isinstance(self._transport, asyncio.Transport)
        self._transports.append(self._transport)


def event(request_id: str, seq: int) -> bytes:
    """Return a line as viewers get it, with the time at which it is sent."""
    now = time.time_ns()
    line = Line(seq, format_ns(now), "stdout", TEXT.format(now))
    return rows_of(request_id, "docker", [line], seq)[0][0].events


async def turns() -> AsyncIterator[int]:
    """Count the turns as they come: TURNS of them while each container sends one line."""
    pause = 1 / LINES_A_SECOND / TURNS
    begun = time.monotonic()
    for turn in itertools.count():
        await asyncio.sleep(begun + turn * pause - time.monotonic())
        yield turn


class Client(asyncio.Protocol):
    """A viewer: notes how long each line was on its way, in ms."""

    delays: ClassVar[list[float]] = []

    def __init__(self, request: bytes) -> None:
        self._request = request or b"\n"
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Note how long its lines were on their way."""
        if not self.answered.done():
            self.answered.set_result(None)
        now = time.time_ns()
        for part in data.split(MARK)[1:]:
            Client.delays.append((now - int(part[: part.index(b" ")])) / 1e6)


async def measure_streams(stack: Stack, served: Served, each: int, seconds: float) -> dict[str, Any]:
    """Show lines of as many containers as it takes for *each* viewers to have the same."""
    count = STREAMS // each
    agent = (await stack.register(1))[0]
    ids = [f"{agent.agent_id.encode().hex()[:40]}{number:024x}" for number in range(count)]
    await push(served, agent, ids)
    requests = (
        f"GET /api/v1/logs/containers/{ids[number // each]}?follow=1&tail=0 HTTP/1.1\r\n"
        f"Host: x\r\nX-API-Key: {stack.api_key}\r\n\r\n".encode()
        for number in range(STREAMS)
    )
    return await watch(served, requests, seconds, lambda: send(stack, count))


async def watch(
    served: Served,
    requests: Iterable[bytes],
    seconds: float,
    sending: Callable[[], Awaitable[None]] | None = None,
) -> dict[str, Any]:
    """Connect with each of *requests*, have lines sent, and return what an event costs and takes."""
    loop = asyncio.get_running_loop()
    empty = served.memory_kib
    transports: list[asyncio.BaseTransport] = []
    for some in batches(requests, OPENING):
        opened = await asyncio.gather(
            *(
                loop.create_connection(lambda text=text: Client(text), LOOPBACK, served.port)  # type: ignore[misc]
                for text in some
            )
        )
        transports += [transport for transport, _ in opened]
        if sending is not None:
            await asyncio.gather(*(client.answered for _, client in opened))
    full = served.memory_kib
    task = asyncio.ensure_future(sending()) if sending is not None else None
    await asyncio.sleep(SETTLE_SECONDS)
    Client.delays.clear()
    cpu, begun = served.cpu_seconds, time.monotonic()
    await asyncio.sleep(seconds)
    cpu, took = served.cpu_seconds - cpu, time.monotonic() - begun
    delays = sorted(Client.delays)
    if task is not None:
        assert not task.done(), task
        task.cancel()
    for transport in transports:
        transport.abort()  # type: ignore[attr-defined]
    return {
        "streams": len(transports),
        "events_per_s": len(delays) / took,
        "us_per_event": cpu / len(delays) * 1e6,
        "cores": cpu / took,
        "p50_ms": statistics.median(delays),
        "p99_ms": delays[int(len(delays) * 0.99)],
        "kib_per_stream": (full - empty) / len(transports),
    }


def batches(items: Iterable[Any], size: int) -> Iterable[list[Any]]:
    """Yield the items in lists of at most *size*."""
    iterator = iter(items)
    while some := list(itertools.islice(iterator, size)):
        yield some


async def send(stack: Stack, count: int) -> None:
    """Write ten lines a second for each of the *count* requests that are watched, until cancelled."""
    async with stack.connection() as conn:
        ids = [row["id"] for row in await conn.fetch(REQUESTS)][-count:]
        assert len(ids) == count, "every container has one request"
        async for turn in turns():
            some = ids[turn % TURNS :: TURNS]
            seq = turn // TURNS
            async with conn.transaction():
                texts = [event(id_, seq) for id_ in some]
                await conn.execute(WRITE, some, [seq] * len(some), texts, stack.org_id)
                keys = [" ".join(wakeup_key(id_) for id_ in part) for part in batches(some, KEYS_A_HINT)]
                await conn.execute(HINT, CHANNEL, keys)
            if turn % (TURNS * LINES_A_SECOND) == 0:
                await conn.execute(TRIM, seq - 5 * LINES_A_SECOND)


async def push(served: Served, agent: Agent, ids: list[str]) -> None:
    """Report containers with these ids."""
    body = {"containers": [{"id": id_, "name": f"web-{id_[-6:]}"} for id_ in ids]}
    headers = {"Authorization": f"Bearer {agent.token}"}
    async with (
        aiohttp.ClientSession(served.url) as session,
        session.post(f"/api/v1/agents/{agent.agent_id}/push", json=body, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()


class Poller(asyncio.Protocol):
    """An agent that waits for commands: it asks again as soon as it is answered."""

    def __init__(self, request: bytes) -> None:
        self._request = request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Ask again."""
        assert data.startswith(b"HTTP/1.1 204"), data
        self._transport.write(self._request)


async def measure_polls(stack: Stack, served: Served, count: int) -> dict[str, Any]:
    """Let agents wait for commands that do not come; return what that costs, asking again included."""
    loop = asyncio.get_running_loop()
    empty = served.memory_kib
    transports: list[asyncio.BaseTransport] = []
    for some in batches(await stack.register(count), OPENING):
        texts = (
            f"GET /api/v1/agents/{agent.agent_id}/commands?wait={POLL_SECONDS} HTTP/1.1\r\n"
            f"Host: x\r\nAuthorization: Bearer {agent.token}\r\n\r\n".encode()
            for agent in some
        )
        opened = await asyncio.gather(
            *(
                loop.create_connection(lambda text=text: Poller(text), LOOPBACK, served.port)  # type: ignore[misc]
                for text in texts
            )
        )
        transports += [transport for transport, _ in opened]
        await asyncio.sleep(OPENING / POLLS_A_SECOND)
    async with stack.connection() as conn, asyncio.timeout(120):
        while await conn.fetchval("SELECT count(*) FROM command_polls") < count * 0.98:
            await asyncio.sleep(0.1)
    full, cpu, begun = served.memory_kib, served.cpu_seconds, time.monotonic()
    await asyncio.sleep(POLL_SECONDS)
    cpu, took = served.cpu_seconds - cpu, time.monotonic() - begun
    for transport in transports:
        transport.abort()  # type: ignore[attr-defined]
    return {"polls": count, "cores": cpu / took, "kib_per_poll": (full - empty) / count}


async def measure_first_lines(stack: Stack, served: Served, count: int) -> dict[str, Any]:
    """Open tails of idle containers, one after the other; return how long the first line takes."""
    agent = (await stack.register(1))[0]
    ids = [f"{number:064x}" for number in range(count)]
    await push(served, agent, ids)
    delays: list[float] = []
    headers = {"X-API-Key": stack.api_key}
    async with aiohttp.ClientSession(served.url, timeout=aiohttp.ClientTimeout(total=60)) as session:
        answering = asyncio.ensure_future(answer(session, agent, stack))
        for id_ in ids:
            async with stack.connection() as conn:
                while not await conn.fetchval(
                    "SELECT true FROM command_polls WHERE agent_id = $1", agent.agent_id
                ):
                    await asyncio.sleep(0.001)
            begun = time.monotonic()
            async with session.get(
                f"/api/v1/logs/containers/{id_}", params={"follow": "1"}, headers=headers
            ) as response:
                assert response.status == 200, await response.text()
                while MARK not in await response.content.readany():
                    assert not response.content.at_eof()
                delays.append((time.monotonic() - begun) * 1e3)
                response.close()
            assert not answering.done(), answering
        answering.cancel()
    delays.sort()
    return {
        "tails": count,
        "p50_ms": statistics.median(delays),
        "p99_ms": delays[int(count * 0.99)],
        "slowest_ms": delays[-1],
        "within_1_s": sum(delay <= 1000 for delay in delays),
    }


async def answer(session: aiohttp.ClientSession, agent: Agent, stack: Stack) -> None:
    """Wait for commands as an agent does, and send one line for each."""
    path = f"/api/v1/agents/{agent.agent_id}"
    headers = {"Authorization": f"Bearer {agent.token}"}
    while True:
        params = {"wait": str(POLL_SECONDS)}
        async with session.get(f"{path}/commands", params=params, headers=headers) as response:
            if response.status == 204:
                continue
            assert response.status == 200, await response.text()
            command = await response.json()
        now = time.time_ns()
        line = {"time": format_ns(now), "stream": "stdout", "message": TEXT.format(now), "seq": 0}
        request_id = command["payload"]["requestId"]
        async with session.post(f"{path}/log-streams/{request_id}", json=line, headers=headers) as response:
            assert response.status == 200, await response.text()
        done = f"{path}/commands/{command['command_id']}/result"
        async with session.post(done, json={"status": "succeeded"}, headers=headers) as response:
            assert response.status == 204, await response.text()


if __name__ == "__main__":
    main()
