"""The agent as a program: its log, its signals, its exit status."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import click
import structlog

from monitor.collector.failure import AgentStopped
from monitor.collector.run import Settings, run

Result = TypeVar("Result")


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


async def run_until_signal(settings: Settings) -> None:
    """Be the agent until SIGTERM or SIGINT.

    Raises:
        AgentStopped: It cannot go on without its operator.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(settings, stop)


def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Run *work*; an end that the operator must look into becomes its text and exit code."""
    try:
        return asyncio.run(work)
    except AgentStopped as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(error.exit_code) from error
