"""Policies, what people do to them, the decision log; what agents fetch and report."""

from __future__ import annotations

import re

from aiohttp import web

from monitor.auth.middleware import agent, require_feature, requires
from monitor.auth.models import AGENT, TENANT
from monitor.db.postgres import connection, found
from monitor.errors import BadRequest, TooManyRequests
from monitor.metrics.scope import gone
from monitor.metrics.send import send
from monitor.scaling import define, desired, overrule, policies, store
from monitor.scaling.log import store as log
from monitor.scaling.log.check import Verification, check_log
from monitor.scaling.log.show import shown
from monitor.scaling.models import (
    DECISIONS_DEFAULT,
    DECISIONS_MAX,
    Decision,
    DecisionQuery,
    NewPolicy,
    Policy,
    PolicyChange,
    UnsavedPolicy,
    Verdict,
)
from monitor.scaling.simulate import Window
from monitor.scaling.timeline import Simulation, pieces
from monitor.scaling.try_out import try_out
from monitor.web.codec import check_type, decode, no_content, read_body, read_bytes, reply
from monitor.web.openapi import describes
from monitor.wire.scaling import DesiredList, StatusReport

POLICIES = "/api/v1/scaling/policies"
DECISIONS = "/api/v1/scaling/decisions"
_LIMIT = re.compile(r"[0-9]{1,9}", re.ASCII)

routes = web.RouteTableDef()


@routes.get(POLICIES)
@describes(reply=list[Policy])
async def list_policies(request: web.Request) -> web.Response:
    """List the policies in the order of their creation."""
    async with connection(request.app) as conn:
        return reply(await store.list_policies(conn, request[TENANT].org_id))


@routes.post(POLICIES)
@describes(body=NewPolicy, reply=Policy, status=201)
async def create_policy(request: web.Request) -> web.Response:
    """Create a policy, in dry-run mode unless ``dryRun`` is false."""
    new = await _read_new(request, NewPolicy)
    return reply(await policies.create_policy(request.app, request[TENANT], new), status=201)


@routes.get(f"{POLICIES}/{{id}}")
@describes(reply=Policy)
async def show_policy(request: web.Request) -> web.Response:
    """Show one policy."""
    async with connection(request.app) as conn:
        policy = await store.show_policy(conn, request[TENANT].org_id, request.match_info["id"])
    return reply(found(policy))


@routes.put(f"{POLICIES}/{{id}}")
@describes(body=PolicyChange, reply=Policy)
async def change_policy(request: web.Request) -> web.Response:
    """Change a policy; what is left out stays, ``runtime`` and ``strategy`` always do."""
    change = await read_body(request, PolicyChange)
    policy_id = request.match_info["id"]
    return reply(await policies.change_policy(request.app, request[TENANT], policy_id, change))


@routes.delete(f"{POLICIES}/{{id}}")
@describes(status=204)
async def delete_policy(request: web.Request) -> web.Response:
    """Delete a policy; its decisions stay in the log."""
    await policies.delete_policy(request.app, request[TENANT].org_id, request.match_info["id"])
    return no_content()


@routes.post(f"{POLICIES}/{{id}}/approve")
@describes(body=Verdict, reply=Policy)
async def approve(request: web.Request) -> web.Response:
    """Carry out the proposal that waits, if it is the one with this ``generation``."""
    verdict = await _verdict(request)
    policy_id = request.match_info["id"]
    return reply(await overrule.approve(request.app, request[TENANT], policy_id, verdict))


@routes.post(f"{POLICIES}/{{id}}/reject")
@describes(body=Verdict, reply=Policy)
async def reject(request: web.Request) -> web.Response:
    """Drop the proposal that waits, if it is the one with this ``generation``."""
    verdict = await _verdict(request)
    policy_id = request.match_info["id"]
    return reply(await overrule.reject(request.app, request[TENANT], policy_id, verdict))


@routes.post(f"{POLICIES}/{{id}}/rollback")
@describes(reply=Policy)
async def roll_back(request: web.Request) -> web.Response:
    """Go back to before the last change; again, one step further."""
    return reply(await overrule.roll_back(request.app, request[TENANT], request.match_info["id"]))


