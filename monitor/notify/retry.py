"""When a notification is tried again, and when it is given up.  Pure: time is an argument."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

FIRST_SECONDS: Final = 5.0  # a receiver that restarts is back within a few of them
LONGEST_SECONDS: Final = 600.0  # late by at most this after a long absence
GIVE_UP: Final = timedelta(hours=24)  # contract 7


def retry_seconds(failures: int, jitter: float) -> float:
    """Return how long to wait after the *failures*-th failure in a row.

    It doubles from 5 s to 10 minutes, less up to a half, so that channels which failed
    together do not come back together.

    Args:
        failures: At least 1.
        jitter: Any number from 0 to 1; 0 gives the longest wait.
    """
    longest = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_SECONDS)
    return longest * (1.0 - jitter / 2)


def given_up_before(now: datetime) -> datetime:
    """Return when a notification must have been noted to be given up at *now*."""
    return now - GIVE_UP
