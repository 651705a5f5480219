"""The SQL of the inventory: which snapshots are there, and those that are new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

Kind = Literal["containers", "pods", "nodes"]


async def versions(conn: Connection, org_id: str) -> dict[str, int]:
    """Return the version of each agent's stored snapshot."""
    rows = await conn.fetch("SELECT agent_id, version FROM agent_state WHERE org_id = $1", org_id)
    return {row["agent_id"]: row["version"] for row in rows}


async def snapshots(
    conn: Connection, org_id: str, kind: Kind, agent_ids: Sequence[str]
) -> dict[str, tuple[int, bytes | None]]:
    """Return version and stored snapshot (zstd of a JSON array) of one kind of each agent."""
    rows = await conn.fetch(
        f"SELECT agent_id, version, {kind} AS snapshot FROM agent_state"  # noqa: S608 - a closed set
        " WHERE org_id = $1 AND agent_id = ANY($2::text[])",
        org_id,
        agent_ids,
    )
    return {row["agent_id"]: (row["version"], row["snapshot"]) for row in rows}
