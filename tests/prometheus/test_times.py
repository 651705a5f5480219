import pytest

from monitor.errors import BadRequest
from monitor.metrics.parameters import Parameters
from monitor.prometheus.times import AHEAD_MS, grid_of, moment_of, span_of, time_ms
from monitor.tsdb.window import LAST_MS, Grid

NOW = 1_893_456_000_000
OLDEST = NOW - 30 * 86_400_000


def given(**values):
    return Parameters(values.items())


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1893456000", NOW),
        ("1893456000.123", NOW + 123),
        ("1.893456e9", NOW),
        ("2030-01-01T00:00:00Z", NOW),
        ("2030-01-01T01:00:00.5+01:00", NOW + 500),
        ("-5", -5_000),
        ("1e300", LAST_MS),
        ("-1e300", -LAST_MS),
        ("1e99999999", LAST_MS),
        ("-292273086-05-16T16:47:06Z", -LAST_MS),
        ("292277025-08-18T07:12:54.999999999Z", LAST_MS),
    ],
)
def test_times_are_read_as_prometheus_clients_write_them(text, milliseconds):
    assert time_ms(text, "start") == milliseconds


@pytest.mark.parametrize(
    "text", ["", "x", "now", "nan", "inf", "1_0", "2030-01-01", "2030-13-01T00:00:00Z", "9" * 65]
)
def test_any_other_time_is_refused_by_name(text):
    with pytest.raises(BadRequest, match="start: expected") as refusal:
        time_ms(text, "start")

    assert refusal.value.field == "start"


def test_an_instant_is_now_unless_it_is_given():
    assert moment_of(given(), NOW) == NOW
    assert moment_of(given(time=""), NOW) == NOW
    assert moment_of(given(time="4.5"), NOW) == 4_500


def test_a_range_has_eleven_thousand_steps_at_most():
    assert grid_of(given(start="0", end="165000", step="15")) == Grid(0, 165_000_000, 15_000)
    with pytest.raises(BadRequest, match="11,000 points") as refusal:
        grid_of(given(start="0", end="165000.001", step="15"))
    assert refusal.value.field == "step"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"end": "2", "step": "1"}, "start"),
        ({"start": "1", "step": "1"}, "end"),
        ({"start": "1", "end": "2"}, "step"),
        ({"start": "1", "end": "2", "step": "0"}, "step"),
        ({"start": "1", "end": "2", "step": "-1"}, "step"),
        ({"start": "1", "end": "2", "step": "x"}, "step"),
        ({"start": "2", "end": "1", "step": "1"}, "end"),
    ],
)
def test_a_range_needs_all_three_and_in_order(values, field):
    with pytest.raises(BadRequest) as refusal:
        grid_of(given(**values))

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("values", "span"),
    [
        ({}, (OLDEST, NOW + AHEAD_MS)),
        ({"start": "", "end": ""}, (OLDEST, NOW + AHEAD_MS)),
        ({"start": "1893455000", "end": "1893455500"}, (NOW - 1_000_000, NOW - 500_000)),
        ({"start": "-1e18", "end": "1e18"}, (OLDEST, NOW + AHEAD_MS)),
        ({"start": "1", "end": "2"}, None),
        ({"start": "1893455500", "end": "1893455000"}, None),
        ({"start": "1e18"}, None),
    ],
)
def test_a_look_at_the_index_is_clamped_and_never_refused(values, span):
    assert span_of(given(**values), OLDEST, NOW) == span
