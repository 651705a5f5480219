"""The engine's log stream, taken apart wherever its chunks are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.collector.logs.records import (
    PIECE_BYTES,
    Frames,
    Garbled,
    Record,
    TerminalText,
    nanoseconds,
    parser,
    time_of,
)
from tests.collector.fakes import frame

STAMP = "2026-11-21T01:20:51.226641525Z"
NEXT = "2026-11-21T01:20:51.226641526Z"


def parsed(stream, data, cuts=()):
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    records = [record for a, b in pairwise(edges) for record in stream.feed(data[a:b])]
    return records + list(stream.end())


# As Docker 20.10 sent it: a line of stdout, one of stderr, a 40 KiB line in three pieces, words without a newline.
RECORDED = [
    (1, STAMP, b"out\n"),
    (2, NEXT, b"err\n"),
    (1, "2026-11-21T01:20:52.000000000Z", b"x" * PIECE_BYTES),
    (1, "2026-11-21T01:20:52.000000000Z", b"x" * PIECE_BYTES),
    (2, "2026-11-21T01:20:52.000000001Z", b"\n"),
    (1, "2026-11-21T01:20:52.000000000Z", b"x" * 8192 + b"\n"),
    (1, "2026-11-21T01:20:53.100000000Z", b"unfinished"),
]
EXPECTED = [
    Record("stderr" if kind == 2 else "stdout", time, text.removesuffix(b"\n"), text.endswith(b"\n"))
    for kind, time, text in RECORDED
]


@given(st.lists(st.integers(0, 2**20), max_size=40))
def test_frames_are_whole_wherever_the_stream_is_cut(cuts):
    data = b"".join(frame(*one) for one in RECORDED)
    stream = Frames()

    assert parsed(stream, data, cuts) == EXPECTED
    assert stream.count == len(RECORDED)


def test_frames_are_whole_byte_by_byte():
    data = b"".join(frame(*one) for one in RECORDED[:2])

    assert parsed(Frames(), data, range(len(data))) == EXPECTED[:2]


TERMINAL = (
    f"{STAMP} $ ls\r\n".encode()
    + f"{STAMP} ".encode()
    + b"y" * PIECE_BYTES
    + f"{STAMP} ".encode()
    + b"y" * 100
    + b"\r\n"
    + f"{NEXT} at {STAMP} it said\r\n".encode()
    + f"{NEXT} \r\n".encode()
    + f"{NEXT} $ ".encode()
)


@given(st.lists(st.integers(0, 2**20), max_size=40))
def test_a_terminals_lines_and_pieces_are_whole_wherever_the_stream_is_cut(cuts):
    stream = TerminalText()

    records = parsed(stream, TERMINAL, cuts)

    assert records == [
        Record("stdout", STAMP, b"$ ls", True),
        Record("stdout", STAMP, b"y" * PIECE_BYTES, False),
        Record("stdout", STAMP, b"y" * 100, True),
        Record("stdout", NEXT, f"at {STAMP} it said".encode(), True),
        Record("stdout", NEXT, b"", True),
        Record("stdout", NEXT, b"$ ", False),
    ]
    assert stream.count >= len(records)


def test_records_that_a_terminal_runs_together_are_counted():
    stream = TerminalText()

    list(stream.feed(f"{STAMP} one{NEXT} two\r\n".encode()))

    assert stream.count == 2


def test_half_a_frame_at_the_end_is_half_a_read():
    stream = Frames()

    assert len(list(stream.feed(frame(1, STAMP, b"whole\n") + frame(1, STAMP, b"half\n")[:-1]))) == 1
    with pytest.raises(Garbled, match="in the midst of a frame"):
        list(stream.end())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "not a frame"),
        (b"\1\0\0\0\xff\xff\xff\xff", "not a frame"),
        (b"\1\0\1\0\0\0\0\1x", "not a frame"),
        (frame(3, "Error", b"grabbing logs: no space"), "Error grabbing logs: no space"),
        (frame(1, "yesterday", b"x\n"), "no timestamp"),
        (frame(1, "2026-99-21T01:20:51Z", b"x\n"), "no timestamp"),
        (frame(1, "2026-11-21T01:20:51+99:00", b"x\n"), "no timestamp"),
    ],
)
def test_what_is_no_log_is_told(data, text):
    with pytest.raises(Garbled, match=text):
        list(Frames().feed(data))


def test_an_endless_line_of_a_terminal_is_told_before_it_fills_the_memory():
    stream = parser(tty=True)
    chunks = [b"z" * 32 * 1024] * 200

    with pytest.raises(Garbled, match="no end of a line"):
        sum(len(list(stream.feed(chunk))) for chunk in chunks)


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        (STAMP, STAMP),
        ("2026-11-21T03:20:51.5+02:00", "2026-11-21T01:20:51.500000000Z"),
        ("2026-11-21T01:20:51Z", "2026-11-21T01:20:51.000000000Z"),
        ("2026-11-20T22:50:51.000000001-02:30", "2026-11-21T01:20:51.000000001Z"),
    ],
)
def test_times_of_any_engine_become_utc_with_nine_digits(stamp, time):
    [record] = Frames().feed(frame(1, stamp, b"x\n"))

    assert record.time == time


@given(st.integers(0, 4_102_444_800 * 10**9))
def test_times_and_nanoseconds_are_the_same(number):
    assert nanoseconds(time_of(number)) == number
