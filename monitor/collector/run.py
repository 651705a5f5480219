"""The agent's loops: collect on a steady beat, deliver as fast as the service takes it.

Collecting and delivering only meet in the spool, so a service that is away or
slow never delays a snapshot, and a snapshot never overtakes an older one.  Logs
have a spool of their own, and commands a journal.
"""

from __future__ import annotations

import asyncio
import gzip
import math
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from monitor.collector.backoff import keep_trying
from monitor.collector.client import Service, json_of
from monitor.collector.executor import Commands
from monitor.collector.failure import AgentStopped, BodyRefused, CommandFailed, EngineAway, ServiceAway
from monitor.collector.health import note_push
from monitor.collector.journal import Journal
from monitor.collector.logs.ship import LogSettings
from monitor.collector.source import (
    Source,
    Watched,
    command_executors,
    line_sources,
    log_shipper,
    manifest_applier,
    open_source,
)
from monitor.collector.spool import Spool
from monitor.collector.state import Identity, StateDir
from monitor.collector.tail import Tails
from monitor.wire.push import Push, Registration
from monitor.wire.tail import COMMAND_TYPE as TAIL

log = structlog.get_logger(__name__)

VERSION = version("monitor")
USER_AGENT = f"monitor-agent/{VERSION}"


class Settings(Struct, frozen=True):
    """What the command line gives; ``api_key`` is needed for the registration only.

    Without ``logs`` none are shipped.  ``ca_file`` holds certificates to trust beside the system's.
    """

    url: str
    api_key: str | None
    name: str
    pool: str | None
    interval_seconds: float
    state_dir: Path
    watched: Watched
    logs: LogSettings | None = LogSettings()
    ca_file: Path | None = None


