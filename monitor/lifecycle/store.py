"""The SQL of deletions and of agents that are offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from monitor.agents.models import ONLINE_SECONDS
from monitor.lifecycle.models import Deletion

if TYPE_CHECKING:
    from monitor.db.postgres import Connection


class Due(Struct, frozen=True):
    """A deletion whose next pass is due, and what the one before found."""

    agent_id: str
    org_id: str
    passes: int
    series_found: int | None


class Offline(Struct, frozen=True):
    """An agent that gave no sign for 90 s."""

    agent_id: str
    org_id: str
    name: str


async def delete_agent(conn: Connection, org_id: str, agent_id: str) -> str | None:
    """Remove an agent with its state, leave a tombstone; return its id, None if unknown.

    The state's lock comes first, as everywhere: a push that holds it is stored
    before, and deleted with the rest; a later one finds no agent.
    """
    await conn.execute(
        "SELECT 1 FROM agent_state WHERE agent_id = $2 AND org_id = $1 FOR UPDATE", org_id, agent_id
    )
    deleted: str | None = await conn.fetchval(
        "WITH gone AS (DELETE FROM agents WHERE org_id = $1 AND id = $2 RETURNING id, org_id, name),"
        " state AS (DELETE FROM agent_state WHERE org_id = $1 AND agent_id = $2)"
        " INSERT INTO agent_deletions (agent_id, org_id, agent_name) SELECT id, org_id, name FROM gone"
        " RETURNING agent_id",
        org_id,
        agent_id,
    )
    return deleted


async def list_deletions(conn: Connection, org_id: str) -> list[Deletion]:
    """Return the organization's deletions, newest first."""
    rows = await conn.fetch(
        "SELECT agent_id, agent_name, requested_at, deleted_at, series_found, verified_at, passes"
        " FROM agent_deletions WHERE org_id = $1 ORDER BY requested_at DESC, agent_id LIMIT 1000",
        org_id,
    )
    return [Deletion(**row) for row in rows]


async def claim_due(conn: Connection, started: str, lease_seconds: float, limit: int) -> list[Due]:
    """Take deletions whose next pass has come, or that were verified before a restart."""
    rows = await conn.fetch(
        "UPDATE agent_deletions SET next_pass_at = clock_timestamp() + make_interval(secs => $2)"
        " WHERE agent_id IN (SELECT agent_id FROM agent_deletions"
        "  WHERE next_pass_at <= clock_timestamp() AND (verified_start IS DISTINCT FROM $1 OR passes < $4)"
        "  ORDER BY next_pass_at LIMIT $3 FOR UPDATE SKIP LOCKED)"
        " RETURNING agent_id, org_id, passes, series_found",
        started,
        lease_seconds,
        limit,
        PASSES,
    )
    return [Due(**row) for row in rows]


# Looks at a deletion: at once, after 5 s and after 60 s, because VictoriaMetrics
# may bring back what was in flight, and 13 s of what it had not flushed.
PASS_SECONDS = (5.0, 60.0)
PASSES = len(PASS_SECONDS) + 1
HIDDEN_SECONDS = 600.0  # VictoriaMetrics has flushed a deletion within 13 s


async def note_pass(
    conn: Connection, due: Due, *, found: int, clean: bool, started: str, next_seconds: float
) -> None:
    """Note what a pass found and whether nothing was left after it."""
    await conn.execute(
        "UPDATE agent_deletions SET passes = CASE WHEN $4 THEN passes + 1 ELSE passes END,"
        " series_found = greatest(coalesce(series_found, 0), $3),"
        " deleted_at = coalesce(deleted_at, clock_timestamp()),"
        " verified_at = CASE WHEN $4 THEN clock_timestamp() ELSE verified_at END,"
        " verified_start = CASE WHEN $4 THEN $5 ELSE verified_start END,"
        " next_pass_at = clock_timestamp() + make_interval(secs => $6)"
        " WHERE org_id = $1 AND agent_id = $2",
        due.org_id,
        due.agent_id,
        found,
        clean,
        started,
        next_seconds,
    )


async def stop_hiding(conn: Connection) -> None:
    """Let queries be short again where a deletion is long past and was verified."""
    await conn.execute(
        "UPDATE agent_deletions SET hidden = false"
        " WHERE org_id IS NOT NULL AND hidden AND passes >= $1"
        " AND requested_at < clock_timestamp() - make_interval(secs => $2)",
        PASSES,
        HIDDEN_SECONDS,
    )


async def offline_agents(conn: Connection) -> list[Offline]:
    """Return all agents, of every organization, that gave no sign for 90 s."""
    rows = await conn.fetch(
        "SELECT a.id AS agent_id, a.org_id, a.name FROM agents a"
        " JOIN agent_state s ON s.agent_id = a.id AND s.org_id = a.org_id"
        " WHERE coalesce(s.last_seen, a.created_at)"
        "  <= clock_timestamp() - make_interval(secs => $1) ORDER BY a.id",
        ONLINE_SECONDS,
    )
    return [Offline(**row) for row in rows]
