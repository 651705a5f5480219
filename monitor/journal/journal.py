"""The journal of one process: its stream, its writers, its leases.

``entry()`` is a transaction whose lines are acknowledged when it commits.  Commit
order is stream order, because a process has one entry open at a time.  When it is
not known whether a commit happened, the stream is given up: its rows, that one
included if it is there, are drained from the table, and a new stream begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import structlog
import zstandard
from aiohttp import web
from prometheus_client import Gauge

from monitor.config import CONFIG
from monitor.db.postgres import connection, transaction
from monitor.errors import StorageUnavailable
from monitor.journal import store
from monitor.journal.writer import Writer, bisect
from monitor.tsdb.client import TSDB, Refused

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

LEASE_SECONDS = 10.0  # a dead process's streams are adopted this long after its last sign
TICK_SECONDS = 2.0  # leases, the present slot and the size are looked at this often
FLUSH_SECONDS = 3.0  # at the end, for what was acknowledged last
FULL_RETRY_SECONDS = 30  # Retry-After while the backlog is full

SIZE = Gauge("monitor_journal_size_bytes", "Disk that the journal takes.", multiprocess_mode="mostrecent")

log = structlog.get_logger()


class Entry:
    """One open transaction of the journal.

    Attributes:
        conn: The connection inside the transaction.
        lines: Influx lines to acknowledge with it; set before the block ends.
        sample_count: How many samples these are.
    """

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.lines = b""
        self.sample_count = 0


class Journal:
    """The journal of one process.

    Attributes:
        owner: Names this process in leases.
    """

    def __init__(self, app: web.Application) -> None:
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._app = app
        self._tsdb = app[TSDB]
        self._lock = asyncio.Lock()
        self._live: Writer | None = None
        self._slot = 0
        self._full = False
        self._tasks: dict[Writer, asyncio.Task[None]] = {}
        self._compressor = zstandard.ZstdCompressor(level=1)

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection for the journal's own statements."""
        return connection(self._app)

    @asynccontextmanager
    async def entry(self) -> AsyncIterator[Entry]:
        """Open a transaction; its lines are on their way when the block has ended.

        Raises:
            StorageUnavailable: Postgres is away, or the backlog is full; whether the
                block's changes are stored is unknown.
        """
        if self._full:
            raise StorageUnavailable(retry_after_seconds=FULL_RETRY_SECONDS)
        async with self._lock:
            try:
                writer = self._live or await self._open()
                async with transaction(self._app) as conn:
                    entry = Entry(conn)
                    yield entry
                    seq = writer.last + 1
                    if entry.lines:
                        packed = self._compressor.compress(entry.lines)
                        await store.append(
                            conn, self._slot, writer.stream_id, seq, packed, entry.sample_count
                        )
            except (StorageUnavailable, asyncio.CancelledError):
                self._give_up()
                raise
            if entry.lines:
                writer.take(seq, entry.lines)

    async def write(self, lines: bytes) -> None:
        """Bring *lines* to VictoriaMetrics; what it refuses becomes dead letters.

        Raises:
            StorageUnavailable: VictoriaMetrics is away or overloaded.
        """
        try:
            await self._tsdb.write(lines)
        except Refused as error:
            await bisect(lines, error, self._tsdb.write, self._bury)

    async def _bury(self, lines: bytes, reason: str) -> None:
        async with self.connection() as conn:
            await store.bury(conn, lines, reason)

    async def _open(self) -> Writer:
        async with self.connection() as conn:
            self._slot = await store.current_slot(conn)
            stream_id = await store.open_stream(conn, self.owner, LEASE_SECONDS)
        self._live = Writer(self, stream_id, live=True)
        self._start(self._live)
        return self._live

    def _start(self, writer: Writer) -> None:
        self._tasks[writer] = asyncio.create_task(writer.run(), name=f"journal.{writer.stream_id}")

    def _give_up(self) -> None:
        if self._live is not None:
            self._live.live = False
            self._live.spill()
            self._live = None

    async def tick(self) -> None:
        """Renew the leases; look at the present slot and at the size."""
        async with self.connection() as conn:
            writers = {writer.stream_id: writer for writer in self._tasks}
            live = self._live.stream_id if self._live else 0
            ours = await store.renew_leases(conn, self.owner, list(writers), live, LEASE_SECONDS)
            self._slot = await store.current_slot(conn)
            size = await store.size_bytes(conn)
        SIZE.set(size)
        full = size > self._app[CONFIG].config.journal.max_backlog_mib * 2**20
        if full and not self._full:
            log.error("journal is full, pushes are refused", size_bytes=size)
        self._full = full
        for stream_id, writer in writers.items():
            if stream_id not in ours:  # adopted while we gave no sign, or drained and forgotten
                if writer is self._live:
                    self._give_up()
                await self._stop(writer)

    async def adopt(self) -> None:
        """Take over the streams of dead processes and drain them."""
        async with self.connection() as conn:
            streams = await store.adopt(conn, self.owner, LEASE_SECONDS)
        for stream_id, written in streams:
            log.info("journal stream adopted", stream_id=stream_id)
            self._start(Writer(self, stream_id, live=False, written=written))

    async def _stop(self, writer: Writer) -> None:
        task = self._tasks.pop(writer)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def close(self) -> None:
        """Finish writing if that is quick; what is left is there for whoever adopts it."""
        live = self._live
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                while live is not None and live.written < live.last:
                    await asyncio.sleep(0.02)
        stream_ids = [writer.stream_id for writer in self._tasks]
        for writer in list(self._tasks):
            await self._stop(writer)
        with contextlib.suppress(StorageUnavailable):
            async with self.connection() as conn:
                await store.retire(conn, self.owner, stream_ids)


JOURNAL: web.AppKey[Journal] = web.AppKey("JOURNAL", Journal)


async def journal_context(app: web.Application) -> AsyncIterator[None]:
    """Open the journal at start; at the end let its writers finish for a moment."""
    journal = app[JOURNAL] = Journal(app)
    yield
    await journal.close()
