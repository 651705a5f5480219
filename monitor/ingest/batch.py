"""Store waiting pushes together: one transaction at a time, one for all that wait.

Lock the agents, make the samples, write states and journal, commit.  Whoever's
push is at fault fails alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import structlog
import zstandard
from aiohttp import web
from msgspec import Struct
from prometheus_client import Counter, Histogram

from monitor.alerts.live.turn import LIVE, Turn
from monitor.alerts.watch import AgentAt
from monitor.config import CONFIG
from monitor.db.postgres import Connection
from monitor.errors import OrgSuspended, ServiceError, Unauthorized
from monitor.ingest import store
from monitor.ingest.change import is_late, is_repeated, milliseconds, sign_of_life
from monitor.ingest.counters import Counters, aligned
from monitor.ingest.samples import AgentRef, samples_of
from monitor.journal.journal import JOURNAL, Entry
from monitor.logs.tail.store import waiting_requests
from monitor.wire.push import Container, Push
from monitor.wire.tail import LogRequest

BATCH = 50  # pushes in one transaction: more brings little and holds the locks longer
SKIPPED_SECONDS = 0.005  # pause before an agent that is locked elsewhere is tried again
CACHED_AGENTS = 20_000  # counters kept a process: about 2 KiB each

PUSHES = Counter("monitor_pushes_total", "Pushes by outcome.", ["outcome"])
SAMPLES = Counter("monitor_push_samples_total", "Samples acknowledged.")
BATCHES = Histogram(
    "monitor_push_batch_size", "Pushes that shared one transaction.", buckets=(1, 2, 5, 10, 20, 50)
)

log = structlog.get_logger()
V = TypeVar("V")


class Recent(OrderedDict[Any, V]):
    """The most recently stored entries, at most CACHED_AGENTS of them."""

    def keep(self, key: Any, value: V) -> None:
        """Store *value* as the newest entry."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > CACHED_AGENTS:
            self.popitem(last=False)


class Waiting(Struct, eq=False):
    """A checked push on its way into a transaction."""

    agent_id: str
    push: Push
    at_ms: int
    change: store.Change
    done: asyncio.Future[list[LogRequest]]


class Known(Struct, frozen=True):
    """The counters of an agent's stored containers, as of *version* of its state."""

    version: int
    counters: Counters


class Outcome(Struct):
    """What a batch came to; it holds once the transaction has committed."""

    skipped: list[Waiting]
    refused: list[tuple[Waiting, ServiceError]]
    stored: list[Waiting]
    counters: dict[str, Known]
    turn: Turn
    log_requests: dict[str, list[LogRequest]]


