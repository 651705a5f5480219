"""Judge a rule by the newest samples in Postgres, when it is new, enabled or has another threshold.

In chunks, each a transaction of its own under its agents' locks, so that pushes wait for
milliseconds.  What Postgres does not hold, rates and ``samples``, is judged when it comes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import msgspec
import zstandard

from monitor.alerts.evaluate import JUDGED_MS, judge, judge_down
from monitor.alerts.live import store
from monitor.alerts.live.record import Outcome, record
from monitor.alerts.live.turn import fresh, new_alert_id, plan_of
from monitor.alerts.series import AGENT_UP
from monitor.config import CONFIG
from monitor.db.postgres import connection, transaction
from monitor.wire.push import Container, Node, Pod, Push
from monitor.wire.times import unix_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from monitor.alerts.watch import Change, Key, OpenAlert, Plan, Watch
    from monitor.db.postgres import Connection

T = TypeVar("T")

CHUNK = 50  # agents that are locked together, as in a batch of pushes

_CONTAINERS = msgspec.json.Decoder(list[Container])
_PODS = msgspec.json.Decoder(list[Pod])
_NODES = msgspec.json.Decoder(list[Node])
_decompressor = zstandard.ZstdDecompressor()


async def sweep(app: web.Application, org_id: str, rule_id: str) -> None:
    """Judge one rule by the newest samples of all the organization's agents.

    Raises:
        StorageUnavailable: Postgres is away; the pushes to come judge the rule.
    """
    allowlist = app[CONFIG].config.metrics.label_allowlist
    async with connection(app) as conn:
        agent_ids = await store.agent_ids(conn, org_id)
    for start in range(0, len(agent_ids), CHUNK):
        async with transaction(app) as conn:
            snapshots = await store.lock_snapshots(conn, org_id, agent_ids[start : start + CHUNK])
            # As it is now: whoever changes it meanwhile sweeps behind us.
            texts = [text for _, text in await store.rules_of(conn, [org_id], rule_id)]
            if not texts:
                return
            plan = plan_of(texts)
            if not plan.tables:
                return  # it watches samples alone
            await _judge_chunk(conn, plan, rule_id, snapshots, allowlist)


async def _judge_chunk(
    conn: Connection,
    plan: Plan,
    rule_id: str,
    snapshots: Sequence[store.Snapshot],
    allowlist: Sequence[str],
) -> None:
    held: dict[str, dict[Key, OpenAlert]] = {it.agent.agent_id: {} for it in snapshots}
    for agent_id, key, alert in await store.open_alerts(conn, list(held), rule_id):
        held[agent_id][key] = alert
    outcomes = []
    for snapshot in snapshots:
        changes = _judge_snapshot(plan, snapshot, held[snapshot.agent.agent_id], allowlist)
        if changes:
            outcomes.append(Outcome(snapshot.agent, changes))
    await record(conn, outcomes)


def _judge_snapshot(
    plan: Plan, snapshot: store.Snapshot, open_: dict[Key, OpenAlert], allowlist: Sequence[str]
) -> list[Change]:
    """Return what the rule changes by an agent's newest samples, those of five minutes."""
    agent, now_ms = snapshot.agent, time.time_ns() // 1_000_000
    watch = fresh(agent, open_)
    if snapshot.offline:
        down = judge_down(plan, watch, agent, AGENT_UP, new_alert_id)
        return [*down.changes, *_judge_push(plan.without(AGENT_UP), down.watch, snapshot, now_ms, allowlist)]
    return _judge_push(plan, watch, snapshot, now_ms, allowlist)


def _judge_push(
    plan: Plan, watch: Watch, snapshot: store.Snapshot, now_ms: int, allowlist: Sequence[str]
) -> list[Change]:
    """Judge what was pushed last as if it came now; what is older than five minutes is left out."""
    oldest = now_ms - JUDGED_MS
    if snapshot.collected_at is None or unix_ms(snapshot.collected_at) < oldest:
        return []
    containers_at = snapshot.containers_at
    with_containers = containers_at is not None and unix_ms(containers_at) >= oldest
    judged = judge(
        plan,
        watch,
        snapshot.agent,
        Push(
            containers=_read(snapshot.containers, _CONTAINERS) if with_containers else None,
            pods=_read(snapshot.pods, _PODS),
            nodes=_read(snapshot.nodes, _NODES),
        ),
        at_ms=now_ms,
        now_ms=now_ms,
        late=False,
        rates=None,
        new_id=new_alert_id,
        allowlist=allowlist,
    )
    return judged.changes


def _read(packed: bytes | None, decoder: msgspec.json.Decoder[list[T]]) -> list[T] | None:
    return None if packed is None else decoder.decode(_decompressor.decompress(packed))
