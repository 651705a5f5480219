"""Take the engine's log stream apart into its records.

A record is what the engine logged at once: a line, a piece of 16 KiB of a longer
one, or what a program wrote last without a newline.  Pure, and indifferent to
where the chunks of the stream are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from monitor.wire.logs import Stream

HEADER_BYTES = 8
ENGINE_ERROR = 3  # as the stream of a frame: the engine's own words about why it stops
RECORD_LIMIT_BYTES = 4 * 1024 * 1024  # the largest of any log driver is 1 MiB
PIECE_BYTES = 16 * 1024  # the engine's buffer: a longer line comes in pieces with the same timestamp

_FIXED = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", re.ASCII)
_FREE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Garbled(Exception):
    """The stream is not a log as engines write it, or the engine says why it ends; the text tells."""


class Record(Struct, frozen=True, gc=False):
    """One record; ``time`` is RFC 3339 in UTC with nine digits, so that texts compare as times do.

    ``ended`` is whether its newline, which ``text`` is without, was there.
    """

    stream: Stream
    time: str
    text: bytes
    ended: bool


class Parser(Protocol):
    """What takes a stream apart, chunk by chunk.

    Attributes:
        count: Records so far, at least.
    """

    count: int

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that *chunk* completes.

        Raises:
            Garbled: This is no log.
        """
        ...

    def end(self) -> Iterator[Record]:
        """Yield what the end of the stream completes.

        Raises:
            Garbled: It ended too early.
        """
        ...


class Frames:
    """The stream of a container without a terminal: frames of an 8-byte header and a record."""

    def __init__(self) -> None:
        self.count = 0
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records whose frames *chunk* completes."""
        data = self._rest + chunk
        start = 0
        while len(data) - start >= HEADER_BYTES:
            length = int.from_bytes(data[start + 4 : start + HEADER_BYTES], "big")
            if (
                data[start] > ENGINE_ERROR
                or data[start + 1 : start + 4] != b"\0\0\0"
                or length > RECORD_LIMIT_BYTES
            ):
                raise Garbled(f"not a frame: {data[start : start + HEADER_BYTES]!r}")
            end = start + HEADER_BYTES + length
            if len(data) < end:
                break
            payload = data[start + HEADER_BYTES : end]
            if data[start] == ENGINE_ERROR:
                raise Garbled(payload.decode(errors="replace").strip())
            self.count += 1
            start, kind = end, data[start]
            yield _record("stderr" if kind == 2 else "stdout", payload)
        self._rest = data[start:]

    def end(self) -> Iterator[Record]:
        """Yield nothing: a frame is whole or the read is not."""
        if self._rest:
            raise Garbled("the log ends in the midst of a frame")
        yield from ()


class TerminalText:
    """The stream of a container with a terminal: the records follow each other without headers.

    The pieces of a long line only show by the line's own timestamp in its midst.
    """

    def __init__(self) -> None:
        self.count = 0
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the lines and pieces that *chunk* completes."""
        data = self._rest + chunk
        start = 0
        while True:
            newline = data.find(b"\n", start)
            line_end = len(data) if newline < 0 else newline
            stamp = data[start : data.find(b" ", start, line_end) + 1]
            piece = data.find(stamp, start + len(stamp) + PIECE_BYTES, line_end) if stamp else -1
            if piece >= 0:
                yield self._record(data[start:piece])
                start = piece
            elif newline >= 0:
                yield self._record(data[start : newline + 1])
                start = newline + 1
            else:
                break
        self._rest = data[start:]
        if len(self._rest) > RECORD_LIMIT_BYTES:
            raise Garbled(f"no end of a line within {RECORD_LIMIT_BYTES} bytes")

    def end(self) -> Iterator[Record]:
        """Yield what was written last, without a newline."""
        rest, self._rest = self._rest, b""
        if rest:
            yield self._record(rest)

    def _record(self, payload: bytes) -> Record:
        # A run that ended without a newline has the next run's first record behind it.
        self.count += len(_FIXED.findall(payload)) or 1
        record = _record("stdout", payload)
        # The terminal makes CR LF of every newline.
        return (
            Record("stdout", record.time, record.text.removesuffix(b"\r"), record.ended)
            if record.ended
            else record
        )


def parser(*, tty: bool) -> Parser:
    """Return a parser for a new stream."""
    return TerminalText() if tty else Frames()


def nanoseconds(time: str) -> int:
    """Return a record's time in nanoseconds since 1970."""
    seconds = int(datetime.fromisoformat(time[:19]).replace(tzinfo=UTC).timestamp())
    return seconds * 1_000_000_000 + int(time[20:29])


def time_of(nanoseconds: int) -> str:
    """Return nanoseconds since 1970 as a record's time."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09}Z"


def _record(stream: Stream, payload: bytes) -> Record:
    stamp, _, text = payload.partition(b" ")
    ended = text.endswith(b"\n")
    return Record(stream, record_time(stamp), text[:-1] if ended else text, ended)


def record_time(stamp: bytes) -> str:
    """Return the time before a record's text, as ``Record.time``.

    Raises:
        Garbled: It is none.
    """
    if _FIXED.fullmatch(stamp):
        return stamp.decode("ascii")
    # Podman writes its host's offset, and other engines fewer digits.
    match = _FREE.fullmatch(stamp)
    if match is None:
        raise Garbled(f"no timestamp: {stamp[:100]!r}")
    whole, fraction, zone = (part.decode("ascii") if part else "" for part in match.groups())
    try:
        moment = datetime.fromisoformat(whole + zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Garbled(f"no timestamp: {stamp!r}") from error
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:0<9}Z"