class Batches:
    """The pushes of one process that wait for their transaction."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._waiting: deque[Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._known: Recent[Known] = Recent()
        self._decompressor = zstandard.ZstdDecompressor()
        self._decoder = msgspec.json.Decoder(list[Container])

    async def add(self, agent_id: str, push: Push, at_ms: int, change: store.Change) -> list[LogRequest]:
        """Store *push* with whoever else waits; when this returns, it is durable.

        Returns the log requests that wait for the agent.

        Raises:
            Unauthorized: The agent is gone.
            OrgSuspended: Its organization is suspended.
            StorageUnavailable: Whether it is stored is unknown.
        """
        done: asyncio.Future[list[LogRequest]] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(agent_id, push, at_ms, change, done))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="ingest.batches")
        return await done

    async def _drain(self) -> None:
        """Run batches, one at a time, until nobody waits."""
        try:
            while self._waiting:
                await self._run(self._next())
        finally:
            self._task = None

    def _next(self) -> list[Waiting]:
        """Take the next batch: an agent at most once, whoever gave up not at all."""
        batch: dict[str, Waiting] = {}
        later: list[Waiting] = []
        while self._waiting and len(batch) < BATCH:
            waiting = self._waiting.popleft()
            if waiting.done.done():
                continue
            if waiting.agent_id in batch:
                later.append(waiting)
            else:
                batch[waiting.agent_id] = waiting
        self._waiting.extendleft(reversed(later))
        return list(batch.values())

    async def _run(self, batch: list[Waiting]) -> None:
        if not batch:
            return
        BATCHES.observe(len(batch))
        try:
            async with self._app[JOURNAL].entry() as entry:
                outcome = await self._store(entry, batch)
        except Exception as error:
            await self._failed(batch, error)
            return
        for agent_id, known in outcome.counters.items():
            self._known.keep(agent_id, known)
        outcome.turn.keep()
        SAMPLES.inc(entry.sample_count)
        for waiting in outcome.stored:
            _answer(waiting, outcome.log_requests.get(waiting.agent_id, []))
        for waiting, refusal in outcome.refused:
            _answer(waiting, refusal)
        if outcome.skipped:
            self._waiting.extendleft(reversed(outcome.skipped))
            await asyncio.sleep(SKIPPED_SECONDS)

    async def _failed(self, batch: list[Waiting], error: Exception) -> None:
        """Fail all together if a store is away, else find the culprit by trying each alone."""
        if isinstance(error, ServiceError) or len(batch) == 1:
            if not isinstance(error, ServiceError):
                log.exception("push failed", agent_id=batch[0].agent_id, exc_info=error)
            for waiting in batch:
                _answer(waiting, error)
            return
        for waiting in batch:
            await self._run([waiting])

    async def _store(self, entry: Entry, batch: list[Waiting]) -> Outcome:
        ids = sorted(waiting.agent_id for waiting in batch)
        locked = await store.lock_agents(entry.conn, ids)
        held = set(ids) - locked.keys()
        if held:
            held = await store.living_agents(entry.conn, sorted(held))
        previous = await self._previous(entry.conn, batch, locked)
        turn = await self._app[LIVE].begin(
            entry.conn,
            [_agent_at(row) for row in locked.values() if not row.suspended],
            {waiting.agent_id: waiting.push for waiting in batch},
        )
        allowlist = self._app[CONFIG].config.metrics.label_allowlist
        outcome = Outcome([], [], [], {}, turn, {})
        changes: list[store.Change] = []
        repeated: list[str] = []
        lines: list[bytes] = []
        for waiting in batch:
            row = locked.get(waiting.agent_id)
            if row is None and waiting.agent_id in held:
                outcome.skipped.append(waiting)
            elif row is None:
                outcome.refused.append((waiting, Unauthorized()))
            elif row.suspended:
                outcome.refused.append((waiting, OrgSuspended()))
            elif is_repeated(waiting.push, waiting.at_ms, row):
                repeated.append(row.agent_id)
                outcome.stored.append(waiting)
            else:
                late = is_late(waiting.at_ms, row)
                before = None if late else previous.get(row.agent_id)
                agent = AgentRef(row.org_id, row.agent_id, row.name)
                samples = samples_of(waiting.push, agent, before, waiting.at_ms, allowlist)
                turn.judge(
                    row.agent_id,
                    waiting.push,
                    waiting.at_ms,
                    late=late,
                    rates=samples.increase,
                    allowlist=allowlist,
                )
                lines.append(samples.lines)
                entry.sample_count += samples.count
                changes.append(sign_of_life(waiting.change) if late else waiting.change)
                outcome.stored.append(waiting)
                if samples.counters is not None and not late:
                    outcome.counters[row.agent_id] = Known(row.version + 1, samples.counters)
        entry.lines = b"".join(lines)
        if changes:
            await store.write_states(entry.conn, changes)
        if repeated:
            await store.note_sign_of_life(entry.conn, repeated)
        await turn.record(entry.conn)
        tailed = [row.agent_id for row in locked.values() if row.is_tailed]
        if tailed:
            outcome.log_requests = await waiting_requests(entry.conn, tailed)
        return outcome

    async def _previous(
        self, conn: Connection, batch: Sequence[Waiting], locked: dict[str, store.Locked]
    ) -> dict[str, Counters]:
        """Return the counters that each push's rates start from, from memory where that is current."""
        found: dict[str, Counters] = {}
        missing: dict[str, list[Container]] = {}
        for waiting in batch:
            row = locked.get(waiting.agent_id)
            containers = waiting.push.containers
            if row is None or row.containers_at is None or not containers:
                continue
            known = self._known.get(row.agent_id)
            if known is not None and known.version == row.version and known.counters.fits(containers):
                found[row.agent_id] = known.counters
            else:
                missing[row.agent_id] = containers
        if missing:
            blobs = await store.stored_containers(conn, sorted(missing))
            for agent_id, blob in blobs.items():
                at = locked[agent_id].containers_at
                assert at is not None
                stored = self._decoder.decode(self._decompressor.decompress(blob))
                found[agent_id] = aligned(stored, milliseconds(at), missing[agent_id])
        return found


def _agent_at(row: store.Locked) -> AgentAt:
    return AgentAt(row.org_id, row.agent_id, row.name, row.rules_version, row.alerts_version, row.version)


def _answer(waiting: Waiting, answer: list[LogRequest] | Exception) -> None:
    PUSHES.labels(
        "stored" if isinstance(answer, list) else "refused" if _deliberate(answer) else "failed"
    ).inc()
    if waiting.done.done():
        return
    if isinstance(answer, list):
        waiting.done.set_result(answer)
    else:
        waiting.done.set_exception(answer)


def _deliberate(error: Exception) -> bool:
    return isinstance(error, ServiceError) and error.status < 500
