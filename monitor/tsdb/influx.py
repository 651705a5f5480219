"""Print samples as the InfluxDB lines that VictoriaMetrics takes at ``/write?precision=ms``.

One line holds many metrics of one resource: a metric is called measurement, ``_``,
field; with an empty measurement the field alone is the name, so that any name can be
printed.  A tag with an empty value is an absent label for VictoriaMetrics.  Every
line ends in a newline, so that bodies can be joined.  Nothing printed here can end a
tag or a line early, whatever a tenant sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat

import msgspec
from msgspec import UNSET, Struct, UnsetType

Value = float | UnsetType | None
Columns = Mapping[str, Sequence[Value]]


class Lines(Struct, frozen=True):
    """Printed lines and the number of their samples."""

    text: str
    count: int


# Control characters (C0, DEL, C1) are no part of a label; a newline would end the line.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_ESCAPES = {**dict.fromkeys(_CONTROLS, "\ufffd"), **{ord(c): "\\" + c for c in "\\,= "}}
_SPECIAL = bytes([code for code in _ESCAPES if code < 0x80])  # those of ASCII
_NULL = "null"
_json = msgspec.json.Encoder()


def escape(text: str) -> str:
    """Return *text* as a tag key or value."""
    return text.translate(_ESCAPES)


def escape_columns(columns: list[list[str]]) -> list[list[str]]:
    """Return label values, one list per label, escaped; usually nothing needs it."""
    text = "".join(["".join(column) for column in columns])
    if text.isascii() and len(text) == len(text.encode().translate(None, _SPECIAL)):
        return columns
    return [[text.translate(_ESCAPES) for text in column] for column in columns]


def print_lines(measurement: str, tags: Sequence[str], columns: Columns, at_ms: int) -> Lines:
    """Print a line for each of *tags* with the fields that *columns* hold for it.

    Absent values, and those that have overflowed to infinity, are left out, and so is
    a line without any field.

    Args:
        measurement: First part of the metrics' names.
        tags: ``,name=value…`` of each line, escaped.
        columns: The fields; each has a list with a value for each line.
        at_ms: Time of all samples, milliseconds since 1970.
    """
    present = {name: column for name, column in columns.items() if not _is_absent(column)}
    if not present:
        return Lines("", 0)
    texts = print_values(list(chain.from_iterable(present.values())))
    rows, end = len(tags), f" {at_ms}\n"
    printed = [texts[start : start + rows] for start in range(0, len(texts), rows)]
    gaps = texts.count(_NULL)
    if gaps:
        names = [f"{name}=" for name in present]
        fields = [
            ",".join([name + value for name, value in zip(names, row, strict=True) if value != _NULL])
            for row in zip(*printed, strict=True)
        ]
        lines = [f"{measurement}{of} {text}{end}" for of, text in zip(tags, fields, strict=True) if text]
        return Lines("".join(lines), len(texts) - gaps)
    parts: list[Iterable[str]] = [repeat(measurement), tags]
    for number, (name, column) in enumerate(zip(present, printed, strict=True)):
        parts += [repeat(f",{name}=" if number else f" {name}="), column]
    parts.append(repeat(end))
    return Lines("".join(chain.from_iterable(zip(*parts, strict=False))), len(texts))


def print_values(values: Sequence[Value]) -> list[str]:
    """Print numbers one by one, and what is none as ``null``.

    msgspec does it several times as fast as repr, with digits on both sides of the point
    as VictoriaMetrics needs them.
    """
    try:
        text = _json.encode(values)
    except TypeError:  # UNSET
        text = _json.encode([None if value is UNSET else value for value in values])
    return text[1:-1].decode("ascii").split(",")


def _is_absent(column: Sequence[Value]) -> bool:
    """Tell whether *column* has no value at all, as rates at the first push."""
    first = column[0] if column else None
    return (first is None or first is UNSET) and column.count(first) == len(column)
