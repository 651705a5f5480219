import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import BadRequest
from monitor.tsdb.window import (
    MAX_POINTS,
    Grid,
    ahead,
    check_order,
    check_points,
    check_range,
    clamp,
    seconds_of,
    step_ms,
    time_ms,
    window_of,
)

NOW = 1_893_456_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15s", 15_000),
        ("1h30m", 90 * 60_000),
        ("500ms", 500),
        ("15", 15_000),
        ("0.25", 250),
        ("1.0019", 1_001),
        ("1.001", 1_000),  # 1000999999.9… ns in floating point: what Prometheus makes of it, too
        (".5", 500),
        ("1e1", 10_000),
        ("1w", 7 * DAY),
    ],
)
def test_a_step_is_a_duration_or_seconds(text, milliseconds):
    assert step_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0s",
        "-15",
        "-15s",
        "abc",
        "15 s",
        "1h1h",
        "nan",
        "inf",
        "1e400",
        "0.0001",
        "1_0",
        "9" * 80,
        "٣",
    ],
)
def test_any_other_step_is_refused_by_name(text):
    with pytest.raises(BadRequest) as refusal:
        step_ms(text)

    assert refusal.value.field == "step"


@pytest.mark.parametrize(
    "text", ["", "now", "1_000", "0x10", "nan", "inf", " 1", "1 ", "2030-01-01T00:00:00Z", "٣"]
)
def test_a_time_that_is_no_number_is_refused_by_name(text):
    with pytest.raises(BadRequest, match="start: expected unix seconds") as refusal:
        seconds_of(text, "start")

    assert refusal.value.field == "start"


@pytest.mark.parametrize("seconds", [1e300, -1e300, 253_402_300_801.0, float("inf")])
def test_a_time_beyond_the_calendar_is_refused(seconds):
    with pytest.raises(BadRequest):
        time_ms(seconds, "end")


@pytest.mark.parametrize(
    ("start", "end", "window"),
    [
        (None, None, (NOW - HOUR, NOW)),
        (None, "1893450000", (1_893_450_000_000 - HOUR, 1_893_450_000_000)),
        ("1893450000", None, (1_893_450_000_000, NOW)),
        ("1893450000.1234", "1893450001", (1_893_450_000_123, 1_893_450_001_000)),
        ("5", "2", (5_000, 2_000)),
    ],
)
def test_the_window_defaults_to_the_hour_before_its_end(start, end, window):
    assert window_of(start, end, NOW) == window


def test_an_end_before_the_start_is_refused():
    check_order(Grid(2, 2, 1))
    with pytest.raises(BadRequest, match="end: must not be before start"):
        check_order(Grid(3, 2, 1))


def test_seven_days_are_the_longest_window():
    check_range(Grid(NOW - 7 * DAY, NOW, 15_000))
    with pytest.raises(BadRequest, match="at most 7 days"):
        check_range(Grid(NOW - 7 * DAY - 1, NOW, 15_000))


def test_seven_days_at_the_default_step_are_answered():
    week = Grid(NOW - 7 * DAY, NOW, 15_000)

    check_points(week)

    assert week.points == 40_321
    with pytest.raises(BadRequest, match=r"step: gives 50,001 points a series, at most 50,000") as refusal:
        check_points(Grid(0, MAX_POINTS * 1_000, 1_000))
    assert refusal.value.field == "step"


@pytest.mark.parametrize(
    ("grid", "oldest", "kept"),
    [
        (Grid(100, 200, 15), 50, Grid(100, 200, 15)),
        (Grid(100, 200, 15), 100, Grid(100, 200, 15)),
        (Grid(100, 200, 15), 101, Grid(115, 200, 15)),
        (Grid(100, 200, 15), 115, Grid(115, 200, 15)),
        (Grid(100, 200, 15), 190, Grid(190, 200, 15)),
        (Grid(100, 200, 15), 191, None),
        (Grid(100, 200, 500), 150, None),
        (Grid(100, 200, 15), 300, None),
        (Grid(100, 100, 15), 100, Grid(100, 100, 15)),
    ],
)
def test_retention_cuts_points_off_and_leaves_the_others_where_they_were(grid, oldest, kept):
    assert clamp(grid, oldest) == kept


@given(
    st.integers(-(10**6), 10**6), st.integers(0, 10**4), st.integers(1, 10**4), st.integers(-(10**6), 10**6)
)
def test_what_is_kept_is_just_the_points_within_the_retention(start, length, step, oldest):
    grid = Grid(start, start + length, step)
    asked = range(grid.start_ms, grid.end_ms + 1, step)

    kept = clamp(grid, oldest)

    left = [] if kept is None else list(range(kept.start_ms, kept.end_ms + 1, kept.step_ms))
    assert left == [point for point in asked if point >= oldest]
    assert grid.points == len(asked)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (NOW - HOUR, NOW, 15_000),
        (NOW - HOUR, NOW - 7_000, 15_000),
        (NOW - 500, NOW, 1_000),
        (NOW - DAY, NOW, 59_999),
    ],
)
def test_a_range_up_to_the_present_is_asked_for_with_points_beyond_it(start, end, step):
    grid = Grid(start, end, step)

    asked = ahead(grid, NOW)

    assert (asked.start_ms, asked.step_ms) == (start, step)
    assert (asked.end_ms - start) % step == 0
    assert asked.end_ms > NOW + step + 1_000
    assert asked.points - grid.points <= 5


@pytest.mark.parametrize(
    "grid",
    [
        Grid(NOW - HOUR, NOW - 61_000, 15_000),
        Grid(NOW - HOUR, NOW, 60_000),
        Grid(NOW - HOUR, NOW, 999),
        Grid(NOW - 49_999 * 1_000, NOW, 1_000),
        Grid(NOW, NOW + 300_000, 15_000),
    ],
)
def test_other_ranges_are_asked_for_as_they_are(grid):
    assert ahead(grid, NOW) == grid
