"""Blocks keep every line; scans find what a plain filter finds, whatever the characters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.errors import BadRequest
from monitor.logs.block import STDERR, TRUNCATED, Block, Line, encode
from monitor.logs.models import Search, Source
from monitor.logs.position import line_id, parse_cursor, parse_line_id, print_cursor
from monitor.logs.query import Query
from monitor.logs.scan import count_in, facets_asked, found_in
from monitor.logs.times import EARLIEST, LATEST, format_ns, parse_ns

SOURCES = [
    Source("docker", "agent_1", "", "", "web", "a" * 64),
    Source("docker", "agent_2", "", "", "db", "b" * 64),
    Source("kubernetes", "agent_1", "default", "web-1", "web", ""),
]
EVERYTHING = Search("org", Query(), EARLIEST, LATEST, 0, 10_000)

LETTERS = st.sampled_from([*'abcABC xyz\n"%_\\-<>é日ßẞİıſKσςΣ😀\x00\x1b', "err", "Error", "straße", "ﬁ"])
MESSAGES = st.lists(LETTERS, max_size=12).map("".join)


@st.composite
def blocks(draw: Any) -> list[Line]:
    times = st.integers(EARLIEST, LATEST) if draw(st.booleans()) else st.integers(0, 5)
    lines = []
    for number in range(draw(st.integers(1, 30))):
        flags = draw(st.sampled_from([0, STDERR, TRUNCATED, STDERR | TRUNCATED]))
        source, message = draw(st.integers(0, 2)), draw(MESSAGES).encode()
        lines.append((draw(times), draw(st.integers(1, 3)), number, source, flags, message))
    return sorted(lines)


def stored(lines: list[Line]) -> Block:
    block = encode(lines, SOURCES, {row: row * 10 for row in {line[1] for line in lines}})
    return Block(block.meta, block.text)


@given(blocks())
def test_a_block_keeps_every_line(lines: list[Line]):
    block = stored(lines)

    assert [(*line[:3], block.sources[line[3]], *line[4:]) for line in block.lines()] == [
        (*line[:3], SOURCES[line[3]], *line[4:]) for line in lines
    ]


@given(blocks(), st.data())
@settings(max_examples=400)
def test_a_scan_finds_what_a_plain_filter_finds(lines: list[Line], data: st.DataObject):
    texts = st.one_of(MESSAGES, st.sampled_from(lines).map(lambda line: line[5].decode())).map(str.casefold)
    query = Query(
        tuple(text for text in data.draw(st.lists(texts, max_size=2)) if text),
        tuple(text for text in data.draw(st.lists(texts, max_size=1)) if text),
    )
    start, end = sorted(
        data.draw(st.lists(st.sampled_from([line[0] for line in lines]), min_size=2, max_size=2))
    )
    beyond = data.draw(st.none() | st.sampled_from([line[:3] for line in lines]))
    newest_first = data.draw(st.booleans())
    source, stream = (
        data.draw(st.sampled_from([None, "docker"])),
        data.draw(st.sampled_from([None, "stderr"])),
    )
    name = data.draw(st.sampled_from([None, "web"]))
    since = data.draw(st.sampled_from([0, 15]))
    search = Search(
        "org", query, start, end, since, data.draw(st.integers(1, 40)),
        source=source, stream=stream, container_name=name, beyond=beyond, newest_first=newest_first,
    )  # fmt: skip
    kept = [
        line
        for line in sorted(lines, reverse=newest_first)
        if start <= line[0] <= end
        and line[1] * 10 >= since
        and (beyond is None or (line[:3] < beyond if newest_first else line[:3] > beyond))
        and (source is None or SOURCES[line[3]].source == source)
        and (stream is None or line[4] & STDERR)
        and (name is None or line[3] == 0)
        and all(text in line[5].decode().casefold() for text in query.included)
        and not any(text in line[5].decode().casefold() for text in query.excluded)
    ]

    found = found_in(stored(lines), search)

    assert [(position, line.message) for position, line in found] == [
        (line[:3], line[5].decode()) for line in kept[: search.limit]
    ]
    if start >= 0 and newest_first and beyond is None:
        counts: dict[int, list[int]] = {}
        count_in(stored(lines), search, 3, counts)
        plain: dict[int, list[int]] = {}
        for line in kept:
            plain.setdefault(line[0] // 3, [0, 0])[line[4] & STDERR] += 1
        assert counts == plain


@pytest.mark.parametrize(
    "change",
    [
        {"source": "docker"},
        {"agent_id": "agent_1"},
        {"container_id": "a" * 64},
        {"container_id": "a" * 12},
        {"container_name": "web"},
        {"namespace": "default"},
        {"pod": "web-1"},
        {"container": "web"},
        {"stream": "stdout"},
    ],
    ids=str,
)
def test_a_block_that_holds_a_line_has_the_facets_that_are_asked_for(change: dict[str, Any]):
    lines = [(number, 1, number, number, 0, b"x") for number in range(3)]
    search = replace(EVERYTHING, **change)
    holding = encode(lines, SOURCES, {1: 1})

    assert found_in(Block(holding.meta, holding.text), search)
    assert set(facets_asked(search)) <= set(holding.facets)
    stranger = Source("kubernetes", "agent_9", "other", "other", "other", "")
    other = encode([(1, 1, 1, 0, STDERR, b"x")], [stranger], {1: 1})
    assert not set(facets_asked(search)) <= set(other.facets)
    assert found_in(Block(other.meta, other.text), search) == []


@given(st.integers(EARLIEST, LATEST))
def test_times_keep_all_nine_digits(ns: int):
    text = format_ns(ns)

    assert parse_ns(text) == ns
    assert len(text) == len("2026-01-01T00:00:00.123456789Z")


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.1Z", 10**8),
        ("1970-01-01T02:00:00.5+02:00", 5 * 10**8),
        ("1969-12-31t23:59:59.9z", -(10**8)),
        ("2099-12-31T23:59:59.999999999Z", 4102444799999999999),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, ns: int):
    assert parse_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "x", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z", "0001-01-01T00:00:00Z", "0"],
)
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(ValueError, match=r".+"):
        parse_ns(text)


@given(st.integers(EARLIEST, LATEST), st.integers(0, 2**62), st.integers(0, 2**32 - 1))
def test_ids_and_cursors_are_read_back(time: int, row: int, line: int):
    position = (time, row, line)

    assert parse_line_id(line_id(position), "id") == position
    assert parse_cursor(print_cursor(position, 1, 2)) == (position, 1, 2)


@pytest.mark.parametrize("text", ["x", "", "ü", "AAAA!", "A" * 28])
def test_what_was_not_given_out_is_no_id(text: str):
    with pytest.raises(BadRequest, match=r"^id: "):
        parse_line_id(text, "id")
