"""All SQL of the journal: streams, rows, slots, marks.

The journal belongs to the service, not to an organization: a row holds the lines
of many, each with its own ``org_id`` tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

SLOTS = (0, 1, 2, 3)
SLOT_SECONDS = 60.0  # a slot is left for the next one after this long
SAFE_SECONDS = 60.0  # VictoriaMetrics loses at most the last 13 s when it is killed
WRITE_ROWS = 256  # the most of one write; small pushes share it, large ones are bounded by bytes

_ROWS = " UNION ALL ".join(
    f"SELECT seq, lines FROM journal_{slot} WHERE stream_id = $1 AND seq > $2 AND seq <= $3"  # noqa: S608
    for slot in SLOTS
)
_APPEND = {
    slot: f"INSERT INTO journal_{slot} (stream_id, seq, lines, sample_count) VALUES ($1, $2, $3, $4)"  # noqa: S608
    for slot in SLOTS
}
_UNSAFE = {
    slot: "SELECT EXISTS (SELECT 1 FROM"  # noqa: S608
    f" (SELECT stream_id, max(seq) AS seq FROM journal_{slot} GROUP BY stream_id) AS j"
    " LEFT JOIN journal_streams s ON s.id = j.stream_id WHERE s.id IS NULL OR j.seq > s.safe_seq)"
    for slot in SLOTS
}
_NO_ROWS = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM journal_{slot} j WHERE j.stream_id = s.id)"  # noqa: S608
    for slot in SLOTS
)
_SIZE = " + ".join(f"pg_total_relation_size('journal_{slot}')" for slot in SLOTS)
# By the primary key of each slot: a stream has few rows or very many.
_LAST = ", ".join(
    f"(SELECT max(seq) FROM journal_{slot} j WHERE j.stream_id = s.id)"  # noqa: S608
    for slot in SLOTS
)


class Row(Struct, frozen=True):
    """One journal row: zstd of Influx lines."""

    seq: int
    lines: bytes


class Replay(Struct, frozen=True):
    """Rows of a stream that are written once more: those above *after*, up to *until*."""

    stream_id: int
    after: int
    until: int


async def open_stream(conn: Connection, owner: str, lease_seconds: float) -> int:
    """Create a stream leased to *owner* and return its id."""
    stream_id: int = await conn.fetchval(
        "INSERT INTO journal_streams (owner, lease_until)"
        " VALUES ($1, clock_timestamp() + make_interval(secs => $2)) RETURNING id",
        owner,
        lease_seconds,
    )
    return stream_id


async def current_slot(conn: Connection) -> int:
    """Return the slot that is written now."""
    slot: int = await conn.fetchval("SELECT slot FROM journal_slots ORDER BY opened_at DESC LIMIT 1")
    return slot


async def append(
    conn: Connection, slot: int, stream_id: int, seq: int, lines: bytes, sample_count: int
) -> None:
    """Write one row; a slot that is no longer current is as good as any."""
    await conn.execute(_APPEND[slot], stream_id, seq, lines, sample_count)


async def rows_between(conn: Connection, stream_id: int, after: int, until: int, limit: int) -> list[Row]:
    """Return the first *limit* rows with ``after < seq <= until``, in order."""
    rows = await conn.fetch(
        f"SELECT seq, lines FROM ({_ROWS}) AS j ORDER BY seq LIMIT $4",  # noqa: S608
        stream_id,
        after,
        until,
        limit,
    )
    return [Row(**row) for row in rows]


async def move_cursor(conn: Connection, stream_id: int, owner: str, seq: int) -> None:
    """Note that VictoriaMetrics took everything up to *seq*."""
    await conn.execute(
        "UPDATE journal_streams SET written_seq = greatest(written_seq, $3) WHERE id = $1 AND owner = $2",
        stream_id,
        owner,
        seq,
    )


async def renew_leases(
    conn: Connection, owner: str, stream_ids: Sequence[int], live: int, lease_seconds: float
) -> set[int]:
    """Hold the leases further; all but *live* are given up; return the streams still ours."""
    rows = await conn.fetch(
        "UPDATE journal_streams SET lease_until = clock_timestamp() + make_interval(secs => $4),"
        " retired_at = CASE WHEN id <> $3 THEN coalesce(retired_at, clock_timestamp()) END"
        " WHERE owner = $1 AND id = ANY($2::bigint[]) RETURNING id",
        owner,
        stream_ids,
        live,
        lease_seconds,
    )
    return {row["id"] for row in rows}


async def adopt(conn: Connection, owner: str, lease_seconds: float) -> list[tuple[int, int]]:
    """Take over every stream whose lease ran out; return (id, written_seq) of each."""
    rows = await conn.fetch(
        "UPDATE journal_streams SET owner = $1, retired_at = coalesce(retired_at, clock_timestamp()),"
        " lease_until = clock_timestamp() + make_interval(secs => $2)"
        " WHERE id IN (SELECT id FROM journal_streams WHERE lease_until < clock_timestamp()"
        "  ORDER BY id FOR UPDATE SKIP LOCKED) RETURNING id, written_seq",
        owner,
        lease_seconds,
    )
    return [(row["id"], row["written_seq"]) for row in rows]


async def retire(conn: Connection, owner: str, stream_ids: Sequence[int]) -> None:
    """Give streams up at the end of a process: anyone may adopt them at once."""
    await conn.execute(
        "UPDATE journal_streams SET lease_until = clock_timestamp(),"
        " retired_at = coalesce(retired_at, clock_timestamp()) WHERE owner = $1 AND id = ANY($2::bigint[])",
        owner,
        stream_ids,
    )


async def forget_streams(conn: Connection, retired_seconds: float) -> set[int]:
    """Delete the streams that were given up long ago and have no row left; return their ids."""
    rows = await conn.fetch(
        "DELETE FROM journal_streams s WHERE s.retired_at < clock_timestamp() - make_interval(secs => $1)"  # noqa: S608
        f" AND {_NO_ROWS} RETURNING s.id",
        retired_seconds,
    )
    return {row["id"] for row in rows}


async def clock(conn: Connection) -> datetime:
    """Return the database's time."""
    now: datetime = await conn.fetchval("SELECT clock_timestamp()")
    return now


