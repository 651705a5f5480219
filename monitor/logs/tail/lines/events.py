"""Lines as events, encoded once for every viewer; and which of them a viewer lacks.  Pure.

An event's id names its request and its line: ``<request>:<seq>``.  Lines that the agent
left out are told by an event without an id, in front of the line that follows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from monitor.errors import BadRequest
from monitor.logs.tail.models import LogEvent, Place, Row, Skipped, Source
from monitor.logs.times import format_ns, parse_ns
from monitor.wire.logs import MESSAGE_BYTES, Stream
from monitor.wire.tail import TailLine

ROW_BYTES = 32 * 1024  # of a row; few small rows are quick to write, and to read again in part

_PLACE = re.compile(r"(tail_[0-9a-f]{1,64}):(-1|\d{1,16})", re.ASCII)
_EVENT_ID = re.compile(rb"^id: \S+:(\d+)\n")
_encoder = msgspec.json.Encoder()


def event(kind: str, body: object, event_id: str | None = None) -> bytes:
    """Return one server-sent event; *body* goes out as JSON, which holds no line break."""
    head = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, kind.encode(), _encoder.encode(body))


def place_id(place: Place) -> str:
    """Return the id of the event that a viewer at *place* had last."""
    return f"{place.request_id}:{place.next_seq - 1}"


def parse_place(text: str) -> Place:
    """Return the place behind the event with the id *text*.

    Raises:
        BadRequest: It is no id of ours.
    """
    match = _PLACE.fullmatch(text)
    if match is None:
        raise BadRequest("Last-Event-ID: expected the id of an event of a live tail", field="Last-Event-ID")
    return Place(match[1], int(match[2]) + 1)


class Line(Struct, frozen=True, gc=False):
    """A line as it is shown, with its number if it brings one."""

    seq: int | None
    ts: str
    stream: Stream
    message: str


def line_of(line: TailLine) -> Line:
    """Return *line* as it is shown; a message above 64 KiB is cut.

    Raises:
        BadRequest: Its time is none.
    """
    try:
        ts = format_ns(parse_ns(line.time))
    except ValueError as error:
        raise BadRequest(f"time: {error}", field="time") from None
    message = line.message
    if len(message) * 4 > MESSAGE_BYTES and len(encoded := message.encode()) > MESSAGE_BYTES:
        message = encoded[:MESSAGE_BYTES].decode(errors="ignore")
    return Line(line.seq, ts, line.stream, message)


def rows_of(request_id: str, source: Source, lines: Sequence[Line], next_seq: int) -> tuple[list[Row], int]:
    """Return the new ones of *lines* as rows, and the number of the line after them.

    A line with a number below *next_seq* is stored already.  The first line of all may
    be 0 or 1.
    """
    rows: list[Row] = []
    first = next_seq
    parts: list[bytes] = []
    size = 0
    for line in lines:
        seq = next_seq if line.seq is None else line.seq
        if seq < next_seq:
            continue
        if seq > next_seq and (next_seq, seq) != (0, 1):
            parts.append(event("skipped", Skipped(seq - next_seq)))
        shown = LogEvent(line.message, source, line.ts, line.stream)
        parts.append(event("log", shown, f"{request_id}:{seq}"))
        size += len(parts[-1])
        next_seq = seq + 1
        if size >= ROW_BYTES:
            rows.append(Row(first, seq, b"".join(parts)))
            first, parts, size = next_seq, [], 0
    if parts:
        rows.append(Row(first, next_seq - 1, b"".join(parts)))
    return rows, next_seq


def events_from(row: Row, next_seq: int) -> bytes:
    """Return the events of *row* for the lines from *next_seq* on."""
    if next_seq <= row.first_seq:
        return row.events
    return b"".join(_later(row.events, next_seq))


def _later(events: bytes, next_seq: int) -> Iterator[bytes]:
    skipped = b""
    for text in events.split(b"\n\n")[:-1]:
        match = _EVENT_ID.match(text)
        if match is None:
            skipped = text + b"\n\n"
        else:
            if int(match[1]) >= next_seq:
                yield skipped + text + b"\n\n"
            skipped = b""
