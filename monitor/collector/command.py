"""The command ``monitor agent``: its options, checked, and its signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import structlog
from yarl import URL

from monitor.collector.failure import AgentStopped
from monitor.collector.logs.ship import LogSettings
from monitor.collector.run import Settings, preview, run, run_once
from monitor.wire.duration import parse_duration
from monitor.wire.push import AgentType

DEFAULT_STATE_DIR = "/var/lib/monitor-agent"
DEFAULT_DOCKER_HOST = "unix:///var/run/docker.sock"
DOCKER_SCHEMES = ("unix", "tcp", "http", "https")
LONGEST_INTERVAL_SECONDS = 60.0  # the service takes an agent for offline after 90 s
SHORTEST_INTERVAL_SECONDS = 1.0  # pushes closer than this make no rates
NAME_BYTES = 1_024  # the service refuses longer ones
BYTES_PER_MEBIBYTE = 1024 * 1024
LOG_LEVELS = ("debug", "info", "warning", "error")

Result = TypeVar("Result")


def interval_seconds(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Return the seconds of a duration such as ``15s``, between 1s and 60s."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    if not SHORTEST_INTERVAL_SECONDS <= seconds <= LONGEST_INTERVAL_SECONDS:
        raise click.BadParameter(f"{text!r} is not between 1s and 60s", ctx, param)
    return seconds


def since_seconds(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Return the seconds of ``now`` or of a duration such as ``1h``."""
    try:
        return 0.0 if text == "now" else parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}, or now", ctx, param) from error


def globs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the globs, none of them empty."""
    if not all(texts):
        raise click.BadParameter("must not be empty", ctx, param)
    return texts


def service_url(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Return the address, which has a scheme, a host and at most a path, without a trailing slash."""
    if text is None:
        return None
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host or url.user or url.query_string or url.fragment:
        raise click.BadParameter(
            f"{text!r} is not an address such as https://monitor.example.com", ctx, param
        )
    return str(url).rstrip("/")


def short_text(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Return a name that the service takes."""
    if text is None:
        return None
    if not text.strip() or "\0" in text:
        raise click.BadParameter("must not be empty", ctx, param)
    if len(text.encode(errors="replace")) > NAME_BYTES:
        raise click.BadParameter(f"is longer than {NAME_BYTES} bytes", ctx, param)
    return text


def engine_address(ctx: click.Context, param: click.Parameter, text: str) -> str:
    """Return the engine's address, as DOCKER_HOST writes it."""
    scheme, _, rest = text.partition("://")
    if scheme not in DOCKER_SCHEMES or not rest:
        raise click.BadParameter(
            f"{text!r} is not unix:///path, tcp://host:port or http(s)://host:port", ctx, param
        )
    return text


def read_key_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    """Return the key that *path* holds, without surrounding white space."""
    if path is None:
        return None
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}", ctx, param) from error
    if not key:
        raise click.BadParameter(f"{path} is empty", ctx, param)
    return key


