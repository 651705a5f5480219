"""Everything the service needs, on this machine and below one folder, until it is told to end.

What was begun is ended in the opposite order, whether by a signal or because one
of the programs died.  A second run on the same folder goes on where the first ended.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import click
import msgspec

from monitor.db.migrate import migrate
from monitor.dev.account import kept_account
from monitor.dev.files import DevError, check_port, locked, write_private
from monitor.dev.postgres import PostgresServer
from monitor.dev.servers import Server, ServerFailed
from monitor.dev.service import Service, write_config
from monitor.dev.victoriametrics import VictoriaMetricsServer

WATCH_SECONDS = 0.5  # how long a dead program may go unnoticed


class Running(msgspec.Struct, frozen=True, rename="camel"):
    """``dev.json``: where the service is and what opens it."""

    base_url: str
    org_id: str
    email: str
    password: str
    api_key: str
    postgres_dsn: str
    victoria_metrics_url: str
    config_file: str


async def run(data_dir: Path, host: str, port: int) -> None:
    """Run the service and its servers until SIGINT or SIGTERM.

    ``dev.json`` in *data_dir* is there while the service is ready.

    Raises:
        DevError: Something is missing or in use, or a program ended by itself.
        MigrationError: The schema below *data_dir* is not one this version can bring up to date.
    """
    data_dir = await asyncio.to_thread(_made, data_dir)
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    with locked(data_dir):
        ready = data_dir / "dev.json"
        ready.unlink(missing_ok=True)  # a killed run left it
        async with AsyncExitStack() as started:
            started.callback(ready.unlink, missing_ok=True)
            work = asyncio.create_task(_run(started, data_dir, host, port), name="dev stack")
            wait = asyncio.create_task(told.wait(), name="stop signal")
            await asyncio.wait({work, wait}, return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            wait.cancel()
            with suppress(asyncio.CancelledError):
                await work
            click.echo("stopping", err=True)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DevError(f"--data-dir: {error}") from error
    return folder.resolve()


async def _run(started: AsyncExitStack, data_dir: Path, host: str, port: int) -> None:
    config_file = data_dir / "monitor.yaml"
    service = Service(data_dir / "serve", config_file, host, port)
    await service.recover()  # before the servers it may still be using, and for its port
    check_port(host, port)

    postgres = PostgresServer(data_dir / "postgres", avoid_port=port)
    await _start(started, postgres)
    victoriametrics = VictoriaMetricsServer(data_dir / "victoriametrics", avoid_port=port)
    await _start(started, victoriametrics)

    await migrate(postgres.owner_dsn)
    account = await kept_account(postgres.owner_dsn, data_dir / "account.json")
    write_config(config_file, host, port, postgres, victoriametrics)
    await _start(started, service)

    running = Running(
        base_url=service.url,
        org_id=account.org_id,
        email=account.email,
        password=account.password,
        api_key=account.api_key,
        postgres_dsn=postgres.owner_dsn,
        victoria_metrics_url=victoriametrics.url,
        config_file=str(config_file),
    )
    write_private(data_dir / "dev.json", msgspec.json.format(msgspec.json.encode(running)).decode() + "\n")
    click.echo(welcome(running, _program(), _short(data_dir / "agent")))
    await _watch(postgres, victoriametrics, service)


async def _start(started: AsyncExitStack, server: Server) -> None:
    started.push_async_callback(server.stop)
    await server.start()
    click.echo(f"{server.name} answers on {server.host}:{server.port}, log {_short(server.log)}", err=True)


async def _watch(*servers: Server) -> None:
    """Return never; raise ServerFailed when one of *servers* has ended."""
    while True:
        for server in servers:
            if server.exit_status is not None:
                raise ServerFailed(server.obituary())
        await asyncio.sleep(WATCH_SECONDS)


def welcome(running: Running, program: str, state_dir: str) -> str:
    """Say where to look, how to log in and what to try.

    Args:
        running: What runs.
        program: How a shell in this folder starts ``monitor``.
        state_dir: Where an agent started by hand may keep its token.
    """
    containers = ["curl", "-H", f"X-API-Key: {running.api_key}", f"{running.base_url}/api/v1/containers"]
    agent = ["agent", "--url", running.base_url, "--api-key", running.api_key, "--state-dir", state_dir]
    return f"""
  Open       {running.base_url}
  E-mail     {running.email}
  Password   {running.password}
  API key    {running.api_key}

Try next:
  {shlex.join(containers)}
  {program} {shlex.join(agent)}

Ctrl-C ends everything; the data stays.
"""


def _program() -> str:
    script = Path(sys.executable).with_name("monitor")
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m monitor"
    return shlex.quote(_short(script))


def _short(path: Path) -> str:
    """Return *path* from here where it lies below, else in full."""
    try:
        return f"./{path.relative_to(Path.cwd())}"
    except ValueError:
        return str(path)
