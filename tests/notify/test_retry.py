"""When a notification is tried again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from monitor.notify.retry import given_up_before, retry_seconds


@pytest.mark.parametrize(
    ("failures", "longest"),
    [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 320), (8, 600), (9, 600), (100_000, 600)],
)
def test_the_wait_doubles_up_to_ten_minutes_and_is_spread_over_its_upper_half(failures: int, longest: float):
    assert retry_seconds(failures, 0.0) == longest
    assert retry_seconds(failures, 0.5) == longest * 0.75
    assert retry_seconds(failures, 1.0) == longest / 2


def test_a_notification_is_given_up_after_a_day():
    assert given_up_before(datetime(2030, 1, 2, 12, 30, tzinfo=UTC)) == datetime(
        2030, 1, 1, 12, 30, tzinfo=UTC
    )
