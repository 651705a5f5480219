"""Alert rules and fired alerts; both forms of the rules' path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import get_args

from aiohttp import web

from monitor.alerts import define, store
from monitor.alerts.backtest import backtest
from monitor.alerts.live.record import tell
from monitor.alerts.models import (
    Acknowledgement,
    Alert,
    AlertQuery,
    Backtest,
    BacktestRequest,
    CreatedRule,
    NewRule,
    Rule,
    RuleChange,
    State,
)
from monitor.auth.middleware import requires
from monitor.auth.models import TENANT
from monitor.db.postgres import connection, found, transaction
from monitor.errors import BadRequest, NotFound
from monitor.web.codec import check_type, decode, no_content, read_body, read_bytes, reply
from monitor.web.openapi import describes

RULES = ("/api/v1/alerts/rules", "/api/v1/alert-rules")

Handler = Callable[[web.Request], Awaitable[web.Response]]

routes = web.RouteTableDef()


def rules(method: str, path: str = "") -> Callable[[Handler], Handler]:
    """Offer a handler below both forms of the rules' path."""

    def mark(handler: Handler) -> Handler:
        for form in RULES:
            routes.route(method, f"{form}{path}")(handler)
        return handler

    return mark


@rules("GET")
@describes(reply=list[Rule])
async def list_rules(request: web.Request) -> web.Response:
    """List the rules in the order of their creation."""
    async with connection(request.app) as conn:
        return reply(await store.list_rules(conn, request[TENANT].org_id))


@rules("POST")
@describes(body=NewRule, reply=CreatedRule, status=201)
async def create_rule(request: web.Request) -> web.Response:
    """Create a rule; it has been judged by the newest samples when this answers."""
    new = await read_body(request, NewRule)
    return reply(await define.create_rule(request.app, request[TENANT], new), status=201)


@rules("POST", "/backtest")
@requires(role="viewer")
@describes(body=BacktestRequest, reply=Backtest)
async def backtest_rule(request: web.Request) -> web.Response:
    """Tell when a rule would have fired over stored history."""
    body = await read_body(request, BacktestRequest)
    return reply(await backtest(request.app, request[TENANT], body))


@rules("PUT", "/{id}")
@describes(body=RuleChange, status=204)
async def change_rule(request: web.Request) -> web.Response:
    """Change a rule's name, enabled, threshold, severity or targetMetric; what is left out stays."""
    change = await read_body(request, RuleChange)
    await define.change_rule(request.app, request[TENANT].org_id, request.match_info["id"], change)
    return no_content()


@rules("PUT", "/{id}/toggle")
@describes(status=204)
async def toggle_rule(request: web.Request) -> web.Response:
    """Enable a disabled rule, disable an enabled one."""
    await define.toggle_rule(request.app, request[TENANT].org_id, request.match_info["id"])
    return no_content()


@rules("DELETE", "/{id}")
@describes(status=204)
async def delete_rule(request: web.Request) -> web.Response:
    """Delete a rule; its open alerts are resolved, and stay in the list."""
    await define.delete_rule(request.app, request[TENANT].org_id, request.match_info["id"])
    return no_content()


@routes.get("/api/v1/alerts")
@describes(query=AlertQuery, reply=list[Alert])
async def list_alerts(request: web.Request) -> web.Response:
    """List the 200 newest alerts, newest first."""
    state = _state(request)
    async with connection(request.app) as conn:
        return reply(await store.list_alerts(conn, request[TENANT].org_id, state))


@routes.get("/api/v1/alerts/{id}")
@describes(reply=Alert)
async def show_alert(request: web.Request) -> web.Response:
    """Show one alert."""
    async with connection(request.app) as conn:
        alerts = await store.list_alerts(conn, request[TENANT].org_id, None, request.match_info["id"])
    return reply(found(alerts[0] if alerts else None))


@routes.put("/api/v1/alerts/{id}/acknowledge")
@describes(body=Acknowledgement, status=204)
async def acknowledge(request: web.Request) -> web.Response:
    """Acknowledge an alert that is firing."""
    comment, tenant = await _comment(request), request[TENANT]
    async with transaction(request.app) as conn:
        change = await store.acknowledge(conn, tenant.org_id, request.match_info["id"], tenant.name, comment)
        await tell(conn, [found(change)])
    return no_content()


@routes.put("/api/v1/alerts/{id}/resolve")
@describes(status=204)
async def resolve(request: web.Request) -> web.Response:
    """Resolve an alert; if its condition still holds, the next sample fires a new one."""
    org_id, alert_id = request[TENANT].org_id, request.match_info["id"]
    async with transaction(request.app) as conn:
        if await store.lock_agent_of(conn, org_id, alert_id) is None:
            raise NotFound
        await tell(conn, await store.resolve_where(conn, org_id, "user", alert_id=alert_id))
    return no_content()


async def _comment(request: web.Request) -> str:
    body = await read_bytes(request)
    if not body.strip():
        return ""  # whatever type it is said to be: some clients name one for no body
    check_type(request)
    comment = decode(body, Acknowledgement).comment or ""
    if "\0" in comment:
        raise BadRequest("comment: NUL is not allowed", field="comment")
    return comment


def _state(request: web.Request) -> State | None:
    """Return the state that is asked for, None for all."""
    values = set(request.query.getall("state", []))
    if not values:
        return None
    states: tuple[State, ...] = get_args(State)
    for state in states:
        if values == {state}:
            return state
    raise BadRequest(f"state: expected one of {', '.join(states)}", field="state")
