import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.prometheus.arithmetic import MAX_CHARACTERS, evaluate, printed


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1+1", "2"),
        ("-1", "-1"),
        ("2*3", "6"),
        ("1/0", "+Inf"),
        ("-1/0", "-Inf"),
        ("1/-0", "-Inf"),
        ("0/0", "NaN"),
        ("0/-0", "NaN"),
        ("0/0/0", "NaN"),
        ("1/0-1/0", "NaN"),
        ("-0", "-0"),
        ("0*-1", "-0"),
        ("1/3", "0.3333333333333333"),
        ("10000000000000*10000000000", "100000000000000000000000"),
        ("0.0000001", "0.0000001"),
        ("10/4/5", "0.5"),
        ("2-3-4", "-5"),
        ("2-(3-4)", "3"),
        ("2+3*4", "14"),
        ("(2+3)*4", "20"),
        ("-(2+3)*-4", "20"),
        ("2--3", "5"),
        ("--1", "1"),
        ("+1", "1"),
        ("2*-3", "-6"),
        (" ( 1 +\t1 ) \n", "2"),
        ("1.", "1"),
        (".5", "0.5"),
        ("1.50", "1.5"),
        ("((((((((1))))))))", "1"),
        ("0", "0"),
        ("0.1+0.2", "0.30000000000000004"),
    ],
)
def test_arithmetic_is_answered_as_prometheus_prints_it(text, answer):
    value = evaluate(text)

    assert value is not None
    assert printed(value) == answer


@pytest.mark.parametrize(
    "text",
    ["", " ", "(", ")", "()", "1 1", "1+", "*1", "1**2", "1)", "(1", "1..2", "1.5.", ".", "007", "08", "1e3", "0x1", "1_0",
     "inf", "nan", "up", "1+up", "1%2", "2^3", "1 == 1", '"1"', "1;2", "٣", "1\u00a0+ 1", "1" * (MAX_CHARACTERS + 1)],
)  # fmt: skip
def test_anything_else_is_no_arithmetic(text):
    assert evaluate(text) is None


@given(st.text("0123456789.+-*/() ", max_size=MAX_CHARACTERS))
def test_it_means_what_python_means(text):
    value = evaluate(text)

    if value is None:
        return
    if not math.isfinite(value):
        assert "/" in text
        return
    try:
        expected = eval(text.strip(), {"__builtins__": {}})
    except ZeroDivisionError:
        return  # an infinity on the way to a finite number
    assert float(expected) == value


@given(st.integers(1, 16))
def test_it_nests_as_deep_as_the_text_is_long(depth):
    assert evaluate("(" * depth + "-1" + ")" * depth) == -1.0


@given(st.floats())
def test_a_printed_number_reads_as_itself(value):
    text = printed(value)

    assert "e" not in text.lower()
    assert float(text) == value or math.isnan(value)
