"""However often a log is read again, each of its lines comes once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.collector.logs.position import (
    LINE_LIMIT_BYTES,
    PARTIAL_LIMIT_NS,
    SLACK_NS,
    Mark,
    Position,
    Reading,
    since_ns,
)
from monitor.collector.logs.records import PIECE_BYTES, Record, nanoseconds, time_of

START = 1_800_000_000 * 10**9
T = [time_of(START + number) for number in range(10)]


def record(stream, time, text, *, ended=True):
    return Record(stream, time, text, ended)


def read(log, position, start_ns=0, started_at=T[0]):
    """Read a stored log once, as the engine selects it; return what was new and where that led."""
    since = time_of(since_ns(position, start_ns))
    reading = Reading(position)
    lines = [line for one in log if one.time >= since for line in reading.lines(one)]
    lines += reading.leftovers(started_at)
    return [(line.stream, line.text) for line in lines], reading.position


@st.composite
def logs(draw):
    """The records of two streams in the order in which an engine wrote them, and the lines that they are.

    Times grow within a stream, may be equal, and run behind the other stream's by
    less than the slack; pieces of a line share its time.
    """
    now, stored, lines = START, [], []
    newest = {"stdout": 0, "stderr": 0}
    open_line = {}
    for number in range(draw(st.integers(0, 40))):
        stream = draw(st.sampled_from(["stdout", "stderr"]))
        now += draw(st.sampled_from([0, 1, SLACK_NS // 2, 10 * SLACK_NS]))
        text = b"%d" % number
        if stream in open_line:
            time, before = open_line[stream]
        else:
            time = max(now - draw(st.integers(0, SLACK_NS - 1)), newest[stream])
            before = b""
        newest[stream] = time
        ended = draw(st.booleans())
        stored.append(Record(stream, time_of(time), text, ended))
        if ended:
            open_line.pop(stream, None)
            lines.append((stream, before + text))
        else:
            open_line[stream] = time, before + text
    return stored, lines


def read_until_killed(log, position, lines_before_kill):
    """Read a stored log; return the lines that were committed, and the position that was with the last."""
    since = time_of(since_ns(position, 0))
    reading = Reading(position)
    lines = []
    for one in log:
        for line in reading.lines(one) if one.time >= since else ():
            lines.append((line.stream, line.text))
            position = reading.position
            if len(lines) == lines_before_kill:
                return lines, position
    return lines, reading.position


@given(logs(), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60))))
def test_a_log_that_is_read_in_any_steps_with_kills_in_any_place_gives_each_line_once(log, steps):
    stored, lines = log
    position, shipped, size = Position(), [], 0
    for more, lines_before_kill in [*steps, (len(stored), len(stored) + 1)]:
        size = min(size + more, len(stored))
        new, position = read_until_killed(stored[:size], position, lines_before_kill)
        shipped += new

    for stream in ("stdout", "stderr"):
        assert [text for of, text in shipped if of == stream] == [text for of, text in lines if of == stream]


def test_equal_timestamps_are_told_apart_by_their_number():
    log = [record("stdout", T[1], b"a"), record("stdout", T[1], b"b"), record("stdout", T[1], b"c")]

    first, position = read(log[:2], Position())
    second, _ = read(log, position)

    assert (first, second) == ([("stdout", b"a"), ("stdout", b"b")], [("stdout", b"c")])


def test_words_without_a_newline_wait_while_their_program_runs():
    log = [record("stdout", T[2], b"wait", ended=False)]

    assert read(log, Position(), started_at=T[1]) == ([], Position(floor=T[2]))
    assert read(log, Position(), started_at=T[3])[0] == [("stdout", b"wait")]
    assert read(log, Position(), started_at=None)[0] == [("stdout", b"wait")]


@pytest.mark.parametrize(
    ("pieces", "started_at", "lines"),
    [
        # The engine notes the start when the program has run for a while.
        ([PIECE_BYTES], T[3], []),
        ([PIECE_BYTES, PIECE_BYTES], T[3], []),
        ([PIECE_BYTES, 3 * PIECE_BYTES], T[3], []),  # bytes that are no UTF-8 have become three each
        # What is shorter was written when nothing more could come.
        ([PIECE_BYTES, PIECE_BYTES - 1], T[3], [2 * PIECE_BYTES - 1]),
        ([PIECE_BYTES, PIECE_BYTES - 1], T[1], []),
        ([PIECE_BYTES, PIECE_BYTES], None, [2 * PIECE_BYTES]),
    ],
)
def test_full_pieces_wait_for_the_rest_of_their_line_even_if_they_seem_older_than_their_program(
    pieces, started_at, lines
):
    log = [record("stdout", T[2], b"x" * size, ended=False) for size in pieces]

    new, position = read(log, Position(), started_at=started_at)

    assert [len(text) for _, text in new] == lines
    if not lines:
        rest = record("stdout", T[2], b"rest")
        assert [len(text) for _, text in read([*log, rest], position)[0]] == [sum(pieces) + 4]


def test_words_without_a_newline_and_those_of_the_next_run_are_two_lines():
    log = [record("stdout", T[1], b"end", ended=False), record("stdout", T[5], b"begin")]

    assert read(log, Position())[0] == [("stdout", b"end"), ("stdout", b"begin")]
    _, position = read(log[:1], Position(), started_at=None)
    assert read(log, position)[0] == [("stdout", b"begin")]


def test_the_first_piece_holds_back_from_when_the_next_read_begins():
    stored = [record("stdout", T[1], b"begin", ended=False)]
    later = time_of(START + 5 * SLACK_NS)
    stored.append(record("stderr", later, b"other"))

    lines, position = read(stored, Position())

    assert lines == [("stderr", b"other")]
    assert since_ns(position, 0) == nanoseconds(T[1])
    stored.append(record("stdout", T[1], b"end"))
    assert read(stored, position)[0] == [("stdout", b"beginend")]


def test_an_endless_line_is_cut_once_and_its_rest_is_passed_over():
    log = [record("stdout", T[1], b"x" * 16384, ended=False) for _ in range(9)]

    [(_, text)], position = read(log, Position())

    assert len(text) == LINE_LIMIT_BYTES
    assert position.stdout == Mark(T[1], 1, cut=True)
    assert since_ns(position, 0) == nanoseconds(T[1]) + 1
    log += [record("stdout", T[1], b"end"), record("stdout", T[2], b"next")]
    assert read(log, position)[0] == [("stdout", b"next")]
    both, _ = read(log, Position())
    assert [text[-4:] for _, text in both] == [b"xxxx", b"next"]


def test_what_waits_too_long_for_its_newline_is_shipped_without():
    late = time_of(START + 1 + PARTIAL_LIMIT_NS + 1)
    log = [record("stdout", T[1], b"slow", ended=False), record("stderr", late, b"fast")]

    lines, position = read(log, Position())

    assert lines == [("stderr", b"fast"), ("stdout", b"slow")]
    assert position.floor is None
    assert read([*log, record("stdout", T[1], b"rest")], position)[0] == []


@pytest.mark.parametrize(
    ("position", "since"),
    [
        (None, START),
        (Position(), START),
        (Position(stdout=Mark(time_of(START + 3 * SLACK_NS), 1)), START + 2 * SLACK_NS),
        (Position(stdout=Mark(T[1], 1), stderr=Mark(time_of(START + 9 * SLACK_NS), 1)), START + 8 * SLACK_NS),
        (Position(stdout=Mark(time_of(START + 9 * SLACK_NS), 1), floor=T[5]), START + 5),
        (Position(stdout=Mark(time_of(START + 9 * SLACK_NS), 1, cut=True)), START + 9 * SLACK_NS + 1),
        (Position(stdout=Mark(T[1], 1)), START),
    ],
)
def test_a_read_begins_a_little_before_the_newest_mark_and_never_before_the_start(position, since):
    assert since_ns(position, START) == since
