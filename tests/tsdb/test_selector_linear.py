"""The guard's time is linear in the text: counted in steps, never measured by the clock.

Between two steps the guard matches one token.  That is linear because no
unbounded repetition of a token ever gives back what it took.
"""

from __future__ import annotations

import inspect
import sys
from itertools import pairwise
from re import _constants as constants
from re import _parser as patterns

import pytest

from monitor.errors import BadRequest
from monitor.tsdb import refusal, selector
from monitor.tsdb.selector import parse

TOKENS = [
    selector._HEAD, selector._MATCHER, selector._CLOSE, selector._END, selector._CONTROL, refusal._FOUND, refusal._WORD, refusal._STRING,
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.pattern[:20])
def test_no_token_repeats_what_it_may_give_back(token):
    assert list(backtracking(patterns.parse(token.pattern))) == []


def backtracking(tree) -> list[object]:
    """Yield the unbounded repetitions of a pattern that are not possessive."""
    for op, argument in tree:
        if op in {constants.MAX_REPEAT, constants.MIN_REPEAT} and argument[1] == constants.MAXREPEAT:
            yield argument
        for part in argument if isinstance(argument, (tuple, list)) else ():
            for subtree in part if isinstance(part, list) else [part]:
                if isinstance(subtree, patterns.SubPattern):
                    yield from backtracking(subtree)


def test_a_token_that_gives_back_is_found():
    assert list(backtracking(patterns.parse(r"(?:a|(b+))c")))
    assert list(backtracking(patterns.parse(r"(?:a*?|b)")))
    assert not list(backtracking(patterns.parse(r"(?:a++|b?)")))


def steps(text: str) -> int:
    """Return how many lines of the guard run for *text*."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse(text)
    except BadRequest:
        pass
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "unit",
    [
        " ",
        "x",
        "{",
        "up{",
        '"',
        "`",
        "\\",
        "(",
        "-",
        "[",
        "#",
        "a=",
        '{a="',
        ",",
        "é",
        "up ",
        "'\\'",
        "rate(",
        "a{b=~'(",
        "or ",
    ],
)
@pytest.mark.parametrize("start", ["", "up{", 'up{a="', "up{a=`", 'up{a="b",', 'up{a="b" '])
def test_twice_the_text_takes_at_most_twice_the_steps(start, unit):
    sizes = [start + unit * (size // len(unit)) for size in (900, 1800, 3600)]

    small, middle, large = map(steps, sizes)

    assert middle <= 2 * small + 50
    assert large <= 2 * middle + 50


def test_steps_grow_with_the_matchers_and_no_faster():
    counts = [steps("up{" + ",".join(['a="\\x41\\n"'] * n) + "}") for n in (8, 16, 32, 64)]

    assert counts[0] < counts[1] < counts[2] < counts[3]
    assert all(after <= 2 * before + 50 for before, after in pairwise(counts))


def test_depth_of_the_text_is_not_depth_of_the_stack():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 60)
    try:
        for unit in ("(", "{", "[", "-", "up{a=", "sum("):
            with pytest.raises(BadRequest):
                parse(unit * (4096 // len(unit)))
    finally:
        sys.setrecursionlimit(limit)
