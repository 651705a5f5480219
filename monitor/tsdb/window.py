"""Which points of time a query asks for.  Pure: the present is an argument.

A range is a grid, ``start + k * step`` up to ``end``, in whole milliseconds as
Prometheus counts them.  Retention cuts points off the grid and never moves it:
a dashboard that refreshes sees the same points again.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from monitor.errors import BadRequest
from monitor.wire.duration import parse_duration

DAY_MS: Final = 86_400_000
NANOSECONDS: Final = 1e9  # a second; what Prometheus counts a step in
DEFAULT_RANGE_MS: Final = 3_600_000  # the last hour (api.md, Limits)
DEFAULT_STEP: Final = "15s"  # api.md, Limits
MAX_RANGE_MS: Final = 7 * DAY_MS  # api.md, Limits
MAX_POINTS: Final = 50_000  # a series; -search.maxPointsPerTimeseries is set to this
# VictoriaMetrics up to 1.87 shows at the points of its last second (with the default flags: of its
# last 30 s) the value before, for steps of less than a minute; not if there are points far enough ahead.
ADJUSTED_STEPS_MS: Final = range(1_000, 60_000)  # below a second it would take too many points
ADJUSTED_MS: Final = 60_000
CLOCK_MS: Final = 1_000  # by which its clock may be ahead of ours

LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999: no time beyond is meant

# Longer numbers than that are no times; the bound also keeps float() from costing.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_NUMBER_CHARACTERS = 64


class Grid(Struct, frozen=True):
    """The points ``start_ms + k * step_ms`` that are not above ``end_ms``; unix milliseconds."""

    start_ms: int
    end_ms: int
    step_ms: int

    @property
    def points(self) -> int:
        """How many points there are."""
        return (self.end_ms - self.start_ms) // self.step_ms + 1


def seconds_of(text: str, field: str) -> float:
    """Return the plain decimal number of seconds that *text* is.

    Raises:
        BadRequest: It is anything else.
    """
    if len(text) > _NUMBER_CHARACTERS or not _NUMBER.fullmatch(text):
        raise BadRequest(f"{field}: expected unix seconds, such as 1893456000 or 1893456000.5", field=field)
    return float(text)


def time_ms(seconds: float, field: str) -> int:
    """Return unix *seconds* in milliseconds, rounded as Prometheus does.

    Raises:
        BadRequest: The time is after the year 9999, or as far before 1970.
    """
    if not abs(seconds) <= LAST_MS / 1000:
        raise BadRequest(f"{field}: expected unix seconds before the year 10000", field=field)
    fraction, whole = math.modf(seconds)
    return int(whole) * 1000 + round(fraction * 1000)


@lru_cache(256)
def step_ms(text: str, field: str = "step") -> int:
    """Return the step that *text* says, a Prometheus duration or seconds, in milliseconds.

    What is below a millisecond is cut off, as Prometheus does.

    Raises:
        BadRequest: It is neither, below a millisecond, or above 292 years.
    """
    if len(text) <= _NUMBER_CHARACTERS and _NUMBER.fullmatch(text):
        seconds = float(text)
    else:
        try:
            seconds = parse_duration(text)
        except ValueError:
            raise BadRequest(
                f"{field}: expected a duration such as 15s or 1h30m, or seconds", field=field
            ) from None
    if not seconds <= LAST_MS / 1000:
        raise BadRequest(f"{field}: expected at most 292 years", field=field)
    step = int(seconds * NANOSECONDS) // 1_000_000
    if step < 1:
        raise BadRequest(f"{field}: expected at least 1ms", field=field)
    return step


def window_of(start: str | None, end: str | None, now_ms: int) -> tuple[int, int]:
    """Return the start and end that are meant, in unix milliseconds, unchecked against each other.

    Without a start it is an hour before the end, without an end it is now.

    Raises:
        BadRequest: One of them is no time.
    """
    end_ms = now_ms if end is None else time_ms(seconds_of(end, "end"), "end")
    if start is None:
        return end_ms - DEFAULT_RANGE_MS, end_ms
    return time_ms(seconds_of(start, "start"), "start"), end_ms


def check_order(grid: Grid) -> None:
    """Refuse an end before the start.

    Raises:
        BadRequest: It is.
    """
    if grid.end_ms < grid.start_ms:
        raise BadRequest("end: must not be before start", field="end")


def check_range(grid: Grid) -> None:
    """Refuse a range of more than seven days.

    Raises:
        BadRequest: It is longer.
    """
    if grid.end_ms - grid.start_ms > MAX_RANGE_MS:
        raise BadRequest("start: at most 7 days before end", field="start")


def clamp(grid: Grid, oldest_ms: int) -> Grid | None:
    """Return the part of *grid* that is not before *oldest_ms*, None if nothing is left."""
    if grid.start_ms >= oldest_ms:
        return grid
    skipped = -((grid.start_ms - oldest_ms) // grid.step_ms)
    start_ms = grid.start_ms + skipped * grid.step_ms
    return Grid(start_ms, grid.end_ms, grid.step_ms) if start_ms <= grid.end_ms else None


def check_points(grid: Grid, most: int = MAX_POINTS) -> None:
    """Refuse a grid of more than *most* points.

    Raises:
        BadRequest: It has more.
    """
    if grid.points > most:
        raise BadRequest(
            f"step: gives {grid.points:,} points a series, at most {most:,} are answered;"
            " use a longer step or a shorter window",
            field="step",
        )


def ahead(grid: Grid, now_ms: int) -> Grid:
    """Return *grid* with points beyond the present, so that the newest ones are as they are.

    Whoever asks with these cuts them off again.
    """
    if grid.step_ms not in ADJUSTED_STEPS_MS or grid.end_ms < now_ms - ADJUSTED_MS:
        return grid
    last_ms = grid.start_ms + (grid.points - 1) * grid.step_ms
    missing = max(0, (now_ms + grid.step_ms + CLOCK_MS - last_ms) // grid.step_ms + 1)
    if grid.points + missing > MAX_POINTS:
        return grid
    return Grid(grid.start_ms, last_ms + missing * grid.step_ms, grid.step_ms)
