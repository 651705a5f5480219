"""A log stream taken apart, wherever its chunks are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.collector.kubernetes.podtext import REST_LIMIT_BYTES, PodText
from monitor.collector.logs.records import Garbled
from monitor.wire.logs import MESSAGE_BYTES

STAMP = "2026-11-21T00:00:01.123456789Z"


def records(*chunks):
    parts = PodText()
    return [(record.time, record.text, record.ended) for chunk in chunks for record in parts.feed(chunk)] + [
        (record.time, record.text, record.ended) for record in parts.end()
    ]


def line(text, stamp=STAMP):
    return f"{stamp} {text}".encode()


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=20), max_size=6),
    cuts=st.lists(st.integers(1, 40), max_size=20),
)
def test_lines_are_the_same_wherever_chunks_are_cut(texts, cuts):
    stream = b"".join(line(text) + b"\n" for text in texts)
    chunks, start = [], 0
    for cut in cuts:
        chunks.append(stream[start : start + cut])
        start += cut
    chunks.append(stream[start:])

    assert records(*chunks) == [(STAMP, text.encode(), True) for text in texts]


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2026-11-21T00:00:01Z", "2026-11-21T00:00:01.000000000Z"),
        ("2026-11-21T00:00:01.5Z", "2026-11-21T00:00:01.500000000Z"),
        ("2026-11-21T02:00:01.123456789+02:00", STAMP),
    ],
)
def test_times_become_nine_digits_in_utc(stamp, time):
    assert records(line("x\n", stamp)) == [(time, b"x", True)]


def test_the_newline_of_a_terminal_is_one():
    assert records(line("prompt\r\n")) == [(STAMP, b"prompt", True)]


def test_what_has_no_newline_yet_is_told_as_such():
    assert records(line("whole\n"), line("half")) == [(STAMP, b"whole", True), (STAMP, b"half", False)]


def test_a_line_without_an_end_takes_no_memory_and_is_followed_by_the_next():
    parts = PodText()
    found = list(parts.feed(line("a" * 30_000)))
    for _ in range(100):
        found += parts.feed(b"a" * 100_000)
        assert len(parts._rest) <= REST_LIMIT_BYTES
    found += parts.feed(b"a\n" + line("next\n"))

    assert len(found) == 2
    assert len(found[0].text) > MESSAGE_BYTES
    assert (found[1].text, found[1].ended) == (b"next", True)


def test_a_line_without_a_time_belongs_to_the_one_before():
    assert records(line("one\n") + b"two\n") == [(STAMP, b"one", True), (STAMP, b"two", True)]


def test_the_kubelets_words_instead_of_a_log_are_no_lines():
    with pytest.raises(Garbled, match="unable to retrieve container logs for containerd://abc"):
        records(b"unable to retrieve container logs for containerd://abc\n")
