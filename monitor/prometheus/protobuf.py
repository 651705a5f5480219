"""Read the message of Prometheus' remote write 1.0: series with their labels and samples.  Pure.

Only the fields that are stored are read; exemplars, native histograms, metadata and
whatever is unknown are passed over.  Any bytes give series or a BadRequest, in time
linear in their number.
https://github.com/prometheus/prometheus/blob/v2.42.0/prompb/types.proto
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from monitor.errors import BadRequest, PayloadTooLarge

MOST_SAMPLES: Final = 100_000  # of a request: ten times what vmagent sends at most, 0.1 s to read

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
        labels: Names and values in their order, ``__name__`` among them; unchecked.
        samples: Values and times in milliseconds since 1970.
    """

    labels: list[tuple[str, str]]
    samples: list[tuple[float, int]]


def series_of(message: bytes) -> Iterator[Series]:
    """Yield the series of a ``prometheus.WriteRequest``.

    Raises:
        BadRequest: It is none; names the series.
        PayloadTooLarge: It has more than ``MOST_SAMPLES``.
    """
    known: dict[bytes, tuple[str, str]] = {}  # most labels of a request are in many of its series
    room = MOST_SAMPLES
    path, number = "body", 0
    try:
        for key, part, _ in _fields(message, _REQUEST_TYPES):
            if key == _SERIES:
                path = f"timeseries[{number}]"
                series = _series(part, known, room)
                room -= len(series.samples)
                yield series
                path, number = "body", number + 1
    except IndexError:
        raise BadRequest(f"{path}: the protobuf message ends early", field=path) from None
    except UnicodeDecodeError:
        raise BadRequest(f"{path}.labels: not valid UTF-8", field=f"{path}.labels") from None
    except DamagedError as error:
        raise BadRequest(f"{path}: not valid protobuf: {error}", field=path) from None


class DamagedError(ValueError):
    """Bytes that are no protobuf message of the expected type."""


def _series(message: bytes, known: dict[bytes, tuple[str, str]], room: int) -> Series:
    labels: list[tuple[str, str]] = []
    samples: list[tuple[float, int]] = []
    for key, part, _ in _fields(message, _SERIES_TYPES):
        if key == _SAMPLE:
            if len(samples) == room:
                raise PayloadTooLarge(f"the request has more than {MOST_SAMPLES} samples")
            samples.append(_sample(part))
        elif key == _LABEL:
            label = known.get(part)
            if label is None:
                label = known[part] = _label(part)
            labels.append(label)
    return Series(labels, samples)


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
        DamagedError: Another type, or no protobuf at all.
        IndexError: The message ends within a field.
    """
    at, end = 0, len(message)
    while at < end:
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
