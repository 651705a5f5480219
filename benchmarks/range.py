"""Range queries through the service, through vmauth, through bare aiohttp, and straight to VictoriaMetrics.

    python -m benchmarks.range [--seconds 1.0] [--rounds 3]

The same organization's same series over the same minutes, by the same client; the
four take turns, so what else the machine does hits all.  Medians over the rounds.
Prints a table, then one JSON object; about a minute with the defaults.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode, urlsplit

from benchmarks.stack import Stack, print_figures, print_table, started_stack
from monitor.dev.files import LOOPBACK
from monitor.dev.servers import Server, spawn
from monitor.tsdb.client import Tsdb
from monitor.tsdb.response import Reader
from monitor.tsdb.selector import parse

STEP_SECONDS = 15
STORED_POINTS = 2_000  # a series
STORED_SERIES = 100
WRITTEN_LINES = 20_000  # a write: about 1 MB
SETTLE_SECONDS = 3.0  # merges of what was just written
ANSWER_BYTES = 1 << 30
PIECE_BYTES = 1 << 18


class Shape(NamedTuple):
    """What one kind of query asks for."""

    name: str
    selector: str
    points: int


SHAPES = (
    Shape("1x240", 'bench_value{series="s00"}', 240),
    Shape("50x240", 'bench_value{half="a"}', 240),
    Shape("100x2000", "bench_value", 2_000),
)
CONNECTIONS = (1, 8)
BARE = Path(__file__).with_name("bare.py")


class Target(NamedTuple):
    """Whom to ask: its address and the bytes of each shape's request."""

    name: str
    host: str
    port: int
    requests: dict[str, bytes]


class Result(NamedTuple):
    """One round: requests a second, and half of them were faster than this."""

    rate: float
    p50_ms: float
    p99_ms: float
    bytes_each: int


class Proxy(Server):
    """A program that passes requests on to VictoriaMetrics."""

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_seconds: ClassVar[float] = 5.0

    def __init__(self, folder: Path, upstream: str) -> None:
        """Give the folder of its files and the URL that it passes requests on to."""
        super().__init__(folder)
        self._upstream = upstream

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, self.port)
        except OSError:
            return False
        writer.close()
        return True


class VmauthServer(Proxy):
    """A vmauth that holds one organization's label before VictoriaMetrics, as the service does."""

    name: ClassVar[str] = "vmauth"

    @property
    def program(self) -> Path:
        """The one on PATH."""
        return Path(shutil.which("vmauth") or "").resolve()

    def _spawn(self) -> subprocess.Popen[bytes]:
        config = self.data_dir / "auth.yml"
        config.write_text(f'users:\n- username: "u"\n  password: "p"\n  url_prefix: "{self._upstream}"\n')
        return spawn(
            [str(self.program), f"-auth.config={config}", f"-httpListenAddr={LOOPBACK}:{self.port}"],
            work_dir=self.work_dir,
            log=self.log,
            death_signal=self.stop_signal,
        )


class BareServer(Proxy):
    """``benchmarks.bare``: aiohttp that does nothing else."""

    name: ClassVar[str] = "bare"

    @property
    def program(self) -> Path:
        """The interpreter that runs this."""
        return Path(sys.executable).resolve()

    def _spawn(self) -> subprocess.Popen[bytes]:
        return spawn(
            [sys.executable, "-P", str(BARE), str(self.port), self._upstream],
            work_dir=self.work_dir,
            log=self.log,
            death_signal=self.stop_signal,
        )


def request_of(path: str, parameters: dict[str, Any], headers: str = "") -> bytes:
    """Return a GET with no wish for compression."""
    return f"GET {path}?{urlencode(parameters)} HTTP/1.1\r\nHost: {LOOPBACK}\r\n{headers}\r\n".encode()


def targets(stack: Stack, vmauth_port: int, bare_port: int, end: int) -> Iterator[Target]:
    """Yield the four ways to the same series."""
    own, direct = {}, {}
    for shape in SHAPES:
        window = {"start": end - (shape.points - 1) * STEP_SECONDS, "end": end, "step": f"{STEP_SECONDS}s"}
        bound = parse(shape.selector).for_tenant(stack.org_id).text
        own[shape.name] = {"metric": shape.selector, **window}
        direct[shape.name] = {"query": bound, **window, "nocache": 1}
    label = {"extra_label": f"org_id={stack.org_id}"}
    key = f"X-API-Key: {stack.api_key}\r\n"
    basic = "Authorization: Basic dTpw\r\n"  # u:p
    service, storage = urlsplit(stack.service.url), urlsplit(stack.victoriametrics.url)
    asked = {name: request_of("/api/v1/query_range", query | label) for name, query in direct.items()}
    yield Target("direct", LOOPBACK, storage.port or 0, asked)
    yield Target("bare", LOOPBACK, bare_port, asked)
    yield Target(
        "vmauth",
        LOOPBACK,
        vmauth_port,
        {name: request_of("/api/v1/query_range", query, basic) for name, query in direct.items()},
    )
    yield Target(
        "service",
        LOOPBACK,
        service.port or 0,
        {name: request_of("/api/v1/metrics/range", query, key) for name, query in own.items()},
    )


