"""The SQL of what the API asks about rules and alerts; that of evaluation is in ``live.store``.

Whoever changes alerts locks in the order agent, rule, alert; several of one kind in the
order of their ids.  A rule that is deleted or disabled waits here for the pushes that
fire it, and what fires later finds it gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from monitor.agents.models import ONLINE_SECONDS
from monitor.alerts.models import Alert, ResolvedBy, Rule, State
from monitor.notify.models import AlertChange

if TYPE_CHECKING:
    from datetime import datetime

    from monitor.db.postgres import Connection

LISTED = 200  # alerts of a list (api.md, Limits)


async def raise_rules_version(conn: Connection, org_id: str) -> None:
    """Tell every push of *org_id* that its rules change; changes wait for each other here."""
    await conn.execute("UPDATE organizations SET rules_version = rules_version + 1 WHERE id = $1", org_id)


async def count_rules(conn: Connection, org_id: str) -> int:
    """Return how many rules the organization has."""
    count: int = await conn.fetchval("SELECT count(*) FROM alert_rules WHERE org_id = $1", org_id)
    return count


async def insert_rule(conn: Connection, org_id: str, rule_id: str, values: Sequence[Any]) -> Rule:
    """Store a rule: name, description, metric, operator, threshold, severity."""
    row = await conn.fetchrow(
        "INSERT INTO alert_rules (org_id, id, name, description, metric, operator, threshold, severity)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING *",
        org_id,
        rule_id,
        *values,
    )
    assert row is not None, "an insert without a condition returns its row"
    return Rule(**row)


async def list_rules(conn: Connection, org_id: str) -> list[Rule]:
    """Return the rules of *org_id* in the order of their creation."""
    rows = await conn.fetch("SELECT * FROM alert_rules WHERE org_id = $1 ORDER BY created_at, id", org_id)
    return [Rule(**row) for row in rows]


async def lock_rule(conn: Connection, org_id: str, rule_id: str) -> Rule | None:
    """Return a rule, held against changes and against whoever fires it."""
    row = await conn.fetchrow(
        "SELECT * FROM alert_rules WHERE org_id = $1 AND id = $2 FOR UPDATE", org_id, rule_id
    )
    return None if row is None else Rule(**row)


async def update_rule(conn: Connection, rule: Rule) -> None:
    """Store what may change of a rule that is locked."""
    await conn.execute(
        "UPDATE alert_rules SET name = $3, enabled = $4, threshold = $5, severity = $6, target_metric = $7"
        " WHERE org_id = $1 AND id = $2",
        rule.org_id,
        rule.id,
        rule.name,
        rule.enabled,
        rule.threshold,
        rule.severity,
        rule.target_metric,
    )


async def delete_rule(conn: Connection, org_id: str, rule_id: str) -> str | None:
    """Delete a rule, after whoever fires it now; return its id."""
    deleted: str | None = await conn.fetchval(
        "DELETE FROM alert_rules WHERE org_id = $1 AND id = $2 RETURNING id", org_id, rule_id
    )
    return deleted


async def resolve_where(
    conn: Connection,
    org_id: str,
    by: ResolvedBy,
    *,
    alert_id: str | None = None,
    rule_id: str | None = None,
    agent_id: str | None = None,
) -> list[AlertChange]:
    """Resolve the open alerts of one id, one rule or one agent."""
    rows = await conn.fetch(
        "WITH held AS (SELECT id FROM fired_alerts WHERE org_id = $1 AND state <> 'resolved'"
        "  AND (id = $3 OR rule_id = $4 OR agent_id = $5) ORDER BY id FOR UPDATE)"
        " UPDATE fired_alerts a SET state = 'resolved', resolved_at = clock_timestamp(), resolved_by = $2"
        " FROM held WHERE a.org_id = $1 AND a.id = held.id RETURNING a.*",
        org_id,
        by,
        alert_id,
        rule_id,
        agent_id,
    )
    return [change_of(row, "resolved", row["resolved_at"]) for row in rows]


async def acknowledge(
    conn: Connection, org_id: str, alert_id: str, by: str, comment: str
) -> AlertChange | None:
    """Acknowledge an alert that is firing, in the name of *by*; None if it is not."""
    row = await conn.fetchrow(
        "UPDATE fired_alerts SET state = 'acknowledged', acknowledged_at = clock_timestamp(),"
        " acknowledged_by = $3, comment = $4"
        " WHERE org_id = $1 AND id = $2 AND state = 'firing' RETURNING *",
        org_id,
        alert_id,
        by,
        comment,
    )
    return None if row is None else change_of(row, "acknowledged", row["acknowledged_at"])


async def lock_agent_of(conn: Connection, org_id: str, alert_id: str) -> str | None:
    """Hold the agent of an alert and raise its alerts' version; None if there is no such alert."""
    agent_id: str | None = await conn.fetchval(
        "SELECT agent_id FROM fired_alerts WHERE org_id = $1 AND id = $2", org_id, alert_id
    )
    await conn.execute(
        "UPDATE agent_state SET alerts_version = alerts_version + 1 WHERE org_id = $1 AND agent_id = $2",
        org_id,
        agent_id,
    )
    return agent_id


async def list_alerts(
    conn: Connection, org_id: str, state: State | None, alert_id: str | None = None
) -> list[Alert]:
    """Return the newest alerts, at most LISTED, of one state or with one id if they are given."""
    rows = await conn.fetch(
        "SELECT a.*, a.state <> 'resolved' AND coalesce(coalesce(s.last_seen, g.created_at)"
        "  <= clock_timestamp() - make_interval(secs => $4), false) AS stale"
        " FROM fired_alerts a LEFT JOIN agent_state s ON s.agent_id = a.agent_id AND s.org_id = a.org_id"
        " LEFT JOIN agents g ON g.id = a.agent_id AND g.org_id = a.org_id"
        " WHERE a.org_id = $1 AND ($2::text IS NULL OR a.state = $2) AND ($3::text IS NULL OR a.id = $3)"
        " ORDER BY a.fired_at DESC, a.id DESC LIMIT $5",
        org_id,
        state,
        alert_id,
        ONLINE_SECONDS,
        LISTED,
    )
    return [_alert(row) for row in rows]


async def open_of_rules(conn: Connection, org_id: str) -> list[Alert]:
    """Return all open alerts of the organization, oldest first."""
    rows = await conn.fetch(
        "SELECT *, false AS stale FROM fired_alerts WHERE org_id = $1 AND state <> 'resolved'"
        " ORDER BY fired_at, id",
        org_id,
    )
    return [_alert(row) for row in rows]


def _alert(row: Any) -> Alert:
    values = {name: row[name] for name in Alert.__struct_fields__}
    return Alert(**{**values, "metric": msgspec.json.decode(row["metric"])})


def change_of(row: Any, state: State, at: datetime, value: float | None = None) -> AlertChange:
    """Return what is told of an alert's row that entered *state*; *value* is what decided, if it is known."""
    names = ("org_id", "rule_id", "rule_name", "severity", "resource_type", "resource_id", "resource_name")
    return AlertChange(
        **{name: row[name] for name in (*names, "agent_id", "threshold", "operator", "message")},
        alert_id=row["id"],
        state=state,
        metric=msgspec.json.decode(row["metric"]),
        value=row["value"] if value is None else value,
        at=at,
    )
