"""Store waiting batches together: one transaction at a time, one for all that wait.

A batch is acknowledged when its lines are durable.  One that is repeated under the
same id is acknowledged again and stored once, whatever became of the first reply.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from msgspec import Struct
from prometheus_client import Counter

from monitor.db.postgres import Connection, transaction
from monitor.errors import ServiceError, StorageUnavailable, Unauthorized
from monitor.logs.ingest import store
from monitor.logs.ingest.lines import BatchId
from monitor.logs.ingest.store import HotRow

if TYPE_CHECKING:
    from monitor.logs.block import Encoded

BATCHES = 50  # in one transaction: more brings little
BYTES = 4 * 1024 * 1024  # in one transaction, compressed; one batch alone may be more
WAIT_SECONDS = 15.0  # a batch that is not stored by then is refused

LINES = Counter("monitor_log_lines_total", "Log lines stored.")
REPEATED = Counter("monitor_log_batches_repeated_total", "Batches that were stored already.")

log = structlog.get_logger()


class Waiting(Struct, eq=False):
    """A batch on its way into a transaction."""

    org_id: str
    agent_id: str
    batch_id: BatchId | None
    blocks: list[Encoded]
    done: asyncio.Future[None]

    @property
    def size(self) -> int:
        """Compressed bytes."""
        return sum(len(block.meta) + len(block.text) for block in self.blocks)


class Appends:
    """The batches of one process that wait for their transaction."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._waiting: deque[Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def append(
        self, org_id: str, agent_id: str, batch_id: BatchId | None, blocks: list[Encoded]
    ) -> None:
        """Store the lines of a batch; when this returns, they are durable and can be found.

        Raises:
            Unauthorized: The agent is gone.
            StorageUnavailable: Whether they are stored is unknown; repeating the id is harmless.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(org_id, agent_id, batch_id, blocks, done))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="logs.appends")
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await done
        except TimeoutError:
            raise StorageUnavailable from None

    async def _drain(self) -> None:
        """Run transactions, one at a time, until nobody waits."""
        try:
            while self._waiting:
                await self._run(self._next())
        finally:
            self._task = None

    def _next(self) -> list[Waiting]:
        """Take the next batches: of an agent at most one, whoever gave up not at all."""
        taken: dict[str, Waiting] = {}
        later: list[Waiting] = []
        size = 0
        while self._waiting and len(taken) < BATCHES and size < BYTES:
            waiting = self._waiting.popleft()
            if waiting.done.done():
                continue
            if waiting.agent_id in taken:
                later.append(waiting)
            else:
                taken[waiting.agent_id] = waiting
                size += waiting.size
        self._waiting.extendleft(reversed(later))
        return [taken[agent_id] for agent_id in sorted(taken)]

    async def _run(self, batch: list[Waiting]) -> None:
        if not batch:
            return
        try:
            async with transaction(self._app) as conn:
                living, fresh = await _store(conn, batch)
        except Exception as error:
            await self._failed(batch, error)
            return
        for waiting in batch:
            if waiting.agent_id in fresh:
                LINES.inc(sum(block.line_count for block in waiting.blocks))
            elif waiting.agent_id in living:
                REPEATED.inc()
            _answer(waiting, None if waiting.agent_id in living else Unauthorized())

    async def _failed(self, batch: list[Waiting], error: Exception) -> None:
        """Fail all together if Postgres is away, else find the culprit by trying each alone."""
        if isinstance(error, ServiceError) or len(batch) == 1:
            if not isinstance(error, ServiceError):
                log.exception("log batch failed", agent_id=batch[0].agent_id, exc_info=error)
            for waiting in batch:
                _answer(waiting, error)
            return
        for waiting in batch:
            await self._run([waiting])


async def _store(conn: Connection, batch: list[Waiting]) -> tuple[set[str], set[str]]:
    """Store what is new of *batch*; return the agents that live, and those whose batch was new."""
    living = await store.lock_agents(conn, [waiting.agent_id for waiting in batch])
    named = [(waiting, waiting.batch_id) for waiting in batch if waiting.agent_id in living]
    fresh = {waiting.agent_id for waiting, batch_id in named if batch_id is None}
    numbered = [(it, id_.text, id_.number) for it, id_ in named if id_ and id_.number is not None]
    texts = [(it, id_.text) for it, id_ in named if id_ and id_.number is None]
    if numbered:
        orgs, agents = [it.org_id for it, _, _ in numbered], [it.agent_id for it, _, _ in numbered]
        epochs, numbers = [epoch for _, epoch, _ in numbered], [number for _, _, number in numbered]
        fresh |= await store.raise_epochs(conn, orgs, agents, epochs, numbers)
    if texts:
        orgs, agents = [it.org_id for it, _ in texts], [it.agent_id for it, _ in texts]
        fresh |= await store.note_batch_ids(conn, orgs, agents, [text for _, text in texts])
        await store.forget_batch_ids(conn, agents)
    rows = [HotRow(it.org_id, block) for it in batch if it.agent_id in fresh for block in it.blocks]
    if rows:
        await store.append(conn, rows)
    return living, fresh


def _answer(waiting: Waiting, error: Exception | None) -> None:
    if waiting.done.done():
        return
    if error is None:
        waiting.done.set_result(None)
    else:
        waiting.done.set_exception(error)


APPENDS: web.AppKey[Appends] = web.AppKey("APPENDS", Appends)


async def appends_context(app: web.Application) -> AsyncIterator[None]:
    """Keep the waiting batches of this process."""
    app[APPENDS] = Appends(app)
    yield
