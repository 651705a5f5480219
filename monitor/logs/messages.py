"""What a web process and its search processes say to each other, over two pipes each.

A message is its length in four bytes, then msgpack.  Questions and answers go by
number; a question may be taken back.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Literal, TypeAlias

import msgspec

from monitor.logs.models import Position, Search

_LENGTH = struct.Struct(">I")


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first message: the database, whether searches here may be deep, and how to log."""

    dsn: str
    deep: bool
    log_level: Literal["debug", "info", "warning", "error"]
    log_format: Literal["json", "console"]


class Find(msgspec.Struct, frozen=True, tag=True):
    """Find lines: answered with a JSON array and the cursor of the next page."""

    search: Search


class Count(msgspec.Struct, frozen=True, tag=True):
    """Count lines by interval of *step* ns, at least until *until*: answered with a Histogram."""

    search: Search
    step: int
    until: int


class Around(msgspec.Struct, frozen=True, tag=True):
    """Find the line at *position* and those around it: answered with a Context."""

    org_id: str
    position: Position
    arrived_since: int
    before: int
    after: int


Question: TypeAlias = Find | Count | Around


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A question that is to be answered within *seconds*."""

    number: int
    seconds: float
    question: Question


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Nobody waits for the answer any more."""

    number: int


Message: TypeAlias = Start | Ask | Cancel
Outcome: TypeAlias = Literal["found", "not_found", "too_deep", "too_slow", "storage_unavailable", "bug"]


class Answer(msgspec.Struct, frozen=True):
    """What came of a question; *body* is JSON."""

    number: int
    outcome: Outcome
    body: bytes = b""
    cursor: str | None = None


def framed(message: Message | Answer) -> bytes:
    """Return *message* as it goes over the pipe."""
    packed = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(packed)) + packed


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next message, packed; empty when the other side has ended."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
