"""The SQL of the loop: due shards, snapshots, states, and what became of commands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from monitor.agents.models import ONLINE_SECONDS
from monitor.auth.models import Plan
from monitor.commands.store import POLL_SECONDS
from monitor.scaling.apply import Order
from monitor.scaling.models import Settings
from monitor.scaling.observe import Snapshot
from monitor.scaling.spec import Memory, Runtime
from monitor.scaling.state import Pending, State
from monitor.scaling.store import settings_of

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

_memory = msgspec.json.Decoder(Memory)
_pending = msgspec.json.Decoder(Pending)


class Shard(Struct, frozen=True):
    """Policies of one organization that are due, and are ours for a while.

    ``due_at`` fences what is written in the end: whoever comes too late finds another.
    """

    org_id: str
    shard: int
    due_at: datetime
    plan: Plan


class Result(Struct, frozen=True):
    """What became of a command: ``succeeded``, ``failed``, ``expired`` or ``gone`` with its agent."""

    command_id: str
    outcome: str
    message: str
    host: str


class InForce(Struct, frozen=True):
    """A change that a Kubernetes agent is to keep applied."""

    policy_id: str
    target_ref: str
    generation: int
    replicas: int


class Waking(Struct, frozen=True):
    """A policy whose sleep a metric ends."""

    policy_id: str
    org_id: str
    wake_metric: str
    hidden_agents: list[str]


async def claim_shard(conn: Connection, after_org: str, lease_seconds: float) -> Shard | None:
    """Lease the shard that has been due longest, one of *after_org* first; None if none is due."""
    row = await conn.fetchrow(
        "UPDATE scaling_shards s SET leased_until = clock_timestamp() + make_interval(secs => $2)"
        " FROM (SELECT d.org_id, d.shard, o.plan FROM scaling_shards d"
        "  JOIN organizations o ON o.id = d.org_id AND NOT o.suspended"
        "  WHERE d.due_at <= now() AND d.leased_until <= now()"
        "  AND (EXISTS (SELECT 1 FROM scaling_policies p"
        "   WHERE p.org_id = d.org_id AND p.shard = d.shard AND p.enabled)"
        "  OR EXISTS (SELECT 1 FROM scaling_policies p JOIN scaling_states t ON t.policy_id = p.id"
        "   WHERE p.org_id = d.org_id AND p.shard = d.shard AND t.open_commands <> '{}'))"
        "  ORDER BY d.org_id = $1 DESC, d.due_at LIMIT 1 FOR UPDATE OF d SKIP LOCKED) AS due"
        " WHERE s.org_id = due.org_id AND s.shard = due.shard"
        " RETURNING s.org_id, s.shard, s.due_at, due.plan",
        after_org,
        lease_seconds,
    )
    return None if row is None else Shard(**row)


async def finish_shard(conn: Connection, shard: Shard, seconds: float) -> datetime | None:
    """Make a claimed shard due again at its next time; return now, None if somebody was faster.

    The times of a shard are *seconds* apart; those that have passed are left out.
    """
    now: datetime | None = await conn.fetchval(
        "UPDATE scaling_shards SET leased_until = '-infinity', due_at = due_at + make_interval(secs => $4"
        "  * (floor(extract(epoch FROM clock_timestamp() - due_at)::float8 / $4) + 1))"
        " WHERE org_id = $1 AND shard = $2 AND due_at = $3 RETURNING clock_timestamp()",
        shard.org_id,
        shard.shard,
        shard.due_at,
        seconds,
    )
    return now


async def target_refs(conn: Connection, org_id: str) -> list[tuple[Runtime, str]]:
    """Return runtime and target of every policy of the organization, each once."""
    rows = await conn.fetch(
        "SELECT DISTINCT runtime, target_ref FROM scaling_policies WHERE org_id = $1", org_id
    )
    return [(row["runtime"], row["target_ref"]) for row in rows]


async def snapshots(conn: Connection, org_id: str) -> list[Snapshot]:
    """Return what each of the organization's agents pushed last."""
    rows = await conn.fetch(
        "SELECT a.id AS agent_id, a.name, a.pool, s.containers, s.pods, s.nodes,"
        " coalesce(s.last_seen > clock_timestamp() - make_interval(secs => $2), false) AS online"
        " FROM agents a JOIN agent_state s ON s.agent_id = a.id AND s.org_id = a.org_id WHERE a.org_id = $1",
        org_id,
        ONLINE_SECONDS,
    )
    return [Snapshot(**row) for row in rows]


