"""Times of log lines: nanoseconds since 1970, and RFC 3339 with nine digits.  Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from monitor.wire.times import parse_rfc3339

SECOND = 1_000_000_000  # nanoseconds
EARLIEST = -(2**63)  # in the year 1677
LATEST = 2**63 - 1  # in the year 2262
_UTC = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_FRACTION = re.compile(r"\.(\d{1,9})", re.ASCII)


@lru_cache(4096)
def _second(text: str) -> int:
    """Return the whole seconds since 1970 of an RFC 3339 time without its fraction."""
    return round(parse_rfc3339(text).timestamp())


@lru_cache(4096)
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)


def parse_ns(text: str) -> int:
    """Return the nanoseconds since 1970 of an RFC 3339 time; all nine digits count.

    Raises:
        ValueError: *text* is something else, or outside of what 64 bits hold.
    """
    match = _UTC.fullmatch(text)
    if match is not None:
        second, digits = _second(match[1] + "Z"), match[2]
    else:
        parse_rfc3339(text)  # refuses it if it is something else
        fraction = _FRACTION.search(text)
        digits = fraction[1] if fraction else None
        second = _second(_FRACTION.sub("", text))
    ns = second * SECOND + (int(digits.ljust(9, "0")) if digits else 0)
    if not EARLIEST <= ns <= LATEST:
        raise ValueError("the time is outside the years 1678 to 2261")
    return ns


def format_ns(ns: int) -> str:
    """Return nanoseconds since 1970 as RFC 3339 in UTC with nine digits."""
    second, fraction = divmod(ns, SECOND)
    return f"{_second_text(second)}.{fraction:09d}Z"
