"""The SQL of stored lines: what searches list and read, compaction, retention, usage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from monitor.logs.block import Encoded

if TYPE_CHECKING:
    from asyncpg.cursor import Cursor

    from monitor.db.postgres import Connection

CHUNK_BYTES = 1024 * 1024  # uncompressed: read in 1-2 ms, and little is read in vain
SMALL_BYTES = CHUNK_BYTES // 2  # smaller chunks are merged; the partial index says the same


class Due(Struct, frozen=True):
    """Hot rows of one organization and day of arrival that are worth compacting."""

    org_id: str
    day: date
    rows: int
    raw_bytes: int


class Stored(Struct, frozen=True):
    """A stored block: a hot row, with its arrival, or a chunk without."""

    id: int
    raw_bytes: int
    meta: bytes
    messages: bytes
    arrived_at: datetime | None = None


class Listed(Struct, frozen=True):
    """What a search knows of a block before it reads it; a hot row has no day and no words."""

    id: int
    day: date | None
    min_time: int
    max_time: int
    raw_bytes: int
    words: bytes | None


async def listing(
    conn: Connection,
    org_id: str,
    *,
    start: int,
    end: int,
    arrived_since: datetime,
    facets: Sequence[int],
    newest_first: bool,
    words: bool,
) -> Cursor[Any]:
    """Open a cursor over every block that may hold lines of a window, in reading order.

    One statement lists hot rows and chunks, or a line compacted in between were missed;
    call it in a transaction that is repeatable read, or what it lists may be gone.
    """
    order = "max_time DESC" if newest_first else "min_time"
    return await conn.cursor(
        "SELECT * FROM (SELECT id, NULL::date AS day, min_time, max_time, raw_bytes, NULL::bytea AS words"  # noqa: S608
        "  FROM log_batches WHERE org_id = $1 AND max_time >= $2 AND min_time <= $3"
        "  AND arrived_at >= $4 AND facets @> $5::int[]"
        " UNION ALL SELECT id, day, min_time, max_time, raw_bytes, CASE WHEN $6 THEN words END"
        "  FROM log_chunks WHERE org_id = $1 AND max_time >= $2 AND min_time <= $3"
        "  AND day >= ($4 AT TIME ZONE 'UTC')::date AND newest_arrival >= $4 AND facets @> $5::int[]"
        f") AS b ORDER BY {order}",
        org_id,
        start,
        end,
        arrived_since,
        facets,
        words,
    )


async def read_batches(conn: Connection, org_id: str, ids: Sequence[int]) -> list[Stored]:
    """Return hot rows by their ids, those that are there, in the order of the ids."""
    rows = await conn.fetch(
        "SELECT id, raw_bytes, meta, messages, arrived_at FROM log_batches"
        " WHERE org_id = $1 AND id = ANY($2::bigint[]) ORDER BY id",
        org_id,
        ids,
    )
    return [Stored(**row) for row in rows]


async def read_chunks(
    conn: Connection, org_id: str, days: Sequence[date], ids: Sequence[int]
) -> list[Stored]:
    """Return chunks by their days and ids, those that are there."""
    rows = await conn.fetch(
        "SELECT id, raw_bytes, meta, messages FROM log_chunks"
        " WHERE org_id = $1 AND day = ANY($2::date[]) AND id = ANY($3::bigint[])",
        org_id,
        days,
        ids,
    )
    return [Stored(**row) for row in rows]


async def due(conn: Connection, rows: int, age_seconds: float) -> list[Due]:
    """Return what should be compacted: a chunk's worth, at least *rows* hot rows, or old ones."""
    found = await conn.fetch(
        "SELECT org_id, (arrived_at AT TIME ZONE 'UTC')::date AS day, count(*) AS rows,"
        "  sum(raw_bytes)::bigint AS raw_bytes"
        " FROM log_batches GROUP BY 1, 2 HAVING sum(raw_bytes) >= $1 OR count(*) >= $2"
        "  OR min(arrived_at) < clock_timestamp() - make_interval(secs => $3) ORDER BY min(arrived_at)",
        CHUNK_BYTES,
        rows,
        age_seconds,
    )
    return [Due(**row) for row in found]


async def oldest_batches(conn: Connection, org_id: str, day: date, limit: int) -> list[int]:
    """Return the ids of the hot rows that make the next chunk: the first ones of *day*."""
    rows = await conn.fetch(
        "SELECT id FROM (SELECT id, sum(raw_bytes) OVER (ORDER BY id) - raw_bytes AS before FROM log_batches"
        "  WHERE org_id = $1 AND (arrived_at AT TIME ZONE 'UTC')::date = $2) AS b"
        " WHERE before < $3 ORDER BY id LIMIT $4",
        org_id,
        day,
        CHUNK_BYTES,
        limit,
    )
    return [row["id"] for row in rows]


