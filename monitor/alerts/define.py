"""Create, change and delete rules, with what follows for the alerts at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from monitor.alerts import store
from monitor.alerts.live.record import tell
from monitor.alerts.live.sweep import sweep
from monitor.alerts.live.turn import plan_of
from monitor.alerts.models import DEFAULT_SEVERITY, CreatedRule, NewRule, Rule, RuleChange
from monitor.alerts.rules import RuleText
from monitor.auth.tokens import new_id
from monitor.config import CONFIG
from monitor.db.postgres import found, transaction
from monitor.errors import BadRequest, ServiceError, TooManyRequests
from monitor.tsdb.client import TSDB
from monitor.tsdb.selector import AGENT, Selector, parse

if TYPE_CHECKING:
    from aiohttp import web

    from monitor.auth.models import Tenant
    from monitor.db.postgres import Connection

KNOWN_MS = 24 * 3_600_000  # a series that agents pushed within a day is known
NOT_JUDGED = (
    "no metric of the catalogue and no series that an agent has pushed within a day matches this selector;"
    " series that come by remote write are not judged by rules"
)


async def create_rule(app: web.Application, tenant: Tenant, new: NewRule) -> CreatedRule:
    """Store a rule and judge the newest samples by it.

    Raises:
        BadRequest: Names the field that is not valid.
        TooManyRequests: The organization has as many rules as it may have.
    """
    selector = parse(new.metric)
    severity = DEFAULT_SEVERITY if new.severity is None else new.severity
    description = new.description or ""
    for field, text in (("name", new.name), ("description", description), ("severity", severity)):
        _check_text(field, text)
    values = (new.name, description, new.metric, new.operator, new.threshold, severity)
    ceiling = app[CONFIG].config.limits.for_org(tenant.org_id).rules
    async with transaction(app) as conn:
        await store.raise_rules_version(conn, tenant.org_id)
        if await store.count_rules(conn, tenant.org_id) >= ceiling:
            raise TooManyRequests(f"limit reached: {ceiling} rules")
        rule = await store.insert_rule(conn, tenant.org_id, new_id("rule"), values)
    await sweep(app, tenant.org_id, rule.id)
    warnings = await _warnings(app, tenant, rule, selector)
    return CreatedRule(**asdict(rule), warnings=warnings or UNSET)


async def change_rule(app: web.Application, org_id: str, rule_id: str, change: RuleChange) -> None:
    """Apply a partial update.

    Raises:
        NotFound: Not a rule of this organization.
        BadRequest: Names the field that is not valid, or cannot be changed.
    """
    if change.target_metric:
        parse(change.target_metric, field="targetMetric")
    for field, text in (("name", change.name), ("severity", change.severity)):
        if text is not None:
            _check_text(field, text)

    def changed(rule: Rule) -> Rule:
        for field in ("metric", "operator"):
            value = getattr(change, field)
            if value is not None and value != getattr(rule, field):
                raise BadRequest(f"{field}: cannot be changed", field=field)
        values = {name: getattr(change, name) for name in ("name", "enabled", "threshold", "severity")}
        rule = replace(rule, **{name: value for name, value in values.items() if value is not None})
        target = change.target_metric
        return rule if target is UNSET else replace(rule, target_metric=target or None)

    await _update(app, org_id, rule_id, changed)


async def toggle_rule(app: web.Application, org_id: str, rule_id: str) -> None:
    """Enable a rule that is disabled, and the other way round.

    Raises:
        NotFound: Not a rule of this organization.
    """
    await _update(app, org_id, rule_id, lambda rule: replace(rule, enabled=not rule.enabled))


async def delete_rule(app: web.Application, org_id: str, rule_id: str) -> None:
    """Delete a rule; its open alerts are resolved.

    Raises:
        NotFound: Not a rule of this organization.
    """
    async with transaction(app) as conn:
        await store.raise_rules_version(conn, org_id)
        found(await store.delete_rule(conn, org_id, rule_id))
        await tell(conn, await store.resolve_where(conn, org_id, "rule", rule_id=rule_id))


async def close_agent(conn: Connection, org_id: str, agent_id: str) -> None:
    """Resolve the open alerts of an agent that is deleted in this transaction, and locked."""
    await tell(conn, await store.resolve_where(conn, org_id, "gone", agent_id=agent_id))


async def _update(app: web.Application, org_id: str, rule_id: str, changed: Callable[[Rule], Rule]) -> None:
    async with transaction(app) as conn:
        await store.raise_rules_version(conn, org_id)
        before = found(await store.lock_rule(conn, org_id, rule_id))
        rule = changed(before)
        await store.update_rule(conn, rule)
        if before.enabled and not rule.enabled:
            await tell(conn, await store.resolve_where(conn, org_id, "rule", rule_id=rule_id))
    if rule.enabled and (not before.enabled or rule.threshold != before.threshold):
        await sweep(app, org_id, rule_id)


async def _warnings(app: web.Application, tenant: Tenant, rule: Rule, selector: Selector) -> list[str]:
    """Return what to say about a rule that nothing may ever be judged by."""
    if plan_of([RuleText(rule.id, rule.metric, rule.operator, rule.threshold)]).tables:
        return []
    now_ms = time.time_ns() // 1_000_000
    bound = selector.for_tenant(tenant.org_id, tenant.hidden_agents)
    try:
        answer = await app[TSDB].label_values(AGENT, [bound], now_ms - KNOWN_MS, now_ms)
    except ServiceError:
        return []  # the rule stands; whether to warn is not known
    return [] if msgspec.json.decode(answer)["data"] else [NOT_JUDGED]


def _check_text(field: str, text: str) -> None:
    if "\0" in text:
        raise BadRequest(f"{field}: NUL is not allowed", field=field)
    if field == "name" and not text.strip():
        raise BadRequest("name: expected string that is not empty", field=field)
