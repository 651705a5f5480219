"""Whether an agent does its work, read from its state directory.

For the health checks of service managers and container engines: a program of its
own asks, and the agent needs no port for it.
"""

from __future__ import annotations

from pathlib import Path

import structlog
from msgspec import Struct

from monitor.collector.spool import read_count

log = structlog.get_logger(__name__)

PUSHED_FILE = "pushed"  # its time of change is that of the newest push that was accepted
MAX_AGE_SECONDS = 90.0  # after it the service shows the agent as offline

SNAPSHOTS = ("spool/*.json.gz", "spool/dropped")
BATCHES = ("logs/*.batch", "logs/dropped_lines")


class Health(Struct, frozen=True):
    """What the state directory tells.

    Attributes:
        pushed_at: When the service accepted the newest push, in unix seconds; None before the first.
        held_snapshots: Snapshots that wait for the service.
        held_batches: Batches of log lines that wait for it.
        dropped_snapshots: What bounds and refusals have cost, ever.
        dropped_lines: The same of log lines.
    """

    pushed_at: float | None
    held_snapshots: int
    held_batches: int
    dropped_snapshots: int
    dropped_lines: int


def note_push(state: Path) -> None:
    """Note that the service has just accepted a push."""
    try:
        (state / PUSHED_FILE).touch(mode=0o600)
    except OSError as error:  # a new file on a full disk
        log.warning("push not noted for health checks", error=error.strerror)


def read_health(state: Path) -> Health:
    """Return what *state* tells.

    Raises:
        OSError: It cannot be read.
    """
    try:
        pushed_at = (state / PUSHED_FILE).stat().st_mtime
    except FileNotFoundError:
        pushed_at = None
    return Health(
        pushed_at,
        sum(1 for _ in state.glob(SNAPSHOTS[0])),
        sum(1 for _ in state.glob(BATCHES[0])),
        read_count(state / SNAPSHOTS[1]),
        read_count(state / BATCHES[1]),
    )


def verdict(health: Health, now: float, max_age_seconds: float) -> tuple[bool, str]:
    """Return whether the agent is healthy, and a line that says so.

    Args:
        health: What its state directory tells.
        now: Unix seconds.
        max_age_seconds: Since the last accepted push, at most.
    """
    if health.pushed_at is None:
        is_healthy, push = False, "no push accepted yet"
    else:
        age = max(0.0, now - health.pushed_at)
        is_healthy, push = age <= max_age_seconds, f"last push accepted {age:.0f} s ago"
    return is_healthy, (
        f"{'healthy' if is_healthy else 'unhealthy'}: {push};"
        f" held back: {health.held_snapshots} snapshots, {health.held_batches} batches of log lines;"
        f" dropped: {health.dropped_snapshots} snapshots, {health.dropped_lines} log lines"
    )
