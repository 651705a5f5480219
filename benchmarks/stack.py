"""The service with a Postgres and a VictoriaMetrics of its own, below a folder that goes with it.

Postgres is as durable as in production.  What the processes cost is read from
/proc, so it holds whatever else the machine does meanwhile.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import yaml

from monitor.agents.store import insert_agent
from monitor.auth import provision, tokens
from monitor.db.migrate import migrate
from monitor.dev.files import LOOPBACK, kept_port
from monitor.dev.postgres import PostgresServer
from monitor.dev.servers import START_SECONDS, Server, running, until
from monitor.dev.service import WORKERS, Service, write_config
from monitor.dev.victoriametrics import VictoriaMetricsServer

DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "max_wal_size": "8GB"}
# Minutes of flat-out pushes; a service of this size would be given as much.
BACKLOG_MIB = 32 * 1024
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Agent(msgspec.Struct, frozen=True):
    """A registered agent and what it shows."""

    agent_id: str
    name: str
    token: str


class Stack:
    """What runs, and an organization in it.

    Attributes:
        postgres: Its server.
        victoriametrics: Its server.
        service: ``monitor serve`` with two web workers and the background process.
        org_id: The organization that everything belongs to.
        api_key: Opens it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config_file = folder / "monitor.yaml"
        self.postgres = PostgresServer(folder / "postgres", settings=DURABLE)
        self.victoriametrics = VictoriaMetricsServer(folder / "victoriametrics")
        self.service = Service(
            folder / "serve", self._config_file, LOOPBACK, kept_port(folder / "service_port")
        )
        self.org_id = ""
        self.api_key = ""

    async def start(self, stop: AsyncExitStack) -> None:
        """Start everything, with an organization; *stop* gets what ends it."""
        for server in (self.postgres, self.victoriametrics):
            stop.push_async_callback(server.stop)
            await server.start()
        await migrate(self.postgres.owner_dsn)
        async with self.connection() as conn:
            self.org_id = await provision.create_org(conn, "benchmark", "enterprise")
            _, self.api_key = await provision.create_api_key(conn, self.org_id, "benchmark")
        self._write_config()
        stop.push_async_callback(self.service.stop)
        await self.service.start()
        await until(lambda: listeners(self.service.port) == WORKERS, START_SECONDS)

    def _write_config(self) -> None:
        write_config(self._config_file, LOOPBACK, self.service.port, self.postgres, self.victoriametrics)
        settings = yaml.safe_load(self._config_file.read_text())
        settings["journal"] = {"max_backlog_mib": BACKLOG_MIB}
        settings["log"]["level"] = "warning"
        self._config_file.write_text(yaml.safe_dump(settings))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Open a connection as the owner of the tables."""
        conn = await asyncpg.connect(self.postgres.owner_dsn)
        try:
            yield conn
        finally:
            await conn.close()

    async def register(self, count: int) -> list[Agent]:
        """Register agents, without a request for each; ids and names have one length."""
        agents = [
            Agent(tokens.new_id("agent"), f"host-{number:05d}", tokens.new_agent_token())
            for number in range(count)
        ]
        async with self.connection() as conn, conn.transaction():
            for agent in agents:
                await insert_agent(
                    conn,
                    self.org_id,
                    agent_id=agent.agent_id,
                    name=agent.name,
                    type_="docker",
                    pool="default",
                    version="1.0",
                    token_hash=tokens.digest(agent.token),
                )
        return agents

    def roles(self) -> dict[str, list[int]]:
        """Return the process ids of the service by what they do: supervisor, web, background."""
        found: dict[str, list[int]] = {"supervisor": [], "web": [], "background": []}
        for pid in pids(self.service):
            arguments = _read(pid, "cmdline").split("\0")
            role = arguments[arguments.index("--role") + 1] if "--role" in arguments else "supervisor"
            found[role].append(pid)
        return found

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time that each part has used so far."""
        roles = self.roles()
        return {
            "web": sum(map(process_seconds, roles["web"])),
            "background": sum(map(process_seconds, roles["background"])),
            "postgres": sum(map(process_seconds, pids(self.postgres))),
            "victoriametrics": sum(map(process_seconds, pids(self.victoriametrics))),
        }


@asynccontextmanager
async def started_stack() -> AsyncIterator[Stack]:
    """Run a stack for a block; its folder is removed after it."""
    folder = Path(tempfile.mkdtemp(prefix="monitor-bench-"))
    try:
        async with AsyncExitStack() as stop:
            stack = Stack(folder)
            await stack.start(stop)
            yield stack
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pids(server: Server) -> list[int]:
    """Return the ids of the living processes of *server*, its children among them."""
    return running(server.program.name, server.work_dir)


def listeners(port: int) -> int:
    """Return how many sockets listen on *port*: each web worker has its own."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)  # 0A: listening


def process_seconds(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND  # utime, stime, cutime, cstime


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows under their columns; numbers with what digits they need."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in (columns, *cells):
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print(flush=True)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def print_figures(figures: Mapping[str, Any]) -> None:
    """Print the figures as one JSON object, the last line of a benchmark."""
    print(msgspec.json.encode(figures).decode(), flush=True)
