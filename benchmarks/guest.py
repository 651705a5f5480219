"""What the agent costs its host: memory and processor time beside an engine with 50 containers.

The agent is the program as it is installed.  Where Docker can run, its engine is a real
one with idle containers, else a stand-in.  Its service is a stand-in: only the agent is
measured, by /proc, so it holds whatever else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from benchmarks.stack import print_figures, print_table, process_seconds
from monitor.collector.logs.records import time_of
from tests.collector.fakes import API_KEY, FakeEngine, FakeService, answer, served
from tests.collector.shapes import cgroup_v1, listed
from tests.docker_engine import DockerEngine, EngineError

CONTAINERS = 50
MEMORY_LIMIT_MIB = 60.0
INTERVAL_SECONDS = 15.0  # the agent's default
CPU_LIMIT_PERCENT = 2.0  # of a core
START_SECONDS = 60.0
LINES_PER_SECOND = 100  # of all containers together, where they write
KIB_PER_MIB = 1024


class Cost(msgspec.Struct, frozen=True):
    """What the agent used.

    Attributes:
        memory_mib: Resident at the end.
        peak_mib: The most that ever was resident.
        cpu_percent: Of a core, after the start.
        start_cpu_seconds: Until the first snapshot was there.
        pushes: Accepted meanwhile.
    """

    memory_mib: float
    peak_mib: float
    cpu_percent: float
    start_cpu_seconds: float
    pushes: int

    @property
    def is_good_guest(self) -> bool:
        """Tell whether the limits for an idle host hold."""
        return self.peak_mib < MEMORY_LIMIT_MIB and self.cpu_percent < CPU_LIMIT_PERCENT


def idle_engine() -> FakeEngine:
    """Return a stand-in with 50 idle containers."""
    engine = FakeEngine()
    ids = [f"{number:064x}" for number in range(CONTAINERS)]
    labels = {"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}
    engine.containers = [
        listed(id_, f"shop-web-{number}", labels=labels) for number, id_ in enumerate(ids, 1)
    ]
    engine.stats = {id_: cgroup_v1() for id_ in ids}
    engine.logs = {id_: [] for id_ in ids}
    return engine


async def write_lines(engine: FakeEngine) -> None:
    """Let the containers write, one after the other."""
    number = 0
    while True:
        for records in engine.logs.values():
            number += 1
            records.append((1, time_of(time.time_ns()), b"GET /items/%d 200 0.012 s\n" % number))
            del records[:-1000]  # what was long read
            await asyncio.sleep(1 / LINES_PER_SECOND)


@contextmanager
def real_engine() -> Iterator[DockerEngine]:
    """Run a real engine with 50 idle containers for a block.

    Raises:
        EngineError: Docker cannot run here.
    """
    root = Path(tempfile.mkdtemp(prefix="monitor-docker-"))
    engine = DockerEngine(root)
    try:
        engine.start()
        try:
            for number in range(1, CONTAINERS + 1):
                engine.run(f"shop-web-{number}", "sleep", "1000000")
            yield engine
        finally:
            engine.end()
    finally:
        shutil.rmtree(root)


@asynccontextmanager
async def agent_at(docker_host: str, service: FakeService, seconds: float) -> AsyncIterator[int]:
    """Run the agent for a block, its first snapshot is there; gives its process id."""
    async with served(service.app()) as url:
        state = Path(tempfile.mkdtemp(prefix="monitor-agent-"))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "monitor", "agent", "--url", url, "--docker-host", docker_host),
            *("--state-dir", str(state), "--interval", f"{seconds:g}s", "--log-level", "error"),
            env={**os.environ, "MONITOR_API_KEY": API_KEY},
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                while not service.attempts:
                    await asyncio.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()
            await process.wait()
            shutil.rmtree(state)


async def cost_of(docker_host: str, service: FakeService, seconds: float, interval: float) -> Cost:
    """Return what an agent costs in *seconds* with an *interval* between its snapshots."""
    async with agent_at(docker_host, service, interval) as pid:
        start_cpu, pushes, begun = process_seconds(pid), len(service.pushes), time.monotonic()
        await asyncio.sleep(seconds)
        used, elapsed = process_seconds(pid) - start_cpu, time.monotonic() - begun
        memory = _status_mib(pid)
        return Cost(
            memory_mib=memory["VmRSS"],
            peak_mib=memory["VmHWM"],
            cpu_percent=100 * used / elapsed,
            start_cpu_seconds=start_cpu,
            pushes=len(service.pushes) - pushes,
        )


def _status_mib(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if line.endswith("kB"))
    return {key: int(text.split()[0]) / KIB_PER_MIB for key, text in pairs}


async def run(seconds: float, interval: float) -> dict[str, Cost]:
    """Return the costs by what the agent met."""
    costs: dict[str, Cost] = {}
    async with AsyncExitStack() as stop:
        try:
            engine = stop.enter_context(real_engine())
        except EngineError as reason:
            print(f"no real engine: {reason}", file=sys.stderr)
        else:
            costs["real engine, idle"] = await cost_of(engine.host, FakeService(), seconds, interval)
    async with served(idle_engine().app()) as host:
        costs["stand-in, idle"] = await cost_of(host, FakeService(), seconds, interval)
        away = FakeService()
        away.push_answer = answer(503)
        costs["stand-in, service away"] = await cost_of(host, away, seconds, interval)
    writing = idle_engine()
    async with served(writing.app()) as host:
        lines = asyncio.create_task(write_lines(writing))
        costs[f"stand-in, {LINES_PER_SECOND} lines/s"] = await cost_of(host, FakeService(), seconds, interval)
        lines.cancel()
    return costs


def main() -> None:
    """Run from the command line; exit with 1 if the agent is no good guest of an idle host."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one snapshot each: too few for the processor's time"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="of each measurement")
    options = parser.parse_args()
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # streams that their reader has left
    costs = asyncio.run(run(INTERVAL_SECONDS if options.quick else options.seconds, INTERVAL_SECONDS))
    columns = ("host", *Cost.__struct_fields__)
    print_table(columns, [{"host": name, **msgspec.structs.asdict(cost)} for name, cost in costs.items()])
    print_figures({"benchmark": "guest", "containers": CONTAINERS, "costs": msgspec.to_builtins(costs)})
    idle = [cost for name, cost in costs.items() if name.endswith("idle")]
    sys.exit(0 if all(cost.is_good_guest for cost in idle) else 1)


if __name__ == "__main__":
    main()
