import pytest

from monitor.wire.times import in_utc, parse_rfc3339, sample_ms, unix_ms

IN_UTC = [
    ("", ""),
    ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"),
    ("2030-01-31T12:00:00.1234567890Z", "2030-01-31T12:00:00.1234567890Z"),
    ("2030-01-31T12:00:00+02:00", "2030-01-31T10:00:00Z"),
    ("2030-01-31T23:30:00.123456789-01:00", "2030-02-01T00:30:00.123456789Z"),
    ("2030-01-31T12:00:00", "2030-01-31T12:00:00Z"),
    ("2030-01-31", "2030-01-31T00:00:00Z"),
]


@pytest.mark.parametrize(("text", "utc"), IN_UTC)
def test_a_time_goes_out_in_utc(text, utc):
    assert in_utc(text) == utc


@pytest.mark.parametrize(
    "text", ["2030-01-31T12:00:00z", "2030-01-31t13:00:00.000+01:00", "2030-01-31 12:00:00Z"]
)
def test_rfc3339_is_read(text):
    assert unix_ms(parse_rfc3339(text)) == 1_896_091_200_000


NO_TIMES = ["", "now", "2030-01-31", "2030-01-31T12:00Z", "2030-01-31T12:00:00", "2030-02-30T00:00:00Z",
            "2030-01-31T12:00:60Z", "2030-01-31T12:00:00Z ", "٢٠٣٠-01-31T12:00:00Z", "9999-12-31T23:59:59-10:00"]  # fmt: skip


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_rfc3339_time_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"time|day|range|second"):
        parse_rfc3339(text)


def test_sample_times_are_seconds_or_text():
    assert sample_ms(1_896_091_200) == sample_ms(1_896_091_200.0) == sample_ms("2030-01-31T12:00:00Z")
    assert sample_ms(0.0005) == 0
    assert sample_ms(-1.5) == -1500


@pytest.mark.parametrize("number", [1e11, -1e11, 1e308, 2**62])
def test_milliseconds_are_not_taken_for_seconds(number):
    with pytest.raises(ValueError, match="unix seconds"):
        sample_ms(number)
