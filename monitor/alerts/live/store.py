"""The SQL of evaluation: what is read of rules, alerts and newest samples, and what is opened and resolved.

The agents are locked, in the order of their ids, by whoever calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from monitor.agents.models import ONLINE_SECONDS
from monitor.alerts.rules import RuleText
from monitor.alerts.store import change_of
from monitor.alerts.watch import AgentAt, OpenAlert, Opened, Resolved, message_of, series_hash
from monitor.notify.models import AlertChange

if TYPE_CHECKING:
    from datetime import datetime

    from monitor.db.postgres import Connection


class Snapshot(Struct, frozen=True):
    """What Postgres holds of an agent's newest samples: zstd of JSON arrays, None if never reported."""

    agent: AgentAt
    offline: bool
    containers_at: datetime | None
    collected_at: datetime | None
    containers: bytes | None
    pods: bytes | None
    nodes: bytes | None


class Severity(Struct, frozen=True):
    """How many alerts of a severity fire."""

    org_id: str
    severity: str
    firing: int


async def rules_of(
    conn: Connection, org_ids: Sequence[str], rule_id: str | None = None
) -> list[tuple[str, RuleText]]:
    """Return the enabled rules, or the one, of organizations, each with its organization."""
    rows = await conn.fetch(
        "SELECT org_id, id, metric, operator, threshold FROM alert_rules"
        " WHERE org_id = ANY($1::text[]) AND enabled AND ($2::text IS NULL OR id = $2) ORDER BY id",
        org_ids,
        rule_id,
    )
    return [
        (row["org_id"], RuleText(row["id"], row["metric"], row["operator"], row["threshold"])) for row in rows
    ]


async def open_alerts(
    conn: Connection, agent_ids: Sequence[str], rule_id: str | None = None
) -> list[tuple[str, tuple[str, str], OpenAlert]]:
    """Return agent, key and the rest of each open alert of locked agents, or of one rule on them."""
    rows = await conn.fetch(
        "SELECT id, agent_id, org_id, rule_id, series, metric->>'__name__' AS name,"
        " resource_type = 'series' AS pushed"
        " FROM fired_alerts WHERE agent_id = ANY($1::text[]) AND state <> 'resolved'"
        " AND ($2::text IS NULL OR rule_id = $2)",
        agent_ids,
        rule_id,
    )
    return [
        (row["agent_id"], (row["rule_id"], row["series"]), OpenAlert(row["id"], row["name"], row["pushed"]))
        for row in rows
    ]


async def sample_times(conn: Connection, agent_ids: Sequence[str]) -> dict[str, dict[bytes, int]]:
    """Return the newest times of the watched ``samples`` of locked agents."""
    rows = await conn.fetch(
        "SELECT agent_id, org_id, sample_times FROM agent_state WHERE agent_id = ANY($1::text[])", agent_ids
    )
    return {row["agent_id"]: _times.decode(row["sample_times"] or b"\x80") for row in rows}


async def write_agents(
    conn: Connection, agents: Sequence[tuple[AgentAt, bool, dict[bytes, int] | None]]
) -> None:
    """Raise the alerts' version of locked agents where that is true; store times that are not None."""
    await conn.execute(
        "UPDATE agent_state s SET alerts_version = s.alerts_version + p.raised::int,"
        " sample_times = coalesce(p.times, s.sample_times)"
        " FROM unnest($1::text[], $2::text[], $3::boolean[], $4::bytea[]) AS p (agent_id, org_id, raised, times)"
        " WHERE s.agent_id = p.agent_id AND s.org_id = p.org_id",
        [agent.agent_id for agent, _, _ in agents],
        [agent.org_id for agent, _, _ in agents],
        [raised for _, raised, _ in agents],
        [None if times is None else msgspec.msgpack.encode(times) for _, _, times in agents],
    )


async def insert_alerts(conn: Connection, opened: Sequence[tuple[AgentAt, Opened]]) -> list[AlertChange]:
    """Open alerts; return those that are new: no other is open, and their rule still wants them."""
    rows = await conn.fetch(
        "WITH wanted AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],"
        "  $6::bytea[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::float8[], $13::float8[])"
        " AS w (id, org_id, rule_id, agent_id, series, series_hash, metric, resource_type, resource_id,"
        "  resource_name, message, value, threshold)),"
        # A rule that is being deleted or disabled is waited for, and then not found.
        " rules AS (SELECT id, org_id, name, operator, severity FROM alert_rules"
        "  WHERE enabled AND id IN (SELECT rule_id FROM wanted) ORDER BY id FOR SHARE)"
        " INSERT INTO fired_alerts (id, org_id, rule_id, agent_id, series, series_hash, metric, resource_type,"
        "  resource_id, resource_name, message, value, threshold, rule_name, operator, severity)"
        " SELECT w.id, w.org_id, w.rule_id, w.agent_id, w.series, w.series_hash, w.metric::jsonb,"
        "  w.resource_type, w.resource_id, w.resource_name, w.message, w.value, w.threshold,"
        "  r.name, r.operator, r.severity"
        " FROM wanted w JOIN rules r ON r.id = w.rule_id AND r.org_id = w.org_id"
        " ON CONFLICT (rule_id, series_hash) WHERE state <> 'resolved' DO NOTHING RETURNING *",
        [it.alert_id for _, it in opened],
        [agent.org_id for agent, _ in opened],
        [it.rule.id for _, it in opened],
        [agent.agent_id for agent, _ in opened],
        [it.series for _, it in opened],
        [series_hash(it.series) for _, it in opened],
        [msgspec.json.encode(it.metric).decode() for _, it in opened],
        [it.resource_type for _, it in opened],
        [it.resource_id for _, it in opened],
        [it.resource_name for _, it in opened],
        [message_of(it) for _, it in opened],
        [it.value for _, it in opened],
        [it.rule.threshold for _, it in opened],
    )
    return [change_of(row, "firing", row["fired_at"]) for row in rows]


