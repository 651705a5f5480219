"""Read the answer of a range query while it arrives: what is left after its last byte is to sort.  Pure.

A range of 4 MB is not decoded.  It is split where a series' values begin and end, at
texts that cannot stand inside a JSON string, because a quote in them would be escaped
there; the values are carried over as bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from monitor.errors import StorageUnavailable
from monitor.tsdb.selector import ORG

_encoder = msgspec.json.Encoder(order="sorted")
_labels = msgspec.json.Decoder(dict[str, str])

_KIND = b'"resultType":"matrix"'
_METRIC = b'"metric":'
_VALUES = b'"values":[['
# After the values of every series but the last.
_NEXT = b']]},{"metric":{'
_END = b"]]"


class Matrix:
    """The series of one answer: labels without the organization, values as *converted* makes them."""

    def __init__(self, end_ms: int, converted: Callable[[bytes], bytes]) -> None:
        """Take the last time that is wanted, and what to make of each ``t,"v"],[t,"v"``."""
        self._end_ms = end_ms
        self._converted = converted
        self._rest = bytearray()  # from the end of the last series on, or from its values on
        self._looked = 0  # so far the rest was searched in vain
        self._labels: dict[str, str] | None = None  # of the series whose values come
        self._series: list[tuple[list[tuple[str, str]], bytes, bytes]] = []
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
        self._series.sort(key=lambda one: one[0])
        return [(labels, values) for _, labels, values in self._series]

    def _read(self) -> None:
        rest, at = self._rest, 0
        while True:
            mark = _VALUES if self._labels is None else _NEXT
            found = rest.find(mark, max(at, self._looked))
            if found < 0:
                break
            if self._labels is None:
                self._begin(bytes(rest[at:found]))
                at = found + len(_VALUES)
            else:
                self._keep(bytes(rest[at:found]))
                at = found
        self._looked = max(0, len(rest) - at - len(mark) + 1)
        del rest[:at]

    def _begin(self, head: bytes) -> None:
        """Read the labels at the end of *head*."""
        if not self._begun:
            self._check_kind(head)
        metric = head.find(_METRIC)
        if metric < 0:
            raise ValueError("a series without labels")
        self._labels = _labels.decode(head[metric + len(_METRIC) : -1])
        self._labels.pop(ORG, None)

    def _check_kind(self, head: bytes) -> None:
        if _KIND not in head:
            raise ValueError("no matrix")
        self._begun = True

    def _keep(self, values: bytes) -> None:
        assert self._labels is not None
        labels, self._labels = self._labels, None
        self._looked = 0
        if kept := _until(values, self._end_ms):
            self._series.append((sorted(labels.items()), _encoder.encode(labels), self._converted(kept)))

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
