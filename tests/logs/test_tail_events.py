"""Lines as events: what is stored of a POST, and what a viewer who comes back lacks of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import BadRequest
from monitor.logs.tail.lines.events import (
    ROW_BYTES,
    Line,
    event,
    events_from,
    line_of,
    parse_place,
    place_id,
    rows_of,
)
from monitor.logs.tail.models import Place, Row
from monitor.wire.tail import TailLine

REQUEST = "tail_" + "ab" * 16
TS = "2026-01-02T03:04:05.000000000Z"


def line(seq: int | None, message: str = "text") -> Line:
    return Line(seq, TS, "stdout", message)


def ids_of(events: bytes) -> list[int]:
    return [int(text) for text in re.findall(rb"^id: \S+:(\d+)$", events, re.MULTILINE)]


def test_an_event_has_its_fields_in_lines_and_ends_with_an_empty_one():
    shown = event("log", {"line": "a\nb"}, "x:1")

    assert shown == b'id: x:1\nevent: log\ndata: {"line":"a\\nb"}\n\n'
    assert event("end", {}) == b"event: end\ndata: {}\n\n"


@pytest.mark.parametrize("next_seq", [0, 1, 12_345])
def test_a_place_is_told_by_the_event_before_it(next_seq: int):
    place = Place(REQUEST, next_seq)

    assert parse_place(place_id(place)) == place


@pytest.mark.parametrize("text", ["", REQUEST, f"{REQUEST}:", f"{REQUEST}:1x", f"{REQUEST}:-2", "tail_x:1"])
def test_another_text_is_no_place(text: str):
    with pytest.raises(BadRequest, match="Last-Event-ID"):
        parse_place(text)


def test_a_line_without_a_time_is_refused():
    with pytest.raises(BadRequest, match="time: "):
        line_of(TailLine("yesterday", "stdout", "x"))


def test_a_time_is_shown_in_utc_with_nine_digits():
    assert line_of(TailLine("2026-01-02T04:04:05+01:00", "stdout", "x")).ts == TS


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(0, 30))
def test_rows_cover_every_number_once_and_hold_each_new_line_once(seqs: list[int], next_seq: int):
    rows, after = rows_of(REQUEST, "docker", [line(seq) for seq in seqs], next_seq)

    new: list[int] = []
    for seq in seqs:
        if seq >= (new[-1] + 1 if new else next_seq):
            new.append(seq)
    assert [seq for row in rows for seq in ids_of(row.events)] == new
    assert after == (new[-1] + 1 if new else next_seq)
    covered = [seq for row in rows for seq in range(row.first_seq, row.last_seq + 1)]
    assert covered == list(range(next_seq, after))


def test_what_was_left_out_is_told_before_the_next_line():
    (row,), _ = rows_of(REQUEST, "docker", [line(0), line(5)], 0)

    kinds = re.findall(rb"^event: (\w+)\ndata: (\{\"lines\":\d+\})?", row.events, re.MULTILINE)
    assert kinds == [(b"log", b""), (b"skipped", b'{"lines":4}'), (b"log", b"")]


def test_the_first_line_may_be_one():
    (row,), after = rows_of(REQUEST, "docker", [line(1)], 0)

    assert b"skipped" not in row.events
    assert (row.first_seq, row.last_seq, after) == (0, 1, 2)


def test_many_lines_are_several_rows():
    rows, after = rows_of(REQUEST, "kubernetes", [line(seq, "x" * 1000) for seq in range(100)], 0)

    assert after == 100
    assert len(rows) > 2
    assert all(len(row.events) < ROW_BYTES + 2000 for row in rows)


@pytest.mark.parametrize("next_seq", range(12))
def test_a_viewer_who_comes_back_gets_what_he_lacks_of_a_row(next_seq: int):
    (row,), _ = rows_of(REQUEST, "docker", [line(seq) for seq in (2, 3, 4, 8, 9)], 2)

    events = events_from(row, next_seq)

    assert ids_of(events) == [seq for seq in (2, 3, 4, 8, 9) if seq >= next_seq]
    assert (b"skipped" in events) == (next_seq <= 8)


def test_a_row_that_lies_ahead_goes_out_as_it_is():
    row = Row(5, 6, b"whatever")

    assert events_from(row, 5) is events_from(row, 3) is row.events
