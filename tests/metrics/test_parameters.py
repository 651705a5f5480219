import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import BadRequest
from monitor.metrics.parameters import Parameters, read_parameters


def test_a_parameter_may_be_repeated_with_one_value():
    given = Parameters([("metric", "up"), ("selector", "up"), ("metric", "up")])

    assert given.one("metric", "selector") == "up"
    assert given.one("absent") is None
    assert given.all("metric") == ["up", "up"]


@pytest.mark.parametrize(
    ("pairs", "field"),
    [
        ([("metric", "a"), ("metric", "b")], "metric"),
        ([("selector", "a"), ("metric", "b")], "metric"),
        ([("selector", "a"), ("selector", "")], "selector"),
    ],
)
def test_different_values_of_a_parameter_are_refused_by_name(pairs, field):
    with pytest.raises(BadRequest, match="given with different values") as refusal:
        Parameters(pairs).one("metric", "selector")

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("pairs", "field", "text"),
    [
        ([], "metric", "metric: required"),
        ([("metric", "")], "metric", "the selector is empty"),
        ([("selector", "")], "selector", "the selector is empty"),
        ([("selector", "rate(x[5m])")], "selector", "functions are not accepted"),
    ],
)
def test_a_missing_or_wrong_selector_is_refused_by_the_name_it_came_under(pairs, field, text):
    with pytest.raises(BadRequest, match=text) as refusal:
        Parameters(pairs).selector("metric", "selector")

    assert refusal.value.field == field


@pytest.mark.parametrize("query", ["metric=%ff", "%c3=1", "metric=up%ed%a0%80"])
async def test_a_query_that_is_no_text_is_refused(query):
    with pytest.raises(BadRequest, match="query: not valid UTF-8"):
        await read_parameters(make_mocked_request("GET", f"/?{query}"))


async def test_a_query_of_too_many_parameters_is_refused():
    with pytest.raises(BadRequest, match="query: more than 1,000 parameters"):
        await read_parameters(make_mocked_request("GET", "/?" + "a=b&" * 1001))


async def test_a_semicolon_and_a_broken_escape_are_part_of_a_value():
    parameters = await read_parameters(make_mocked_request("GET", "/?a=1;b=2&c=%zz&d=x+y%2B"))

    assert [parameters.one(name) for name in "abcd"] == ["1;b=2", None, "%zz", "x y+"]


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=10), max_size=5))
def test_what_was_given_is_what_is_read(values):
    parameters = Parameters(values.items())

    assert {name: parameters.one(name) for name in values} == values