async def store(stack: Stack, end: int) -> None:
    """Write the series that are asked for."""
    tsdb = Tsdb(stack.victoriametrics.url, stack.victoriametrics.url, (stack.victoriametrics.url,))
    lines = []
    for number in range(STORED_SERIES):
        half = "a" if number < STORED_SERIES // 2 else "b"
        tags = f"bench,org_id={stack.org_id},half={half},host=host-{number % 10},series=s{number:02d}"
        for point in range(STORED_POINTS):
            value = (number * 31 + point * 7) % 1000 / 8
            lines.append(f"{tags} value={value} {(end - point * STEP_SECONDS) * 1000}")
    for at in range(0, len(lines), WRITTEN_LINES):
        await tsdb.write("\n".join(lines[at : at + WRITTEN_LINES]).encode())
    await tsdb.force_flush()
    await tsdb.close()
    await asyncio.sleep(SETTLE_SECONDS)


async def round_of(target: Target, shape: Shape, connections: int, seconds: float) -> Result:
    """Ask as fast as answers come, on some connections, for some time."""
    deadline = time.perf_counter() + seconds
    latencies: list[float] = []
    asked = [asking(target, target.requests[shape.name], deadline, latencies) for _ in range(connections)]
    began = time.perf_counter()
    sizes = await asyncio.gather(*asked)
    elapsed = time.perf_counter() - began
    latencies.sort()
    return Result(
        len(latencies) / elapsed,
        1000 * latencies[len(latencies) // 2],
        1000 * latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)],
        max(sizes),
    )


async def asking(target: Target, request: bytes, deadline: float, latencies: list[float]) -> int:
    """Ask one thing again and again on one connection; return the size of an answer."""
    source, sink = await asyncio.open_connection(target.host, target.port, limit=PIECE_BYTES)
    size = 0
    while not size or time.perf_counter() < deadline:
        began = time.perf_counter()
        sink.write(request)
        reader = Reader(ANSWER_BYTES)
        while not reader.feed(await source.read(PIECE_BYTES)):
            pass
        latencies.append(time.perf_counter() - began)
        answer = reader.answer
        if answer.status != 200 or b'"values":[[' not in answer.body:
            raise SystemExit(f"{target.name} answered {answer.status}: {answer.body[:200]!r}")
        size = len(answer.body)
    sink.close()
    await sink.wait_closed()
    return size


@asynccontextmanager
async def proxies(stack: Stack) -> AsyncIterator[tuple[int, int]]:
    """Run vmauth and bare aiohttp in front of the stack's VictoriaMetrics; gives their ports."""
    folder, url = stack.victoriametrics.data_dir.parent, stack.victoriametrics.url
    async with AsyncExitStack() as stop:
        servers = (
            VmauthServer(folder / "vmauth", f"{url}/?extra_label=org_id%3D{stack.org_id}"),
            BareServer(folder / "bare", url),
        )
        for server in servers:
            stop.push_async_callback(server.stop)
            await server.start()
        yield servers[0].port, servers[1].port


async def measured(
    stack: Stack, vmauth_port: int, bare_port: int, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Return one row for each shape and number of connections."""
    end = int(time.time()) // STEP_SECONDS * STEP_SECONDS - 600
    await store(stack, end)
    asked = list(targets(stack, vmauth_port, bare_port, end))
    rows = []
    for shape in SHAPES:
        for connections in CONNECTIONS:
            results: dict[str, list[Result]] = {target.name: [] for target in asked}
            for number in range(rounds):
                for target in asked[number % 4 :] + asked[: number % 4]:  # none is always first
                    results[target.name].append(await round_of(target, shape, connections, seconds))
            rows.append(row_of(shape, connections, results))
    return rows


def row_of(shape: Shape, connections: int, results: dict[str, list[Result]]) -> dict[str, Any]:
    """Return medians and ratios of the rounds."""
    row: dict[str, Any] = {"shape": shape.name, "connections": connections}
    for name, rounds in results.items():
        row[f"{name}_rps"] = round(statistics.median(result.rate for result in rounds), 1)
        row[f"{name}_p50_ms"] = round(statistics.median(result.p50_ms for result in rounds), 3)
        row[f"{name}_p99_ms"] = round(statistics.median(result.p99_ms for result in rounds), 3)
    row["service_bytes"] = results["service"][0].bytes_each
    row["rps_of_vmauth"] = round(row["service_rps"] / row["vmauth_rps"], 3)
    row["bare_of_vmauth"] = round(row["bare_rps"] / row["vmauth_rps"], 3)
    row["p50_of_direct"] = round(row["service_p50_ms"] / row["direct_p50_ms"], 3)
    return row


async def run(seconds: float, rounds: int) -> None:
    """Start everything, measure, print."""
    async with started_stack() as stack, proxies(stack) as (vmauth_port, bare_port):
        rows = await measured(stack, vmauth_port, bare_port, seconds, rounds)
    print_table(
        [
            "shape",
            "connections",
            "direct_rps",
            "bare_rps",
            "vmauth_rps",
            "service_rps",
            "direct_p50_ms",
            "vmauth_p50_ms",
            "service_p50_ms",
            "rps_of_vmauth",
            "bare_of_vmauth",
            "p50_of_direct",
        ],
        rows,
    )
    print_figures({"benchmark": "range", "seconds": seconds, "rounds": rounds, "rows": rows})


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each target")
    arguments = parser.parse_args()
    if shutil.which("vmauth") is None:
        sys.exit("vmauth is not installed (Debian: apt-get install victoria-metrics)")
    asyncio.run(run(arguments.seconds, arguments.rounds))


if __name__ == "__main__":
    main()
