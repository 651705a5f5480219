"""What q means, and what prunes by words may never lose."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import BadRequest
from monitor.logs.query import Query, parse_query
from monitor.logs.words import MAX_BYTES, may_hold, words_of


@pytest.mark.parametrize(
    ("q", "included", "excluded"),
    [
        ("", (), ()),
        ("  ", (), ()),
        ("a b", ("a", "b"), ()),
        ("Error  ERROR", ("error",), ()),
        ('"a  B" c', ("a  b", "c"), ()),
        ("a -b", ("a",), ("b",)),
        ('-"a b"', (), ("a b",)),
        ("-", ("-",), ()),
        ("- a", ("-", "a"), ()),
        ("--flag", (), ("-flag",)),
        ('"-flag"', ("-flag",), ()),
        ("a-b", ("a-b",), ()),
        ('"open word', ('"open', "word"), ()),
        ('say"hi" you', ('say"hi"', "you"), ()),
        ('"a"b', ("a", "b"), ()),
        ('"" -""', (), ()),
        ('"', ('"',), ()),
        ("100% a_b C:\\x *", ("100%", "a_b", "c:\\x", "*"), ()),
        ("STRAẞE", ("strasse",), ()),
        ("a\u2003b\tc\nd", ("a", "b", "c", "d"), ()),
        ("\x00", ("\x00",), ()),
    ],
)
def test_q_is_words_phrases_and_exclusions(q: str, included: tuple[str, ...], excluded: tuple[str, ...]):
    assert parse_query(q) == Query(included, excluded)


@pytest.mark.parametrize("q", ["x" * 4_097, " ".join(f"w{number}" for number in range(65))])
def test_a_q_that_is_too_long_is_refused(q: str):
    with pytest.raises(BadRequest, match=r"^q: (longer|more) than"):
        parse_query(q)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=8), st.data())
def test_no_text_that_occurs_is_pruned(messages: list[str], data: st.DataObject):
    message = data.draw(st.sampled_from(messages)).casefold()
    start = data.draw(st.integers(0, len(message)))
    needle = message[start : data.draw(st.integers(start, len(message)))]
    encoded = [it.encode(errors="replace") for it in messages]
    words = words_of(b"\n".join(encoded), [it for it in encoded if not it.isascii()])

    assert may_hold(words, Query((needle,)).letter_runs())


def test_a_word_that_does_not_occur_is_pruned():
    words = words_of(b"The connection was Refused\nby 10.0.0.1", [])

    assert may_hold(words, Query(("nnect", "refused")).letter_runs())
    assert not may_hold(words, Query(("connections",)).letter_runs())
    assert may_hold(words, Query(("8f3a-99",)).letter_runs())


def test_too_many_words_prune_nothing():
    noise = b" ".join(re.sub(rb"[0-9]", b"x", f"{number:040x}".encode()) for number in range(MAX_BYTES))

    assert words_of(noise + b" " + bytes(range(97, 123)) * (MAX_BYTES // 20), []) == b""
    assert may_hold(b"", ["anything"])
