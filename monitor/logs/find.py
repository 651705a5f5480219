"""Read stored blocks until the lines that are asked for are found, or all are counted.

Everything happens in one snapshot of the database, so that a line is seen exactly
once however much is compacted meanwhile.  Blocks are listed in reading order, those
that cannot hold a line that is asked for are left out, and reading stops when no
further block can change the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import TypeAlias

from msgspec.structs import replace

from monitor.db.postgres import Connection
from monitor.logs import store
from monitor.logs.block import Block
from monitor.logs.models import Context, FoundLine, Position, Search
from monitor.logs.query import Query
from monitor.logs.scan import count_in, facets_asked, found_in
from monitor.logs.store import Listed, Stored
from monitor.logs.times import EARLIEST, LATEST, SECOND
from monitor.logs.turns import Turns
from monitor.logs.words import may_hold

PAGE = 64  # blocks listed at a time
FIRST_PAGE = 8  # most searches end in the first blocks
TURN_BYTES = store.CHUNK_BYTES // 2  # uncompressed bytes that end a turn: one chunk, or many hot rows
CONTEXT_SECONDS = 86_400  # lines around another are looked for so far away

Hit: TypeAlias = tuple[Position, FoundLine]


class TooDeep(Exception):
    """The answer takes more reading than is allowed here."""


class Reads:
    """What a question reads with: a snapshot of the database, the thread, and how much may be read."""

    def __init__(self, conn: Connection, turns: Turns, most_bytes: int | None = None) -> None:
        """Take as *most_bytes* how much of blocks, uncompressed, and of their words; None: anything."""
        self.conn = conn
        self.turns = turns
        self._left = most_bytes

    def take(self, size: int) -> None:
        """Count bytes that are about to be read.

        Raises:
            TooDeep: They are more than is left.
        """
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise TooDeep


async def find(reads: Reads, search: Search) -> list[Hit]:
    """Return the first ``search.limit`` lines that are asked for, in reading order.

    This and what follows raise TooDeep.
    """
    best: list[Hit] = []
    reading: asyncio.Future[list[Hit]] | None = None
    is_first = True
    async for listed in _listed(reads, search):
        if _is_settled(best, search, listed[0]):
            break
        stored = await _read(reads, search.org_id, listed)
        if reading is not None:
            best = _merged(best, await reading, search)
        asked = _narrowed(search, best)
        reading = reads.turns.submit(search.org_id, lambda stored=stored, asked=asked: _find(stored, asked))  # type: ignore[misc]
        if is_first:  # most searches end here: nothing is read ahead before that is known
            best, reading, is_first = _merged(best, await reading, search), None, False
    return best if reading is None else _merged(best, await reading, search)


async def count(reads: Reads, search: Search, step: int) -> dict[int, list[int]]:
    """Return [stdout, stderr] by interval of *step* ns, numbered from 1970, without empty ones."""
    counts: dict[int, list[int]] = {}

    def read(stored: list[Stored]) -> None:
        for block in map(block_of, stored):
            count_in(block, search, step, counts)

    async for listed in _listed(reads, search):
        stored = await _read(reads, search.org_id, listed)
        await reads.turns.submit(search.org_id, lambda stored=stored: read(stored))  # type: ignore[misc]
    return counts


async def around(
    reads: Reads, everything: Search, position: Position, before: int, after: int
) -> Context | None:
    """Return the line at *position* with those around it, of one agent's container; None if it is gone."""
    time, row, number = position
    here = replace(everything, start=time, end=time, beyond=(time, row, number + 1), limit=1)
    hits = await find(reads, here)
    if not hits or hits[0][0] != position:
        return None
    line = hits[0][1]
    same = replace(
        everything,
        agent_id=line.agent_id,
        source=line.source,
        container_id=line.container_id or None,
        namespace=line.namespace or None,
        pod=line.pod or None,
        container=line.container if line.source == "kubernetes" else None,
        start=max(time - CONTEXT_SECONDS * SECOND, EARLIEST),
        end=min(time + CONTEXT_SECONDS * SECOND, LATEST),
        beyond=position,
    )
    earlier = await find(reads, replace(same, limit=before)) if before else []
    later = await find(reads, replace(same, limit=after, newest_first=False)) if after else []
    return Context([hit for _, hit in reversed(earlier)], line, [hit for _, hit in later])


def all_lines(org_id: str, arrived_since: int) -> Search:
    """Return a search without a filter, to be narrowed."""
    return Search(org_id, Query(), 0, 0, arrived_since, 1)


async def _listed(reads: Reads, search: Search) -> AsyncIterator[list[Listed]]:
    """Yield the blocks that may hold lines that are asked for, a turn's worth at a time."""
    runs = search.query.letter_runs()
    cursor = await store.listing(
        reads.conn,
        search.org_id,
        start=search.start,
        end=search.end,
        arrived_since=datetime.fromtimestamp(search.arrived_since / 1_000_000, UTC),
        facets=facets_asked(search),
        newest_first=search.newest_first,
        words=bool(runs),
    )
    turn: list[Listed] = []
    size = FIRST_PAGE
    while page := await cursor.fetch(size):
        size = PAGE
        for row in page:
            listed = Listed(**row)
            reads.take(len(listed.words or b""))
            if runs and listed.words and not may_hold(listed.words, runs):
                continue
            turn.append(listed)
            if sum(it.raw_bytes for it in turn) >= TURN_BYTES or len(turn) >= PAGE:
                yield turn
                turn = []
    if turn:
        yield turn


async def _read(reads: Reads, org_id: str, listed: Sequence[Listed]) -> list[Stored]:
    reads.take(sum(it.raw_bytes for it in listed))
    hot = [it.id for it in listed if it.day is None]
    chunks = [(it.day, it.id) for it in listed if it.day is not None]
    stored = await store.read_batches(reads.conn, org_id, hot) if hot else []
    if chunks:
        days = sorted({day for day, _ in chunks})
        stored += await store.read_chunks(reads.conn, org_id, days, [id_ for _, id_ in chunks])
    return stored


def block_of(stored: Stored) -> Block:
    """Return a stored block, to be read."""
    hot_row = None if stored.arrived_at is None else (stored.id, microseconds(stored.arrived_at))
    return Block(stored.meta, stored.messages, hot_row)


def microseconds(time: datetime) -> int:
    """Return *time* in microseconds since 1970."""
    return round(time.timestamp() * 1_000_000)


def _find(stored: list[Stored], search: Search) -> list[Hit]:
    return [hit for block in map(block_of, stored) for hit in found_in(block, search)]


def _merged(best: list[Hit], more: list[Hit], search: Search) -> list[Hit]:
    if not more:
        return best
    return sorted(best + more, key=itemgetter(0), reverse=search.newest_first)[: search.limit]


def _is_settled(best: list[Hit], search: Search, following: Listed) -> bool:
    """Return whether no line of the *following* blocks can be among the best."""
    if len(best) < search.limit:
        return False
    last = best[-1][0][0]
    return last > following.max_time if search.newest_first else last < following.min_time


def _narrowed(search: Search, best: list[Hit]) -> Search:
    """Return *search* without the times that lie behind the last of the best."""
    if len(best) < search.limit:
        return search
    last = best[-1][0][0]
    return replace(search, start=last) if search.newest_first else replace(search, end=last)
