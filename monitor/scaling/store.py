"""The SQL of policies; that of the loop is in ``live.store``, that of decisions in ``log.store``.

Whoever changes a policy locks it first and its state second; several in the order of
their ids.  The head of the decision log comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from monitor.scaling.models import STRATEGIES, Policy, Settings
from monitor.scaling.state import Pending, shown

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

SHARD_POLICIES = 200  # evaluated together, at most

_SETTINGS = Settings.__struct_fields__
_COLUMNS = ", ".join(_SETTINGS)
_PLACES = ", ".join(f"${number}" for number in range(4, 4 + len(_SETTINGS)))
_ASSIGNMENTS = ", ".join(f"{name} = ${number}" for number, name in enumerate(_SETTINGS, 3))
_pending = msgspec.json.Decoder(Pending)


async def lock_organization(conn: Connection, org_id: str) -> None:
    """Hold the organization's row, so that a count of its policies stays true."""
    await conn.execute("SELECT 1 FROM organizations WHERE id = $1 FOR NO KEY UPDATE", org_id)


async def shard_sizes(conn: Connection, org_id: str) -> dict[int, int]:
    """Return how many policies each shard of the organization has."""
    rows = await conn.fetch(
        "SELECT shard, count(*) AS policies FROM scaling_policies WHERE org_id = $1 GROUP BY shard", org_id
    )
    return {row["shard"]: row["policies"] for row in rows}


async def insert_policy(
    conn: Connection, org_id: str, policy_id: str, shard: int, settings: Settings
) -> None:
    """Store a policy with an empty state, in a shard that is there from now on."""
    await conn.execute(
        "WITH place AS (INSERT INTO scaling_shards (org_id, shard)"  # noqa: S608 - our own fields
        "  VALUES ($1, $3) ON CONFLICT DO NOTHING),"
        f" policy AS (INSERT INTO scaling_policies (org_id, id, shard, {_COLUMNS})"
        f"  VALUES ($1, $2, $3, {_PLACES}) RETURNING id, org_id)"
        " INSERT INTO scaling_states (policy_id, org_id) SELECT id, org_id FROM policy",
        org_id,
        policy_id,
        shard,
        *asdict(settings).values(),
    )


async def list_policies(conn: Connection, org_id: str) -> list[Policy]:
    """Return the policies of *org_id* in the order of their creation."""
    rows = await conn.fetch(
        "SELECT s.*, p.* FROM scaling_policies p"
        " JOIN scaling_states s ON s.policy_id = p.id AND s.org_id = p.org_id"
        " WHERE p.org_id = $1 ORDER BY p.created_at, p.id",
        org_id,
    )
    return [policy_of(row) for row in rows]


async def show_policy(conn: Connection, org_id: str, policy_id: str) -> Policy | None:
    """Return one policy."""
    row = await conn.fetchrow(
        "SELECT s.*, p.* FROM scaling_policies p"
        " JOIN scaling_states s ON s.policy_id = p.id AND s.org_id = p.org_id"
        " WHERE p.org_id = $1 AND p.id = $2",
        org_id,
        policy_id,
    )
    return None if row is None else policy_of(row)


async def lock_policy(conn: Connection, org_id: str, policy_id: str) -> Settings | None:
    """Return the settings of a policy, held against changes and against what is decided for it."""
    row = await conn.fetchrow(
        "SELECT * FROM scaling_policies WHERE org_id = $1 AND id = $2 FOR UPDATE", org_id, policy_id
    )
    return None if row is None else settings_of(row)


async def update_policy(conn: Connection, org_id: str, policy_id: str, settings: Settings) -> None:
    """Store the settings of a policy that is locked."""
    await conn.execute(
        f"UPDATE scaling_policies SET {_ASSIGNMENTS}"  # noqa: S608 - our own fields
        " WHERE org_id = $1 AND id = $2",
        org_id,
        policy_id,
        *asdict(settings).values(),
    )


async def delete_policy(conn: Connection, org_id: str, policy_id: str) -> str | None:
    """Delete a policy with its state; return its id.  Its decisions stay."""
    deleted: str | None = await conn.fetchval(
        "DELETE FROM scaling_policies WHERE org_id = $1 AND id = $2 RETURNING id", org_id, policy_id
    )
    return deleted


def settings_of(row: Any) -> Settings:
    """Return the settings in a row of ``scaling_policies``."""
    return Settings(**{name: row[name] for name in _SETTINGS})


def policy_of(row: Any) -> Policy:
    """Return a row of both tables as the API shows it."""
    current = row["current_replicas"] or 0
    desired = row["desired_replicas"]
    return Policy(
        **{name: row[name] for name in _SETTINGS},
        id=row["id"],
        org_id=row["org_id"],
        strategy=STRATEGIES[row["runtime"]],
        current_replicas=current,
        desired_replicas=current if desired is None else desired,
        apply_health=row["apply_health"],
        apply_message=row["apply_message"],
        generation=row["applied_generation"] or 0,
        pending_approval=None if row["pending"] is None else shown(_pending.decode(row["pending"])),
        last_reason=row["last_reason"],
        last_evaluated_at=row["evaluated_at"],
        created_at=row["created_at"],
    )


def shard_with_room(sizes: Mapping[int, int]) -> int:
    """Return the first shard that can take another policy; *sizes* are those there are."""
    full = {shard for shard, policies in sizes.items() if policies >= SHARD_POLICIES}
    shard = 0
    while shard in full:
        shard += 1
    return shard
