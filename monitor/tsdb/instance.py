"""What a VictoriaMetrics says about itself on its own /metrics page.  Pure."""

from __future__ import annotations

import re
from typing import Final

from monitor.errors import StorageUnavailable

_STARTED = re.compile(r"^vm_app_start_timestamp (\S+)", re.MULTILINE)
_NUMBER = re.compile(r"([0-9.]+)([a-zA-Z]*)")
_HOUR_SECONDS: Final = 3600.0
# Units of -retentionPeriod; a plain number counts months of 31 days.
_RETENTION_SECONDS: Final = {
    "s": 1.0,
    "m": 60.0,
    "h": _HOUR_SECONDS,
    "d": 24 * _HOUR_SECONDS,
    "w": 7 * 24 * _HOUR_SECONDS,
    "": 31 * 24 * _HOUR_SECONDS,
    "M": 31 * 24 * _HOUR_SECONDS,
    "y": 365 * 24 * _HOUR_SECONDS,
}


def started(page: str) -> str:
    """Return the unix seconds at which the process started, as it writes them.

    Raises:
        StorageUnavailable: This is no page of VictoriaMetrics.
    """
    found = _STARTED.search(page)
    if found is None:
        raise StorageUnavailable from ValueError("/metrics without vm_app_start_timestamp")
    return found[1]


def dedup_enabled(page: str) -> bool:
    """Tell whether ``-dedup.minScrapeInterval`` is above zero."""
    return any(digit in "123456789" for digit in _flag(page, "dedup.minScrapeInterval") or "")


def retention_seconds(page: str) -> float:
    """Return ``-retentionPeriod`` in seconds.

    Raises:
        StorageUnavailable: The page does not show it, or in a form that is not known.
    """
    value = _flag(page, "retentionPeriod") or ""
    found = _NUMBER.fullmatch(value)
    if found is None or found[2] not in _RETENTION_SECONDS:
        raise StorageUnavailable from ValueError(f"/metrics without a known retentionPeriod: {value[:40]}")
    return float(found[1]) * _RETENTION_SECONDS[found[2]]


def _flag(page: str, name: str) -> str | None:
    found = re.search(rf'^flag{{name="{re.escape(name)}", ?value="([^"]*)"', page, re.MULTILINE)
    return found[1] if found else None
