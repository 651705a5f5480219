"""``monitor serve`` as a child of ``monitor dev``, and the configuration it is given."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import aiohttp
import yaml

from monitor.dev.files import LOOPBACK, kept_port, kept_secret, write_private
from monitor.dev.postgres import PostgresServer
from monitor.dev.servers import Server, spawn
from monitor.dev.victoriametrics import VictoriaMetricsServer

WORKERS = 2
ANSWER_SECONDS = 5.0  # /readyz asks Postgres and VictoriaMetrics
ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound


class Service(Server):
    """The web workers and the background process, on a port of the caller's choice."""

    name: ClassVar[str] = "serve"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM  # ends streams and polls, flushes writes
    stop_seconds: ClassVar[float] = 20.0

    def __init__(self, data_dir: Path, config_file: Path, host: str, port: int) -> None:
        """Take the folder of its log, its configuration and where it listens."""
        super().__init__(data_dir, port, host=host)
        self._config_file = config_file

    @property
    def program(self) -> Path:
        """The interpreter that runs this program too."""
        return Path(sys.executable).resolve()

    @property
    def url(self) -> str:
        """Where this machine reaches it, without a trailing slash."""
        host = LOOPBACK if self.host in ANY_ADDRESS else self.host
        return f"http://{bracketed(host)}:{self.port}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        # Not the resolved program: by its link the interpreter knows its virtual environment.
        return spawn(
            [sys.executable, "-P", "-m", "monitor", "serve", "--config", str(self._config_file)],
            work_dir=self.work_dir,
            log=self.log,
            death_signal=self.stop_signal,
        )

    async def _answers(self) -> bool:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.url}/readyz") as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


def bracketed(host: str) -> str:
    """Return *host* as it stands before ``:port``."""
    return f"[{host}]" if ":" in host else host


def write_config(
    path: Path, host: str, port: int, postgres: PostgresServer, victoriametrics: VictoriaMetricsServer
) -> None:
    """Write the configuration of ``monitor serve``; the signing secret beside it stays the same."""
    folder = path.parent
    settings = {
        "server": {
            "listen": f"{bracketed(host)}:{port}",
            "internal_listen": f"{LOOPBACK}:{kept_port(folder / 'internal_port', avoid=port)}",
            "workers": WORKERS,
        },
        "postgres": {"dsn": postgres.app_dsn, "owner_dsn": postgres.owner_dsn},
        "victoriametrics": {"url": victoriametrics.url},
        "auth": {"jwt_secrets": [kept_secret(folder / "jwt_secret")]},
        "log": {"level": "info", "format": "console"},
    }
    comment = "# Written by `monitor dev` at every start: changes here are lost.\n"
    write_private(path, comment + yaml.safe_dump(settings, sort_keys=False))
