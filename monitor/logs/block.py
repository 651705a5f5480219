"""A block of log lines: what a hot row and a chunk hold, in columns, compressed.  Pure.

The lines of a block are in order of (time, hot row, line number), which no two share
and which a line keeps for ever: searches and cursors go by it.  ``meta`` has what is
known of each line, ``text`` the messages, ``words`` what tells whether a text can occur.
Every column is written byte by byte: first all lowest bytes, and so on, which zstd likes.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import Any, TypeAlias

import msgspec
import zstandard

from monitor.logs.models import Source
from monitor.logs.words import words_of

STDERR = 1  # flags of a line
TRUNCATED = 2
LINE_BYTES = 32  # what a line costs besides its message, when sizes are reckoned
HOT_LEVEL = 1  # of zstd: a hot row is rewritten within minutes
CHUNK_LEVEL = 6

# (time in ns, hot row, line number, index of its source, flags, message)
Line: TypeAlias = tuple[int, int, int, int, int, bytes]

_hot_compressor = zstandard.ZstdCompressor(level=HOT_LEVEL)
_chunk_compressor = zstandard.ZstdCompressor(level=CHUNK_LEVEL)
_meta_encoder = msgspec.msgpack.Encoder()


class Meta(msgspec.Struct, frozen=True, array_like=True):
    """The columns of a block, each packed; ``Block`` says what they are.

    ``lengths`` count the line feed behind each message.
    """

    count: int
    sources: list[Source]
    times: bytes
    source_of: bytes
    flags: bytes
    row_of: bytes
    line_of: bytes
    lengths: bytes
    row_ids: bytes
    arrivals: bytes
    beyond_ascii: bytes


_meta_decoder = msgspec.msgpack.Decoder(Meta)


class Encoded(msgspec.Struct, frozen=True):
    """A block as it is stored, with what finds it.

    Attributes:
        facets: Hashes of every value that a filter may ask for.
        min_time: Time of the oldest line, ns since 1970.
        max_time: Time of the newest line, ns since 1970.
        raw_bytes: What the lines take uncompressed, ``LINE_BYTES`` besides each message.
    """

    meta: bytes
    text: bytes
    words: bytes
    facets: list[int]
    min_time: int
    max_time: int
    line_count: int
    raw_bytes: int


def encode(
    lines: Sequence[Line], sources: Sequence[Source], arrivals: Mapping[int, int], *, hot: bool = False
) -> Encoded:
    """Return the block of *lines*, one or more.

    Args:
        lines: In order of time, hot row and line number.
        sources: What the lines' indexes mean; only those used are kept.
        arrivals: When each hot row came, microseconds since 1970.
        hot: Compress quickly, and keep no words.
    """
    times, rows, numbers, indexes, flags, messages = zip(*lines, strict=True)
    used = sorted(set(indexes))
    place = {index: number for number, index in enumerate(used)}
    row_ids = sorted(arrivals)
    row_place = {row: number for number, row in enumerate(row_ids)}
    text = b"\n".join(messages)
    beyond = [] if text.isascii() else [i for i, message in enumerate(messages) if not message.isascii()]
    meta = Meta(
        len(lines),
        [sources[index] for index in used],
        _pack("Q", _deltas([times[0] & _MASK, *times])),
        _pack("I", map(place.__getitem__, indexes)),
        bytes(flags),
        _pack("I", map(row_place.__getitem__, rows)),
        _pack("I", numbers),
        _pack("I", [len(message) + 1 for message in messages]),
        _pack("q", row_ids),
        _pack("q", [arrivals[row] for row in row_ids]),
        _pack("I", beyond),
    )
    compressor = _hot_compressor if hot else _chunk_compressor
    return Encoded(
        meta=compressor.compress(_meta_encoder.encode(meta)),
        text=compressor.compress(text),
        words=b"" if hot else words_of(text, [messages[i] for i in beyond]),
        facets=sorted(facets_of(meta.sources, meta.flags)),
        min_time=times[0],
        max_time=times[-1],
        line_count=len(lines),
        raw_bytes=len(text) + LINE_BYTES * len(lines),
    )


class Block:
    """A stored block, unpacked as far as it is looked at.

    Attributes:
        sources: The distinct sources of its lines.
        flags: A byte a line: ``STDERR``, ``TRUNCATED``.
    """

    def __init__(self, meta: bytes, text: bytes, hot_row: tuple[int, int] | None = None) -> None:
        """Read a chunk, or with *hot_row* (its id and its arrival) a hot row."""
        self._meta = _meta_decoder.decode(zstandard.ZstdDecompressor().decompress(meta))
        self._text = text
        self._hot_row = hot_row
        self.count = self._meta.count
        self.sources = self._meta.sources
        self.flags = self._meta.flags

    @cached_property
    def times(self) -> array[int]:
        """The time of each line, ns since 1970, oldest first."""
        deltas = _unpack("Q", self._meta.times)
        return array("q", accumulate(islice(deltas, 1, None), initial=(deltas[0] ^ _SIGN) - _SIGN))

    @cached_property
    def source_of(self) -> array[int]:
        """The index of each line's source."""
        return _unpack("I", self._meta.source_of)

    @cached_property
    def row_of(self) -> array[int]:
        """The index of each line's hot row."""
        return _unpack("I", self._meta.row_of)

    @cached_property
    def line_of(self) -> array[int]:
        """The number of each line in its hot row."""
        return _unpack("I", self._meta.line_of)

    @cached_property
    def row_ids(self) -> Sequence[int]:
        """The ids of the hot rows, ascending."""
        return [self._hot_row[0]] if self._hot_row else _unpack("q", self._meta.row_ids)

    @cached_property
    def arrivals(self) -> Sequence[int]:
        """When each hot row came, microseconds since 1970."""
        return [self._hot_row[1]] if self._hot_row else _unpack("q", self._meta.arrivals)

    @cached_property
    def starts(self) -> array[int]:
        """Where each message begins in ``text``; one more entry for the end."""
        return array("I", accumulate(_unpack("I", self._meta.lengths), initial=0))

    @cached_property
    def text(self) -> bytes:
        """The messages in UTF-8, with a line feed between two."""
        return zstandard.ZstdDecompressor().decompress(self._text)

    @cached_property
    def lowered(self) -> bytes:
        """``text`` with the ASCII letters in lower case: the folded form of all ASCII messages."""
        return self.text.lower()

    @cached_property
    def beyond_ascii(self) -> array[int]:
        """The lines whose message is not ASCII."""
        return _unpack("I", self._meta.beyond_ascii)

    def message(self, index: int) -> bytes:
        """Return the message of a line in UTF-8."""
        return self.text[self.starts[index] : self.starts[index + 1] - 1]

    def position(self, index: int) -> tuple[int, int, int]:
        """Return time, hot row and line number of a line: its place in the order of all lines."""
        return self.times[index], self.row_ids[self.row_of[index]], self.line_of[index]

    def lines(self) -> list[Line]:
        """Return all lines."""
        text, starts = self.text, self.starts
        messages = [text[start : end - 1] for start, end in pairwise(starts)]
        rows = map(self.row_ids.__getitem__, self.row_of)
        return list(zip(self.times, rows, self.line_of, self.source_of, self.flags, messages, strict=True))


