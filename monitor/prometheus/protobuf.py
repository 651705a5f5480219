"""Read the message of Prometheus' remote write 1.0: series with their labels and samples.  Pure.

Only the fields that are stored are read; exemplars, native histograms, metadata and
whatever is unknown are passed over.  Any bytes give series or a BadRequest, in time
linear in their number, and never much of it between two series.
https://github.com/prometheus/prometheus/blob/v2.42.0/prompb/types.proto
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from monitor.errors import BadRequest

MOST_FIELDS: Final = 100_000  # of one message: 0.05 s to look at; vmagent sends 10,000 samples at most
MOST_READ_LABELS: Final = 100  # of a series that is looked at further; fewer are stored

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BITS = 7 * 10  # of the longest encoding of 64 bits
_DOUBLE = struct.Struct("<d")

# The key before each field: its number times eight, plus the type of what follows.
_SERIES = 1 << 3 | _BYTES
_LABEL = 1 << 3 | _BYTES
_SAMPLE = 2 << 3 | _BYTES
_NAME = 1 << 3 | _BYTES
_TEXT = 2 << 3 | _BYTES
_VALUE = 1 << 3 | _FIXED64
_TIMESTAMP = 2 << 3 | _VARINT
# The type by number of the fields of each message.
_REQUEST_TYPES: Final = {1: _BYTES}
_SERIES_TYPES: Final = {1: _BYTES, 2: _BYTES}
_LABEL_TYPES: Final = {1: _BYTES, 2: _BYTES}
_SAMPLE_TYPES: Final = {1: _FIXED64, 2: _VARINT}


class Series(NamedTuple):
    """One series of a request.

    Attributes:
        path: Where it stands, ``timeseries[3]``.
        labels: Names and values in their order, ``__name__`` among them; unchecked.
        encoded: Its samples as they came.
    """

    path: str
    labels: list[tuple[str, str]]
    encoded: list[bytes]

    def samples(self, start: int, stop: int) -> list[tuple[float, int]]:
        """Return values and times, in milliseconds since 1970, of some of the samples.

        Raises:
            BadRequest: They are none.
        """
        try:
            return [_sample(message) for message in self.encoded[start:stop]]
        except (IndexError, ValueError) as error:
            raise _refused(f"{self.path}.samples", error) from None


def series_of(message: bytes) -> Iterator[Series]:
    """Yield the series of a ``prometheus.WriteRequest``.

    Raises:
        BadRequest: It is none; names the series.
    """
    known: dict[bytes, tuple[str, str]] = {}  # most labels of a request are in many of its series
    path, number = "body", 0
    try:
        for key, part, _ in _fields(message, _REQUEST_TYPES):
            if key == _SERIES:
                path = f"timeseries[{number}]"
                yield Series(path, *_series(part, known))
                path, number = "body", number + 1
    except (IndexError, ValueError) as error:
        raise _refused(path, error) from None


class DamagedError(ValueError):
    """Bytes that are no protobuf message of the expected type, or one too large to look at."""


def _refused(path: str, error: IndexError | ValueError) -> BadRequest:
    if isinstance(error, IndexError):
        why = "the message ends early"
    elif isinstance(error, UnicodeDecodeError):
        why = "a label is not valid UTF-8"
    else:
        why = str(error)
    return BadRequest(f"{path}: not valid protobuf: {why}", field=path)


def _series(message: bytes, known: dict[bytes, tuple[str, str]]) -> tuple[list[tuple[str, str]], list[bytes]]:
    labels: list[tuple[str, str]] = []
    encoded: list[bytes] = []
    for key, part, _ in _fields(message, _SERIES_TYPES):
        if key == _SAMPLE:
            encoded.append(part)
        elif key == _LABEL:
            if len(labels) == MOST_READ_LABELS:
                raise DamagedError(f"more than {MOST_READ_LABELS} labels")
            label = known.get(part)
            if label is None:
                label = known[part] = _label(part)
            labels.append(label)
    return labels, encoded


def _label(message: bytes) -> tuple[str, str]:
    name = text = b""
    for key, part, _ in _fields(message, _LABEL_TYPES):
        if key == _NAME:
            name = part
        elif key == _TEXT:
            text = part
    return name.decode(), text.decode()


def _sample(message: bytes) -> tuple[float, int]:
    value, ms = 0.0, 0  # what is zero is not sent
    for key, part, number in _fields(message, _SAMPLE_TYPES):
        if key == _VALUE:
            (value,) = _DOUBLE.unpack(part)
        elif key == _TIMESTAMP:
            ms = number
    return value, ms - (1 << 64) if ms >> 63 else ms


def _fields(message: bytes, types: Mapping[int, int]) -> Iterator[tuple[int, bytes, int]]:
    """Yield the key of each field with its bytes or, of an integer, its number.

    Args:
        message: The fields, one after the other.
        types: Wire type by number of the known fields.

    Raises:
        DamagedError: Another type, too many, or no protobuf at all.
        IndexError: The message ends within a field.
    """
    at, end, room = 0, len(message), MOST_FIELDS
    while at < end:
        if not room:
            raise DamagedError(f"more than {MOST_FIELDS} fields in one message")
        room -= 1
        key, at = _varint(message, at)
        wire = key & 7
        if types.get(key >> 3, wire) != wire or key < 8:
            raise DamagedError(f"field {key >> 3} has the wrong type")
        if wire == _VARINT:
            number, at = _varint(message, at)
            yield key, b"", number
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire == _FIXED64:
            size = 8
        elif wire == _FIXED32:
            size = 4
        else:
            raise DamagedError(f"unknown wire type {wire}")
        if at + size > end:
            raise IndexError
        yield key, message[at : at + size], 0
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the integer at *at*, modulo 2**64, and where it ends.

    Raises:
        DamagedError: It is longer than 64 bits need.
        IndexError: The message ends first.
    """
    byte = message[at]
    at += 1
    if byte < 0x80:
        return byte, at
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift == _VARINT_BITS:
            raise DamagedError("an integer is too long")
        byte = message[at]
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return number & 0xFFFF_FFFF_FFFF_FFFF, at
