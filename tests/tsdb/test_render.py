import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import StorageUnavailable
from monitor.tsdb import render
from monitor.tsdb.window import Grid


def answer(kind, *series):
    """An answer as VictoriaMetrics writes it: no white space, labels before values."""
    body = {"status": "success", "data": {"resultType": kind, "result": list(series)}}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def matrix(*series):
    return answer("matrix", *({"metric": labels, "values": values} for labels, values in series))


def vector(*series):
    return answer("vector", *({"metric": labels, "value": value} for labels, value in series))


def fed(answer, body, piece=1 << 20):
    for at in range(0, len(body), piece):
        answer.feed(body[at : at + piece])
    return b"".join(answer.pieces())


def numbers(body, piece=1 << 20):
    return json.loads(fed(render.RangeNumbers(GRID), body, piece))


def texts(body):
    return json.loads(fed(render.RangeTexts(GRID), body))


UP = {"__name__": "up", "org_id": "org_a"}
GRID = Grid(1, 2_000_000_000_000, 1)  # its end is after every time here but those of the test about it
LAST = "\U0010ffff"  # sorts behind every other label


def test_a_range_has_numbers_and_no_organization():
    body = matrix((UP, [[1893456000, "1"], [1893456015.5, "2.25"], [1893456030, "-0.5"]]))

    assert numbers(body) == {
        "series": [
            {
                "metric": {"__name__": "up"},
                "values": [[1893456000, 1], [1893456015.5, 2.25], [1893456030, -0.5]],
            }
        ],
        "count": 1,
    }


def test_an_empty_range_is_an_empty_list():
    assert numbers(matrix()) == {"series": [], "count": 0}
    assert texts(matrix()) == []


@pytest.mark.parametrize("word", ["NaN", "+Inf", "-Inf", "Inf"])
def test_points_that_are_no_numbers_are_left_out(word):
    body = matrix(
        (UP, [[1, word], [2, "1"], [3, word], [4, "2"], [5, word]]),
        ({**UP, "gone": "yes"}, [[1, word]]),
    )

    assert numbers(body) == {
        "series": [{"metric": {"__name__": "up"}, "values": [[2, 1], [4, 2]]}],
        "count": 1,
    }


@pytest.mark.parametrize(
    ("end_ms", "kept"),
    [(999, []), (1_000, [1]), (1_499, [1]), (1_500, [1, 1.5]), (2_999, [1, 1.5]), (3_000, [1, 1.5, 3])],
)
def test_points_after_the_end_are_cut_off(end_ms, kept):
    body = matrix((UP, [[1, "1"], [1.5, "2"], [3, "3"]]), ({**UP, "late": "yes"}, [[9, "1"]]))

    for reencoded in (render.RangeNumbers, render.RangeTexts):
        series = json.loads(fed(reencoded(Grid(1, end_ms, 1)), body))
        series = series["series"] if isinstance(series, dict) else series
        assert [[at for at, _ in one["values"]] for one in series] == ([kept] if kept else [])


def test_prometheus_keeps_the_points_that_are_no_numbers():
    assert texts(matrix((UP, [[1, "NaN"], [2, "+Inf"]])))[0]["values"] == [[1, "NaN"], [2, "+Inf"]]


@pytest.mark.parametrize(
    ("written", "prometheus"),
    [
        ("1000000000000000000000", "1e+21"),
        ("-1000000000000000000000", "-1e+21"),
        ("123456789012345680000", "123456789012345680000"),
        ("0.00000015", "1.5e-07"),
        ("-0.00000015", "-1.5e-07"),
        ("0.000001", "0.000001"),
        ("0.0000012", "0.0000012"),
        ("0", "0"),
        ("-0", "-0"),
        ("0.5", "0.5"),
        ("1" + "0" * 300, "1e+300"),
    ],
)
def test_values_have_an_exponent_where_prometheus_writes_one(written, prometheus):
    assert texts(matrix((UP, [[1, "7"], [2, written], [3, "7"]])))[0]["values"] == [
        [1, "7"],
        [2, prometheus],
        [3, "7"],
    ]
    assert json.loads(render.instant_texts(vector((UP, [1, written]))))[0]["value"] == [1, prometheus]


def test_prometheus_times_have_three_digits_after_the_point():
    body = matrix(
        (UP, [[1893456000, "1.5"], [1893456000.5, "1.5"], [1893456000.25, "1"], [1893456000.125, "1"]])
    )

    printed = fed(render.RangeTexts(GRID), body)

    assert b'[[1893456000,"1.5"],[1893456000.500,"1.5"],[1893456000.250,"1"],[1893456000.125,"1"]]' in printed
    assert b'"value":[1893456000.500,"2"]' in render.instant_texts(vector((UP, [1893456000.5, "2"])))


def test_series_are_ordered_by_their_labels():
    sets = [{"b": "1"}, {"a": "2"}, {"a": "1", "z": "0"}, {"a": "1"}, {"A": "9"}]
    body = matrix(*(({**UP, **labels}, [[1, "1"]]) for labels in sets))

    ordered = [
        {key: value for key, value in series["metric"].items() if key != "__name__"}
        for series in numbers(body)["series"]
    ]

    # "A" sorts before "__name__", as in Prometheus.
    assert ordered == [{"A": "9"}, {"a": "1"}, {"a": "1", "z": "0"}, {"a": "2"}, {"b": "1"}]
    assert list(numbers(body)["series"][0]["metric"]) == ["A", "__name__"]