async def agents_of_pool(conn: Connection, org_id: str, pool: str) -> list[str]:
    """Return the agents of a pool; an agent's own name is a pool, too."""
    rows = await conn.fetch(
        "SELECT id FROM agents WHERE org_id = $1 AND $2 IN (pool, name) ORDER BY id", org_id, pool
    )
    return [row["id"] for row in rows]


async def lock_due(conn: Connection, org_id: str, shard: int) -> list[tuple[Settings, State]]:
    """Return the policies of a shard with their states, held; of paused ones those with open commands."""
    rows = await conn.fetch(
        "SELECT s.*, p.* FROM scaling_policies p"
        " JOIN scaling_states s ON s.policy_id = p.id AND s.org_id = p.org_id"
        " WHERE p.org_id = $1 AND p.shard = $2 AND (p.enabled OR s.open_commands <> '{}')"
        " ORDER BY p.id FOR NO KEY UPDATE OF p, s",
        org_id,
        shard,
    )
    return [(settings_of(row), state_of(row)) for row in rows]


async def lock_state(conn: Connection, org_id: str, policy_id: str) -> State | None:
    """Return the state of a policy that is locked, held as well."""
    row = await conn.fetchrow(
        "SELECT * FROM scaling_states WHERE org_id = $1 AND policy_id = $2 FOR NO KEY UPDATE",
        org_id,
        policy_id,
    )
    return None if row is None else state_of(row)


async def write_states(conn: Connection, org_id: str, states: Sequence[State]) -> None:
    """Store states that are held; the wake metric's value is not theirs."""
    await conn.execute(
        "UPDATE scaling_states s SET evaluated_at = n.evaluated_at, current_replicas = n.current_replicas,"
        "  desired_replicas = n.desired_replicas, last_reason = n.last_reason, memory = n.memory,"
        "  reported_by = n.reported_by, generation = n.generation,"
        "  applied_generation = n.applied_generation, applied_replicas = n.applied_replicas,"
        "  applied_at = n.applied_at, apply_health = n.apply_health, apply_message = n.apply_message,"
        "  failures = n.failures, open_commands = n.open_commands::text[], pending = n.pending"
        " FROM unnest($2::text[], $3::timestamptz[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[],"
        "  $9::bigint[], $10::bigint[], $11::int[], $12::timestamptz[], $13::text[], $14::text[], $15::int[],"
        "  $16::text[], $17::text[])"
        " AS n (policy_id, evaluated_at, current_replicas, desired_replicas, last_reason, memory, reported_by,"
        "  generation, applied_generation, applied_replicas, applied_at, apply_health, apply_message, failures,"
        "  open_commands, pending)"
        " WHERE s.org_id = $1 AND s.policy_id = n.policy_id",
        org_id,
        *zip(*map(_columns, states), strict=True),
    )


async def insert_commands(conn: Connection, org_id: str, commands: Sequence[tuple[str, Order]]) -> set[str]:
    """Tell agents what to do, under the ids given; return the agents whose poll waits for it.

    A command for an agent that was deleted since is left out.
    """
    rows = await conn.fetch(
        "WITH added AS (INSERT INTO commands (id, org_id, agent_id, type, payload)"
        "  SELECT n.id, a.org_id, a.id, n.type, n.payload"
        "  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY"
        "   AS n (id, agent_id, type, payload, number)"
        "  JOIN agents a ON a.id = n.agent_id AND a.org_id = $1 ORDER BY n.number"
        # An agent that is being deleted is waited for, and then not found.
        "  FOR KEY SHARE OF a RETURNING agent_id)"
        " SELECT DISTINCT p.agent_id FROM command_polls p JOIN added ON added.agent_id = p.agent_id"
        " WHERE p.org_id = $1 AND p.opened_at > clock_timestamp() - make_interval(secs => $6)",
        org_id,
        [command_id for command_id, _ in commands],
        [order.agent_id for _, order in commands],
        [order.type for _, order in commands],
        [msgspec.json.encode(order.payload).decode() for _, order in commands],
        POLL_SECONDS,
    )
    return {row["agent_id"] for row in rows}


