"""``monitor serve``: web workers on one port, one background process, and their supervisor.

The supervisor opens nothing itself.  A child that dies is started again, sooner
the longer it lived; SIGTERM ends them all within 30 s; SIGHUP reaches each.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import click
import structlog
from aiohttp import web
from prometheus_client import multiprocess

from monitor.app import Role, make_app
from monitor.auth.commands import config_option
from monitor.config import Config, ConfigError, ConfigFile, load, split_listen
from monitor.db.migrate import MigrationError, migrate
from monitor.errors import StorageUnavailable
from monitor.web.health import DRAINING, healthz, readiness
from monitor.web.log import set_up_logging
from monitor.web.observe import metrics_page

KEEPALIVE_SECONDS = 75.0  # also how long a request's header may take; agents push every 15 s
DRAIN_SECONDS = 10.0  # for requests under way when the end has come
KILL_SECONDS = 25.0  # a child that has not ended by then is killed
RESTART_SECONDS = (0.2, 10.0)  # shortest and longest pause before a dead child is started again
NICENESS = 5  # of the background process: requests come first
PR_SET_PDEATHSIG = 1
# glibc: keep freed memory instead of giving it back.  Bodies, batches and lists are blocks of
# 26 KB to a few MB that come and go; fresh pages for them cost more than filling them.
MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(512 * 2**20),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}

log = structlog.get_logger()


def _config_file(path: Path) -> ConfigFile:
    try:
        return ConfigFile(path)
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None


@click.command()
@config_option
@click.option("--workers", type=click.IntRange(1, 64), help="Web processes; else server.workers.")
@click.option(
    "--role", type=click.Choice(["web", "background", "all"]), help="Run this one process alone, no others."
)
def serve(config_path: Path, workers: int | None, role: Role | None) -> None:
    """Serve the API: web workers and the background process."""
    config_file = _config_file(config_path)
    set_up_logging(config_file.config.log)
    if role is None:
        count = workers or config_file.config.server.workers
        sys.exit(asyncio.run(_supervise(config_path, count)))
    if role == "background":
        os.nice(NICENESS)
    asyncio.run(run_process(config_file, role))


@click.command("migrate")
@config_option
def migrate_command(config_path: Path) -> None:
    """Bring the database's schema up to date."""
    config = _config_file(config_path).config
    try:
        done = asyncio.run(migrate(config.postgres.owner_dsn or config.postgres.dsn))
    except (MigrationError, StorageUnavailable) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(f"applied {name}" for name in done) or "nothing to do")


@click.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
def check_config(file: Path) -> None:
    """Check a configuration file; exit with 2 and every problem's line if it is wrong."""
    try:
        load(file)
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None
    click.echo(f"{file}: ok")


async def run_process(config_file: ConfigFile, role: Role) -> None:
    """Run one process until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, config_file.reload_requested.set)
    config = config_file.config
    app = make_app(config_file, role)
    runner = make_runner(app)
    try:
        await runner.setup()
    except StorageUnavailable as error:
        raise SystemExit(f"cannot start: a store is away: {error.__cause__!r}") from None
    internal: web.AppRunner | None = None
    watching = asyncio.create_task(config_file.watch(_reloaded), name="config.watch")
    try:
        if role != "background":
            await _listen(runner, config.server.listen)
        if role != "web" and config.server.internal_listen:
            internal = await _internal(app, config.server.internal_listen)
        log.info("serving", role=role, pid=os.getpid())
        await ended.wait()
        app[DRAINING].set()
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await runner.cleanup()
        if internal is not None:
            await internal.cleanup()


def make_runner(app: web.Application) -> web.AppRunner:
    """Return the runner with the server's limits; bodies stay compressed until their sender is known."""
    return web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        handle_signals=False,
        keepalive_timeout=KEEPALIVE_SECONDS,
        shutdown_timeout=DRAIN_SECONDS,
    )


async def _listen(runner: web.AppRunner, listen: str) -> None:
    host, port = split_listen(listen)
    await web.TCPSite(runner, host, port, reuse_port=True, backlog=1024).start()


async def _internal(app: web.Application, listen: str) -> web.AppRunner:
    """Show the service's own metrics and health on the internal listener."""

    async def ready(request: web.Request) -> web.Response:
        return await readiness(app)

    internal = web.Application()
    internal.router.add_get("/metrics", metrics_page)
    for path, handler in (
        ("/healthz", healthz),
        ("/-/healthy", healthz),
        ("/readyz", ready),
        ("/-/ready", ready),
    ):
        internal.router.add_get(path, handler)
    runner = web.AppRunner(internal, access_log=None)
    await runner.setup()
    host, port = split_listen(listen)
    await web.TCPSite(runner, host, port).start()
    return runner


def _reloaded(config: Config) -> None:
    set_up_logging(config.log)


class Child:
    """One process of the service, started again whenever it dies."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def keep(self, ending: asyncio.Event) -> None:
        """Run the process until *ending*; return when it has ended for good."""
        pause = RESTART_SECONDS[0]
        while not ending.is_set():
            started = time.monotonic()
            self._process = await asyncio.create_subprocess_exec(
                *self._command, preexec_fn=_die_with_parent, env={**MEMORY, **os.environ}
            )
            status = await self._process.wait()
            _forget_metrics(self._process.pid)
            if ending.is_set():
                return
            lived = time.monotonic() - started
            pause = RESTART_SECONDS[0] if lived > RESTART_SECONDS[1] else min(pause * 2, RESTART_SECONDS[1])
            log.error("process died", process=self.name, status=status, restart_seconds=pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await ending.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process lives."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def _die_with_parent() -> None:
    """Have the kernel end this process when its supervisor is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _forget_metrics(pid: int) -> None:
    multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


async def _supervise(config_path: Path, workers: int) -> int:
    """Run all processes until SIGTERM or SIGINT; return the exit status."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    command = [sys.executable, "-m", "monitor", "serve", "--config", str(config_path), "--role"]
    children = [Child(f"web-{number}", [*command, "web"]) for number in range(workers)]
    children.append(Child("background", [*command, "background"]))

    def pass_on(number: signal.Signals) -> None:
        for child in children:
            child.send(number)

    def end() -> None:
        ending.set()
        pass_on(signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, pass_on, signal.SIGHUP)
    with tempfile.TemporaryDirectory(prefix="monitor-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        running = [asyncio.create_task(child.keep(ending), name=child.name) for child in children]
        await ending.wait()
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await asyncio.gather(*running)
        except TimeoutError:
            log.error("processes did not end in time and are killed")
            pass_on(signal.SIGKILL)
            return 1
    return 0
