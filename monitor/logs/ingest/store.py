"""The SQL of a batch: which are new, the hot rows, what is left of the ceilings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from monitor.logs.block import Encoded

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

BATCH_IDS = 1_000  # kept an agent, of ids that are no <epoch>:<n> (contract 11)
BURST_SECONDS = 10.0  # an organization may send so many seconds' lines at once


class HotRow(Struct, frozen=True):
    """Lines of a batch on their way into the table."""

    org_id: str
    block: Encoded


class Spent(Struct, frozen=True):
    """What a process let through of an organization since it told last, and the ceiling."""

    org_id: str
    lines: int
    bytes: int
    lines_per_second: int


class Rate(Struct, frozen=True):
    """What an organization has left of its ceilings."""

    lines_left: float
    day_bytes: int


async def lock_agents(conn: Connection, agent_ids: Sequence[str]) -> set[str]:
    """Return which of *agent_ids* exist; they cannot be deleted until the transaction ends."""
    rows = await conn.fetch(
        "SELECT id FROM agents WHERE id = ANY($1::text[]) ORDER BY id FOR KEY SHARE", agent_ids
    )
    return {row["id"] for row in rows}


async def raise_epochs(
    conn: Connection,
    org_ids: Sequence[str],
    agent_ids: Sequence[str],
    epochs: Sequence[str],
    numbers: Sequence[int],
) -> set[str]:
    """Note the newest batch of each agent's epoch; return the agents whose batch is new.

    Each agent is given once, in the order of the ids: whoever else writes waits, none for ever.
    """
    rows = await conn.fetch(
        "INSERT INTO log_epochs (org_id, agent_id, epoch, newest)"
        " SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])"
        " ON CONFLICT (agent_id, epoch) DO UPDATE SET newest = excluded.newest"
        " WHERE log_epochs.newest < excluded.newest RETURNING agent_id",
        org_ids,
        agent_ids,
        epochs,
        numbers,
    )
    return {row["agent_id"] for row in rows}


async def note_batch_ids(
    conn: Connection, org_ids: Sequence[str], agent_ids: Sequence[str], batch_ids: Sequence[str]
) -> set[str]:
    """Note batch ids, of each agent one; return the agents whose batch is new."""
    rows = await conn.fetch(
        "INSERT INTO log_batch_ids (org_id, agent_id, batch_id)"
        " SELECT * FROM unnest($1::text[], $2::text[], $3::text[])"
        " ON CONFLICT (agent_id, batch_id) DO NOTHING RETURNING agent_id",
        org_ids,
        agent_ids,
        batch_ids,
    )
    return {row["agent_id"] for row in rows}


async def forget_batch_ids(conn: Connection, agent_ids: Sequence[str]) -> None:
    """Delete all but the last 1,000 batch ids of each of *agent_ids*."""
    await conn.execute(
        "DELETE FROM log_batch_ids b USING unnest($1::text[]) AS a (id)"
        " WHERE b.agent_id = a.id AND b.org_id IS NOT NULL AND b.seq <= (SELECT n.seq FROM log_batch_ids n"
        "  WHERE n.agent_id = a.id ORDER BY n.seq DESC OFFSET $2 LIMIT 1)",
        agent_ids,
        BATCH_IDS,
    )


async def append(conn: Connection, rows: Sequence[HotRow]) -> None:
    """Store hot rows: acknowledged when the transaction commits."""
    await conn.executemany(
        "INSERT INTO log_batches"
        " (org_id, min_time, max_time, facets, line_count, raw_bytes, meta, messages)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        [
            (
                row.org_id,
                row.block.min_time,
                row.block.max_time,
                row.block.facets,
                row.block.line_count,
                row.block.raw_bytes,
                row.block.meta,
                row.block.text,
            )
            for row in rows
        ],
    )


async def exchange_rates(conn: Connection, spent: Sequence[Spent]) -> dict[str, Rate]:
    """Tell what was let through and learn what is left, of each organization, whoever spent it.

    Each organization is given once, in the order of the ids, so that two processes wait
    for each other and not in a circle.
    """
    rows = await conn.fetch(
        "INSERT INTO log_rates"
        " (org_id, lines_per_second, lines_spent, lines_left, refilled_at, day, day_bytes)"
        " SELECT s.org_id, s.rate, s.lines, s.rate * $5 - s.lines, clock_timestamp(),"
        "  (clock_timestamp() AT TIME ZONE 'UTC')::date, s.bytes"
        " FROM unnest($1::text[], $2::float8[], $3::float8[], $4::bigint[]) AS s (org_id, rate, lines, bytes)"
        " ON CONFLICT (org_id) DO UPDATE SET lines_per_second = excluded.lines_per_second,"
        "  lines_spent = excluded.lines_spent, refilled_at = excluded.refilled_at, day = excluded.day,"
        "  lines_left = least(excluded.lines_per_second * $5, log_rates.lines_left + excluded.lines_per_second"
        "   * greatest(extract(epoch FROM excluded.refilled_at - log_rates.refilled_at)::float8, 0))"
        "   - excluded.lines_spent,"
        "  day_bytes = CASE WHEN log_rates.day = excluded.day THEN log_rates.day_bytes ELSE 0 END + excluded.day_bytes"
        " RETURNING org_id, lines_left, day_bytes",
        [it.org_id for it in spent],
        [float(it.lines_per_second) for it in spent],
        [float(it.lines) for it in spent],
        [it.bytes for it in spent],
        BURST_SECONDS,
    )
    return {row["org_id"]: Rate(row["lines_left"], row["day_bytes"]) for row in rows}
