"""Evaluate every enabled policy every 15 seconds, each once, whichever process does it.

A process leases one shard at a time: at most 200 policies of one organization.  It reads
what the agents report without holding anything, then decides and writes in one
transaction that is fenced by the due time of the shard.  Whoever dies on the way has
written nothing, and another takes the shard when the lease has ended.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace
from prometheus_client import Counter, Gauge

from monitor.auth.middleware import FEATURES
from monitor.db.postgres import transaction
from monitor.errors import StorageUnavailable
from monitor.journal.journal import JOURNAL
from monitor.scaling.apply import Turn
from monitor.scaling.live import store
from monitor.scaling.live.lines import policy_lines
from monitor.scaling.live.record import record
from monitor.scaling.live.workloads import Workloads
from monitor.scaling.overrule import newest_change
from monitor.scaling.step import Ended, concluded, step, wake_value

if TYPE_CHECKING:
    from aiohttp import web

    from monitor.db.postgres import Connection
    from monitor.scaling.chain import Row
    from monitor.scaling.models import Settings
    from monitor.scaling.observe import Observation
    from monitor.scaling.state import State

INTERVAL_SECONDS = 15.0  # between two evaluations of a policy (contract 8)
ROUND_SECONDS = 1.0  # how late a shard may be found due
LEASE_SECONDS = 10.0  # many times what a shard takes, and below the interval
TELLS = {
    "failed": "the agent gave no reason",
    "expired": "the agent did not report a result within two minutes",
    "gone": "its agent was deleted",
}
INTERNAL_ERROR = "It could not be evaluated, by a fault of the service, whose log says more."

EVALUATIONS = Counter("monitor_scaling_evaluations_total", "Evaluations of policies.")
DECISIONS = Counter("monitor_scaling_decisions_total", "Rows of the decision log.", ["action"])
LATE = Gauge(
    "monitor_scaling_late_seconds",
    "How late the policies evaluated last were.",
    multiprocess_mode="mostrecent",
)

log = structlog.get_logger()


async def reconcile(app: web.Application) -> None:
    """Evaluate until no policy is due."""
    workloads = Workloads(app)
    while await reconcile_next(app, workloads):
        pass


async def reconcile_next(
    app: web.Application, workloads: Workloads, lease_seconds: float = LEASE_SECONDS
) -> bool:
    """Evaluate the policies of one shard; False if none is due."""
    async with transaction(app) as conn:
        shard = await store.claim_shard(conn, workloads.org_id, lease_seconds)
    if shard is None:
        return False
    observation = await workloads.of(shard.org_id, shard.shard)
    async with transaction(app) as conn:
        now = await store.finish_shard(conn, shard, INTERVAL_SECONDS)
        if now is None:
            return True  # the lease had ended, and somebody else was faster
        due = await store.lock_due(conn, shard.org_id, shard.shard)
        turns = await _turns(conn, shard, due, observation, now)
        await record(conn, shard.org_id, turns, now)
    EVALUATIONS.inc(len(due))
    LATE.set((now - shard.due_at).total_seconds())
    _tell(turns)
    await _write_samples(app, [(policy, turn.state) for (policy, _), turn in zip(due, turns, strict=True)])
    return True


async def _turns(
    conn: Connection,
    shard: store.Shard,
    due: Sequence[tuple[Settings, State]],
    observation: Observation,
    now: datetime,
) -> list[Turn]:
    ended = await _ended(conn, shard.org_id, [state for _, state in due])
    gpu_allowed = shard.plan in FEATURES["gpu_policies"][0]
    turns = []
    for policy, state in due:
        results = ended.get(state.policy_id, [])
        change: Row | None = None
        if not all(it.succeeded for it in results):
            change = await newest_change(conn, shard.org_id, state.policy_id)
        known, rows = concluded(state, results, change)
        # What was under way when a policy was paused comes to its end.  A target that is
        # newer than the pass over the snapshots is looked for in the next one.
        if not (policy.enabled and observation.covers(policy)):
            turns.append(Turn(known, tuple(rows)))
            continue
        turn = _step(policy, known, observation, now, gpu_allowed=gpu_allowed)
        turns.append(Turn(turn.state, (*rows, *turn.rows), turn.orders))
    return turns


def _step(
    policy: Settings, state: State, observation: Observation, now: datetime, *, gpu_allowed: bool
) -> Turn:
    """Evaluate a policy; one that a bug keeps from it does not keep the others of its shard."""
    try:
        seen = observation.of(policy, state.reported_by, wake_value(state, now))
        return step(policy, state, seen, now, gpu_allowed=gpu_allowed)
    except Exception:
        log.exception("bug in an evaluation", org_id=state.org_id, policy_id=state.policy_id)
        return Turn(replace(state, evaluated_at=now, last_reason=INTERNAL_ERROR))


async def _ended(conn: Connection, org_id: str, states: Sequence[State]) -> dict[str, list[Ended]]:
    """Return what became of open commands that have ended, by policy."""
    owners = {command: state.policy_id for state in states for command in state.open_commands}
    found: dict[str, list[Ended]] = defaultdict(list)
    if owners:
        for it in await store.results(conn, org_id, list(owners)):
            message = it.message or TELLS.get(it.outcome, "")
            ended = Ended(it.command_id, it.outcome == "succeeded", it.host, message)
            found[owners[it.command_id]].append(ended)
    return found


def _tell(turns: Sequence[Turn]) -> None:
    for turn in turns:
        for row in turn.rows:
            DECISIONS.labels(row.action).inc()
            log.info(
                "scaling decision",
                org_id=turn.state.org_id,
                policy_id=row.policy_id,
                action=row.action,
                change=f"{row.from_replicas} => {row.to_replicas}",
                reason=row.outcome,
            )


async def _write_samples(app: web.Application, evaluated: Sequence[tuple[Settings, State]]) -> None:
    """Write what a chart shows; decisions do not wait for it."""
    try:
        async with app[JOURNAL].entry() as entry:
            entry.lines, entry.sample_count = policy_lines(evaluated, time.time_ns() // 1_000_000)
    except StorageUnavailable as error:
        log.warning("samples of policies were not written", cause=repr(error.__cause__))
