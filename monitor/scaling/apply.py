"""What a change that is carried out brings about: for the state, the log and the hosts.  Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from monitor.scaling.chain import Action, Row
from monitor.scaling.manifest import CommandName, command_payload
from monitor.scaling.models import Settings
from monitor.scaling.observe import Seen
from monitor.scaling.render import manifest, placed
from monitor.scaling.spec import overruled
from monitor.scaling.state import State
from monitor.scaling.targets import group

# A command is carried out within two minutes, and a push tells of it: until then hosts may
# have other numbers of replicas than those they reported.
UNSETTLED_SECONDS = 150.0


class Order(Struct, frozen=True):
    """A command for one host."""

    agent_id: str
    type: CommandName
    payload: dict[str, object]


class Turn(Struct, frozen=True):
    """What is to be written: the state, rows of the log without number and date, commands."""

    state: State
    rows: tuple[Row, ...] = ()
    orders: tuple[Order, ...] = ()


def settled(seen: Seen, state: State, now: datetime) -> Seen:
    """Return *seen* with whether what hosts report can show the change in force already."""
    recent = state.applied_at is not None and now - state.applied_at <= timedelta(seconds=UNSETTLED_SECONDS)
    return replace(seen, settled=not recent)


def apply(
    policy: Settings, state: State, seen: Seen, row: Row, now: datetime, generation: int | None = None
) -> Turn:
    """Return what carrying out *row* brings about; *state* has the memory that follows.

    The change has a new generation unless *generation* is that of its proposal; its
    health is pending until agents tell.
    """
    orders: tuple[Order, ...] = ()
    if policy.runtime == "docker":
        command: CommandName = "docker.rollback" if row.action == "rollback" else "docker.scale"
        name = group(policy.target_ref).name
        orders = tuple(
            Order(host.agent_id, command, command_payload(name, count, policy.lb_pool_ref))
            for host, count in placed(policy, seen, row.to_replicas)
        )
    generation = generation or state.generation + 1
    nothing = policy.runtime == "docker" and not orders
    state = replace(
        state,
        desired_replicas=row.to_replicas,
        generation=max(generation, state.generation),
        applied_generation=generation,
        applied_replicas=row.to_replicas,
        applied_at=now,
        apply_health="applied" if nothing else "pending",
        apply_message="no host had to change" if nothing else "",
        open_commands=(),
        pending=None,
    )
    return Turn(state, (row,), orders)


def overrule(
    policy: Settings,
    state: State,
    seen: Seen,
    now: datetime,
    *,
    action: Action,
    start: int,
    to: int,
    outcome: str,
    inputs: dict[str, object],
) -> Turn:
    """Return what somebody's own change brings about: rollback or wake; both cooldowns start.

    In a dry run it is a row and nothing else.
    """
    dry = action == "dry_run"
    row = Row(
        org_id="",
        id=0,
        policy_id=state.policy_id,
        ts="",
        runtime=policy.runtime,
        trigger_metric="manual",
        trigger_value=float(start),
        threshold=float(to),
        direction="up" if to > start else "down",
        from_replicas=start,
        to_replicas=to,
        action=action,
        dry_run=dry,
        rendered_manifest=manifest(
            policy, seen, to, "docker.rollback" if action == "rollback" else "docker.scale"
        ),
        outcome=outcome,
        inputs=msgspec.Raw(msgspec.json.encode(inputs)),
    )
    state = replace(state, memory=overruled(state.memory, (start, to), now.timestamp()), last_reason=outcome)
    if dry:
        return Turn(replace(state, desired_replicas=to), (row,))
    return apply(policy, state, seen, row, now)
