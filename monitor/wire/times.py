"""Times as they are written on the wire: RFC 3339, ISO 8601, unix seconds.

What goes out is RFC 3339 in UTC and ends in ``Z``; what comes in may carry any
offset.  A text that is no time is a ValueError, for the caller to name the field.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_FAR_SECONDS = 1e11  # the year 5138; milliseconds sent by mistake are above
_FRACTION = re.compile(r"\.\d+")


def parse_rfc3339(text: str) -> datetime:
    """Return the instant of a full RFC 3339 time, in UTC; digits below a microsecond are cut.

    Raises:
        ValueError: *text* is something else, or no day of the calendar.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError("expected an RFC 3339 time such as 2030-01-31T12:00:00Z")
    return parse_iso8601(text.upper())


def parse_iso8601(text: str) -> datetime:
    """Return the instant of an ISO 8601 time, in UTC; without an offset it is read as UTC.

    Raises:
        ValueError: *text* is something else, or outside the years 1 to 9999.
    """
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the time is outside the years 1 to 9999") from error


def in_utc(text: str) -> str:
    """Return an ISO 8601 time as RFC 3339 in UTC; what ends in ``Z``, or is empty, as it came.

    The digits of a fraction are kept, however many there are.
    """
    if not text or text.endswith("Z"):
        return text
    fraction = _FRACTION.search(text)
    whole = parse_iso8601(text).replace(microsecond=0, tzinfo=None).isoformat()
    return f"{whole}{fraction[0] if fraction else ''}Z"


def unix_ms(moment: datetime) -> int:
    """Return *moment* in milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def sample_ms(timestamp: float | str) -> int:
    """Return the time of a sample, unix seconds or RFC 3339, in milliseconds since 1970.

    Raises:
        ValueError: a text that is no RFC 3339 time, a number that can be no unix seconds.
    """
    if isinstance(timestamp, str):
        return unix_ms(parse_rfc3339(timestamp))
    if not abs(timestamp) < _FAR_SECONDS:
        raise ValueError("expected unix seconds")
    return round(timestamp * 1000)
