"""What is known of a policy between two evaluations, and how it changes.  Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from monitor.scaling.chain import Row
from monitor.scaling.models import ApplyHealth, Proposal, Settings
from monitor.scaling.spec import Memory, failed

# Settings of which a change leaves everything known as it is.
HARMLESS = frozenset(("name", "lb_pool_ref", "enabled"))


class Pending(Struct, frozen=True):
    """A proposal: the row that is appended when it is approved, and until when it may be."""

    generation: int
    row: Row
    created_at: datetime
    expires_at: datetime


class State(Struct, frozen=True):
    """A row of ``scaling_states``.

    Attributes:
        reported_by: Kubernetes: the agent that applies what is decided.
        generation: Counts proposals and changes.
        applied_generation: That of the change in force, None before the first.
        failures: Changes that failed one after the other.
        open_commands: Commands of the change in force of which no result is known yet.
        wake: Value of the wake metric, asked at ``wake_at``; never written here.
    """

    policy_id: str
    org_id: str
    evaluated_at: datetime | None = None
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_reason: str = ""
    memory: Memory = Memory()
    reported_by: str | None = None
    generation: int = 0
    applied_generation: int | None = None
    applied_replicas: int | None = None
    applied_at: datetime | None = None
    apply_health: ApplyHealth = "unknown"
    apply_message: str = ""
    failures: int = 0
    open_commands: tuple[str, ...] = ()
    pending: Pending | None = None
    wake: float | None = None
    wake_at: datetime | None = None


def after_change(state: State, differing: set[str], settings: Settings) -> State:
    """Return *state* after the policy's settings changed in the fields *differing*.

    A new target is a new beginning.  Going live or back to dry run starts the cooldowns
    anew.  A proposal was made by other settings and is dropped.
    """
    if "target_ref" in differing:
        return State(state.policy_id, state.org_id, generation=state.generation)
    if not settings.enabled:
        state = replace(state, pending=None)
    if not differing - HARMLESS:
        return state
    memory = state.memory
    if "dry_run" in differing:
        memory = Memory(memory.recommendations, idle_since=memory.idle_since, gpu_window=memory.gpu_window)
        state = replace(state, desired_replicas=None)
    return replace(state, memory=failed(memory), pending=None, failures=0)


def shown(pending: Pending) -> Proposal:
    """Return a proposal as the API shows it."""
    row = pending.row
    return Proposal(
        generation=pending.generation,
        from_replicas=row.from_replicas,
        to_replicas=row.to_replicas,
        direction=row.direction,
        trigger_metric=row.trigger_metric,
        trigger_value=row.trigger_value,
        threshold=row.threshold,
        reason=row.outcome,
        rendered_manifest=row.rendered_manifest,
        created_at=pending.created_at,
        expires_at=pending.expires_at,
    )
