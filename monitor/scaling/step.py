"""What one evaluation of a policy changes: its state, rows of the log, orders to hosts.  Pure.

``decide`` says what should be; here stands what follows from it for a dry run, a policy
that needs approval and a live one, and what became of what was ordered before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from monitor.scaling.apply import Turn, apply, settled
from monitor.scaling.chain import Row, inputs_of
from monitor.scaling.decide import decide
from monitor.scaling.models import Settings
from monitor.scaling.observe import Seen
from monitor.scaling.render import manifest
from monitor.scaling.spec import Decision, Memory, PolicySpec, failed, taken
from monitor.scaling.state import Pending, State

PROPOSAL_SECONDS = 900.0  # a proposal not decided by then is made anew (contract 8)
# A change that was carried out and still does not show is ordered again after this.
SETTLE_SECONDS = 300.0
RETRY_SECONDS = (60.0, 3_600.0)  # first and longest wait after a change that failed
WAKE_SECONDS = 60.0  # an older value of a wake metric counts no more

NO_FEATURE = "GPU-aware policies are available on the Pro plan"


class Ended(Struct, frozen=True):
    """What became of a command: succeeded, or why not."""

    command_id: str
    succeeded: bool
    host: str
    message: str


def step(
    policy: Settings,
    state: State,
    seen: Seen,
    now: datetime,
    *,
    gpu_allowed: bool,
) -> Turn:
    """Return what follows from one evaluation.

    Args:
        policy: An enabled policy.
        state: What is known of it.
        seen: What is observed of its workload.
        now: The time of the evaluation.
        gpu_allowed: The organization's plan has GPU-aware policies.
    """
    inputs = seen.inputs
    state = replace(state, evaluated_at=now)
    if inputs.agents:
        clear = policy.runtime == "docker" or len(inputs.agents) == 1
        state = replace(
            state,
            current_replicas=inputs.current if clear else state.current_replicas,
            reported_by=seen.reporter,
        )
    if state.pending is not None and now >= state.pending.expires_at:
        state = replace(state, pending=None)
    if policy.policy_type is not None and not gpu_allowed:
        return Turn(replace(state, last_reason=f"{NO_FEATURE}."))
    state = replace(state, memory=_settled(policy, state, now))
    spec = msgspec.convert(policy, PolicySpec, from_attributes=True)
    answer = decide(spec, inputs, state.memory, now.timestamp())
    state = replace(state, last_reason=answer.reason)
    if isinstance(answer, Decision):
        return _act(policy, state, settled(seen, state, now), answer, now)
    memory = answer.memory
    return Turn(replace(state, memory=memory, desired_replicas=_desired(policy, memory, state)))


def wake_value(state: State, now: datetime) -> float | None:
    """Return the value of the wake metric, None if it is not known by now."""
    if state.wake_at is None or now - state.wake_at > timedelta(seconds=WAKE_SECONDS):
        return None
    return state.wake


def concluded(state: State, ended: Sequence[Ended], change: Row | None) -> tuple[State, list[Row]]:
    """Return the state after commands have ended, and a row for each that did not succeed.

    Args:
        state: What is known of the policy, with the open commands.
        ended: Those of them that have ended.
        change: The row of the change that they carry out.
    """
    if not ended:
        return state, []
    failures = [it for it in ended if not it.succeeded]
    gone = {it.command_id for it in ended}
    state = replace(state, open_commands=tuple(it for it in state.open_commands if it not in gone))
    rows = [failure_row(change, it.host, it.message) for it in failures] if change is not None else []
    if failures:
        return failed_state(state, "; ".join(_failure(it.host, it.message) for it in failures)), rows
    if not state.open_commands and state.apply_health == "pending":
        state = replace(state, apply_health="applied", apply_message=_done(ended), failures=0)
    return state, rows


def failed_state(state: State, message: str) -> State:
    """Return *state* after the change in force failed: it is decided anew after a while."""
    first = state.apply_health != "failed"
    return replace(
        state,
        apply_health="failed",
        apply_message=message,
        failures=state.failures + first,
        memory=failed(state.memory),
    )


def failure_row(change: Row, host: str, message: str) -> Row:
    """Return the ``apply_failed`` row for a *change*; *host* is "" where there is but one agent."""
    told = msgspec.json.encode({"change": change.id, "agent": host, "message": message})
    return replace(
        change,
        action="apply_failed",
        dry_run=False,
        outcome=f"Failed: {_failure(host, message)}",
        inputs=msgspec.Raw(told),
        limited_by=(),
        decide_version=0,
    )


def decided_row(policy_id: str, policy: Settings, decision: Decision, rendered: str, *, dry: bool) -> Row:
    """Return the row of a decision, to be numbered and dated when it is appended."""
    return Row(
        org_id="",
        id=0,
        policy_id=policy_id,
        ts="",
        runtime=policy.runtime,
        trigger_metric=decision.trigger_metric,
        trigger_value=decision.trigger_value,
        threshold=decision.threshold,
        direction=decision.direction,
        from_replicas=decision.from_replicas,
        to_replicas=decision.to_replicas,
        action="dry_run" if dry else "apply",
        dry_run=dry,
        rendered_manifest=rendered,
        outcome=decision.reason,
        inputs=inputs_of(decision.evidence),
        limited_by=decision.limited_by,
        decide_version=decision.decide_version,
    )


def _act(policy: Settings, state: State, seen: Seen, decision: Decision, now: datetime) -> Turn:
    rendered = manifest(policy, seen, decision.to_replicas)
    if policy.dry_run or decision.recommends:
        memory = taken(decision)
        state = replace(state, memory=memory, desired_replicas=_desired(policy, memory, state))
        return Turn(state, (decided_row(state.policy_id, policy, decision, rendered, dry=True),))
    waiting = replace(state, memory=decision.memory, desired_replicas=state.current_replicas)
    row = decided_row(state.policy_id, policy, decision, rendered, dry=False)
    if policy.approval_required:
        pending = state.pending or _proposal(state.generation + 1, row, now)
        words = f"{pending.row.from_replicas} to {pending.row.to_replicas} waits for approval. "
        return Turn(
            replace(
                waiting,
                pending=pending,
                generation=max(state.generation, pending.generation),
                last_reason=words + pending.row.outcome,
            )
        )
    hold = _held(state, now)
    if hold > 0:
        words = f"The last change failed and is tried again in {hold:.0f} s ({state.apply_message}). "
        return Turn(replace(waiting, last_reason=words + decision.reason))
    return apply(policy, replace(state, memory=taken(decision)), seen, row, now)


def _proposal(generation: int, row: Row, now: datetime) -> Pending:
    return Pending(generation, row, now, now + timedelta(seconds=PROPOSAL_SECONDS))


def _settled(policy: Settings, state: State, now: datetime) -> Memory:
    """Return the memory; what was carried out long ago and does not show is forgotten there."""
    if policy.dry_run or state.applied_at is None or state.apply_health == "pending":
        return state.memory
    if now - state.applied_at > timedelta(seconds=SETTLE_SECONDS):
        return failed(state.memory)
    return state.memory


def _held(state: State, now: datetime) -> float:
    """Return for how many seconds a change that failed is not tried again."""
    if not state.failures or state.applied_at is None:
        return 0.0
    first, longest = RETRY_SECONDS
    wait = min(first * 2.0 ** min(state.failures - 1, 10), longest)
    return wait - (now - state.applied_at).total_seconds()


def _desired(policy: Settings, memory: Memory, state: State) -> int | None:
    if memory.asked is None or policy.policy_type == "spot_shift":
        return state.current_replicas
    return memory.asked[1]


def _failure(host: str, message: str) -> str:
    return f"{host}: {message}" if host else message


def _done(ended: Sequence[Ended]) -> str:
    return "; ".join(_failure(it.host, it.message) for it in ended if it.message)
