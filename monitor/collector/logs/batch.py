"""The open batch: takes lines from all readers until it is large or old enough to be spooled.

While the disk is full the batch stays open and nobody may add to it: the lines
stay where they are, with the engine.
"""

from __future__ import annotations

import asyncio
import gzip

import msgspec
import structlog

from monitor.collector.logs.position import Position
from monitor.collector.logs.spool import LogSpool
from monitor.wire.logs import LogLine

log = structlog.get_logger(__name__)

BATCH_BYTES = 256 * 1024  # of NDJSON, before compression
BATCH_SECONDS = 1.0
BEHIND_BATCHES = 8  # held ones above which the service is behind or away
BEHIND_SECONDS = 15.0  # fewer and fuller files then
FULL_RETRY_SECONDS = 5.0
GZIP_LEVEL = 1  # a log line costs little CPU before it comes here


class OpenBatch:
    """The batch that is being filled.

    Attributes:
        spooled: Set after each batch that was spooled, for whoever delivers them.
    """

    def __init__(self, spool: LogSpool) -> None:
        self._spool = spool
        self._encoder = msgspec.json.Encoder()
        self._lines = bytearray()
        self._count = 0
        self._positions: dict[str, Position] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self.spooled = asyncio.Event()

    async def ready(self) -> None:
        """Wait until lines may be added."""
        await self._writable.wait()

    def position(self, container_id: str) -> Position | None:
        """Return where a container's log stands after the lines that were added."""
        return self._positions.get(container_id) or self._spool.positions.get(container_id)

    def add(self, line: LogLine, container_id: str, position: Position) -> None:
        """Add a line; *position* is where its container's log stands after it."""
        self._lines += self._encoder.encode(line)
        self._lines += b"\n"
        self._count += 1
        self._positions[container_id] = position
        if len(self._lines) >= BATCH_BYTES:
            self.close()

    def close(self) -> None:
        """Spool what there is; if the disk does not take it, keep it and let nobody add to it."""
        if not self._count:
            return
        try:
            self._spool.add(gzip.compress(self._lines, GZIP_LEVEL, mtime=0), self._count, self._positions)
        except OSError as error:
            if self._writable.is_set():
                log.error("log lines wait for the disk", error=error.strerror)
            self._writable.clear()
            return
        self._lines.clear()
        self._count = 0
        self._positions = {}
        self._writable.set()
        self.spooled.set()

    async def close_forever(self) -> None:
        """Close the batch whenever it is old enough."""
        while True:
            if not self._writable.is_set():
                seconds = FULL_RETRY_SECONDS
            else:
                seconds = BATCH_SECONDS if len(self._spool) < BEHIND_BATCHES else BEHIND_SECONDS
            await asyncio.sleep(seconds)
            self.close()
