"""A Postgres of this machine with the service's two roles and one database.

It listens on the loopback alone and lets nobody in without a password.  Postgres
refuses to run as root: started by root it runs as the owner of its files.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import asyncpg

from monitor.dev.files import LOOPBACK, kept_secret
from monitor.dev.servers import START_SECONDS, Server, ServerFailed, User, spawn, unprivileged, until

DATABASE = "monitor"
SUPERUSER = "postgres"
OWNER_ROLE = "monitor_owner"  # migrates
APP_ROLE = "monitor_app"  # serves; no member of the owner, so the decision log stays append-only

DEBIAN = Path("/usr/lib/postgresql")  # Debian keeps initdb and postgres off PATH, a folder a version
ANSWER_SECONDS = 2.0  # a login on the loopback takes milliseconds

SETTINGS: Mapping[str, str] = {
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",  # pushes write 9-13 KB of log each: fewer checkpoints, fewer full pages
    "checkpoint_timeout": "15min",
    "synchronous_commit": "on",  # a push is answered only when it is durable
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}


class PostgresServer(Server):
    """Postgres on a loopback port, its files in ``<data_dir>/cluster``."""

    name: ClassVar[str] = "postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": ends connections, writes a checkpoint
    stop_seconds: ClassVar[float] = 8.0

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        avoid_port: int | None = None,
    ) -> None:
        """Take what every server takes, and settings that go before ``SETTINGS``."""
        super().__init__(data_dir, port, avoid_port=avoid_port)
        self.cluster = self.data_dir / "cluster"
        self._settings = {**SETTINGS, **(settings or {})}

    @property
    def program(self) -> Path:
        """The server's file, of the version that made the cluster where there are several."""
        return self._folder_of_programs() / "postgres"

    @property
    def work_dir(self) -> Path:
        """The cluster: Postgres goes there by itself."""
        return self.cluster

    @property
    def superuser_dsn(self) -> str:
        """Of a role that may do everything, in the database ``postgres``."""
        return self._dsn(SUPERUSER, "postgres")

    @property
    def owner_dsn(self) -> str:
        """Of the role that owns the service's database."""
        return self._dsn(OWNER_ROLE, DATABASE)

    @property
    def app_dsn(self) -> str:
        """Of the role that serves."""
        return self._dsn(APP_ROLE, DATABASE)

    def _dsn(self, role: str, database: str) -> str:
        return f"postgresql://{role}:{self._password(role)}@{LOOPBACK}:{self.port}/{database}"

    def _password(self, role: str) -> str:
        return kept_secret(self.data_dir / f"{role}.password")

    async def start(self) -> None:
        """Start, and make the roles and the database where they are missing.

        Raises:
            ServerFailed: With the last lines of its log.
            PortTaken: The wanted port is in use.
        """
        await super().start()
        await self._create_roles()

    async def _prepare(self) -> None:
        if not self.cluster.exists():
            await self._create_cluster()
        # No process of this cluster lives now, and after a crash the id in its lock file may be another's.
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)

    async def _create_cluster(self) -> None:
        """Make the cluster beside its place and move it there: it is whole or not there."""
        new = self.data_dir / "cluster.new"
        if new.exists():
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        user = unprivileged(("postgres", "nobody"))
        if user:
            os.chown(new, *user)
        with _open_folder(new) as folder, tempfile.TemporaryFile() as password:
            password.write(self._password(SUPERUSER).encode())
            password.flush()
            if user:
                os.fchown(password.fileno(), *user)
            initdb = spawn(
                [
                    str(self._folder_of_programs() / "initdb"),
                    f"--pgdata=/proc/self/fd/{folder}",
                    f"--pwfile=/proc/self/fd/{password.fileno()}",
                    f"--username={SUPERUSER}",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--auth-local=reject",
                    "--auth-host=scram-sha-256",
                    "--no-instructions",
                ],
                work_dir=Path("/"),
                log=self.log,
                death_signal=signal.SIGKILL,
                user=user,
                pass_fds=(folder, password.fileno()),
            )
            try:
                await until(lambda: initdb.poll() is not None, START_SECONDS)
            finally:
                initdb.kill()
                initdb.wait()
        if initdb.returncode != 0:
            raise ServerFailed(f"initdb failed (status {initdb.returncode})\n{self.last_words()}")
        new.rename(self.cluster)

    def _spawn(self) -> subprocess.Popen[bytes]:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            **self._settings,
        }
        with _open_folder(self.cluster) as folder:
            return spawn(
                [
                    str(self.program),
                    "-D",
                    f"/proc/self/fd/{folder}",
                    *(part for item in settings.items() for part in ("-c", "=".join(item))),
                ],
                work_dir=Path("/"),
                log=self.log,
                death_signal=self.stop_signal,
                user=self._owner(),
                pass_fds=(folder,),
            )

    def _owner(self) -> User | None:
        """Return whose the cluster is if that is not us.

        Raises:
            ServerFailed: It is another user's and we may not become that user.
        """
        status = self.cluster.stat()
        if status.st_uid == os.geteuid():
            return None
        if os.geteuid() == 0:
            return User(status.st_uid, status.st_gid)
        raise ServerFailed(
            f"{self.cluster} belongs to user id {status.st_uid}:"
            " start as that user or as root, or choose another folder for the data"
        )

    async def _answers(self) -> bool:
        try:
            conn = await asyncpg.connect(self.superuser_dsn, timeout=ANSWER_SECONDS, ssl=False)
        except (
            ConnectionError,
            TimeoutError,
            asyncpg.CannotConnectNowError,
            asyncpg.PostgresConnectionError,
        ):
            return False
        await conn.close()
        return True

    async def _create_roles(self) -> None:
        conn = await asyncpg.connect(self.superuser_dsn, ssl=False)
        try:
            for role in (OWNER_ROLE, APP_ROLE):
                if not await conn.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", role):
                    # CREATE ROLE takes no parameter; a kept secret holds no quote.
                    await conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{self._password(role)}'")
            if not await conn.fetchval("SELECT true FROM pg_database WHERE datname = $1", DATABASE):
                await conn.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER_ROLE}")
        finally:
            await conn.close()

    def _folder_of_programs(self) -> Path:
        version_file = self.cluster / "PG_VERSION"
        if version_file.exists():
            made_by = DEBIAN / version_file.read_text("ascii").strip() / "bin"
            if (made_by / "postgres").exists():
                return made_by
        if on_path := shutil.which("initdb"):
            return Path(on_path).resolve().parent
        versions = [path for path in DEBIAN.glob("[0-9]*/bin") if (path / "initdb").exists()]
        if not versions:
            raise ServerFailed("Postgres is not installed: apt-get install postgresql")
        return max(versions, key=lambda path: float(path.parent.name))


@contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    """Open a folder for a child that may not reach it by its path.

    Below root's home the user that Postgres runs as cannot search the parents;
    ``/proc/self/fd/N`` names the folder without them.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