async def note_start(conn: Connection, url: str, started: str) -> bool:
    """Keep the start of a VictoriaMetrics; return whether it is another than the last known."""
    before = await conn.fetchval("SELECT started FROM tsdb_instances WHERE url = $1 FOR UPDATE", url)
    await conn.execute(
        "INSERT INTO tsdb_instances (url, started, seen_at) VALUES ($1, $2, clock_timestamp())"
        " ON CONFLICT (url) DO UPDATE SET started = excluded.started, seen_at = excluded.seen_at",
        url,
        started,
    )
    return before is not None and before != started


async def order_replay(conn: Connection) -> int:
    """Have every row that is not safe written again; return for how many streams.

    The write behind the cursor counts: VictoriaMetrics may have taken it before its
    restart, and the cursor moves past it afterwards.
    """
    rows = await conn.fetch(
        "UPDATE journal_streams SET replayed_seq = safe_seq, replay_until = written_seq + $1,"
        " mark_seq = safe_seq, mark_at = clock_timestamp() RETURNING id",
        WRITE_ROWS,
    )
    return len(rows)


async def advance_marks(conn: Connection, alive_at: datetime) -> None:
    """Call safe what VictoriaMetrics took 60 s before *alive_at*, when it was seen alive."""
    await conn.execute(
        "UPDATE journal_streams SET safe_seq = mark_seq, mark_seq = written_seq, mark_at = clock_timestamp()"
        " WHERE mark_at <= $1::timestamptz - make_interval(secs => $2) AND replayed_seq >= replay_until"
        " AND written_seq > safe_seq",
        alive_at,
        SAFE_SECONDS,
    )


