"""The lines that a remote write becomes: whose labels they carry, what refuses them."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import BadRequest, PayloadTooLarge, TooManyRequests
from monitor.prometheus.remote import MOST_LABELS, lines_of, terms_of
from tests.prometheus.write_request import STALE, series, write_request

NOW = 1_893_456_000_000
DAY = 86_400
NAME = ("__name__", "up")


def terms(agent=None, series_limit=10):
    return terms_of("org_a", agent, now_ms=NOW, retention_seconds=DAY, series_limit=series_limit)


def lines(*encoded, agent=None, series_limit=10):
    printed = lines_of(write_request(*encoded), terms(agent, series_limit))
    return "".join([piece.text for piece in printed]).splitlines()


def many(count):
    return [(f"l{number}", "x") for number in range(count)]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([NAME], ",org_id=org_a up=1.5 1893456000000"),
        ([NAME, ("job", "a b,c=d\\")], r",org_id=org_a,job=a\ b\,c\=d\\ up=1.5 1893456000000"),
        ([("job", "a\nb"), NAME], ",org_id=org_a,job=a\ufffdb up=1.5 1893456000000"),
        ([NAME, ("empty", "")], ",org_id=org_a up=1.5 1893456000000"),
        ([NAME, ("agent", "mine")], ",org_id=org_a,agent=mine up=1.5 1893456000000"),
        ([("__name__", "a:b_c")], ",org_id=org_a a:b_c=1.5 1893456000000"),
        ([("__name__", "up\n")], None),
    ],
)
def test_a_series_becomes_a_line(labels, expected):
    if expected is None:
        with pytest.raises(BadRequest, match="no metric name"):
            lines(series(labels, (1.5, NOW)))
    else:
        assert lines(series(labels, (1.5, NOW))) == [expected]


@pytest.mark.parametrize("name", ["org_id", "agent_id", "U__org__id", "U__org_5f_id", "U___6f_rg__i_64_"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_labels_that_are_the_services_do_not_survive(name, place):
    labels = [("a", "1"), NAME]
    labels.insert(place, (name, "org_b"))

    assert lines(series(labels, (1, NOW))) == [",org_id=org_a,a=1 up=1.0 1893456000000"]


@pytest.mark.parametrize(
    "name", ["ORG_ID", "Org_id", "org__id", "_org_id", "orgid", "U__foo_2e_bar", "U__org_110000_id"]
)
def test_labels_that_only_look_alike_are_kept(name):
    assert lines(series([NAME, (name, "x")], (1, NOW))) == [f",org_id=org_a,{name}=x up=1.0 1893456000000"]


def test_an_agents_labels_replace_those_of_its_payload():
    encoded = series([NAME, ("agent", "other"), ("agent_id", "agt_b"), ("org_id", "org_b")], (1, NOW))

    assert lines(encoded, agent=("agt_a", "host 1")) == [
        r",org_id=org_a,agent_id=agt_a,agent=host\ 1 up=1.0 1893456000000"
    ]


def test_what_is_no_number_is_left_out():
    values = (1, STALE, float("nan"), float("inf"), float("-inf"), 2)

    kept = lines(series([NAME], *[(value, NOW + number) for number, value in enumerate(values)]))

    assert [line.split()[1:] for line in kept] == [["up=1.0", f"{NOW}"], ["up=2.0", f"{NOW + 5}"]]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([], "timeseries[1].labels: __name__: required"),
        ([("job", "a")], "timeseries[1].labels: __name__: required"),
        ([("__name__", "")], "timeseries[1].labels: no metric name of Prometheus: ''"),
        ([("__name__", "a-b")], "timeseries[1].labels: no metric name of Prometheus: 'a-b'"),
        ([NAME, NAME], "timeseries[1].labels: up: the label __name__ is there twice"),
        ([NAME, ("a", "1"), ("b", "1"), ("a", "2")], "timeseries[1].labels: up: the label a is there twice"),
        ([NAME, ("org_id", "x"), ("org_id", "y")], "timeseries[1].labels: up: the label org_id is there twice"),
        *[
            ([NAME, (name, "x")], f"timeseries[1].labels: no label name of Prometheus: {name!r}")
            for name in ("", "org_id ", " org_id", "org_id\0", "org\\_id", "org_id,x=y", "org-id", "org_id\n", "ö", "1a", "a:b")
        ],
        ([NAME, ("VictoriaMetrics_AccountID", "1")],
         "timeseries[1].labels: this label cannot be set: VictoriaMetrics_AccountID"),
        ([NAME, ("a" * 257, "x")], f"timeseries[1].labels: a label name is longer than 256 bytes: {'a' * 80}"),
        ([NAME, ("a", "ö" * 513)],
         "timeseries[1].labels: the value of 'a' is 1026 bytes long, at most 1024 are allowed"),
        ([NAME, ("a", "b\0c")], "timeseries[1].labels: the value of 'a' holds a NUL character"),
        ([NAME, *many(28)], "timeseries[1].labels: up: 29 labels, 1 of them ours, at most 28 are allowed"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_are_refused_with_their_series(labels, text):
    with pytest.raises(BadRequest) as caught:
        lines(series([NAME], (1, NOW)), series(labels, (1, NOW)))

    assert caught.value.text == text
    assert caught.value.field == "timeseries[1].labels"


def test_the_most_labels_include_ours_and_not_what_is_dropped():
    dropped = [("org_id", "x"), ("agent_id", "x"), ("empty", "")]

    [by_key] = lines(series([NAME, *dropped, *many(MOST_LABELS - 1)], (1, NOW)))
    [by_agent] = lines(series([NAME, *dropped, *many(MOST_LABELS - 3)], (1, NOW)), agent=("agt_a", "h"))

    assert by_key.split()[0].count("=") == by_agent.split()[0].count("=") == MOST_LABELS
    with pytest.raises(BadRequest, match="29 labels, 3 of them ours"):
        lines(series([NAME, *many(MOST_LABELS - 2)], (1, NOW)), agent=("agt_a", "h"))


def test_a_value_of_1024_bytes_is_taken():
    assert "x" * 1024 in lines(series([NAME, ("a", "x" * 1024)], (1, NOW)))[0]


@pytest.mark.parametrize(
    ("ms", "why"),
    [
        (NOW - DAY * 1000 - 1, "is older than the retention"),
        (NOW + 300_001, "is more than 5 minutes in the future"),
        (0, "is older than the retention"),
        (-(2**63), "is older than the retention"),
    ],
)
def test_a_time_out_of_bounds_is_refused(ms, why):
    with pytest.raises(BadRequest) as caught:
        lines(series([NAME], (1, NOW), (2, ms)))

    assert caught.value.text == f"timeseries[0].samples: out of bounds: {ms} {why}"


def test_times_at_the_bounds_are_taken():
    times = (NOW - DAY * 1000, NOW + 300_000)

    assert [int(line.split()[2]) for line in lines(series([NAME], *[(1, ms) for ms in times]))] == list(times)


def test_more_series_than_allowed_are_refused_by_the_limits_name():
    encoded = [series([NAME, ("n", str(number))], (1, NOW)) for number in range(4)]

    assert len(lines(*encoded, series_limit=4)) == 4
    with pytest.raises(TooManyRequests, match=r"^series_per_push: more series than the 3 allowed$"):
        lines(*encoded, series_limit=3)


def test_samples_that_repeat_long_labels_too_often_are_refused_before_they_are_printed():
    labels = [NAME, *[(f"l{number}", "x" * 1024) for number in range(25)]]
    encoded = series(labels, *[(1, NOW)] * 50_000)
    started = time.perf_counter()

    with pytest.raises(PayloadTooLarge, match="characters with their labels"):
        lines(encoded)

    assert time.perf_counter() - started < 30  # printing them would take minutes


def test_many_samples_of_a_series_come_in_pieces():
    pieces = list(lines_of(write_request(series([NAME], *[(n, NOW - n) for n in range(5000)])), terms()))

    assert max(len(piece.text) for piece in pieces) < 2**16
    assert sum(piece.count for piece in pieces) == 5000
    assert "".join(piece.text for piece in pieces).count("\n") == 5000


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), max_size=12),
            st.text(st.characters(codec="utf-8"), max_size=12),
        )
    )
)
@settings(deadline=None)
def test_whatever_the_labels_the_first_tag_is_the_organization_and_no_other_is(labels):
    try:
        [line] = lines(series([NAME, *labels], (1, NOW)))
    except BadRequest:
        return
    assert line.startswith(",org_id=org_a")
    assert line.replace("\\,", "").count(",org_id=") == 1
    assert line.endswith(f" up=1.0 {NOW}")
