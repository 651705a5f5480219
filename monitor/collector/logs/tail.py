"""The logs of a Docker engine's containers, for live tails.

First the newest lines, which the engine finds from the end of its files; then the
reader that log shipping uses goes on behind them, with a position of its own.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import Iterable

from monitor.collector.backoff import backoff_seconds
from monitor.collector.docker import Engine
from monitor.collector.failure import ContainerGone, EngineAway, TailFailed
from monitor.collector.logs.live import chunks
from monitor.collector.logs.position import Line, Mark, Position, Reading
from monitor.collector.logs.reader import BOTH, ContainerLog
from monitor.collector.logs.records import Garbled, Record, parser
from monitor.collector.tail_ring import Ring
from monitor.wire.logs import LogLine
from monitor.wire.tail import LogRequest, TailLine

READ_SECONDS = 0.2  # between two reads of a log that is being written: somebody watches
HISTORY_BYTES = 4 * 1024 * 1024  # of the newest lines; what is older is not shown
SPARE_RECORDS = 10  # asked for above the wanted lines: the oldest may be the end of a longer line
TAIL_GROWTH = 4  # when long lines, each of them several records, left too few
TAIL_LIMIT = 100_000  # records
FAILURES = 5  # in a row: about a quarter of a minute, in which an engine restarts
CONTAINER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


class DockerLines:
    """The line source of an agent beside a Docker engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tail(self, request: LogRequest, lines: Ring) -> None:
        """Add a container's newest lines; with ``follow`` new ones until it has ended or was removed.

        Raises:
            TailFailed: There is no such container, or its log cannot be read.
        """
        container_id = request.container_id or ""
        if not CONTAINER_ID.fullmatch(container_id):
            raise TailFailed("the log request names no container")
        start_ns = 0 if request.since_seconds is None else time.time_ns() - request.since_seconds * 10**9
        sink = _TailSink(lines)
        try:
            inspected = await self._engine.inspect(container_id)
            tty = inspected.config.tty
            newest, position = await self._newest(container_id, request, start_ns, tty=tty)
            for line in newest:
                await sink.ready()
                sink.add_line(line)
        except ContainerGone as error:
            raise TailFailed(f"no such container: {container_id[:12]}") from error
        except (EngineAway, Garbled) as error:
            raise TailFailed(f"the log cannot be read: {error}") from error
        if request.follow:
            sink.stands = position
            await self._follow(container_id, sink, start_ns)

    async def _newest(
        self, container_id: str, request: LogRequest, start_ns: int, *, tty: bool
    ) -> tuple[list[Line], Position]:
        """Return the newest lines, oldest first, and where the log stands behind them."""
        asked = request.tail + SPARE_RECORDS
        while True:
            history = History(request.tail, with_rest=not request.follow)
            since = f"{start_ns // 10**9}.{start_ns % 10**9:09}"
            query = BOTH | {"tail": str(asked), "since": since}
            parts = parser(tty=tty)
            async with self._engine.stream(f"containers/{container_id}/logs", query) as content:
                async for chunk in chunks(content):
                    history.add(parts.feed(chunk))
            history.add(parts.end())
            if history.count > request.tail or parts.count < asked or asked >= TAIL_LIMIT:
                return history.end(), history.position
            asked = min(asked * TAIL_GROWTH, TAIL_LIMIT)

    async def _follow(self, container_id: str, sink: _TailSink, start_ns: int) -> None:
        reader = ContainerLog(
            self._engine,
            container_id,
            sink,
            start_ns=start_ns,
            gate=asyncio.Semaphore(),  # its own: a tail never waits for the shipping of logs
            name=lambda: "",
            read_seconds=READ_SECONDS,
        )
        failures = 0
        while True:
            before = sink.count
            try:
                await reader.read_to_its_end()
            except (EngineAway, Garbled) as error:
                failures = 1 if sink.count > before else failures + 1
                if failures >= FAILURES:
                    raise TailFailed(f"the log cannot be read on: {error}") from error
                await asyncio.sleep(backoff_seconds(failures, 0.0, random.random()))  # noqa: S311 (jitter)
            else:
                return


class History:
    """The newest lines of a read, and where the log stands behind them.

    Args:
        wanted: So many lines at most.
        with_rest: Take what was written without a newline as a line, too.

    Attributes:
        count: All lines of the read, wanted or not.
    """

    def __init__(self, wanted: int, *, with_rest: bool) -> None:
        self._wanted = wanted
        self._with_rest = with_rest
        self._reading = Reading(Position())
        self._lines: deque[Line] = deque()
        self._bytes = 0
        self._first_time = ""
        self.count = 0

    def add(self, records: Iterable[Record]) -> None:
        """Take the next records of the read."""
        for record in records:
            self._first_time = self._first_time or record.time
            self._keep(self._reading.lines(record))

    def end(self) -> list[Line]:
        """Return the newest lines, oldest first; nothing more may be added."""
        if self._with_rest:
            self._keep(self._reading.leftovers(None))
        return list(self._lines)

    @property
    def position(self) -> Position:
        """Where the log stands; what is older than the read lies behind it."""
        at = self._reading.position
        start = Mark(self._first_time, 0) if self._first_time else None
        return Position(at.stdout or start, at.stderr or start, at.floor)

    def _keep(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.count += 1
            self._lines.append(line)
            self._bytes += len(line.text)
            while len(self._lines) > self._wanted or self._bytes > HISTORY_BYTES:
                self._bytes -= len(self._lines.popleft().text)


class _TailSink:
    """Hands lines to the tail, and remembers where the log stands.

    Attributes:
        stands: Where.
        count: Lines so far.
    """

    def __init__(self, lines: Ring) -> None:
        self._lines = lines
        self.stands = Position()
        self.count = 0

    async def ready(self) -> None:
        await self._lines.ready()

    def position(self, container_id: str) -> Position:
        return self.stands

    def add(self, line: LogLine, container_id: str, position: Position) -> None:
        self.stands = position
        self._add(TailLine(line.time, line.stream, line.message))

    def add_line(self, line: Line) -> None:
        self._add(TailLine(line.time, line.stream, line.text.decode(errors="replace")))

    def _add(self, line: TailLine) -> None:
        self.count += 1
        self._lines.add(line)