async def replays(conn: Connection) -> list[Replay]:
    """Return what is still to be written again."""
    rows = await conn.fetch(
        "SELECT id, replayed_seq, replay_until FROM journal_streams"
        " WHERE replayed_seq < replay_until ORDER BY id"
    )
    return [Replay(row["id"], row["replayed_seq"], row["replay_until"]) for row in rows]


async def move_replay(conn: Connection, replay: Replay, seq: int) -> None:
    """Note that the rows up to *seq* were written again; a newer order stands."""
    await conn.execute(
        "UPDATE journal_streams SET replayed_seq = $4, mark_at = clock_timestamp()"
        " WHERE id = $1 AND replayed_seq = $2 AND replay_until = $3",
        replay.stream_id,
        replay.after,
        replay.until,
        seq,
    )


async def rotate(conn: Connection) -> None:
    """Open a free slot once the present one is old enough; with none free, stay."""
    await conn.execute(
        "UPDATE journal_slots SET opened_at = clock_timestamp(), in_use = true WHERE slot ="
        " (SELECT slot FROM journal_slots WHERE NOT in_use ORDER BY slot LIMIT 1 FOR UPDATE SKIP LOCKED)"
        " AND (SELECT max(opened_at) FROM journal_slots) < clock_timestamp() - make_interval(secs => $1)",
        SLOT_SECONDS,
    )


async def slots_to_empty(conn: Connection) -> list[int]:
    """Return the slots in use other than the present one."""
    rows = await conn.fetch(
        "SELECT slot FROM journal_slots WHERE in_use"
        " AND opened_at < (SELECT max(opened_at) FROM journal_slots) ORDER BY slot"
    )
    return [row["slot"] for row in rows]


async def empty_slot(conn: Connection, slot: int) -> bool:
    """Empty *slot* if none of its rows is needed; call it inside a transaction.

    The table is locked before the look, so a late insert comes either before it,
    and is seen, or after the truncation, and stays.

    Raises:
        asyncpg.LockNotAvailableError: Somebody reads or writes the slot: try later.
    """
    await conn.execute("SET LOCAL lock_timeout = '100ms'")
    await conn.execute(f"LOCK TABLE journal_{SLOTS[slot]} IN ACCESS EXCLUSIVE MODE")
    if await conn.fetchval(_UNSAFE[slot]):
        return False
    await conn.execute(f"TRUNCATE journal_{SLOTS[slot]}")
    await conn.execute("UPDATE journal_slots SET in_use = false WHERE slot = $1", slot)
    return True


async def size_bytes(conn: Connection) -> int:
    """Return how much disk the journal takes."""
    size: int = await conn.fetchval(f"SELECT {_SIZE}")
    return size


async def unwritten(conn: Connection, targets: dict[int, int] | None = None) -> dict[int, int]:
    """Return the last row of each stream that VictoriaMetrics has not taken yet.

    With *targets*, only those whose cursor is still below their target.
    """
    rows = await conn.fetch(
        "SELECT stream_id, seq, written_seq FROM"  # noqa: S608
        f" (SELECT s.id AS stream_id, greatest({_LAST}) AS seq, s.written_seq FROM journal_streams s) AS j"
        " WHERE seq IS NOT NULL"
    )
    if targets is None:
        return {row["stream_id"]: row["seq"] for row in rows if row["seq"] > row["written_seq"]}
    return {
        row["stream_id"]: targets[row["stream_id"]]
        for row in rows
        if row["stream_id"] in targets and row["written_seq"] < targets[row["stream_id"]]
    }


async def deleted_agents(conn: Connection) -> set[str]:
    """Return the ids of the agents whose samples must not be written any more."""
    rows = await conn.fetch(
        "SELECT agent_id, org_id FROM agent_deletions"
        " WHERE requested_at > clock_timestamp() - interval '30 days'"  # no backlog is that old
    )
    return {row["agent_id"] for row in rows}


async def bury(conn: Connection, lines: bytes, reason: str) -> None:
    """Keep lines that VictoriaMetrics refused."""
    await conn.execute("INSERT INTO journal_dead_letters (lines, reason) VALUES ($1, $2)", lines, reason)
