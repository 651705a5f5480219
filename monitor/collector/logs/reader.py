"""Read one container's log, from its first line that is wanted to the end of its last run.

The engine's stored log is the truth and is read again and again from our position
on; its live stream only tells when.  Engines up to Docker 20.10 lose, repeat or
stop a live stream when logs rotate quickly.  It has one more use: the last
records that it brought are all that is left of a container that was removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import aiohttp
import structlog

from monitor.collector.docker import Engine, EngineState
from monitor.collector.failure import ContainerGone
from monitor.collector.logs.live import Live, chunks
from monitor.collector.logs.position import Line, Position, Reading, since_ns
from monitor.collector.logs.records import Garbled, Record, parser, record_time
from monitor.wire.logs import LogLine

log = structlog.get_logger(__name__)

READ_SECONDS = 1.0  # between two reads of a log that is being written
LOOK_SECONDS = 30.0  # between two reads of a quiet one: its live stream may have stopped silently
REOPEN_SECONDS = 0.2  # a container that waits to be restarted counts as running, and its stream ends at once
LAST_WORDS_SECONDS = 2.0  # for what the live stream of a removed container still has
END_SECONDS = (
    0.5  # for what the live stream still has when the engine's event says that the container has ended
)
LIVE_TAIL = "100"  # records before the stream was opened, for a container that is gone before its first read
READ_BYTES = 4 * 1024 * 1024  # a larger answer is not held in memory but read from the start of the log
FIRST_TAIL = 1_000
TAIL_LIMIT = 100_000  # such an answer would rarely fit
TAIL_GROWTH = 8
LINES_PER_TURN = 200  # then other tasks have theirs
BOTH = {"stdout": "1", "stderr": "1", "timestamps": "1"}


class Sink(Protocol):
    """Where a log's lines go, and with them how far the log is read."""

    async def ready(self) -> None:
        """Wait until a line may be added."""
        ...

    def position(self, container_id: str) -> Position | None:
        """Return where a container's log stands; None before its first line."""
        ...

    def add(self, line: LogLine, container_id: str, position: Position) -> None:
        """Add a line; *position* is where its container's log stands after it."""
        ...


