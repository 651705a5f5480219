"""A round over all scaling policies: 1,000 and 10,000 of them in 100 organizations.

    python -m benchmarks.scaling [--quick]

Each organization has ten hosts that report 50 containers each, in 100 groups.  One process
evaluates every policy once; its Postgres is durable.  Measured are rounds in which nothing
changes, in which every dry run logs a decision, and in which every live policy is changed:
a decision and commands for up to five hosts each.  Prints a table, then one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import zstandard
from aiohttp import web

from benchmarks.stack import DURABLE, pids, print_figures, print_table, process_seconds
from monitor.agents.store import insert_agent
from monitor.auth import provision
from monitor.config import CONFIG, ConfigFile
from monitor.db import postgres
from monitor.db.migrate import migrate
from monitor.dev.files import LOOPBACK, kept_port
from monitor.dev.postgres import PostgresServer
from monitor.dev.service import write_config
from monitor.dev.victoriametrics import VictoriaMetricsServer
from monitor.journal.journal import journal_context
from monitor.scaling import store
from monitor.scaling.models import Settings
from monitor.scaling.reconcile import reconcile
from monitor.tsdb.context import tsdb_context
from monitor.web.log import set_up_logging

ORGANIZATIONS = 100
HOSTS = 10  # of an organization
GROUPS = 100  # on five hosts each
SIZES = (1_000, 10_000)
QUICK_SIZES = (200, 2_000)
QUIET_ROUNDS = 3
INTERVAL_SECONDS = 15.0


class Counting(asyncpg.Connection):  # type: ignore[type-arg]
    """A connection that counts what it is asked."""

    statements = 0

    async def _execute(self, *args: Any, **options: Any) -> Any:
        Counting.statements += 1
        return await super()._execute(*args, **options)

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        """Count a statement; one with arguments is counted in ``_execute``."""
        Counting.statements += not args
        return await super().execute(query, *args, **options)


def snapshot(host: int, cpu: float) -> bytes:
    """Return what a host reports: a container of each of its fifty groups."""
    groups = [group for group in range(GROUPS) if (group + host) % 2 == 0]
    containers = [
        {
            "id": secrets.token_hex(32),
            "name": f"group{group}-{host + 1}",
            "image": "registry.example.com/shop/group:1.0",
            "status": "Up 3 hours",
            "state": "running",
            "source": "docker",
            "cpuPercent": cpu,
            "memoryUsageMB": 120.5,
            "memoryLimitMB": 512,
            "memoryPercent": 23.5,
            "netRxBytes": 123456789,
            "netTxBytes": 987654321,
            "ports": [],
            "labels": {"com.docker.compose.project": "shop", "com.docker.compose.service": f"group{group}"},
        }
        for group in groups
    ]
    return zstandard.compress(msgspec.json.encode(containers), 1)


async def provisioned(conn: Any, policies: int) -> None:
    """Make the organizations with hosts and policies; usage is on target."""
    for _ in range(ORGANIZATIONS):
        org_id = await provision.create_org(conn, "benchmark", "enterprise")
        for host in range(HOSTS):
            agent_id = f"agent_{secrets.token_hex(12)}"
            await insert_agent(
                conn,
                org_id,
                agent_id=agent_id,
                name=f"host-{host}",
                type_="docker",
                pool="default",
                version="1",
                token_hash=secrets.token_bytes(32),
            )
            await conn.execute(
                "UPDATE agent_state SET last_seen = clock_timestamp() + interval '1 day', containers = $2"
                " WHERE agent_id = $1",
                agent_id,
                snapshot(host, 50.0),
            )
        for number in range(policies // ORGANIZATIONS):
            settings = Settings(
                name=f"policy {number}",
                runtime="docker",
                target_ref=f"default/group{number}",
                cpu_target_percent=50.0,
                memory_target_percent=80.0,
                step_size=10,
                max_replicas=100,
                cooldown_scale_up_seconds=0,
                cooldown_scale_down_seconds=300,
            )
            await store.insert_policy(conn, org_id, f"scp_{secrets.token_hex(12)}", 0, settings)


async def busy(conn: Any, cpu: float) -> None:
    """Let every container use *cpu* percent."""
    rows = await conn.fetch("SELECT s.agent_id, a.name FROM agent_state s JOIN agents a ON a.id = s.agent_id")
    await conn.executemany(
        "UPDATE agent_state SET containers = $2 WHERE agent_id = $1",
        [(row["agent_id"], snapshot(int(row["name"].removeprefix("host-")), cpu)) for row in rows],
    )


@asynccontextmanager
async def servers() -> AsyncIterator[tuple[PostgresServer, ConfigFile]]:
    """Run a Postgres and a VictoriaMetrics below a folder that goes with them."""
    folder = Path(tempfile.mkdtemp(prefix="monitor-bench-"))
    try:
        async with AsyncExitStack() as stop:
            database = PostgresServer(folder / "postgres", settings=DURABLE)
            victoriametrics = VictoriaMetricsServer(folder / "victoriametrics")
            for server in (database, victoriametrics):
                stop.push_async_callback(server.stop)
                await server.start()
            await migrate(database.owner_dsn)
            path = folder / "monitor.yaml"
            write_config(path, LOOPBACK, kept_port(folder / "port"), database, victoriametrics)
            config_file = ConfigFile(path)
            set_up_logging(msgspec.structs.replace(config_file.config.log, level="warning"))
            yield database, config_file
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def evaluator(config_file: ConfigFile) -> AsyncIterator[web.Application]:
    """Lend what a round needs of the background process, without its loops."""
    app = web.Application()
    app[CONFIG] = config_file
    for context in (
        postgres.pool_context(config_file.config),
        tsdb_context(config_file.config),
        journal_context,
    ):
        app.cleanup_ctx.append(context)
    runner = web.AppRunner(app)
    await runner.setup()
    yield app
    await runner.cleanup()


async def measured(
    app: web.Application, conn: Any, database: PostgresServer, policies: int
) -> dict[str, Any]:
    """Return what one round over all policies takes."""
    await conn.execute("UPDATE scaling_shards SET due_at = clock_timestamp()")
    decided = await conn.fetchval("SELECT count(*) FROM scaling_decisions")
    commands = await conn.fetchval("SELECT count(*) FROM commands")
    await conn.execute("CHECKPOINT")
    Counting.statements = 0
    before = sum(map(process_seconds, pids(database)))
    started, cpu = time.monotonic(), time.process_time()
    await reconcile(app)
    seconds = time.monotonic() - started
    return {
        "policies": policies,
        "seconds": seconds,
        "per_policy_us": seconds / policies * 1e6,
        "python_cpu_s": time.process_time() - cpu,
        "postgres_cpu_s": sum(map(process_seconds, pids(database))) - before,
        "statements": Counting.statements,
        "decisions": await conn.fetchval("SELECT count(*) FROM scaling_decisions") - decided,
        "commands": await conn.fetchval("SELECT count(*) FROM commands") - commands,
    }


async def rounds(policies: int) -> list[dict[str, Any]]:
    """Return the rounds over *policies*, on new servers."""
    async with servers() as (database, config_file):
        conn = await asyncpg.connect(database.superuser_dsn.rsplit("/", 1)[0] + "/monitor")
        await provisioned(conn, policies)
        async with evaluator(config_file) as app:
            rows = []
            quiet = [await measured(app, conn, database, policies) for _ in range(QUIET_ROUNDS + 1)][1:]
            rows.append({"round": "quiet", **min(quiet, key=lambda it: it["seconds"])})
            await busy(conn, 100.0)
            rows.append({"round": "dry_run", **await measured(app, conn, database, policies)})
            await conn.execute("UPDATE scaling_policies SET dry_run = false")
            await conn.execute("UPDATE scaling_states SET memory = '{}'")
            rows.append({"round": "live", **await measured(app, conn, database, policies)})
        await conn.close()
    assert [row["decisions"] for row in rows] == [0, policies, policies]
    return rows


async def run(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Measure each size; print the table and return the figures."""
    rows = [row for policies in sizes for row in await rounds(policies)]
    print(f"{ORGANIZATIONS} organizations; a round has {INTERVAL_SECONDS:.0f} s")
    print_table(tuple(rows[0]), rows)
    half = len(rows) // 2
    growth = {
        small["round"]: large["seconds"] / small["seconds"]
        for small, large in zip(rows[:half], rows[half:], strict=True)
    }
    times = ", ".join(f"{name} {ratio:.1f} x" for name, ratio in growth.items())
    print(f"{sizes[1] / sizes[0]:.0f} x the policies take {times} the time")
    return {"benchmark": "scaling", "rounds": rows, "growth": growth}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few policies")
    options = parser.parse_args()
    make_pool = asyncpg.create_pool
    asyncpg.create_pool = lambda *args, **more: make_pool(*args, connection_class=Counting, **more)
    print_figures(asyncio.run(run(QUICK_SIZES if options.quick else SIZES)))


if __name__ == "__main__":
    main()