async def resolve_alerts(conn: Connection, resolved: Sequence[tuple[AgentAt, Resolved]]) -> list[AlertChange]:
    """Resolve open alerts of locked agents; return those that were open."""
    rows = await conn.fetch(
        "WITH held AS (SELECT f.id, p.by, p.value FROM fired_alerts f"
        "  JOIN unnest($1::text[], $2::text[], $3::text[], $4::float8[]) AS p (id, org_id, by, value)"
        "  ON f.id = p.id AND f.org_id = p.org_id WHERE f.state <> 'resolved' ORDER BY f.id FOR UPDATE OF f)"
        " UPDATE fired_alerts a SET state = 'resolved', resolved_at = clock_timestamp(), resolved_by = held.by"
        " FROM held WHERE a.id = held.id RETURNING a.*, held.value AS now_value",
        [it.alert.alert_id for _, it in resolved],
        [agent.org_id for agent, _ in resolved],
        [it.by for _, it in resolved],
        [it.value for _, it in resolved],
    )
    return [change_of(row, "resolved", row["resolved_at"], row["now_value"]) for row in rows]


async def agent_ids(conn: Connection, org_id: str) -> list[str]:
    """Return the ids of the organization's agents, in order."""
    rows = await conn.fetch("SELECT agent_id FROM agent_state WHERE org_id = $1 ORDER BY agent_id", org_id)
    return [row["agent_id"] for row in rows]


async def lock_snapshots(conn: Connection, org_id: str, agent_ids: Sequence[str]) -> list[Snapshot]:
    """Hold agents and return their newest samples."""
    rows = await conn.fetch(
        "SELECT s.*, a.name, o.rules_version, coalesce(s.last_seen, a.created_at)"
        "  <= clock_timestamp() - make_interval(secs => $3) AS offline"
        " FROM agent_state s JOIN agents a ON a.id = s.agent_id AND a.org_id = s.org_id"
        " JOIN organizations o ON o.id = s.org_id"
        " WHERE s.org_id = $1 AND s.agent_id = ANY($2::text[]) ORDER BY s.agent_id FOR NO KEY UPDATE OF s",
        org_id,
        agent_ids,
        ONLINE_SECONDS,
    )
    return [
        Snapshot(
            _agent(row),
            *[
                row[name]
                for name in ("offline", "containers_at", "collected_at", "containers", "pods", "nodes")
            ],
        )
        for row in rows
    ]


async def offline_agents(conn: Connection) -> list[AgentAt]:
    """Return the agents, of every organization, that gave no sign for 90 s."""
    rows = await conn.fetch(
        "SELECT s.agent_id, s.org_id, s.version, s.alerts_version, a.name, o.rules_version"
        " FROM agent_state s JOIN agents a ON a.id = s.agent_id AND a.org_id = s.org_id"
        " JOIN organizations o ON o.id = s.org_id WHERE coalesce(s.last_seen, a.created_at)"
        "  <= clock_timestamp() - make_interval(secs => $1)",
        ONLINE_SECONDS,
    )
    return [_agent(row) for row in rows]


async def lock_offline(conn: Connection, agent_ids: Sequence[str]) -> list[AgentAt]:
    """Hold those of *agent_ids* that are offline still; those held elsewhere are left out."""
    rows = await conn.fetch(
        "SELECT s.agent_id, s.org_id, s.version, s.alerts_version, a.name, o.rules_version"
        " FROM agent_state s JOIN agents a ON a.id = s.agent_id AND a.org_id = s.org_id"
        " JOIN organizations o ON o.id = s.org_id"
        " WHERE s.agent_id = ANY($1::text[]) AND coalesce(s.last_seen, a.created_at)"
        "  <= clock_timestamp() - make_interval(secs => $2)"
        " ORDER BY s.agent_id FOR NO KEY UPDATE OF s SKIP LOCKED",
        agent_ids,
        ONLINE_SECONDS,
    )
    return [_agent(row) for row in rows]


async def firing(conn: Connection) -> list[Severity]:
    """Return how many alerts fire, with a 0 for severities of which none does, or no longer."""
    rows = await conn.fetch(
        "SELECT org_id, severity, sum(firing)::int AS firing FROM ("
        " SELECT org_id, severity, 0 AS firing FROM alert_rules"
        " UNION ALL SELECT org_id, severity, (state = 'firing')::int FROM fired_alerts WHERE state <> 'resolved'"
        " UNION ALL SELECT org_id, severity, 0 FROM fired_alerts"
        "  WHERE state = 'resolved' AND resolved_at > clock_timestamp() - interval '5 min'"
        ") AS counted GROUP BY org_id, severity"
    )
    return [Severity(**row) for row in rows]


async def forget_resolved(conn: Connection, seconds: int, most: int) -> int:
    """Delete up to *most* alerts that were resolved more than *seconds* ago, the oldest first; return how many."""
    rows = await conn.fetch(
        "DELETE FROM fired_alerts WHERE id = ANY(ARRAY("
        " SELECT id FROM fired_alerts WHERE state = 'resolved'"
        "  AND resolved_at < clock_timestamp() - make_interval(secs => $1)"
        " ORDER BY resolved_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1",
        seconds,
        most,
    )
    return len(rows)


_times = msgspec.msgpack.Decoder(dict[bytes, int])


def _agent(row: Any) -> AgentAt:
    return AgentAt(**{name: row[name] for name in AgentAt.__struct_fields__})