@pytest.mark.parametrize(
    "value",
    [
        '"values":[[',
        '"values":[[1,"2"]]}',
        '"metric":{',
        "]]",
        ']]},{"metric":{',
        '1"]]},{"metric":{"a":"b"},"values":[[',
        "],[",
        '"',
        "\\",
        '\\"values\\":[[',
        "é\u2028",
        '"NaN"',
    ],
)
def test_a_label_that_looks_like_the_answers_form_stays_a_label(value):
    labels = {"metric": value, "values": value, value[:5]: value}
    body = matrix(({**UP, **labels}, [[1, "1"]]), ({**UP, **labels, LAST: value}, [[2, "3"]]))

    first, second = numbers(body)["series"]

    assert first == {"metric": {"__name__": "up", **labels}, "values": [[1, 1]]}
    assert second == {"metric": {"__name__": "up", **labels, LAST: value}, "values": [[2, 3]]}


LABELS = st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=4)
VALUES = st.lists(
    st.tuples(st.integers(0, 2_000_000_000), st.floats() | st.sampled_from([1e21, 1e-7, -0.0])),
    min_size=1,
    max_size=5,
)


def written(value):
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return format(value, "f") if float(format(value, "f")) == value else format(value, ".400f")


@given(st.lists(st.tuples(LABELS, VALUES), max_size=4), st.integers(1, 300))
def test_reencoding_means_the_same_as_decoding_it_all(series, piece):
    body = matrix(
        *(
            ({**labels, "org_id": "o"}, [[time, written(value)] for time, value in points])
            for labels, points in series
        )
    )

    expected = []
    for labels, points in series:
        kept = [[time, float(written(value))] for time, value in points if math.isfinite(value)]
        shown = {key: value for key, value in labels.items() if key != "org_id"}
        if kept:
            expected.append({"metric": shown, "values": kept})
    expected.sort(key=lambda entry: sorted(entry["metric"].items()))
    given_back = numbers(body, piece)
    assert sorted(map(json.dumps, given_back["series"])) == sorted(map(json.dumps, by_sorted_keys(expected)))
    assert given_back["count"] == len(expected)
    assert [sorted(entry["metric"].items()) for entry in given_back["series"]] == [
        sorted(entry["metric"].items()) for entry in expected
    ]


def by_sorted_keys(series):
    return [{**entry, "metric": dict(sorted(entry["metric"].items()))} for entry in series]


def test_an_instant_has_one_number_for_each_series():
    body = vector(
        ({**UP, "b": "2"}, [1893456000, "3"]),
        ({**UP, "a": "1"}, [1893456000, "0.5"]),
        (UP, [1893456000, "NaN"]),
    )

    assert json.loads(render.instant_numbers(body)) == {
        "series": [
            {"metric": {"__name__": "up", "a": "1"}, "value": 0.5},
            {"metric": {"__name__": "up", "b": "2"}, "value": 3},
        ],
        "count": 2,
    }


def test_lists_are_in_order_and_without_the_organization():
    series = json.dumps({"data": [{"b": "1", "org_id": "o"}, {"a": "2", "org_id": "o"}]}).encode()
    names = json.dumps({"data": ["z", "org_id", "a"]}).encode()

    assert render.label_sets(series) == [{"a": "2"}, {"b": "1"}]
    assert render.label_names(names) == ["a", "z"]
    assert render.label_names(b'{"data":["__name__"]}') == []
    assert render.label_values(names) == ["a", "org_id", "z"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"status":"success"}',
        b'{"data":{"resultType":"vector","result":[]}}',
        b'{"data":{"resultType":"matrix","result":[{"values":[[1,"1"]]}]}}',
        b'{"data":{"resultType":"matrix","result":[{"metric":{"a":1},"values":[[1,"1"]]}]}}',
        b'{"data":{"resultType":"matrix","result":[{"metric":{"a":"1"},"values":[[1,"1"',
        b'{"data":{"resultType":"matrix","result":[{"metric":{"a":"1"},"values":[["x","1"]]}]}}',
    ],
)
@pytest.mark.parametrize("piece", [1, 1000])
@pytest.mark.parametrize("reencoded", [render.RangeNumbers, render.RangeTexts])
def test_an_answer_of_another_form_is_a_failure_of_the_storage(reencoded, body, piece):
    with pytest.raises(StorageUnavailable):
        fed(reencoded(GRID), body, piece)


@pytest.mark.parametrize(
    "read", [render.instant_numbers, render.instant_texts, render.label_sets, render.label_names]
)
def test_a_list_of_another_form_is_a_failure_of_the_storage(read):
    for body in (
        b"",
        b"[]",
        b'{"data":1}',
        b'{"data":{"result":[{"metric":{},"value":[1,2]}]}}',
        b'{"data":["\xff"]}',
    ):
        with pytest.raises(StorageUnavailable):
            read(body)
