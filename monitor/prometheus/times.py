"""Times and steps as Prometheus' clients write them.  Pure.

Windows of the index are clamped and never refused: promtool asks for ten
thousand hours around now.
"""

from __future__ import annotations

import re
from typing import Final

from monitor.errors import BadRequest
from monitor.metrics.parameters import Parameters
from monitor.tsdb import window
from monitor.tsdb.window import LAST_MS, Grid, check_order, step_ms
from monitor.wire.times import parse_rfc3339, unix_ms

MAX_STEPS: Final = 11_000  # of a range, as in Prometheus: every pixel of a wide screen several times
AHEAD_MS: Final = 300_000  # a sample may be 5 minutes ahead of the service's clock (contract 3)

LAST_SECONDS: Final = LAST_MS / 1000

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NUMBER_CHARACTERS: Final = 64
# What Prometheus' own client writes for "from the beginning" and "to the end".
_OPEN: Final = {"-292273086-05-16T16:47:06Z": -LAST_MS, "292277025-08-18T07:12:54.999999999Z": LAST_MS}


def time_ms(text: str, field: str) -> int:
    """Return unix seconds or RFC 3339 as unix milliseconds, at most the year 9999.

    Raises:
        BadRequest: *text* is neither.
    """
    if text in _OPEN:
        return _OPEN[text]
    if len(text) <= _NUMBER_CHARACTERS and _NUMBER.fullmatch(text):
        return window.time_ms(max(-LAST_SECONDS, min(float(text), LAST_SECONDS)), field)
    try:
        return unix_ms(parse_rfc3339(text))
    except ValueError:
        raise BadRequest(
            f'{field}: expected unix seconds or an RFC 3339 time, found "{text[:40]}"', field=field
        ) from None


def moment_of(parameters: Parameters, now_ms: int) -> int:
    """Return the ``time`` of an instant query; without one it is now."""
    text = parameters.one("time")
    return time_ms(text, "time") if text else now_ms


def grid_of(parameters: Parameters) -> Grid:
    """Return the grid of a range query, whose three parameters are required.

    Raises:
        BadRequest: One is missing or wrong, the end is before the start, or there are too many steps.
    """
    start, end, step = (parameters.one(name) or "" for name in ("start", "end", "step"))
    grid = Grid(time_ms(start, "start"), time_ms(end, "end"), step_ms(step))
    check_order(grid)
    if grid.end_ms - grid.start_ms > MAX_STEPS * grid.step_ms:
        raise BadRequest(
            f"step: exceeds the maximum of {MAX_STEPS:,} points a series; use a longer step", field="step"
        )
    return grid


def span_of(parameters: Parameters, oldest_ms: int, now_ms: int) -> tuple[int, int] | None:
    """Return the part that is kept of the window of a look at the index, None if there is none."""
    start, end = parameters.one("start"), parameters.one("end")
    start_ms = max(time_ms(start, "start") if start else oldest_ms, oldest_ms)
    end_ms = min(time_ms(end, "end") if end else LAST_MS, now_ms + AHEAD_MS)
    return (start_ms, end_ms) if start_ms <= end_ms else None
