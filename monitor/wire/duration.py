"""Durations as Prometheus writes them: ``500ms``, ``15s``, ``1h30m``, ``30d``, ``1y``.

Units go from the largest to the smallest, each at most once, whole numbers only;
a day has 24 hours, a week 7 days, a year 365 days.
https://prometheus.io/docs/prometheus/latest/querying/basics/#float-literals-and-time-durations
"""

from __future__ import annotations

import re

_UNIT_MS = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in _UNIT_MS))
_MAX_MS = (2**63 - 1) // 1_000_000  # Prometheus counts nanoseconds in 64 bits: about 292 years
_MAX_CHARACTERS = 64  # longer than any duration in range, without leading zeros
_EXACT_ONLY = ("y", "w")  # 90d reads better than 12w6d


def parse_duration(text: str) -> float:
    """Return the seconds that *text* says; ``0`` alone needs no unit.

    Raises:
        ValueError: *text* is no Prometheus duration, or above 292 years.
    """
    if text == "0":
        return 0.0
    match = _DURATION.fullmatch(text) if 0 < len(text) <= _MAX_CHARACTERS else None
    if match is None:
        shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
        raise ValueError(
            "expected a duration such as 15s, 1h30m or 30d"
            f' (units in the order y w d h m s ms, each once), found "{shown}"'
        )
    counts = zip(match.groups(), _UNIT_MS.values(), strict=True)
    total_ms = sum(int(count) * unit_ms for count, unit_ms in counts if count)
    if total_ms > _MAX_MS:
        raise ValueError(f'expected a duration of at most 292 years, found "{text}"')
    return total_ms / 1000


def format_duration(seconds: float) -> str:
    """Return the duration that Prometheus prints for *seconds*, rounded to milliseconds.

    Years and weeks appear only when nothing is left over: ``2w``, but ``90d``.

    Raises:
        ValueError: *seconds* is negative, not finite, or above 292 years.
    """
    if not 0 <= seconds <= _MAX_MS / 1000:
        raise ValueError(f"expected seconds from 0 to 292 years, found {seconds}")
    rest = round(seconds * 1000)
    if rest == 0:
        return "0s"
    parts = []
    for unit, unit_ms in _UNIT_MS.items():
        if unit in _EXACT_ONLY and rest % unit_ms:
            continue
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