def first_state_dir(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    """Return the state directory; systemd's STATE_DIRECTORY may list several."""
    if not value:
        raise click.BadParameter("must not be empty", ctx, param)
    return Path(value.split(":", 1)[0])


@click.command()
@click.option("--url", callback=service_url, envvar="MONITOR_URL", help="Address of the service.")
@click.option(
    "--api-key",
    callback=short_text,
    envvar="MONITOR_API_KEY",
    help="API key for the registration; prefer the variable or the file: other users can see a command line.",
)
@click.option(
    "--api-key-file",
    "file_key",
    type=click.Path(path_type=Path),
    callback=read_key_file,
    envvar="MONITOR_API_KEY_FILE",
    help="File that holds the API key.",
)
@click.option(
    "--type",
    "agent_type",
    type=click.Choice(["docker", "kubernetes"]),
    default="docker",
    envvar="MONITOR_AGENT_TYPE",
    show_default=True,
    help="What to watch.",
)
@click.option(
    "--name",
    callback=short_text,
    default=socket.gethostname,
    envvar="MONITOR_AGENT_NAME",
    help="Name of the agent, by default the host's.",
)
@click.option(
    "--interval",
    callback=interval_seconds,
    default="15s",
    envvar="MONITOR_AGENT_INTERVAL",
    show_default=True,
    help="Time between snapshots, 1s to 60s.",
)
@click.option(
    "--state-dir",
    callback=first_state_dir,
    default=DEFAULT_STATE_DIR,
    envvar=["MONITOR_STATE_DIR", "STATE_DIRECTORY"],
    show_default=True,
    help="Where the agent keeps its identity and what it holds back.",
)
@click.option(
    "--pool", callback=short_text, envvar="MONITOR_AGENT_POOL", help="Host pool for scaling policies."
)
@click.option(
    "--docker-host",
    callback=engine_address,
    default=DEFAULT_DOCKER_HOST,
    envvar=["MONITOR_DOCKER_HOST", "DOCKER_HOST"],
    show_default=True,
    help="Address of the Docker engine.",
)
@click.option("--no-logs", is_flag=True, envvar="MONITOR_NO_LOGS", help="Ship no logs.")
@click.option(
    "--exclude",
    multiple=True,
    callback=globs,
    envvar="MONITOR_LOGS_EXCLUDE",
    help="Ship no logs of the containers with such a name, e.g. 'test-*'; may be repeated.",
)
@click.option(
    "--logs-since",
    callback=since_seconds,
    default="now",
    envvar="MONITOR_LOGS_SINCE",
    show_default=True,
    help="How far back the first start reaches, e.g. 1h; later starts go on where the last one stood.",
)
@click.option(
    "--logs-spool",
    type=click.IntRange(min=1, max=1024 * 1024),
    default=128,
    envvar="MONITOR_LOGS_SPOOL",
    show_default=True,
    help="Mebibytes of compressed log lines to hold back at most while the service is away.",
)
@click.option("--once", is_flag=True, help="Push one snapshot and end.")
@click.option("--dry-run", is_flag=True, help="With --once: print the snapshot and push nothing.")
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    default="info",
    envvar="MONITOR_LOG_LEVEL",
    show_default=True,
    help="Least important messages to show, on stderr.",
)
def agent(
    *,
    url: str | None,
    api_key: str | None,
    file_key: str | None,
    agent_type: AgentType,
    name: str,
    interval: float,
    state_dir: Path,
    pool: str | None,
    docker_host: str,
    no_logs: bool,
    exclude: tuple[str, ...],
    logs_since: float,
    logs_spool: int,
    once: bool,
    dry_run: bool,
    log_level: str,
) -> None:
    """Watch this host's containers, push them and their logs to the service, and follow its commands.

    Registers on its first start and keeps its identity in the state directory.
    """
    if agent_type == "kubernetes":
        raise click.UsageError("--type kubernetes is not available yet; use --type docker")
    if dry_run and not once:
        raise click.UsageError("--dry-run needs --once")
    if api_key and file_key:
        raise click.UsageError("give --api-key or --api-key-file, not both")
    configure_log(log_level)
    if dry_run:
        body = _finish(preview(docker_host))
        click.echo(msgspec.json.format(body, indent=2))
        return
    if url is None:
        raise click.UsageError("--url (or MONITOR_URL) is missing: the address of the service")
    settings = Settings(
        url=url,
        api_key=api_key or file_key,
        type=agent_type,
        name=name,
        pool=pool,
        interval_seconds=interval,
        state_dir=state_dir,
        docker_host=docker_host,
        logs=None if no_logs else LogSettings(exclude, logs_since, logs_spool * BYTES_PER_MEBIBYTE),
    )
    _finish(run_once(settings) if once else _run_until_signal(settings))


def configure_log(level: str) -> None:
    """Log lines of key=value pairs to stderr, from *level* up."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )


async def _run_until_signal(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(settings, stop)


def _finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Run *work*; an end that the operator must look into becomes its text and exit code."""
    try:
        return asyncio.run(work)
    except AgentStopped as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(error.exit_code) from error
