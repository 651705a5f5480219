"""Compact hot rows into chunks, beside the requests.

One transaction deletes the hot rows and inserts the chunk that has their lines: killed
anywhere, it has happened or not.  Small chunks of the day are merged with what comes
later, the smaller ones first, so that each line is written a handful of times at most.
A claim keeps two processes from the same organization; if both go on nevertheless,
the later one finds its rows gone and gives up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import structlog
from prometheus_client import Counter

from monitor.db.claims import claim
from monitor.db.postgres import connection, transaction
from monitor.errors import StorageUnavailable
from monitor.logs import store
from monitor.logs.block import Encoded, Line, encode
from monitor.logs.find import block_of
from monitor.logs.store import Due, Stored
from monitor.web.background import FAILURES

if TYPE_CHECKING:
    from aiohttp import web

    from monitor.logs.models import Source

ROUND_SECONDS = 2.0
LEASE_SECONDS = 60.0  # for what takes a second; a process that died is followed by another
DUE_ROWS = 256  # as many hot rows cost a search as much as a chunk
DUE_SECONDS = 60.0  # hot rows are at most about so old
MOST_ROWS = 2_000  # in one chunk
MOST_SMALL = 32  # chunks merged at once

COMPACTED = Counter("monitor_log_chunks_written_total", "Chunks written.")

log = structlog.get_logger()


class Overtaken(Exception):
    """Another process compacted the same rows."""


async def compact_due(app: web.Application) -> None:
    """Compact the hot rows of every organization that has enough, or old ones."""
    async with connection(app) as conn:
        dues = await store.due(conn, DUE_ROWS, DUE_SECONDS)
    for due in dues:
        name = f"logs.compact.{due.org_id}"
        async with connection(app) as conn:
            if not await claim(conn, name, LEASE_SECONDS):
                continue
        try:
            await compact(app, due)
        except Overtaken:
            log.warning("log rows were compacted by another process", org_id=due.org_id)
        except StorageUnavailable:
            raise
        except Exception:  # one organization's trouble keeps nobody else waiting
            FAILURES.labels("logs.compact").inc()
            log.exception("log rows cannot be compacted", org_id=due.org_id, day=str(due.day))
        finally:
            async with connection(app) as conn:
                await store.release_claim(conn, name)


async def compact(app: web.Application, due: Due) -> None:
    """Compact as many of the hot rows as are *due*.

    Raises:
        Overtaken: Another process does the same.
    """
    rows = due.rows
    while rows > 0:
        done = await write_chunk(app, due.org_id, due.day)
        if not done:
            return
        rows -= done


async def write_chunk(app: web.Application, org_id: str, day: date) -> int:
    """Make one chunk of the oldest hot rows of *day*; return how many these were.

    Raises:
        Overtaken: Another process has done it meanwhile.
    """
    async with connection(app) as conn:
        ids = await store.oldest_batches(conn, org_id, day, MOST_ROWS)
        rows = await store.read_batches(conn, org_id, ids)
        small = await store.small_chunks(conn, org_id, day, MOST_SMALL)
        chosen = mergeable(sum(row.raw_bytes for row in rows), small)
        chunks = await store.read_chunks(conn, org_id, [day], chosen) if chosen else []
    if not rows:
        return 0
    block, newest = await asyncio.to_thread(merged, [*rows, *chunks])
    async with transaction(app) as conn:
        removed = await store.remove_compacted(conn, org_id, day, [row.id for row in rows], chosen)
        if removed != len(rows) + len(chosen):
            raise Overtaken
        await store.insert_chunk(conn, org_id, day, newest, block)
    COMPACTED.inc()
    return len(rows)


def mergeable(size: int, small: Sequence[tuple[int, int]]) -> list[int]:
    """Return which of the *small* chunks, (id, bytes) by size, go with *size* bytes of new lines.

    One goes along while it is at most twice as large as what it joins: the number of
    times that a line is written then grows with the logarithm of a chunk's size.
    """
    chosen = []
    for id_, chunk_bytes in small:
        if chunk_bytes > 2 * size or size + chunk_bytes > store.CHUNK_BYTES:
            break
        chosen.append(id_)
        size += chunk_bytes
    return chosen


def merged(blocks: Sequence[Stored]) -> tuple[Encoded, datetime]:
    """Return one chunk of the lines of *blocks*, and when the last of its hot rows came."""
    sources: dict[Source, int] = {}
    arrivals: dict[int, int] = {}
    lines: list[Line] = []
    for block in map(block_of, blocks):
        place = [sources.setdefault(source, len(sources)) for source in block.sources]
        lines += [(*line[:3], place[line[3]], *line[4:]) for line in block.lines()]
        arrivals |= zip(block.row_ids, block.arrivals, strict=True)
    lines.sort()
    newest = datetime.fromtimestamp(max(arrivals.values()) / 1_000_000, UTC)
    return encode(lines, list(sources), arrivals), newest