async def in_force(conn: Connection, org_id: str, agent_id: str) -> list[InForce]:
    """Return the changes that an agent is to apply; of a paused policy one that is under way alone."""
    rows = await conn.fetch(
        "SELECT p.id AS policy_id, p.target_ref, s.applied_generation AS generation,"
        " s.applied_replicas AS replicas FROM scaling_states s"
        " JOIN scaling_policies p ON p.id = s.policy_id AND p.org_id = s.org_id"
        " WHERE s.org_id = $1 AND s.reported_by = $2 AND p.runtime = 'kubernetes' AND NOT p.dry_run"
        " AND s.applied_generation IS NOT NULL AND (p.enabled OR s.apply_health = 'pending') ORDER BY p.id",
        org_id,
        agent_id,
    )
    return [InForce(**row) for row in rows]


async def results(conn: Connection, org_id: str, command_ids: Sequence[str]) -> list[Result]:
    """Return what became of those of *command_ids* that have ended, or are gone."""
    rows = await conn.fetch(
        "SELECT w.id AS command_id, coalesce(c.message, '') AS message, coalesce(a.name, '') AS host,"
        " CASE WHEN c.id IS NULL THEN 'gone' ELSE coalesce(c.status, 'expired') END AS outcome"
        " FROM unnest($2::text[]) AS w (id) LEFT JOIN commands c ON c.id = w.id AND c.org_id = $1"
        " LEFT JOIN agents a ON a.id = c.agent_id AND a.org_id = $1"
        " WHERE c.id IS NULL OR c.status IS NOT NULL OR c.expires_at <= clock_timestamp()",
        org_id,
        command_ids,
    )
    return [Result(**row) for row in rows]


async def due_to_wake(conn: Connection, limit: int) -> list[Waking]:
    """Return enabled policies with a wake metric, of every organization, those first that waited longest."""
    rows = await conn.fetch(
        "SELECT p.id AS policy_id, p.org_id, p.wake_metric, coalesce((SELECT array_agg(d.agent_id)"
        "  FROM agent_deletions d WHERE d.org_id = p.org_id AND d.hidden), '{}') AS hidden_agents"
        " FROM scaling_policies p JOIN scaling_states s ON s.policy_id = p.id AND s.org_id = p.org_id"
        " WHERE p.enabled AND p.policy_type = 'scale_to_zero_on_idle' AND p.wake_metric IS NOT NULL"
        " ORDER BY s.wake_at NULLS FIRST, p.id LIMIT $1",
        limit,
    )
    return [Waking(**row) for row in rows]


async def note_wake(conn: Connection, org_id: str, policy_id: str, value: float | None) -> None:
    """Keep the value of a policy's wake metric, as of now."""
    await conn.execute(
        "UPDATE scaling_states SET wake = $3, wake_at = clock_timestamp()"
        " WHERE org_id = $1 AND policy_id = $2",
        org_id,
        policy_id,
        value,
    )


async def clock(conn: Connection) -> datetime:
    """Return the time of the one clock by which policies are judged."""
    now: datetime = await conn.fetchval("SELECT clock_timestamp()")
    return now


def state_of(row: Any) -> State:
    """Return a row of ``scaling_states``."""
    values = {name: row[name] for name in State.__struct_fields__}
    pending = values["pending"]
    values["memory"] = _memory.decode(values["memory"])
    values["pending"] = None if pending is None else _pending.decode(pending)
    values["open_commands"] = tuple(values["open_commands"])
    return State(**values)


def _columns(state: State) -> tuple[Any, ...]:
    return (
        state.policy_id,
        state.evaluated_at,
        state.current_replicas,
        state.desired_replicas,
        state.last_reason,
        msgspec.json.encode(state.memory).decode(),
        state.reported_by,
        state.generation,
        state.applied_generation,
        state.applied_replicas,
        state.applied_at,
        state.apply_health,
        state.apply_message,
        state.failures,
        "{" + ",".join(state.open_commands) + "}",
        None if state.pending is None else msgspec.json.encode(state.pending).decode(),
    )