@routes.post(f"{POLICIES}/{{id}}/wake")
@requires(feature="gpu_policies")
@describes(reply=Policy)
async def wake(request: web.Request) -> web.Response:
    """End the sleep of a policy that scales to zero."""
    return reply(await overrule.wake(request.app, request[TENANT], request.match_info["id"]))


@routes.post(f"{POLICIES}/{{id}}/simulate")
@requires(role="viewer")
@describes(body=Window, reply=Simulation)
async def simulate_stored(request: web.Request) -> web.StreamResponse:
    """Tell what a policy would have decided over stored history."""
    window = await read_body(request, Window)
    async with connection(request.app) as conn:
        policy = found(await store.show_policy(conn, request[TENANT].org_id, request.match_info["id"]))
    simulation = await try_out(request.app, request[TENANT], policy, window, gone(request))
    return await send(request, pieces(simulation))


@routes.post("/api/v1/scaling/simulate")
@requires(role="viewer")
@describes(body=UnsavedPolicy, reply=Simulation)
async def simulate_unsaved(request: web.Request) -> web.StreamResponse:
    """Tell what a policy that need not exist would have decided over stored history."""
    new = await _read_new(request, UnsavedPolicy)
    policy, window = define.settings_of(new), Window(new.start, new.end)
    simulation = await try_out(request.app, request[TENANT], policy, window, gone(request))
    return await send(request, pieces(simulation))


@routes.get(DECISIONS)
@describes(query=DecisionQuery, reply=list[Decision])
async def list_decisions(request: web.Request) -> web.Response:
    """List decisions, newest first, of one policy or of all."""
    policy_id, limit = _one(request, "policyId"), _limit(request)
    if policy_id is not None and "\0" in policy_id:
        return reply([])  # nobody's id
    async with connection(request.app) as conn:
        rows = await log.newest(conn, request[TENANT].org_id, policy_id, limit)
    return reply([shown(row) for row in rows])


@routes.get(f"{DECISIONS}/verify")
@describes(reply=Verification)
async def verify(request: web.Request) -> web.Response:
    """Check the log's chain and make every decision again from its stored inputs."""
    async with connection(request.app) as conn, conn.transaction(isolation="repeatable_read", readonly=True):
        if not await log.try_check_lock(conn, request[TENANT].org_id):
            raise TooManyRequests("the log is being checked already")
        return reply(await check_log(conn, request[TENANT].org_id))


@routes.get("/api/v1/agents/{agentId}/scaling/desired")
@agent
@describes(reply=DesiredList)
async def desired_state(request: web.Request) -> web.Response:
    """Give the agent the manifests it should apply; 304 while they are those of its ``If-None-Match``."""
    return await desired.answer(request, request[AGENT])


@routes.post("/api/v1/agents/{agentId}/scaling/status")
@agent
@describes(body=StatusReport, status=204)
async def status(request: web.Request) -> web.Response:
    """Report what became of manifests; of a change that is no longer in force nothing is kept."""
    report = await read_body(request, StatusReport)
    await desired.note(request.app, request[AGENT], report)
    return no_content()


async def _read_new(request: web.Request, type_: type[policies.New]) -> policies.New:
    """Return a new policy; the plan is looked at before anything else of it."""
    check_type(request)
    body = await read_bytes(request)
    if policies.wants_gpu(body):
        require_feature(request[TENANT], "gpu_policies")
    return decode(body, type_)


async def _verdict(request: web.Request) -> Verdict:
    body = await read_bytes(request)
    if not body.strip():
        return Verdict()  # whatever type it is said to be: some clients name one for no body
    check_type(request)
    verdict = decode(body, Verdict)
    if "\0" in (verdict.comment or ""):
        raise BadRequest("comment: NUL is not allowed", field="comment")
    return verdict


def _one(request: web.Request, name: str) -> str | None:
    values = set(request.query.getall(name, []))
    if len(values) > 1:
        raise BadRequest(f"{name}: given with different values", field=name)
    return next(iter(values), None)


def _limit(request: web.Request) -> int:
    text = _one(request, "limit")
    if text is None:
        return DECISIONS_DEFAULT
    if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= DECISIONS_MAX:
        raise BadRequest(f"limit: expected an integer from 1 to {DECISIONS_MAX}", field="limit")
    return int(text)
