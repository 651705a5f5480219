"""A live stream of the engine: that it brought something, and the newest of what it brought."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp

from monitor.collector.failure import EngineAway
from monitor.collector.logs.records import Garbled, Record, parser

LIVE_BYTES = 1024 * 1024  # of live records that are kept until the next read
SILENCE_SECONDS = 300.0  # an engine that goes through gigabytes for our position is silent meanwhile


class Live:
    """A live stream: that it brought something, and the newest of what it brought.

    Attributes:
        ended: It has ended, or cannot be read on.
        silent: The last wait for something was in vain.
    """

    def __init__(self, *, tty: bool) -> None:
        self.tty = tty
        self.ended = False
        self.silent = False
        self._deadline: asyncio.Timeout | None = None
        self._parts = parser(tty=tty)
        self._records: deque[Record] = deque()
        self._bytes = 0

    @property
    def records(self) -> list[Record]:
        """What it brought since that was last forgotten, up to a megabyte."""
        return list(self._records)

    def forget(self) -> None:
        """Forget the records, as a read that began after them has brought them too, but not half a line."""
        newest = {record.stream: record for record in self._records}
        half = {stream: record.time for stream, record in newest.items() if not record.ended}
        self._records = deque(one for one in self._records if one.time == half.get(one.stream))
        self._bytes = sum(len(record.text) for record in self._records)

    async def wait(self, content: aiohttp.StreamReader, seconds: float) -> None:
        """Return when something came or the stream has ended, after *seconds*, or when hurried."""
        try:
            async with asyncio.timeout(seconds) as self._deadline:
                await self._add_next(content)
        except TimeoutError:
            self.silent = True
        finally:
            self._deadline = None

    def hurry(self) -> None:
        """End a wait."""
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())

    async def gather(self, content: aiohttp.StreamReader, seconds: float) -> None:
        """Add what comes within *seconds*, or until the stream ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.ended:
                    await self._add_next(content)
                    await asyncio.sleep(0)

    async def _add_next(self, content: aiohttp.StreamReader) -> None:
        try:
            chunk = await content.readany()
            self.ended = not chunk
            for record in self._parts.feed(chunk) if chunk else self._parts.end():
                self._records.append(record)
                self._bytes += len(record.text)
        except (aiohttp.ClientError, Garbled):
            self.ended = True
        while self._bytes > LIVE_BYTES:
            self._bytes -= len(self._records.popleft().text)


async def chunks(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield what comes.

    Raises:
        EngineAway: Nothing comes for too long.
    """
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                chunk = await content.readany()
        except TimeoutError as error:
            raise EngineAway(
                f"the engine is silent in the midst of a log for {SILENCE_SECONDS:g} s"
            ) from error
        if not chunk:
            return
        yield chunk
        await asyncio.sleep(0)