def facets_of(sources: Iterable[Source], flags: bytes) -> set[int]:
    """Return the hashes of all values by which lines of *sources* with *flags* can be asked for."""
    facets = {
        facet(name, getattr(source, name)) for source in sources for name in Source.__struct_fields__
    } | {facet("container_id", source.container_id[:SHORT_ID]) for source in sources}
    facets |= {facet("stream", "stderr" if flag & STDERR else "stdout") for flag in set(flags)}
    return facets


SHORT_ID = 12  # characters of a container's id, as Docker shows it


def facet(name: str, value: str) -> int:
    """Return a signed 32-bit hash of *value* under a filter's *name*."""
    return zlib.crc32(f"{name}\0{value}".encode()) - 2**31


_MASK = 2**64 - 1
_SIGN = 2**63


def _deltas(values: Sequence[int]) -> Iterable[int]:
    """Return the first value, then the differences of the others to the one before each."""
    yield values[0]
    yield from (after - before for before, after in pairwise(values[1:]))


def _pack(code: str, values: Iterable[int]) -> bytes:
    column: array[int] = array(code, values)
    packed = column.tobytes()
    return b"".join([packed[place :: column.itemsize] for place in range(column.itemsize)])


def _unpack(code: str, packed: bytes) -> array[Any]:
    column: array[int] = array(code)
    size = column.itemsize
    count = len(packed) // size
    plain = bytearray(len(packed))
    for place in range(size):
        plain[place::size] = packed[place * count : (place + 1) * count]
    column.frombytes(plain)
    return column
