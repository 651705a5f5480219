"""Positions of lines as text: ids of lines and cursors of pages.  Pure."""

from __future__ import annotations

import base64
import binascii
import struct

from monitor.errors import BadRequest
from monitor.logs.models import Position

_LINE = struct.Struct(">qqI")
_CURSOR = struct.Struct(">qqIqq")


def line_id(position: Position) -> str:
    """Return the text that names the line at *position*, for ever."""
    return _text(_LINE.pack(*position))


def parse_line_id(text: str, field: str) -> Position:
    """Return the position that an id names.

    Raises:
        BadRequest: It is no id of a line.
    """
    time, row, line = _numbers(_LINE, text, field)
    return time, row, line


def print_cursor(position: Position, start: int, end: int) -> str:
    """Return the cursor of the page behind *position*; it keeps the window of the first page."""
    return _text(_CURSOR.pack(*position, start, end))


def parse_cursor(text: str) -> tuple[Position, int, int]:
    """Return position, start and end of a cursor.

    Raises:
        BadRequest: It is no cursor.
    """
    time, row, line, start, end = _numbers(_CURSOR, text, "cursor")
    return (time, row, line), start, end


def _text(packed: bytes) -> str:
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def _numbers(shape: struct.Struct, text: str, field: str) -> tuple[int, ...]:
    try:
        packed = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
        return shape.unpack(packed)
    except (struct.error, binascii.Error, UnicodeEncodeError):
        raise BadRequest(f"{field}: not one that was given out", field=field) from None
