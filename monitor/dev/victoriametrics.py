"""A VictoriaMetrics of this machine, started as the service expects it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import ClassVar

import aiohttp

from monitor.dev.files import LOOPBACK
from monitor.dev.servers import Server, ServerFailed, spawn

ANSWER_SECONDS = 2.0  # /health does no work: slower means not ready

FLAGS = (
    "-retentionPeriod=400d",  # above the longest retention of any plan; the service clamps when it reads
    "-search.latencyOffset=1ms",  # by default new samples stay hidden for 30 s
    "-search.maxPointsPerTimeseries=50000",  # seven days at 15 s are 40,321 points
    "-search.maxUniqueTimeseries=1000000",  # one selector over a large organization
    "-search.maxQueryLen=262144",  # deleted agents are named in the query for ten minutes
    "-dedup.minScrapeInterval=1ms",  # the journal's replay leaves no doubles
    "-memory.allowedPercent=20",  # the machine is shared with Postgres, the service and its user
    "-loggerLevel=WARN",
    "-selfScrapeInterval=0",
)


class VictoriaMetricsServer(Server):
    """VictoriaMetrics on a loopback port, its storage in ``<data_dir>/storage``."""

    name: ClassVar[str] = "victoriametrics"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM  # flushes what is in memory
    stop_seconds: ClassVar[float] = 8.0

    @property
    def program(self) -> Path:
        """The file named by VICTORIA_METRICS, else the one on PATH."""
        if chosen := os.environ.get("VICTORIA_METRICS"):
            if found := shutil.which(chosen):
                return Path(found).resolve()
            raise ServerFailed(f"VICTORIA_METRICS: {chosen} is no program")
        for name in ("victoria-metrics", "victoria-metrics-prod"):
            if found := shutil.which(name):
                return Path(found).resolve()
        raise ServerFailed(
            "VictoriaMetrics is not installed: apt-get install victoria-metrics,"
            " or name its program in VICTORIA_METRICS"
        )

    @property
    def url(self) -> str:
        """Where it answers, without a trailing slash."""
        return f"http://{LOOPBACK}:{self.port}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        return spawn(
            [
                str(self.program),
                f"-httpListenAddr={LOOPBACK}:{self.port}",
                f"-storageDataPath={self.data_dir / 'storage'}",
                *FLAGS,
            ],
            work_dir=self.work_dir,
            log=self.log,
            death_signal=self.stop_signal,
        )

    async def _answers(self) -> bool:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.url}/health") as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False
