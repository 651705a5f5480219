"""Structured logs on stderr: one line an event, JSON or for a console."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from monitor.config import Log

_shown = logging.getLogger("monitor")  # nothing is written to it: it keeps the level


def shows_debug() -> bool:
    """Tell whether lines of level debug are shown; structlog takes 40 µs to leave one out."""
    return _shown.isEnabledFor(logging.DEBUG)


def set_up_logging(settings: Log) -> None:
    """Send every log, structlog's and the standard library's, to stderr as *settings* say."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor
    if settings.format == "json":
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    _shown.setLevel(level)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=shared,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=max(level, logging.INFO), force=True)
