"""The SQL of a push: lock the agents, read what they pushed before, write what they push now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from monitor.db.postgres import Connection


class Locked(Struct, frozen=True):
    """An agent's state, locked, and whether its organization may push.

    While ``rules_version`` and ``alerts_version`` are as remembered, so are the
    organization's rules and the agent's open alerts.  Unless ``is_tailed``, no log
    requests wait for the agent.
    """

    agent_id: str
    org_id: str
    name: str
    suspended: bool
    version: int
    seq: int | None
    collected_at: datetime | None
    containers_at: datetime | None
    rules_version: int
    alerts_version: int
    is_tailed: bool | None


class Change(Struct, frozen=True):
    """What one push writes into ``agent_state``; None leaves what is there.

    A push that is older than the stored snapshot (*newest* False) only tells that
    the agent lives.
    """

    agent_id: str
    org_id: str
    newest: bool
    agent_version: str | None
    collected_at: datetime
    seq: int | None
    containers: bytes | None
    container_count: int | None
    pods: bytes | None
    pod_count: int | None
    nodes: bytes | None
    node_count: int | None


async def lock_agents(conn: Connection, agent_ids: Sequence[str]) -> dict[str, Locked]:
    """Lock the states of *agent_ids* in one order everywhere; those held elsewhere are left out."""
    rows = await conn.fetch(
        "SELECT s.agent_id, s.org_id, a.name, o.suspended,"
        " s.version, s.seq, s.collected_at, s.containers_at, o.rules_version, s.alerts_version,"
        " s.tails_until > clock_timestamp() AS is_tailed"
        " FROM agent_state s"
        " JOIN agents a ON a.id = s.agent_id AND a.org_id = s.org_id"
        " JOIN organizations o ON o.id = s.org_id"
        " WHERE s.agent_id = ANY($1::text[]) ORDER BY s.agent_id"
        " FOR NO KEY UPDATE OF s SKIP LOCKED",
        agent_ids,
    )
    return {row["agent_id"]: Locked(**row) for row in rows}


async def living_agents(conn: Connection, agent_ids: Sequence[str]) -> set[str]:
    """Return which of *agent_ids* exist, whoever holds them."""
    rows = await conn.fetch(
        "SELECT agent_id, org_id FROM agent_state WHERE agent_id = ANY($1::text[])", agent_ids
    )
    return {row["agent_id"] for row in rows}


async def stored_containers(conn: Connection, agent_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the stored containers (zstd of a JSON array) of agents that are locked already."""
    rows = await conn.fetch(
        "SELECT agent_id, org_id, containers FROM agent_state"
        " WHERE agent_id = ANY($1::text[]) AND containers IS NOT NULL",
        agent_ids,
    )
    return {row["agent_id"]: row["containers"] for row in rows}


async def write_states(conn: Connection, changes: Sequence[Change]) -> None:
    """Write the states of locked agents, all in one statement."""
    await conn.execute(
        "UPDATE agent_state s SET last_seen = clock_timestamp(),"
        " agent_version = coalesce(p.agent_version, s.agent_version),"
        " version = s.version + p.newest::int,"
        " collected_at = CASE WHEN p.newest THEN p.collected_at ELSE s.collected_at END,"
        " seq = CASE WHEN p.newest THEN p.seq ELSE s.seq END,"
        " containers_at = CASE WHEN p.containers IS NULL THEN s.containers_at ELSE p.collected_at END,"
        " containers = coalesce(p.containers, s.containers),"
        " container_count = coalesce(p.container_count, s.container_count),"
        " pods = coalesce(p.pods, s.pods), pod_count = coalesce(p.pod_count, s.pod_count),"
        " nodes = coalesce(p.nodes, s.nodes), node_count = coalesce(p.node_count, s.node_count)"
        " FROM unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::timestamptz[], $6::bigint[],"
        "  $7::bytea[], $8::int[], $9::bytea[], $10::int[], $11::bytea[], $12::int[])"
        " AS p (agent_id, org_id, newest, agent_version, collected_at, seq,"
        "  containers, container_count, pods, pod_count, nodes, node_count)"
        " WHERE s.agent_id = p.agent_id AND s.org_id = p.org_id",
        [change.agent_id for change in changes],
        [change.org_id for change in changes],
        [change.newest for change in changes],
        [change.agent_version for change in changes],
        [change.collected_at for change in changes],
        [change.seq for change in changes],
        [change.containers for change in changes],
        [change.container_count for change in changes],
        [change.pods for change in changes],
        [change.pod_count for change in changes],
        [change.nodes for change in changes],
        [change.node_count for change in changes],
    )


async def note_sign_of_life(conn: Connection, agent_ids: Sequence[str]) -> None:
    """Note that agents gave a sign without anything new: a repeated push."""
    await conn.execute(
        "UPDATE agent_state SET last_seen = clock_timestamp()"
        " WHERE agent_id = ANY($1::text[]) AND org_id IS NOT NULL",
        agent_ids,
    )
