"""The command ``monitor agent``: its options, checked, and its signals."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import click
import msgspec

from monitor.collector.health import MAX_AGE_SECONDS, read_health, verdict
from monitor.collector.install import install
from monitor.collector.kubernetes.options import cluster_options
from monitor.collector.options import (
    engine_address,
    first_state_dir,
    globs,
    interval_seconds,
    read_key_file,
    service_url,
    short_text,
    since_seconds,
    span_seconds,
)
from monitor.wire.push import AgentType

DEFAULT_STATE_DIR = "/var/lib/monitor-agent"
DEFAULT_DOCKER_HOST = "unix:///var/run/docker.sock"
BYTES_PER_MEBIBYTE = 1024 * 1024
LOG_LEVELS = ("debug", "info", "warning", "error")

STATE_DIR = click.option(
    "--state-dir",
    callback=first_state_dir,
    default=DEFAULT_STATE_DIR,
    envvar=["MONITOR_STATE_DIR", "STATE_DIRECTORY"],
    show_default=True,
    help="Where the agent keeps its identity and what it holds back.",
)


@click.group(invoke_without_command=True)
@click.option("--url", callback=service_url, envvar="MONITOR_URL", help="Address of the service.")
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path),
    envvar="MONITOR_CA_FILE",
    help="Certificates (PEM) to trust beside the system's, for a service with one of your own.",
)
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
@STATE_DIR
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
@cluster_options
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
@click.pass_context
def agent(
    ctx: click.Context,
    *,
    url: str | None,
    ca_file: Path | None,
    api_key: str | None,
    file_key: str | None,
    agent_type: AgentType,
    name: str,
    interval: float,
    state_dir: Path,
    pool: str | None,
    docker_host: str,
    kubeconfig: str | None,
    context: str | None,
    no_logs: bool,
    exclude: tuple[str, ...],
    logs_since: float,
    logs_spool: int,
    once: bool,
    dry_run: bool,
    log_level: str,
) -> None:
    """Watch this host's containers or a cluster's pods, push them and their logs to the service, and follow its commands.

    Registers on its first start and keeps its identity in the state directory.
    """
    if ctx.invoked_subcommand is not None:
        return
    if dry_run and not once:
        raise click.UsageError("--dry-run needs --once")
    if api_key and file_key:
        raise click.UsageError("give --api-key or --api-key-file, not both")
    # Only now: a health check shall not load what talks to servers.
    from monitor.collector.logs.ship import LogSettings  # noqa: PLC0415
    from monitor.collector.program import configure_log, finish, run_until_signal  # noqa: PLC0415
    from monitor.collector.run import Settings, preview, run_once  # noqa: PLC0415
    from monitor.collector.source import Watched  # noqa: PLC0415

    configure_log(log_level)
    watched = Watched(agent_type, docker_host, kubeconfig, context)
    if dry_run:
        body = finish(preview(watched))
        click.echo(msgspec.json.format(body, indent=2))
        return
    if url is None:
        raise click.UsageError("--url (or MONITOR_URL) is missing: the address of the service")
    settings = Settings(
        url=url,
        api_key=api_key or file_key,
        name=name,
        pool=pool,
        interval_seconds=interval,
        state_dir=state_dir,
        watched=watched,
        logs=None if no_logs else LogSettings(exclude, logs_since, logs_spool * BYTES_PER_MEBIBYTE),
        ca_file=ca_file,
    )
    finish(run_once(settings) if once else run_until_signal(settings))


@agent.command()
@STATE_DIR
@click.option(
    "--max-age",
    callback=span_seconds,
    default=f"{MAX_AGE_SECONDS:g}s",
    show_default=True,
    help="How long the last accepted push may be ago.",
)
def health(*, state_dir: Path, max_age: float) -> None:
    """Tell whether the agent of the state directory does its work; exit with 1 if not."""
    try:
        found = read_health(state_dir)
    except OSError as error:
        raise click.ClickException(f"--state-dir {state_dir} cannot be read: {error.strerror}") from error
    is_healthy, line = verdict(found, time.time(), max_age)
    click.echo(line)
    if not is_healthy:
        raise SystemExit(1)


agent.add_command(install)