class Agent:
    """One agent at work: what it reads, where it holds it back, whom it gives it to."""

    def __init__(
        self, settings: Settings, state: StateDir, source: Source, service: Service, tails: Tails | None
    ) -> None:
        self._settings = settings
        self._tails = tails
        self._state = state
        self._source = source
        self._service = service
        self._spool = Spool(state.path / "spool")
        self._identity = state.load_identity(settings.url)
        if self._identity is None and not settings.api_key:
            raise AgentStopped(
                f"no API key (--api-key, --api-key-file, MONITOR_API_KEY), and {state.path} "
                "holds no agent registered before",
                exit_code=2,
            )
        self._registered = asyncio.Event()
        if self._identity is not None:
            self._registered.set()
        self._commands = Commands(Journal(state.path), {TAIL: self._tail, **command_executors(source)})
        self._seq = self._spool.newest_seq
        self._arrived = asyncio.Event()
        if len(self._spool):
            log.info("snapshots held back by an earlier run", count=len(self._spool))
        if self._identity is None or len(self._spool):
            self._arrived.set()  # register, or deliver, without waiting for the first snapshot

    async def collect(self) -> None:
        """Read the source once and spool the snapshot.

        Raises:
            EngineAway: There is no snapshot: pushing an empty one would remove the
                containers, pushing none lets the service see the agent as offline.
        """
        collected_at = datetime.now(UTC)
        kinds = await self._source.snapshot()
        self._seq = next_seq(self._seq, collected_at)
        self._spool.add(self._seq, gzip.compress(body_of(kinds, collected_at, self._seq), mtime=0))
        self._arrived.set()

    async def collect_forever(self) -> None:
        """Collect on every tick; a tick that passes during a slow round is skipped."""
        start = time.monotonic()
        while True:
            try:
                await self.collect()
            except EngineAway as error:
                log.warning("no snapshot", error=str(error))
            tick = next_tick(start, self._settings.interval_seconds, time.monotonic())
            await asyncio.sleep(tick - time.monotonic())

    async def deliver_oldest(self) -> bool:
        """Push the oldest snapshot, registering first if need be; False if there is none.

        Raises:
            AgentStopped, ServiceAway: As ``Service.push``; the snapshot stays held.
        """
        identity = self._identity or await self._register()
        held = self._spool.oldest()
        if held is None:
            return False
        seq, body = held
        try:
            reply = await self._service.push(identity.agent_id, identity.token, body)
        except BodyRefused as error:
            self._spool.drop(seq)
            log.error("snapshot refused and dropped", seq=seq, error=str(error), total=self._spool.dropped)
            return True
        except AgentStopped as error:
            raise self._told_what_to_remove(error) from error
        self._spool.remove(seq)
        note_push(self._state.path)
        log.debug("pushed", seq=seq, log_requests=len(reply.log_requests), held=len(self._spool))
        if self._tails is not None:
            self._tails.start_all(identity, reply.log_requests)
        return True

    async def deliver_forever(self) -> None:
        """Deliver whatever is held, oldest first, backing off while the service is away."""

        async def deliver_when_there_is_one() -> None:
            await self._arrived.wait()
            if not await self.deliver_oldest():
                self._arrived.clear()

        await keep_trying(deliver_when_there_is_one, "push")

    async def repeat(self, attempt: Callable[[Service, Identity], Awaitable[None]], what: str) -> None:
        """Repeat *attempt* as soon as the agent is known to the service, backing off while that is away."""
        identity = await self._known_identity()
        try:
            await keep_trying(lambda: attempt(self._service, identity), what)
        except AgentStopped as error:
            raise self._told_what_to_remove(error) from error

    async def execute_forever(self) -> None:
        """Execute the service's commands, one after the other."""
        await self.repeat(self._commands.round, "commands")

    async def _tail(self, payload: dict[str, Any]) -> str:
        identity = await self._known_identity()
        if self._tails is None:
            raise CommandFailed("this agent pushes once and ends")
        return self._tails.start(identity, payload)

    async def _known_identity(self) -> Identity:
        await self._registered.wait()
        if self._identity is None:
            raise AssertionError("set before the event")
        return self._identity

    def _told_what_to_remove(self, error: AgentStopped) -> AgentStopped:
        text = f"{error}; remove {self._state.identity_path} to register again"
        return AgentStopped(text, exit_code=error.exit_code)

    async def _register(self) -> Identity:
        settings = self._settings
        registration = Registration(
            name=settings.name, type=settings.watched.type, version=VERSION, pool=settings.pool
        )
        registered = await self._service.register(registration, settings.api_key or "")
        self._identity = Identity(registered.agent_id, registered.token, settings.url)
        self._state.save_identity(self._identity)
        self._registered.set()
        log.info("registered", agent_id=registered.agent_id, name=settings.name)
        return self._identity


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Be the agent until *stop* is set.

    What is not delivered by then stays in the spool for the next start.

    Raises:
        AgentStopped: It cannot go on without its operator.
    """
    with StateDir(settings.state_dir) as state:
        async with (
            open_source(settings.watched, USER_AGENT) as source,
            Service(settings.url, USER_AGENT, settings.ca_file) as service,
            Tails(service, line_sources(source)) as tails,
        ):
            agent = Agent(settings, state, source, service, tails)
            shipper = log_shipper(source, state.path, settings.logs) if settings.logs else None
            log.info("agent started", version=VERSION, url=settings.url, interval=settings.interval_seconds)
            tasks = [
                asyncio.create_task(agent.collect_forever(), name="collect"),
                asyncio.create_task(agent.deliver_forever(), name="deliver"),
                asyncio.create_task(agent.execute_forever(), name="commands"),
                asyncio.create_task(stop.wait(), name="stop"),
            ]
            if shipper is not None:
                tasks += [
                    asyncio.create_task(shipper.read_forever(), name="read logs"),
                    asyncio.create_task(agent.repeat(shipper.deliver, "logs"), name="ship logs"),
                ]
            if (applier := manifest_applier(source)) is not None:
                work = agent.repeat(applier.round_and_pause, "manifests")
                tasks.append(asyncio.create_task(work, name="apply manifests"))
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            log.info("agent ended")


async def run_once(settings: Settings) -> None:
    """Collect once and deliver everything that is held, without retries.

    Raises:
        AgentStopped: Anything went wrong; a snapshot that was collected stays held.
    """
    with StateDir(settings.state_dir) as state:
        async with (
            open_source(settings.watched, USER_AGENT) as source,
            Service(settings.url, USER_AGENT, settings.ca_file) as service,
        ):
            agent = Agent(settings, state, source, service, None)
            try:
                await agent.collect()
                while await agent.deliver_oldest():
                    pass
            except (EngineAway, ServiceAway) as error:
                raise AgentStopped(str(error)) from error


async def preview(watched: Watched) -> bytes:
    """Return the JSON body that a push would carry now.

    Raises:
        AgentStopped: It cannot be read.
    """
    collected_at = datetime.now(UTC)
    async with open_source(watched, USER_AGENT) as source:
        try:
            kinds = await source.snapshot()
        except EngineAway as error:
            raise AgentStopped(str(error)) from error
    return body_of(kinds, collected_at, next_seq(0, collected_at))


def body_of(kinds: Push, collected_at: datetime, seq: int) -> bytes:
    """Return the JSON of a push; kinds that the source does not have are left out of it."""
    push = msgspec.structs.replace(
        kinds,
        version=VERSION,
        collected_at=collected_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        seq=seq,
    )
    return json_of(push)


def next_seq(last: int, collected_at: datetime) -> int:
    """Return a number above *last*: unix milliseconds, so that it also grows across restarts."""
    return max(last + 1, int(collected_at.timestamp() * 1000))


def next_tick(start: float, interval: float, now: float) -> float:
    """Return the first of ``start + k * interval`` that lies after *now*; all in seconds."""
    return start + (math.floor((now - start) / interval) + 1) * interval
