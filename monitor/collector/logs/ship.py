"""Find the containers, keep a reader on each, and give the batches to the service.

The list of containers is the truth and is read regularly; the engine's events
only say when to look at it before that.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from monitor.collector.backoff import backoff_seconds
from monitor.collector.client import Service
from monitor.collector.docker import Engine
from monitor.collector.failure import ContainerGone, EngineAway
from monitor.collector.listing import EngineContainer, name_of
from monitor.collector.logs.batch import OpenBatch
from monitor.collector.logs.deliver import deliver
from monitor.collector.logs.reader import ContainerLog
from monitor.collector.logs.records import Garbled
from monitor.collector.logs.select import is_shipped, this_container
from monitor.collector.logs.spool import LogSpool
from monitor.collector.state import Identity

log = structlog.get_logger(__name__)

DIRECTORY = "logs"
RELIST_SECONDS = 15.0
READS_AT_ONCE = 4  # each may hold 4 MiB
STEADY_SECONDS = 60.0  # a reader that worked for so long has not failed several times in a row
RUNNING_STATES = frozenset({"running", "paused", "restarting"})
EVENTS = {"type": ["container"], "event": ["start", "die", "rename"]}
EVENT_LIMIT_BYTES = 1024 * 1024  # an event holds the labels of its container


class LogSettings(Struct, frozen=True):
    """What the command line says about logs; lines older than ``since_seconds`` before the first start stay."""

    exclude: Sequence[str] = ()
    since_seconds: float = 0.0
    spool_bytes: int = 128 * 1024 * 1024


class _Actor(Struct, frozen=True):
    id: str = msgspec.field(name="ID")


class _Event(Struct, frozen=True, rename="pascal"):
    actor: _Actor


class Shipper:
    """The shipping of one engine's logs.

    Raises:
        AgentStopped: The directory cannot be used.
    """

    def __init__(
        self,
        engine: Engine,
        state: Path,
        settings: LogSettings,
        own: Callable[[], str | None] = this_container,
    ) -> None:
        start_ns = time.time_ns() - int(settings.since_seconds * 1e9)
        self._engine = engine
        self._exclude = settings.exclude
        self._own = own()
        self._spool = LogSpool(state / DIRECTORY, start_ns=start_ns, max_bytes=settings.spool_bytes)
        self._batch = OpenBatch(self._spool)
        self._gate = asyncio.Semaphore(READS_AT_ONCE)
        self._readers: dict[str, ContainerLog] = {}
        self._names: dict[str, str] = {}
        self._ended: set[str] = set()  # read to their end, and not started since
        self._look = asyncio.Event()
        if len(self._spool):
            log.info("batches of log lines held back by an earlier run", count=len(self._spool))
            self._batch.spooled.set()

    async def read_forever(self) -> None:
        """Read the logs of all containers into the spool."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen_forever(), name="container events")
                group.create_task(self._batch.close_forever(), name="close batches")
                while True:
                    self._look.clear()
                    try:
                        self._start_readers(await self._engine.listed(), group)
                    except EngineAway as error:
                        log.debug("containers not listed", error=str(error))
                    await _set_or_after(self._look, RELIST_SECONDS)
        finally:
            self._batch.close()

    async def deliver(self, service: Service, identity: Identity) -> None:
        """Wait for a batch, and send what is held, oldest first, until nothing is.

        Raises:
            AgentStopped, ServiceAway: As ``Service.ship_logs``; the batch stays held.
        """
        await deliver(self._spool, self._batch, service, identity)

    def _start_readers(self, listed: list[EngineContainer], group: asyncio.TaskGroup) -> None:
        present = {one.id for one in listed}
        self._names = {one.id: name_of(one) for one in listed}
        self._ended &= present
        self._spool.keep_only(present | self._readers.keys())
        for one in listed:
            is_over = one.state == "created" or (one.id in self._ended and one.state not in RUNNING_STATES)
            if one.id in self._readers or is_over:
                continue
            name = name_of(one)
            is_own = self._own is not None and one.id.startswith(self._own)
            if is_shipped(name, one.labels or {}, self._exclude, is_own=is_own):
                reader = ContainerLog(
                    self._engine,
                    one.id,
                    self._batch,
                    start_ns=self._spool.start_ns,
                    gate=self._gate,
                    name=partial(self._name_now, one.id, name),
                )
                self._readers[one.id] = reader
                group.create_task(self._read(one.id, reader), name=f"log of {name}")

    def _name_now(self, container_id: str, last: str) -> str:
        return self._names.get(container_id, last)

    async def _read(self, container_id: str, reader: ContainerLog) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await reader.read_to_its_end()
                break
            except (EngineAway, Garbled) as error:
                failures = 0 if time.monotonic() - began > STEADY_SECONDS else failures
                seconds = backoff_seconds(failures, 0.0, random.random())  # noqa: S311 (jitter)
                failures += 1
                if failures == 2:  # the first one is a restart of the engine
                    log.warning("log not read", container=self._names.get(container_id), error=str(error))
                await asyncio.sleep(seconds)
        del self._readers[container_id]
        self._ended.add(container_id)

    async def _listen_forever(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen()
                failures = 0
            except (EngineAway, ContainerGone) as error:
                log.debug("no events", error=str(error))
                failures += 1
            await asyncio.sleep(backoff_seconds(failures, 0.0, random.random()))  # noqa: S311 (jitter)

    async def _listen(self) -> None:
        """Look at the containers that the engine's events name, until they end."""
        query = {"filters": msgspec.json.encode(EVENTS).decode()}
        async with self._engine.stream("events", query) as content:
            self._ended.clear()  # whatever was started before we listened
            self._look.set()
            rest = b""
            while chunk := await content.readany():
                *events, rest = (rest + chunk).split(b"\n")
                for event in filter(None, events):
                    self._stir(event)
                if len(rest) > EVENT_LIMIT_BYTES:
                    raise EngineAway("the engine's events do not end")

    def _stir(self, event: bytes) -> None:
        try:
            container_id = msgspec.json.decode(event, type=_Event).actor.id
        except ValueError as error:
            raise EngineAway(f"the engine's event cannot be read: {error}") from error
        self._ended.discard(container_id)
        if reader := self._readers.get(container_id):
            reader.stir()
        self._look.set()


async def _set_or_after(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
