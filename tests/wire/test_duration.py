"""Durations in Prometheus' notation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.wire.duration import format_duration, parse_duration

DAY = 86_400
MAX_SECONDS = (2**63 - 1) // 1_000_000 / 1000

NOTATIONS = {
    "0s": 0,
    "1ms": 0.001,
    "500ms": 0.5,
    "15s": 15,
    "1m30s": 90,
    "1h30m": 5400,
    "1d12h": 129_600,
    "1w": 7 * DAY,
    "30d": 30 * DAY,
    "90d": 90 * DAY,
    "1y": 365 * DAY,
    "366d": 366 * DAY,
    "1d1ms": DAY + 0.001,
}


@pytest.mark.parametrize(("text", "seconds"), NOTATIONS.items())
def test_a_duration_is_read_as_its_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(("text", "seconds"), NOTATIONS.items())
def test_seconds_are_printed_as_prometheus_prints_them(text, seconds):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    {"0": 0, "60s": 60, "007s": 7, "2y1w3d4h5m6s7ms": 740 * DAY + 14_706.007}.items(),
)
def test_other_notations_of_a_duration_are_read_too(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "15",
        "-1s",
        "+1s",
        "1.5h",
        "1 h",
        "1h ",
        "1h\n",
        "30m1h",
        "1s1s",
        "1D",
        "s",
        "1µs",
        "١s",
        "00",
    ],
)
def test_what_is_no_duration_is_refused_and_shown(text):
    with pytest.raises(ValueError, match="expected a duration such as 15s, 1h30m or 30d") as refused:
        parse_duration(text)

    assert f'found "{text}"' in str(refused.value)


def test_a_duration_above_the_64_bits_of_prometheus_is_refused():
    assert parse_duration("292y") == 292 * 365 * DAY
    with pytest.raises(ValueError, match="at most 292 years"):
        parse_duration("293y")
    with pytest.raises(ValueError, match="at most 292 years"):
        parse_duration("9" * 60 + "s")


def test_an_endless_text_is_refused_without_being_repeated():
    with pytest.raises(ValueError, match="found") as refused:
        parse_duration("9" * 10_000 + "s")

    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("inf"), MAX_SECONDS * 2])
def test_seconds_that_are_no_duration_are_not_printed(seconds):
    with pytest.raises(ValueError, match="expected seconds from 0 to 292 years"):
        format_duration(seconds)


@given(st.integers(min_value=0, max_value=(2**63 - 1) // 1_000_000))
def test_what_is_printed_reads_back_as_the_same_duration(milliseconds):
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.text(alphabet="0123456789ywdhms", max_size=12))
def test_every_text_is_a_duration_or_refused_with_a_reason(text):
    try:
        seconds = parse_duration(text)
    except ValueError as refused:
        assert "expected a duration" in str(refused)  # noqa: PT017 - both outcomes are right
    else:
        assert parse_duration(format_duration(seconds)) == seconds
