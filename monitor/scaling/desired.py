"""What a Kubernetes agent fetches and reports: manifests of the changes in force, and their fate."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec.structs import replace

from monitor.db.postgres import connection, transaction
from monitor.scaling import store
from monitor.scaling.apply import Turn
from monitor.scaling.live import store as live
from monitor.scaling.live.record import record
from monitor.scaling.manifest import kubernetes_manifest
from monitor.scaling.models import REPLICAS_MAX
from monitor.scaling.overrule import newest_change
from monitor.scaling.step import failed_state, failure_row
from monitor.web.codec import encode
from monitor.wire.scaling import Desired, DesiredList, Status, StatusReport

if TYPE_CHECKING:
    from monitor.auth.models import AgentCaller
    from monitor.db.postgres import Connection
    from monitor.scaling.state import State

MESSAGE_CHARACTERS = 4_096  # of a report: enough to see why, too little to be a log


async def answer(request: web.Request, caller: AgentCaller) -> web.Response:
    """Return the manifests for *caller*, or 304 if it has them."""
    async with connection(request.app) as conn:
        rows = await live.in_force(conn, caller.org_id, caller.agent_id)
    manifests = [
        Desired(it.policy_id, it.target_ref, it.generation, kubernetes_manifest(it.target_ref, it.replicas))
        for it in rows
    ]
    body = encode(DesiredList(manifests))
    tag = hashlib.sha256(body).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    known = request.if_none_match or ()
    if any(it.value in (tag, "*") for it in known):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers=headers, content_type="application/json")


async def note(app: web.Application, caller: AgentCaller, report: StatusReport) -> None:
    """Mirror a report to the policies that *caller* applies; older generations are ignored."""
    for status in sorted(report.statuses, key=lambda it: it.policy_id):
        if "\0" in status.policy_id:
            continue  # nobody's id
        async with transaction(app) as conn:
            await _note_one(conn, caller, status)


async def _note_one(conn: Connection, caller: AgentCaller, status: Status) -> None:
    policy = await store.lock_policy(conn, caller.org_id, status.policy_id)
    state = await live.lock_state(conn, caller.org_id, status.policy_id)
    if policy is None or state is None or policy.runtime != "kubernetes":
        return
    if state.reported_by != caller.agent_id or state.applied_generation != status.generation:
        return
    message = (status.message or "").replace("\0", "\ufffd")[:MESSAGE_CHARACTERS]
    now = await live.clock(conn)
    await record(conn, caller.org_id, [await _turn(conn, state, status, message)], now)


async def _turn(conn: Connection, state: State, status: Status, message: str) -> Turn:
    observed = status.observed_replicas
    if observed is not None and 0 <= observed <= REPLICAS_MAX * REPLICAS_MAX:
        state = replace(state, current_replicas=observed)
    if status.status != "failed":
        failures = 0 if status.status == "applied" else state.failures
        return Turn(replace(state, apply_health=status.status, apply_message=message, failures=failures))
    change = await newest_change(conn, state.org_id, state.policy_id)
    if state.apply_health == "failed" or change is None:  # told before
        return Turn(replace(state, apply_message=message))
    told = message or "the agent gave no reason"
    return Turn(failed_state(state, told), (failure_row(change, "", told),))
