"""All SQL about agents as such; what they push is the ingest's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.agents.models import ONLINE_SECONDS, Agent

if TYPE_CHECKING:
    from monitor.db.postgres import Connection


async def lock_organization(conn: Connection, org_id: str) -> None:
    """Hold the organization's row, so that a count of its agents stays true."""
    await conn.execute("SELECT 1 FROM organizations WHERE id = $1 FOR NO KEY UPDATE", org_id)


async def count_agents(conn: Connection, org_id: str) -> int:
    """Return how many agents the organization has."""
    count: int = await conn.fetchval("SELECT count(*) FROM agents WHERE org_id = $1", org_id)
    return count


async def insert_agent(
    conn: Connection,
    org_id: str,
    *,
    agent_id: str,
    name: str,
    type_: str,
    pool: str,
    version: str,
    token_hash: bytes,
) -> None:
    """Store a new agent with an empty state."""
    await conn.execute(
        "WITH agent AS ("
        " INSERT INTO agents (id, org_id, name, type, pool, token_hash)"
        " VALUES ($2, $1, $3, $4, $5, $6) RETURNING id, org_id)"
        " INSERT INTO agent_state (agent_id, org_id, agent_version)"
        " SELECT id, org_id, $7 FROM agent",
        org_id,
        agent_id,
        name,
        type_,
        pool,
        token_hash,
        version,
    )


async def list_agents(conn: Connection, org_id: str) -> list[Agent]:
    """Return all agents of *org_id* in the order of their creation."""
    rows = await conn.fetch(
        "SELECT a.id, a.name, a.type, a.pool, a.created_at, s.agent_version AS version,"
        " s.container_count, s.pod_count, s.node_count, s.last_seen,"
        " CASE WHEN s.last_seen > clock_timestamp() - make_interval(secs => $2)"
        "  THEN 'online' ELSE 'offline' END AS status"
        " FROM agents a JOIN agent_state s ON s.agent_id = a.id AND s.org_id = a.org_id"
        " WHERE a.org_id = $1 ORDER BY a.created_at, a.id",
        org_id,
        ONLINE_SECONDS,
    )
    return [Agent(**row) for row in rows]
