"""Read one container's log through its restarts, from its first line that is wanted to its pod's end.

A log that is being written is followed; there are only so many streams, and they go to
whichever logs had something new.  All others are read every few seconds, from our
position on.  When a container was restarted, the end of the run before is read first,
which the kubelet keeps: one run, and of it one file.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
from msgspec import Struct

from monitor.collector.kubernetes.api import Api, Refused
from monitor.collector.kubernetes.podtext import PodText
from monitor.collector.logs.position import Line, Position, Reading, since_ns
from monitor.collector.logs.reader import Sink
from monitor.collector.logs.records import Record, time_of
from monitor.wire.logs import LogLine

READS_AT_ONCE = 8  # of the API server, which asks a kubelet for each
FOLLOWED_AT_ONCE = 64  # streams, each with a connection and its buffers
QUIET_SECONDS = 30.0  # then a stream is closed, for another log
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0  # between two reads of a quiet log, of not too many
READS_PER_SECOND = 30.0  # of quiet logs together: each is a request to the API server, and to a kubelet
SILENCE_SECONDS = 60.0  # in the midst of an answer: the kubelet goes through the whole file for our position
NOT_THERE = frozenset({400, 404})  # not started yet, no run before this one, or gone


class Run(Struct, frozen=True):
    """One run of a container, by the id that its runtime gave it.

    Attributes:
        restarts: How many runs there were before.
        started_at: RFC 3339, None where it does not run.
    """

    id: str
    restarts: int
    started_at: str | None


class Gates:
    """What all readers of a cluster share: how much is read at once.

    Attributes:
        free: Streams that nobody has taken.
        readers: How many logs there are.
    """

    def __init__(self) -> None:
        self.readers = 0
        self.reads = asyncio.Semaphore(READS_AT_ONCE)
        self.free = FOLLOWED_AT_ONCE

    @property
    def longest_pause_seconds(self) -> float:
        """How long a quiet log is left alone."""
        return max(LONGEST_PAUSE_SECONDS, self.readers / READS_PER_SECOND)

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[bool]:
        """Take a stream if one is free; yield whether it is."""
        if self.free == 0:
            yield False
            return
        self.free -= 1
        try:
            yield True
        finally:
            self.free += 1


class PodLog:
    """The reader of one container's log.

    Args:
        where: Namespace, pod and container.
        key: Where its position is kept.
        run: Gives the present run; None once the pod is gone.
        batch: Where its lines go.
        gates: What it shares with the other readers.
        start_ns: What is older is not wanted; nanoseconds since 1970.
        is_new: Whether the container has just been started: its first lines are near.

    Attributes:
        name: ``namespace/pod/container``.
    """

    def __init__(
        self,
        api: Api,
        where: tuple[str, str, str],
        key: str,
        run: Callable[[], Run | None],
        *,
        batch: Sink,
        gates: Gates,
        start_ns: int,
        is_new: bool,
    ) -> None:
        self._api = api
        self._namespace, self._pod, self._container = where
        self.name = "/".join(where)
        self._key = key
        self._run = run
        self._batch = batch
        self._gates = gates
        self._start_ns = start_ns
        self._start = time_of(start_ns)
        self._is_new = is_new
        self._read_run: str | None = None
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """Look again: something about the pod has changed."""
        self._stirred.set()

    async def read_to_its_end(self) -> None:
        """Read until the pod is gone.

        Raises:
            EngineAway: The log cannot be read now.
        """
        # All logs of a cluster begin to be read together, and must not go on so.
        pause = FIRST_PAUSE_SECONDS if self._is_new else random.random() * self._gates.longest_pause_seconds  # noqa: S311
        new = 0
        while run := self._run():
            self._stirred.clear()
            if run.id != self._read_run and run.restarts:
                await self._read_once(None, previous=True)
            self._read_run = run.id
            new = await (self._follow(run) if new and run.started_at else self._read_once(run))
            if new and self._gates.free:
                continue
            pause = FIRST_PAUSE_SECONDS if new else min(2 * pause, self._gates.longest_pause_seconds)
            # Of a run that has ended there is nothing more until its pod changes.
            await self._stirred_or_after(pause if run.started_at or new else None)

    async def _stirred_or_after(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        except TimeoutError:
            return

    async def _follow(self, run: Run) -> int:
        """Read on as lines come, until the container ends or is quiet; without a free stream, read once."""
        async with self._gates.stream() as is_free:
            if not is_free:
                return await self._read_once(run)
            return await self._read({"follow": "true"}, run.started_at, QUIET_SECONDS)

    async def _read_once(self, run: Run | None, *, previous: bool = False) -> int:
        query = {"previous": "true"} if previous else {}
        async with self._gates.reads:
            return await self._read(query, run.started_at if run else None, SILENCE_SECONDS)

    async def _read(self, query: dict[str, str], started_at: str | None, quiet_seconds: float) -> int:
        """Ship what is behind our position; return how many lines that was.

        Args:
            query: Whether to follow, and of which run.
            started_at: Since when the program that writes now runs; None if none does.
            quiet_seconds: After so long without anything the reading ends.
        """
        position = self._position()
        path = log_path(self._namespace, self._pod)
        query = query | {
            "container": self._container,
            "timestamps": "true",
            # The kubelet is given whole seconds: what we have of this one comes again, and is passed over.
            "sinceTime": whole_seconds(since_ns(position, self._start_ns)),
        }
        try:
            async with self._api.stream(path, query, 2 * quiet_seconds) as content:
                return await self._take(content, Reading(position), _nine_digits(started_at), quiet_seconds)
        except Refused as error:
            if error.status not in NOT_THERE:
                raise
            return 0

    async def _take(
        self, content: aiohttp.StreamReader, reading: Reading, started_at: str | None, quiet_seconds: float
    ) -> int:
        new = 0
        async for record in records_of(content, quiet_seconds):
            if record.time >= self._start:
                new += await self._ship(reading.lines(record), reading)
        return new + await self._ship(reading.leftovers(started_at), reading)

    async def _ship(self, lines: Iterable[Line], reading: Reading) -> int:
        new = 0
        for line in lines:
            await self._batch.ready()
            text = line.text.decode(errors="replace")
            self._batch.add(
                LogLine(
                    line.time,
                    line.stream,
                    text,
                    container=self._container,
                    namespace=self._namespace,
                    pod=self._pod,
                ),
                self._key,
                reading.position,
            )
            new += 1
        return new

    def _position(self) -> Position:
        return self._batch.position(self._key) or Position()


async def records_of(content: aiohttp.StreamReader, quiet_seconds: float) -> AsyncIterator[Record]:
    """Yield what a stream brings until it ends, or brings nothing for so long.

    Raises:
        Garbled: It is no log.
    """
    parts = PodText()
    while True:
        try:
            async with asyncio.timeout(quiet_seconds):
                chunk = await content.readany()
        except TimeoutError:
            return
        for record in parts.feed(chunk) if chunk else parts.end():
            yield record
        if not chunk:
            return
        await asyncio.sleep(0)


def log_path(namespace: str, pod: str) -> str:
    """Return the path of a pod's log."""
    return f"api/v1/namespaces/{namespace}/pods/{pod}/log"


def whole_seconds(nanoseconds: int) -> str:
    """Return nanoseconds since 1970 as ``sinceTime`` takes them, cut to the second."""
    return f"{datetime.fromtimestamp(nanoseconds // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _nine_digits(time: str | None) -> str | None:
    """Return a time of the API, which has whole seconds, so that it compares with a log's."""
    return f"{time[:19]}.000000000Z" if time else None