class ContainerLog:
    """The reader of one container's log.

    Args:
        start_ns: What is older is not wanted; nanoseconds since 1970.
        gate: Bounds how many logs are read, and held in memory, at once.
        name: Gives the container's present name.
        read_seconds: Between two reads of a log that is being written; by default READ_SECONDS.
    """

    def __init__(
        self,
        engine: Engine,
        container_id: str,
        batch: Sink,
        *,
        start_ns: int,
        gate: asyncio.Semaphore,
        name: Callable[[], str],
        read_seconds: float | None = None,
    ) -> None:
        self._engine = engine
        self._id = container_id
        self._batch = batch
        self._start_ns = start_ns
        self._gate = gate
        self._name = name
        self._read_seconds = read_seconds
        self._tail = FIRST_TAIL
        self._live = Live(tty=False)
        self._stirred = False

    def stir(self) -> None:
        """Look at the container again: it was started, or has ended."""
        self._stirred = True
        self._live.hurry()

    async def read_to_its_end(self) -> None:
        """Read until the container has ended and everything was read, or it is no more.

        Raises:
            EngineAway, Garbled: The log cannot be read now.
        """
        self._live = Live(tty=False)
        try:
            while True:
                self._stirred = False
                async with self._gate:
                    inspected = await self._engine.inspect(self._id)
                tty = inspected.config.tty
                if inspected.state.running:
                    self._live = Live(tty=tty)
                    await self._follow(self._live, inspected.state)
                    await asyncio.sleep(REOPEN_SECONDS)
                else:
                    await self._read(tty=tty, state=inspected.state)
                    if not self._stirred:
                        return
        except ContainerGone:
            log.debug("container gone", container=self._id[:12])
            await self._take(self._live.records, Reading(self._position()), None)

    async def _follow(self, live: Live, state: EngineState) -> None:
        """Read whenever the live stream brings something, until it ends, is silent for long, or we are stirred.

        A stream that was opened just when the container ended may never end.

        Raises:
            ContainerGone: The container was removed; *live* holds its last words.
        """
        query = BOTH | {"follow": "1", "tail": LIVE_TAIL}
        async with self._engine.stream(f"containers/{self._id}/logs", query) as content:
            while not (live.ended or live.silent or self._stirred):
                try:
                    new = await self._read(tty=live.tty, state=state)
                except ContainerGone:
                    await live.gather(content, LAST_WORDS_SECONDS)
                    raise
                live.forget()
                if new:
                    await live.gather(content, self._read_seconds or READ_SECONDS)
                elif not self._stirred:  # it may have been during the read
                    await live.wait(content, LOOK_SECONDS)
            await live.gather(content, END_SECONDS)

    async def _read(self, *, tty: bool, state: EngineState) -> int:
        """Take the stored lines behind our position; return how many there were.

        The newest records come cheaply, by their number: the engine finds them from
        the end of its files.  If fewer came than were asked for, these are all.
        """
        position = self._position()
        since = since_ns(position, self._start_ns)
        query = BOTH | {"since": f"{since // 10**9}.{since % 10**9:09}"}
        reading = Reading(position)
        async with self._gate:
            while self._tail <= TAIL_LIMIT:
                records = await self._newest(query | {"tail": str(self._tail)}, tty=tty)
                if records is not None:
                    self._tail = max(FIRST_TAIL, len(records) * 2)
                    return await self._take(records, reading, state)
                self._tail *= TAIL_GROWTH
            self._tail = FIRST_TAIL
            return await self._read_all(query, reading, tty=tty, state=state)

    def _stored(self, query: dict[str, str]) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        return self._engine.stream(f"containers/{self._id}/logs", query, ends_soon=True)

    async def _newest(self, query: dict[str, str], *, tty: bool) -> list[Record] | None:
        """Return the records of a bounded read; None if they may not be all, or are too large."""
        parts = parser(tty=tty)
        records: list[Record] = []
        size = 0
        async with self._stored(query) as content:
            async for chunk in chunks(content):
                size += len(chunk)
                if size > READ_BYTES:
                    self._tail = TAIL_LIMIT  # a longer tail would not fit either
                    return None
                records += parts.feed(chunk)
        records += parts.end()
        return records if parts.count < int(query["tail"]) else None

    async def _read_all(
        self, query: dict[str, str], reading: Reading, *, tty: bool, state: EngineState
    ) -> int:
        parts = parser(tty=tty)
        new = 0
        async with self._stored(query) as content:
            async for chunk in chunks(content):
                for record in parts.feed(chunk):
                    new += await self._ship(reading.lines(record), reading)
        return new + await self._take(parts.end(), reading, state)

    async def _take(self, records: Iterable[Record], reading: Reading, state: EngineState | None) -> int:
        """Ship the new lines of the last records of a read; return how many there were.

        *state* is the container's before the read, None if it is no more.
        """
        new = 0
        for number, record in enumerate(records, 1):
            new += await self._ship(reading.lines(record), reading)
            if number % LINES_PER_TURN == 0:
                await asyncio.sleep(0)
        if not reading.is_in_a_line:
            return new
        return new + await self._ship(reading.leftovers(await self._writing_since(state)), reading)

    async def _writing_since(self, state: EngineState | None) -> str | None:
        """Return when the program that may end the line was started; None if there is none.

        What did not run before the read may have been started during it: then half a line
        is the beginning of its first one, and no last word.
        """
        if state is not None and not state.running:
            try:
                now = (await self._engine.inspect(self._id)).state
            except ContainerGone:
                return None
            state = None if now == state else now
        return None if state is None else _time(state.started_at)

    async def _ship(self, lines: Iterable[Line], reading: Reading) -> int:
        new = 0
        for line in lines:
            await self._batch.ready()
            text = line.text.decode(errors="replace")
            self._batch.add(
                LogLine(line.time, line.stream, text, self._id, self._name()), self._id, reading.position
            )
            new += 1
        return new

    def _position(self) -> Position:
        return self._batch.position(self._id) or Position()


def _time(started_at: str) -> str:
    """Return the time of a start as a record's; the earliest of all if the engine gives none."""
    try:
        return record_time(started_at.encode())
    except Garbled:
        return ""
