"""The service's answers, as the agent understands them."""

import pytest

from monitor.collector.client import retry_after_seconds


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
        ("Sat, 21 Nov 2026 00:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_bounded_and_never_nonsense(header, seconds):
    assert retry_after_seconds(header) == seconds
