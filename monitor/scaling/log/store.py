"""The SQL of the decision log: rows are inserted and read, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from monitor.scaling.chain import GENESIS, Head, Stored

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

_ROW = "id, policy_id, body, prev_hash, hash"


class ToldHead(Struct, frozen=True):
    """The newest row of an organization's chain."""

    org_id: str
    last_id: int
    hash: str


async def lock_head(conn: Connection, org_id: str) -> Head:
    """Return the newest row of the organization's chain, held until the transaction ends."""
    row = await conn.fetchrow(
        "INSERT INTO scaling_heads (org_id, last_id, hash) VALUES ($1, 0, $2)"
        " ON CONFLICT (org_id) DO UPDATE SET hash = scaling_heads.hash RETURNING last_id, hash",
        org_id,
        GENESIS,
    )
    assert row is not None, "an insert that updates on conflict returns its row"
    return Head(**row)


async def insert_rows(conn: Connection, org_id: str, rows: Sequence[Stored]) -> None:
    """Append rows to the chain whose head is held, and make the last of them the head."""
    await conn.execute(
        "INSERT INTO scaling_decisions (org_id, id, policy_id, body, prev_hash, hash)"
        " SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])",
        org_id,
        [row.id for row in rows],
        [row.policy_id for row in rows],
        [row.body for row in rows],
        [row.prev_hash for row in rows],
        [row.hash for row in rows],
    )
    await conn.execute(
        "UPDATE scaling_heads SET last_id = $2, hash = $3 WHERE org_id = $1",
        org_id,
        rows[-1].id,
        rows[-1].hash,
    )


async def head(conn: Connection, org_id: str) -> Head | None:
    """Return the newest row of the chain, None if nothing was ever decided."""
    row = await conn.fetchrow("SELECT last_id, hash FROM scaling_heads WHERE org_id = $1", org_id)
    return None if row is None else Head(**row)


async def newest(
    conn: Connection, org_id: str, policy_id: str | None, limit: int, before: int | None = None
) -> list[Stored]:
    """Return the newest rows, of one policy if it is given, with ids below *before*, newest first."""
    rows = await conn.fetch(
        f"SELECT {_ROW} FROM scaling_decisions WHERE org_id = $1 AND ($2::text IS NULL OR policy_id = $2)"  # noqa: S608 - our own columns
        " AND ($3::bigint IS NULL OR id < $3) ORDER BY id DESC LIMIT $4",
        org_id,
        policy_id,
        before,
        limit,
    )
    return [Stored(**row) for row in rows]


async def following(conn: Connection, org_id: str, after: int, limit: int) -> list[Stored]:
    """Return rows in the order of their ids, those above *after*."""
    rows = await conn.fetch(
        f"SELECT {_ROW} FROM scaling_decisions WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3",  # noqa: S608 - our own columns
        org_id,
        after,
        limit,
    )
    return [Stored(**row) for row in rows]


async def heads_to_tell(conn: Connection, seconds: float) -> list[ToldHead]:
    """Return the heads, of every organization, that were not told for *seconds*; they count as told."""
    rows = await conn.fetch(
        "UPDATE scaling_heads SET told_at = clock_timestamp()"
        " WHERE told_at <= clock_timestamp() - make_interval(secs => $1) RETURNING org_id, last_id, hash",
        seconds,
    )
    return [ToldHead(**row) for row in rows]


async def try_check_lock(conn: Connection, org_id: str) -> bool:
    """Tell whether nobody else checks the organization's log; it is ours until the transaction ends.

    A check of a long log takes a core for a while: one at a time is enough.
    """
    free: bool = await conn.fetchval(
        "SELECT pg_try_advisory_xact_lock(hashtextextended('scaling_decisions:' || $1, 0))", org_id
    )
    return free


async def organization_exists(conn: Connection, org_id: str) -> bool:
    """Tell whether there is such an organization."""
    found: bool = await conn.fetchval("SELECT EXISTS (SELECT 1 FROM organizations WHERE id = $1)", org_id)
    return found
