"""Rules and alerts in the forms of Prometheus' rules and alerts endpoints."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from monitor.alerts import store
from monitor.alerts.models import Alert, Rule
from monitor.auth.models import TENANT
from monitor.db.postgres import connection
from monitor.prometheus.forms import sample_text
from monitor.tsdb.selector import NAME

GROUP = "monitor"  # the service groups no rules: all stand in one
INTERVAL_SECONDS = 15  # rules are evaluated as agents push
OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "eq": "=="}


async def rule_groups(request: web.Request) -> list[dict[str, Any]]:
    """Return the one group of the organization's enabled rules, none if there is no rule."""
    org_id = request[TENANT].org_id
    async with connection(request.app) as conn:
        rules = [rule for rule in await store.list_rules(conn, org_id) if rule.enabled]
        alerts = await store.open_of_rules(conn, org_id)
    return groups_of(rules, alerts, datetime.now(UTC))


async def active_alerts(request: web.Request) -> list[dict[str, Any]]:
    """Return the organization's open alerts."""
    async with connection(request.app) as conn:
        return [alert_of(alert) for alert in await store.open_of_rules(conn, request[TENANT].org_id)]


def groups_of(rules: list[Rule], alerts: list[Alert], at: datetime) -> list[dict[str, Any]]:
    """Return *rules* with their *alerts* as one group, evaluated *at* a time."""
    if not rules:
        return []
    by_rule: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        by_rule[alert.rule_id].append(alert)
    evaluated = {"evaluationTime": 0, "lastEvaluation": _time(at)}
    shown = [
        {
            "state": "firing" if by_rule[rule.id] else "inactive",
            "name": rule.name,
            "query": f"{rule.metric} {OPERATORS[rule.operator]} {sample_text(rule.threshold)}",
            "duration": 0,
            "labels": _severity(rule.severity),
            "annotations": {"description": rule.description} if rule.description else {},
            "alerts": [alert_of(alert) for alert in by_rule[rule.id]],
            "health": "ok",
            **evaluated,
            "type": "alerting",
        }
        for rule in rules
    ]
    group = {"name": GROUP, "file": GROUP, "rules": shown, "interval": INTERVAL_SECONDS, "limit": 0}
    return [{**group, **evaluated}]


def alert_of(alert: Alert) -> dict[str, Any]:
    """Return an open alert; Prometheus knows no acknowledged ones, they fire."""
    labels = {name: value for name, value in alert.metric.items() if name != NAME}
    return {
        "labels": {**labels, **_severity(alert.severity), "alertname": alert.rule_name},
        "annotations": {"summary": alert.message},
        "state": "firing",
        "activeAt": _time(alert.fired_at),
        "value": exponent_text(alert.value),
    }


def exponent_text(value: float) -> str:
    """Return a value as Prometheus writes that of an alert, ``9.5e+01``: shortest, with an exponent."""
    return next(text for text in (f"{value:.{digits}e}" for digits in range(18)) if float(text) == value)


def _severity(severity: str) -> dict[str, str]:
    return {"severity": severity} if severity else {}


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
