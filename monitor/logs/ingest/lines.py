"""Read a batch of log lines: NDJSON, checked line by line, into the blocks of hot rows.

All or nothing: the first malformed line refuses the batch and is named by its number.
A large batch gives the event loop back every few milliseconds.
"""

from __future__ import annotations

import asyncio
import re
from io import BytesIO

from msgspec import Struct

from monitor.errors import BadRequest
from monitor.logs.block import LINE_BYTES, STDERR, TRUNCATED, Encoded, Line, encode
from monitor.logs.models import Source
from monitor.logs.times import parse_ns
from monitor.web.codec import decode
from monitor.wire.logs import BATCH_ID_HEADER, MESSAGE_BYTES, LogLine

NAME_BYTES = 1024  # as in a push
ROW_BYTES = 256 * 1024  # of a hot row, uncompressed: written in about 4 ms
LINES_A_TURN = 500  # between two turns of the event loop: about 2 ms

_BATCH_ID = re.compile(r"[ -~]{1,200}")
_NUMBERED = re.compile(r"(?P<epoch>.+):(?P<number>\d{1,18})", re.ASCII)


class BatchId(Struct, frozen=True):
    """What makes a repeated batch harmless: an epoch with a growing number, or any text."""

    text: str
    number: int | None = None


def parse_batch_id(text: str | None) -> BatchId | None:
    """Return the id of a batch, None if it has none.

    Raises:
        BadRequest: It is longer than 200 characters, empty or not printable.
    """
    if text is None:
        return None
    if not _BATCH_ID.fullmatch(text):
        raise BadRequest(
            f"{BATCH_ID_HEADER}: expected 1 to 200 printable ASCII characters", field=BATCH_ID_HEADER
        )
    match = _NUMBERED.fullmatch(text)
    return BatchId(text) if match is None else BatchId(match["epoch"], int(match["number"]))


async def read_lines(body: bytes, agent_id: str) -> list[Encoded]:
    """Return the lines of *body* as blocks of hot rows; empty lines are left out.

    Raises:
        BadRequest: A line is malformed; says which and why.
    """
    batch = _Batch(agent_id)
    for number, text in enumerate(BytesIO(body), start=1):
        if not text.isspace():
            try:
                batch.add(text)
            except BadRequest as error:
                why = error.text.removeprefix("body: ")
                raise BadRequest(f"line {number}: {why}", field=error.field) from None
        if number % LINES_A_TURN == 0:
            await asyncio.sleep(0)
    return batch.blocks()


class _Batch:
    """The lines of a batch, as far as they are read."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._blocks: list[Encoded] = []
        self._lines: list[Line] = []
        self._bytes = 0
        self._sources: list[Source] = []
        self._known: dict[tuple[str | None, ...], int] = {}

    def add(self, text: bytes) -> None:
        new = decode(text, LogLine)
        try:
            time = parse_ns(new.time)
        except ValueError as error:
            raise BadRequest(f"time: {error}", field="time") from None
        message = new.message.encode()
        flags = STDERR if new.stream == "stderr" else 0
        if len(message) > MESSAGE_BYTES:
            flags |= TRUNCATED
            message = message[:MESSAGE_BYTES].decode(errors="ignore").encode()
        names = (new.container_id, new.container, new.namespace, new.pod)
        index = self._known.get(names)
        if index is None:
            index = self._known[names] = len(self._sources)
            self._sources.append(self._source(new))
        self._lines.append((time, 0, len(self._lines), index, flags, message))
        self._bytes += len(message) + LINE_BYTES
        if self._bytes >= ROW_BYTES:
            self._end_row()

    def _source(self, new: LogLine) -> Source:
        for name in ("containerId", "container", "namespace", "pod"):
            value = getattr(new, "container_id" if name == "containerId" else name) or ""
            if len(value.encode()) > NAME_BYTES:
                raise BadRequest(f"{name}: longer than {NAME_BYTES:,} bytes", field=name)
            if "\0" in value:
                raise BadRequest(f"{name}: must not contain NUL", field=name)
        if new.namespace and new.pod:
            return Source(
                "kubernetes",
                self._agent_id,
                new.namespace,
                new.pod,
                new.container or "",
                new.container_id or "",
            )
        if new.namespace or new.pod:
            missing = "pod" if new.namespace else "namespace"
            raise BadRequest(f"{missing}: required with namespace and pod", field=missing)
        if not new.container_id:
            raise BadRequest("containerId: required, or namespace and pod", field="containerId")
        return Source("docker", self._agent_id, "", "", new.container or "", new.container_id)

    def _end_row(self) -> None:
        self._lines.sort(key=lambda line: line[:3])
        self._blocks.append(encode(self._lines, self._sources, {0: 0}, hot=True))
        self._lines = []
        self._bytes = 0

    def blocks(self) -> list[Encoded]:
        """Return all lines as blocks."""
        if self._lines:
            self._end_row()
        return self._blocks
