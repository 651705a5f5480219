"""Re-encode VictoriaMetrics' answers: the organization out, series in order, values as wanted.  Pure.

An answer of another form than VictoriaMetrics' raises StorageUnavailable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from monitor.errors import StorageUnavailable
from monitor.tsdb.matrix import Matrix
from monitor.tsdb.selector import ORG
from monitor.tsdb.window import Grid

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="sorted")

_NO_NUMBER = re.compile(rb'"(?:NaN|[+-]?Inf)"')
# Prometheus writes numbers from 1e21 on, and below 1e-6, with an exponent, VictoriaMetrics none.
_EXPONENT = re.compile(rb'"(-?(?:0\.000000[0-9]+|[0-9]{22,}(?:\.[0-9]+)?))"')
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * 22
_SHORT_FRACTION = re.compile(rb"(^|\[)([0-9]+)\.([0-9]{1,2})(?=,)")


class _Sample(msgspec.Struct):
    """One series of an instant answer; a value is ``[unix seconds, text]``."""

    metric: dict[str, str]
    value: tuple[msgspec.Raw, str]


class _Vector(msgspec.Struct):
    result: list[_Sample]


class _Instant(msgspec.Struct):
    data: _Vector


class _Names(msgspec.Struct):
    data: list[str]


class _SeriesList(msgspec.Struct):
    data: list[dict[str, str]]


_instant = msgspec.json.Decoder(_Instant)
_names = msgspec.json.Decoder(_Names)
_series_list = msgspec.json.Decoder(_SeriesList)


def instant_numbers(answer: bytes) -> bytes:
    """Return ``{"series":[{"metric":{…},"value":1.5}],"count":1}``; NaN and ±Inf are left out."""
    series = [
        b'{"metric":%b,"value":%b}' % (labels, sample.value[1].encode())
        for labels, sample in _vector(answer)
        if math.isfinite(float(sample.value[1]))
    ]
    return b'{"series":[%b],"count":%d}' % (b",".join(series), len(series))


def instant_texts(answer: bytes) -> bytes:
    """Return a vector as Prometheus writes it: ``[{"metric":{…},"value":[1893456000,"1.5"]}]``."""
    series = [
        b'{"metric":%b,"value":[%b,%b]}'
        % (labels, _padded(bytes(sample.value[0]) + b",")[:-1], _texts(b'"%b"' % sample.value[1].encode()))
        for labels, sample in _vector(answer)
    ]
    return b"[%b]" % b",".join(series)


class RangeNumbers:
    """``{"series":[{"metric":{…},"values":[[1893456000,1.5]]}],"count":1}`` of an answer that arrives.

    Points after the end of the grid and those that are NaN or ±Inf are left out, and series without any other.
    """

    def __init__(self, grid: Grid) -> None:
        """Take the grid that was asked for."""
        self._matrix = Matrix(grid.end_ms, _numbers)
        self.feed = self._matrix.feed

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole, once all of the answer was fed."""
        count = 0
        yield b'{"series":['
        for labels, numbers in self._matrix.series():
            if numbers:
                lead = b"," if count else b""
                yield b'%b{"metric":%b,"values":[[' % (lead, labels)
                yield numbers
                yield b"]]}"
                count += 1
        yield b'],"count":%d}' % count


class RangeTexts:
    """A matrix as Prometheus writes it, ``[{"metric":{…},"values":[[1893456000,"1.5"]]}]``, of an answer that arrives.

    Points after the end of the grid are left out.
    """

    def __init__(self, grid: Grid) -> None:
        """Take the grid that was asked for."""
        fractional = grid.start_ms % 1000 != 0 or grid.step_ms % 1000 != 0
        self._matrix = Matrix(grid.end_ms, _padded_texts if fractional else _texts)
        self.feed = self._matrix.feed

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole, once all of the answer was fed."""
        lead = b"["
        for labels, texts in self._matrix.series():
            yield b'%b{"metric":%b,"values":[[' % (lead, labels)
            yield texts
            yield b"]]}"
            lead = b","
        yield b"[]" if lead == b"[" else b"]"


def label_sets(answer: bytes) -> list[dict[str, str]]:
    """Return the label sets of a series answer, in order, without the organization."""
    return [labels for labels, _ in _ordered((labels, None) for labels in _read(_series_list, answer).data)]


def label_names(answer: bytes) -> list[str]:
    """Return the label names of an answer, in order, without the organization's."""
    names = label_values(answer)
    # Every series has the organization: without it there is none, though 1.79 says "__name__".
    return [name for name in names if name != ORG] if ORG in names else []


def label_values(answer: bytes) -> list[str]:
    """Return the label values of an answer, in order."""
    return sorted(_read(_names, answer).data)


def _read(decoder: msgspec.json.Decoder[T], answer: bytes) -> T:
    try:
        return decoder.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StorageUnavailable from error


def _ordered(series: Iterable[tuple[dict[str, str], T]]) -> list[tuple[dict[str, str], T]]:
    """Return *series* without the organization's label, in Prometheus' order of label sets."""
    found = []
    for labels, values in series:
        labels.pop(ORG, None)
        found.append((sorted(labels.items()), labels, values))
    found.sort(key=lambda entry: entry[0])
    return [(labels, values) for _, labels, values in found]


def _vector(answer: bytes) -> Iterator[tuple[bytes, _Sample]]:
    samples = _read(_instant, answer).data.result
    for labels, sample in _ordered((sample.metric, sample) for sample in samples):
        yield _encoder.encode(labels), sample


def _numbers(values: bytes) -> bytes:
    """Return ``t,"v"],[t,"v"`` with its values as numbers, without those that are none."""
    if b"N" in values or b"I" in values:  # numbers have no letters
        values = b"],[".join(point for point in values.split(b"],[") if not _NO_NUMBER.search(point))
    return values.translate(None, b'"')


def _texts(values: bytes) -> bytes:
    """Return values with those exponents that Prometheus writes."""
    # Two looks of the kind that costs nothing spare nearly every series the third.
    if b"0.000000" not in values and _LONG not in values.translate(_DIGITS):
        return values
    return _EXPONENT.sub(lambda found: b'"%b"' % repr(float(found[1])).encode(), values)


def _padded_texts(values: bytes) -> bytes:
    return _padded(_texts(values))


def _padded(values: bytes) -> bytes:
    """Return values with times of three digits after the point, where they have any."""
    return _SHORT_FRACTION.sub(
        lambda found: b"%b%b.%b" % (found[1], found[2], found[3].ljust(3, b"0")), values
    )
