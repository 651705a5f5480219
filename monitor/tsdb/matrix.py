"""Read the answer of a range query while it arrives: what is left after its last byte is to sort.  Pure.

A range of 4 MB is not decoded.  It is split where a series' values begin and end, at
texts that cannot stand inside a JSON string, because a quote in them would be escaped
there; the values are carried over as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from monitor.errors import StorageUnavailable
from monitor.tsdb.selector import ORG

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(dict[str, str])

_KIND = b'"resultType":"matrix"'
_METRIC = b'"metric":'
_VALUES = b'"values":[['
_BRACE = b"{"  # no values have one: it is the next series', or belongs to what follows the last
_NEXT = b"]]},{"  # after the values of every series but the last
_END = b"]]"


class Labels(NamedTuple):
    """A series' labels without the organization: as they sort, and as JSON."""

    pairs: list[tuple[str, str]]
    text: bytes


# A dashboard that refreshes asks for the same series again, and this is a fifth of what re-encoding costs.
@lru_cache(4096)
def labels_of(metric: bytes) -> Labels:
    """Return the labels that *metric*, JSON of VictoriaMetrics', has."""
    labels = _decoder.decode(metric)
    labels.pop(ORG, None)
    return Labels(sorted(labels.items()), _encoder.encode(labels))


class Matrix:
    """The series of one answer: labels without the organization, values as *converted* makes them."""

    def __init__(self, end_ms: int, converted: Callable[[bytes], bytes]) -> None:
        """Take the last time that is wanted, and what to make of each ``t,"v"],[t,"v"``."""
        self._end_ms = end_ms
        self._converted = converted
        self._rest = bytearray()  # from the end of the last series on, or from its values on
        self._looked = 0  # so far the rest was searched in vain
        self._labels: Labels | None = None  # of the series whose values come
        self._series: list[tuple[Labels, bytes]] = []
        self._begun = False
        self._error: Exception | None = None

    def feed(self, piece: bytes) -> None:
        """Take the answer's next bytes; what is wrong with them ``series`` says."""
        if self._error is None:
            self._rest += piece
            try:
                self._read()
            except (ValueError, StorageUnavailable) as error:  # DecodeError is a ValueError
                self._error = error

    def series(self) -> list[tuple[bytes, bytes]]:
        """Return labels and values of each series that has any, in Prometheus' order of label sets.

        Raises:
            StorageUnavailable: The answer has another form than VictoriaMetrics', or is not whole.
        """
        try:
            if self._error is not None:
                raise self._error
            self._finish()
        except ValueError as error:
            raise StorageUnavailable from error
        self._series.sort(key=lambda one: one[0].pairs)
        return [(labels.text, values) for labels, values in self._series]

    def _read(self) -> None:
        rest, at, looked = self._rest, 0, self._looked
        while True:
            mark = _VALUES if self._labels is None else _BRACE
            found = rest.find(mark, looked)
            if found < 0:
                looked = max(at, len(rest) - len(mark) + 1)
                break
            looked = found + len(mark)
            if self._labels is None:
                self._begin(bytes(rest[at:found]))
                at = looked
            elif rest.startswith(_NEXT, (end := looked - len(_NEXT))):
                self._keep(bytes(rest[at:end]))
                at = end
        self._looked = looked - at
        del rest[:at]

    def _begin(self, head: bytes) -> None:
        """Read the labels at the end of *head*."""
        if not self._begun:
            self._check_kind(head)
        metric = head.find(_METRIC)
        if metric < 0:
            raise ValueError("a series without labels")
        self._labels = labels_of(head[metric + len(_METRIC) : -1])

    def _check_kind(self, head: bytes) -> None:
        if _KIND not in head:
            raise ValueError("no matrix")
        self._begun = True

    def _keep(self, values: bytes) -> None:
        assert self._labels is not None
        labels, self._labels = self._labels, None
        if kept := _until(values, self._end_ms):
            self._series.append((labels, self._converted(kept)))

    def _finish(self) -> None:
        """Keep the last series."""
        rest = bytes(self._rest)
        if not self._begun:
            self._check_kind(rest)
        if self._labels is not None:
            end = rest.find(_END)
            if end < 0:
                raise ValueError("a series without an end")
            self._keep(rest[:end])


def _until(values: bytes, end_ms: int) -> bytes:
    """Return ``t,"v"],[t,"v"`` without the points after *end_ms*, which are few."""
    while True:
        last = values.rfind(b"],[")
        start = last + 3 if last >= 0 else 0
        if round(float(values[start : values.find(b",", start)]) * 1000) <= end_ms:
            return values
        if last < 0:
            return b""
        values = values[:last]
