"""What people do to a policy by hand: approve, reject, roll back, wake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from monitor.db.postgres import connection, found, transaction
from monitor.errors import BadRequest, Conflict
from monitor.scaling import store
from monitor.scaling.apply import Turn, apply, overrule, settled
from monitor.scaling.chain import Row, row_of
from monitor.scaling.live import store as live
from monitor.scaling.live.record import record
from monitor.scaling.live.workloads import seen_now
from monitor.scaling.log import store as decisions
from monitor.scaling.models import Policy, Settings, Verdict
from monitor.scaling.render import manifest
from monitor.scaling.spec import approved
from monitor.scaling.state import Pending, State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    from monitor.auth.models import Tenant
    from monitor.db.postgres import Connection
    from monitor.scaling.observe import Seen

PAGE = 200  # rows of the log that are read at once
NOTHING_TO_ROLL_BACK = "nothing to roll back"


class _Target(Struct, rename="camel"):
    """What the inputs of a row say about the policy."""

    target_ref: str | None = None


class _Inputs(Struct, rename="camel"):
    """The inputs of a decision have a policy; those of a change by hand name the target."""

    policy: _Target | None = None
    target_ref: str | None = None


async def approve(app: web.Application, tenant: Tenant, policy_id: str, verdict: Verdict) -> Policy:
    """Carry out the proposal that waits.

    Raises:
        NotFound: Not a policy of this organization.
        Conflict: No proposal waits, another one, or no host is there to carry it out.
    """

    async def work(
        conn: Connection, policy: Settings, state: State, seen: Seen, now: datetime
    ) -> Turn | None:
        pending = _waiting(state, verdict.generation, now)
        _check_hosts(policy, seen)
        row = pending.row
        if policy.runtime == "docker":  # as the hosts are now
            row = replace(row, rendered_manifest=manifest(policy, seen, row.to_replicas))
        row = replace(row, outcome=f"{row.outcome} Approved by {_by(tenant, verdict)}")
        memory = approved(state.memory, (row.from_replicas, row.to_replicas), now.timestamp())
        state = replace(state, memory=memory, last_reason=row.outcome)
        return apply(policy, state, seen, row, now, pending.generation)

    return await _change(app, tenant.org_id, policy_id, work)


async def reject(app: web.Application, tenant: Tenant, policy_id: str, verdict: Verdict) -> Policy:
    """Drop the proposal that waits; its direction cools down before there is another.

    Raises:
        NotFound: Not a policy of this organization.
        Conflict: No proposal waits, or another one.
    """

    async def work(
        conn: Connection, policy: Settings, state: State, seen: Seen, now: datetime
    ) -> Turn | None:
        row = _waiting(state, verdict.generation, now).row
        stamp = "scaled_up_at" if row.direction == "up" else "scaled_down_at"
        return Turn(
            replace(
                state,
                pending=None,
                memory=replace(state.memory, **{stamp: now.timestamp()}),
                last_reason=f"{row.from_replicas} to {row.to_replicas} was rejected by {_by(tenant, verdict)}",
            )
        )

    return await _change(app, tenant.org_id, policy_id, work)


async def roll_back(app: web.Application, tenant: Tenant, policy_id: str) -> Policy:
    """Go back to before the newest change that was not rolled back yet.

    Raises:
        NotFound: Not a policy of this organization.
        BadRequest: Nothing is left to roll back.
        Conflict: No host is there to carry it out.
    """

    async def work(
        conn: Connection, policy: Settings, state: State, seen: Seen, now: datetime
    ) -> Turn | None:
        if policy.dry_run or state.applied_replicas is None:
            raise BadRequest(NOTHING_TO_ROLL_BACK)
        undone = await _to_undo(conn, tenant.org_id, policy_id, policy.target_ref)
        if undone is None:
            raise BadRequest(NOTHING_TO_ROLL_BACK)
        _check_hosts(policy, seen)
        start, to = state.applied_replicas, undone.from_replicas
        return overrule(
            policy,
            state,
            seen,
            now,
            action="rollback",
            start=start,
            to=to,
            outcome=f"Rolled back from {start} to {to} by {tenant.name}: undoes decision {undone.id}.",
            inputs={"undoes": undone.id, "by": tenant.name, "targetRef": policy.target_ref},
        )

    return await _change(app, tenant.org_id, policy_id, work)


async def wake(app: web.Application, tenant: Tenant, policy_id: str) -> Policy:
    """End the sleep of a ``scale_to_zero_on_idle`` policy; one that is awake stays as it is.

    Raises:
        NotFound: Not a policy of this organization.
        BadRequest: The policy is of another type.
        Conflict: No host is there to carry it out.
    """

    async def work(
        conn: Connection, policy: Settings, state: State, seen: Seen, now: datetime
    ) -> Turn | None:
        if policy.policy_type != "scale_to_zero_on_idle":
            raise BadRequest("policyType: only scale_to_zero_on_idle policies sleep", field="policyType")
        wanted = state.current_replicas if state.desired_replicas is None else state.desired_replicas
        if wanted != 0:
            return None
        _check_hosts(policy, seen)
        to = max(1, policy.min_replicas)
        return overrule(
            policy,
            state,
            seen,
            now,
            action="dry_run" if policy.dry_run else "apply",
            start=0,
            to=to,
            outcome=f"Woken from 0 to {to} by {tenant.name}.",
            inputs={"by": tenant.name, "targetRef": policy.target_ref},
        )

    return await _change(app, tenant.org_id, policy_id, work)


async def newest_change(conn: Connection, org_id: str, policy_id: str) -> Row | None:
    """Return the row of the change in force, None if nothing was ever changed."""
    async for row in _changes(conn, org_id, policy_id):
        return row
    return None


async def _change(
    app: web.Application,
    org_id: str,
    policy_id: str,
    work: Callable[[Connection, Settings, State, Seen, datetime], Awaitable[Turn | None]],
) -> Policy:
    async with connection(app) as conn:
        policy: Settings = found(await store.show_policy(conn, org_id, policy_id))
    seen = await seen_now(app, org_id, policy)
    async with transaction(app) as conn:
        policy = found(await store.lock_policy(conn, org_id, policy_id))
        state = found(await live.lock_state(conn, org_id, policy_id))
        now = await live.clock(conn)
        turn = await work(conn, policy, state, settled(seen, state, now), now)
        if turn is not None:
            await record(conn, org_id, [turn], now)
        return found(await store.show_policy(conn, org_id, policy_id))


def _by(tenant: Tenant, verdict: Verdict) -> str:
    return f"{tenant.name}: {verdict.comment}" if verdict.comment else f"{tenant.name}."


def _waiting(state: State, generation: int | None, now: datetime) -> Pending:
    pending = state.pending
    if pending is None or now >= pending.expires_at:
        raise Conflict("nothing waits for approval")
    if generation not in (None, pending.generation):
        raise Conflict(f"generation: {pending.generation} waits for approval", field="generation")
    return pending


def _check_hosts(policy: Settings, seen: Seen) -> None:
    if policy.runtime == "docker" and not seen.hosts:
        raise Conflict(f"no online agent has a container of {policy.target_ref}")


async def _to_undo(conn: Connection, org_id: str, policy_id: str, target_ref: str) -> Row | None:
    """Return the newest change that no rollback has undone yet, of the present target."""
    undone = 0
    async for row in _changes(conn, org_id, policy_id):
        inputs = msgspec.json.decode(row.inputs, type=_Inputs)
        if target_ref not in (inputs.target_ref, inputs.policy and inputs.policy.target_ref):
            return None
        if row.action == "rollback":
            undone += 1
        elif undone:
            undone -= 1
        else:
            return row
    return None


async def _changes(conn: Connection, org_id: str, policy_id: str) -> AsyncIterator[Row]:
    """Yield the rows of what was carried out, newest first."""
    before: int | None = None
    while page := await decisions.newest(conn, org_id, policy_id, PAGE, before):
        for stored in page:
            row = row_of(stored.body)
            if row.action in ("apply", "rollback"):
                yield row
        before = page[-1].id
