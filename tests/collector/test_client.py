"""The service's answers, as the agent understands them."""

from datetime import UTC, datetime

import pytest

from monitor.collector.connection import retry_after_seconds

NOW = datetime(2026, 11, 20, 23, 59, 40, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5.0),
        ("0.5", 0.5),
        ("86400", 300.0),
        ("", 0.0),
        ("-1", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        ("Sat, 21 Nov 2026 00:00:00 GMT", 20.0),
        ("Fri, 20 Nov 2026 00:00:00 GMT", 0.0),
        ("Tue, 21 Nov 2226 00:00:00 GMT", 300.0),
        ("next week", 0.0),
    ],
)
def test_retry_after_is_bounded_and_never_nonsense(header, seconds):
    assert retry_after_seconds(header, NOW) == seconds