async def small_chunks(conn: Connection, org_id: str, day: date, limit: int) -> list[tuple[int, int]]:
    """Return (id, raw_bytes) of the smallest chunks of *day*, below half of the full size."""
    rows = await conn.fetch(
        "SELECT id, raw_bytes FROM log_chunks WHERE org_id = $1 AND day = $2 AND raw_bytes < 524288"
        " ORDER BY raw_bytes, id LIMIT $3",
        org_id,
        day,
        limit,
    )
    return [(row["id"], row["raw_bytes"]) for row in rows]


async def remove_compacted(
    conn: Connection, org_id: str, day: date, batch_ids: Sequence[int], chunk_ids: Sequence[int]
) -> int:
    """Delete hot rows and chunks that a new chunk replaces; return how many were there."""
    removed: int = await conn.fetchval(
        "WITH b AS (DELETE FROM log_batches WHERE org_id = $1 AND id = ANY($3::bigint[]) RETURNING 1),"
        " c AS (DELETE FROM log_chunks WHERE org_id = $1 AND day = $2 AND id = ANY($4::bigint[]) RETURNING 1)"
        " SELECT (SELECT count(*) FROM b) + (SELECT count(*) FROM c)",
        org_id,
        day,
        batch_ids,
        chunk_ids,
    )
    return removed


async def insert_chunk(
    conn: Connection, org_id: str, day: date, newest_arrival: datetime, block: Encoded
) -> None:
    """Store a chunk."""
    await conn.execute(
        "INSERT INTO log_chunks (org_id, day, newest_arrival, min_time, max_time, facets, line_count,"
        "  raw_bytes, meta, messages, words) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        org_id,
        day,
        newest_arrival,
        block.min_time,
        block.max_time,
        block.facets,
        block.line_count,
        block.raw_bytes,
        block.meta,
        block.text,
        block.words,
    )


async def release_claim(conn: Connection, name: str) -> None:
    """End a claim before its time."""
    await conn.execute("UPDATE claims SET until = clock_timestamp() WHERE name = $1", name)


async def retentions(conn: Connection) -> list[tuple[str, str, int | None]]:
    """Return (id, plan, own retention in seconds or None) of every organization."""
    rows = await conn.fetch("SELECT id, plan, logs_retention_seconds FROM organizations")
    return [tuple(row) for row in rows]


async def drop_before(conn: Connection, org_ids: Sequence[str], seconds: float) -> None:
    """Delete what came to *org_ids* more than *seconds* ago: chunks as a whole, by their last batch."""
    await conn.execute(
        "WITH old AS (SELECT clock_timestamp() - make_interval(secs => $2) AS time),"
        " b AS (DELETE FROM log_batches WHERE org_id = ANY($1::text[]) AND arrived_at < (SELECT time FROM old))"
        " DELETE FROM log_chunks WHERE org_id = ANY($1::text[])"
        "  AND day <= ((SELECT time FROM old) AT TIME ZONE 'UTC')::date"
        "  AND newest_arrival < (SELECT time FROM old)",
        org_ids,
        seconds,
    )


async def add_days(conn: Connection, days_ahead: int) -> None:
    """Make the tables of the days from the oldest hot row's to *days_ahead* from now."""
    await conn.execute(
        "SELECT log_add_days("
        "  (least((SELECT min(arrived_at) FROM log_batches), clock_timestamp() - interval '1 day')"
        "   AT TIME ZONE 'UTC')::date,"
        "  ((clock_timestamp() + make_interval(days => $1)) AT TIME ZONE 'UTC')::date)",
        days_ahead,
    )


async def drop_days(conn: Connection, seconds: float) -> int:
    """Drop the days that ended more than *seconds* ago; return how many."""
    dropped: int = await conn.fetchval(
        "SELECT log_drop_days((clock_timestamp() AT TIME ZONE 'UTC' - make_interval(secs => $1))::date)",
        seconds,
    )
    return dropped


async def usage(conn: Connection, org_id: str) -> int:
    """Return the bytes that the stored lines of *org_id* take, compressed."""
    stored: int = await conn.fetchval(
        "SELECT coalesce((SELECT sum(length(meta) + length(messages)) FROM log_batches WHERE org_id = $1), 0)"
        " + coalesce((SELECT sum(length(meta) + length(messages) + length(words)) FROM log_chunks"
        "  WHERE org_id = $1), 0)",
        org_id,
    )
    return stored
