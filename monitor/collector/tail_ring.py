"""The lines of a live tail that the service has not acknowledged, numbered and bounded.

While the service takes lines, a full ring makes its source wait, and nothing is lost.
While it does not, the oldest lines make room: their numbers stay unused, by which the
service knows how many are missing.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import deque
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from monitor.wire.tail import TailLine

RING_BYTES = 4 * 1024 * 1024  # of encoded lines: 10,000 of 400 bytes, some minutes of a busy container
PATIENCE_SECONDS = 5.0  # a service that acknowledged nothing for so long is away; a tail is for new lines
GZIP_LEVEL = 1


class Ring:
    """Numbered lines on their way to the service, oldest first.

    Attributes:
        ended: No more lines come.
        error: Why the log cannot be read, for its viewer; None while it can.
        dropped: Lines that made room for newer ones.
    """

    def __init__(self, max_bytes: int = RING_BYTES) -> None:
        self._max_bytes = max_bytes
        self._encoder = msgspec.json.Encoder()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._next = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._acknowledged_at = asyncio.get_running_loop().time()
        self.ended = False
        self.error: str | None = None
        self.dropped = 0

    @property
    def next_seq(self) -> int:
        """The number of the next line that is added."""
        return self._next

    @property
    def is_empty(self) -> bool:
        """Whether every line is acknowledged, or dropped."""
        return not self._lines

    async def ready(self) -> None:
        """Wait until there is room for a line, or none is to be expected."""
        loop = asyncio.get_running_loop()
        while self._bytes >= self._max_bytes:
            patience = self._acknowledged_at + PATIENCE_SECONDS - loop.time()
            if patience <= 0:
                return
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._room.wait()

    def add(self, line: TailLine) -> None:
        """Add a line under the next number; if there is no room for it, the oldest ones go."""
        while self._bytes >= self._max_bytes:
            self._remove_oldest()
            self.dropped += 1
        encoded = self._encoder.encode(replace(line, seq=self._next)) + b"\n"
        self._next += 1
        self._lines.append(encoded)
        self._bytes += len(encoded)
        self._changed.set()

    def end(self, error: str | None = None) -> None:
        """Say that no more lines come, and why, if that is a failure."""
        self.ended = True
        self.error = error
        self._changed.set()

    def body(self, size: int) -> tuple[bytes, bool]:
        """Return the oldest lines, of about *size* bytes, as a request's body; and whether these are all."""
        body = bytearray()
        for line in self._lines:
            if len(body) >= size:
                return compressed(body), False
            body += line
        return compressed(body), True

    def acknowledge(self, next_seq: int) -> bool:
        """Forget the lines below *next_seq*, which are stored; return whether there were any.

        Lines to come get no number below it either.
        """
        first = self._next - len(self._lines)
        for _ in range(min(next_seq - first, len(self._lines))):
            self._remove_oldest()
        self._next = max(self._next, next_seq)
        self._acknowledged_at = asyncio.get_running_loop().time()
        self._room.set()
        return next_seq > first

    async def wait(self, size: int, seconds: float) -> None:
        """Return when lines of *size* bytes are there, no more come, or after *seconds*."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._bytes < size and not self.ended:
                    self._changed.clear()
                    await self._changed.wait()

    def _remove_oldest(self) -> None:
        self._bytes -= len(self._lines.popleft())


def compressed(body: bytearray) -> bytes:
    """Return *body* gzipped, or nothing as nothing."""
    return gzip.compress(body, GZIP_LEVEL, mtime=0) if body else b""
