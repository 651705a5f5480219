"""Bring one stream to VictoriaMetrics, in order, each row at least once.

Rows come from memory while VictoriaMetrics keeps up, from the table otherwise:
after it was away, after a restart of ours, or when the stream was adopted.  A
write goes out at once when none is in flight, else when the previous one returns.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import structlog
import zstandard
from prometheus_client import Counter

from monitor.errors import StorageUnavailable
from monitor.journal import store
from monitor.tsdb.client import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from monitor.journal.journal import Journal

WRITE_BYTES = 1024 * 1024  # one write to VictoriaMetrics and one move of the cursor: some 27 pushes
MEMORY_BYTES = 8 * 1024 * 1024  # more than this waits in the table only
ROWS = 32  # read from the table at a time: about 1 MiB of zstd
LOOK_SECONDS = 1.0  # how often a drained stream is looked at again
RETRY_SECONDS = (0.2, 5.0)  # first and longest pause while VictoriaMetrics is away

WRITTEN = Counter("monitor_journal_written_bytes_total", "Bytes of lines that VictoriaMetrics took.")
RETRIES = Counter("monitor_journal_retries_total", "Writes to VictoriaMetrics that failed and were repeated.")
DEAD = Counter("monitor_journal_dead_letters_total", "Lines that VictoriaMetrics refused.")

log = structlog.get_logger()


class Writer:
    """The writer of one stream.

    Attributes:
        stream_id: The stream.
        live: Whether this process still appends to it.
        written: The last row that VictoriaMetrics took.
        last: The last row that this process knows of.
    """

    def __init__(self, journal: Journal, stream_id: int, *, live: bool, written: int = 0) -> None:
        self.stream_id = stream_id
        self.live = live
        self.written = written
        self.last = written
        self._journal = journal
        self._noted = written
        self._memory: deque[tuple[int, bytes]] = deque()
        self._memory_bytes = 0
        self._from_table = not live
        self._wake = asyncio.Event()

    def take(self, seq: int, lines: bytes) -> None:
        """Accept a committed row of the live stream; *lines* are not compressed."""
        self.last = seq
        if not self._from_table:
            self._memory.append((seq, lines))
            self._memory_bytes += len(lines)
            if self._memory_bytes > MEMORY_BYTES:
                self.spill()
        self._wake.set()

    def spill(self) -> None:
        """Let go of what is in memory: it is read from the table when its turn comes."""
        self._memory.clear()
        self._memory_bytes = 0
        self._from_table = True
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled; survives every failure of both stores."""
        pause = RETRY_SECONDS[0]
        while True:
            try:
                await self._round()
                pause = RETRY_SECONDS[0]
            except StorageUnavailable:
                RETRIES.inc()
                await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads writers
                pause = min(pause * 2, RETRY_SECONDS[1])

    async def _round(self) -> None:
        await self._note()  # the last round may have failed to
        if self._memory:
            seq, lines = self._gather()
        elif self._from_table:
            seq, lines = await self._read()
        else:
            seq, lines = 0, b""
        if not seq:
            await self._rest()
            return
        if lines:
            await self._journal.write(lines)
            WRITTEN.inc(len(lines))
        # In memory until here, so that a failed write is tried again.
        while self._memory and self._memory[0][0] <= seq:
            self._memory_bytes -= len(self._memory.popleft()[1])
        self.written = max(self.written, seq)
        await self._note()

    async def _note(self) -> None:
        """Move the cursor to what is written; never is more than one write ahead of it."""
        if self._noted == self.written:
            return
        written = self.written
        async with self._journal.connection() as conn:
            await store.move_cursor(conn, self.stream_id, self._journal.owner, written)
        self._noted = written

    def _gather(self) -> tuple[int, bytes]:
        seq, size, pieces = 0, 0, []
        for seq, lines in islice(self._memory, store.WRITE_ROWS):  # noqa: B007 - the last one counts
            pieces.append(lines)
            size += len(lines)
            if size >= WRITE_BYTES:
                break
        return seq, pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _read(self) -> tuple[int, bytes]:
        """Return the next rows of the table; (0, b"") when there is none."""
        last = self.last if self.live else 2**62
        async with self._journal.connection() as conn:
            rows = await store.rows_between(conn, self.stream_id, self.written, last, ROWS)
            deleted = await store.deleted_agents(conn) if rows else set()
        if not rows:
            if self.live:
                # What is appended from now on goes through memory again; nothing was
                # appended since the look, or it is looked at again.
                self._from_table = self.last != last
            return 0, b""
        return rows[-1].seq, without(deleted, unpack(rows))

    async def _rest(self) -> None:
        if self.live and self._from_table:
            return
        self._wake.clear()
        if self._memory:
            return
        if self.live:
            await self._wake.wait()
        else:
            await asyncio.sleep(LOOK_SECONDS)


def unpack(rows: list[store.Row]) -> bytes:
    """Return the lines of *rows*, joined."""
    decompressor = zstandard.ZstdDecompressor()
    return b"".join(decompressor.decompress(row.lines) for row in rows)


def without(agents: set[str], lines: bytes) -> bytes:
    """Return *lines* but for those of *agents*: deleted ones must not come back."""
    tags = [f",agent_id={agent}".encode() for agent in agents]
    tags = [tag for tag in tags if tag in lines]
    if not tags:
        return lines
    return b"".join(line for line in lines.splitlines(keepends=True) if not any(tag in line for tag in tags))


async def bisect(
    lines: bytes,
    error: Refused,
    write: Callable[[bytes], Awaitable[None]],
    bury: Callable[[bytes, str], Awaitable[None]],
) -> None:
    """Write what VictoriaMetrics takes of the refused *lines*; keep the rest as dead letters.

    Raises:
        StorageUnavailable: VictoriaMetrics or Postgres went away meanwhile.
    """
    pieces = lines.splitlines(keepends=True)
    if len(pieces) <= 1:
        DEAD.inc()
        log.error("line refused by VictoriaMetrics", status=error.status)
        await bury(lines, f"status {error.status}")
        return
    half = len(pieces) // 2
    for part in (b"".join(pieces[:half]), b"".join(pieces[half:])):
        try:
            await write(part)
        except Refused as again:
            await bisect(part, again, write, bury)
