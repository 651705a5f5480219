"""Start one Postgres and one VictoriaMetrics for a whole test run, from code that is not async."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from monitor.dev.postgres import PostgresServer
from monitor.dev.victoriametrics import VictoriaMetricsServer

# A test run survives no power cut: nothing waits for the disk.
FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@dataclass(frozen=True)
class Servers:
    """What the tests connect to; the DSNs and the URL are text that workers can be given."""

    owner_dsn: str
    app_dsn: str
    superuser_dsn: str
    vm_url: str
    postgres: PostgresServer
    victoriametrics: VictoriaMetricsServer

    def stop(self) -> None:
        """End both; harmless when they have ended."""
        asyncio.run(_stop(self.victoriametrics, self.postgres))


def start_servers(root: Path) -> Servers:
    """Start both below *root*, with the roles and the empty database ``monitor``.

    Call it from the main thread: the servers die with the thread that started them.

    Raises:
        ServerFailed: A program is missing or does not start; nothing is left running.
    """
    postgres = PostgresServer(root / "postgres", settings=FAST)
    victoriametrics = VictoriaMetricsServer(root / "victoriametrics")
    asyncio.run(_start(postgres, victoriametrics))
    return Servers(
        owner_dsn=postgres.owner_dsn,
        app_dsn=postgres.app_dsn,
        superuser_dsn=postgres.superuser_dsn,
        vm_url=victoriametrics.url,
        postgres=postgres,
        victoriametrics=victoriametrics,
    )


async def _start(postgres: PostgresServer, victoriametrics: VictoriaMetricsServer) -> None:
    try:
        await asyncio.gather(postgres.start(), victoriametrics.start())
    except BaseException:
        await _stop(victoriametrics, postgres)
        raise


async def _stop(victoriametrics: VictoriaMetricsServer, postgres: PostgresServer) -> None:
    await victoriametrics.stop()
    await postgres.stop()
