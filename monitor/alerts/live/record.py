"""Store what judgements came to: alerts opened and resolved, and their notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct
from prometheus_client import Counter

from monitor.alerts.live import store
from monitor.alerts.watch import AgentAt, Change, Opened, Resolved
from monitor.notify import outbox

if TYPE_CHECKING:
    from monitor.db.postgres import Connection
    from monitor.notify.models import AlertChange

TRANSITIONS = Counter("monitor_alert_transitions_total", "Alerts by the state that they entered.", ["state"])

log = structlog.get_logger()


class Outcome(Struct, frozen=True):
    """What a judgement came to.

    Attributes:
        times: Newest times of watched ``samples``, to be stored; None if they are as stored.
        raise_version: What others remember of the agent is no longer true.
    """

    agent: AgentAt
    changes: Sequence[Change]
    times: dict[bytes, int] | None = None
    raise_version: bool = True


async def record(conn: Connection, outcomes: Sequence[Outcome]) -> set[str]:
    """Store the outcomes of locked agents; return the agents of which not all came true.

    An alert is not opened when another is open or its rule was deleted meanwhile, and
    not resolved when it is no longer open.
    """
    if not outcomes:
        return set()
    await store.write_agents(conn, [(it.agent, it.raise_version, it.times) for it in outcomes])
    every = [(it.agent, change) for it in outcomes for change in it.changes]
    opened = [(agent, change) for agent, change in every if isinstance(change, Opened)]
    resolved = [(agent, change) for agent, change in every if isinstance(change, Resolved)]
    # Opening takes the locks of rules, resolving those of alerts: in this order, as everywhere.
    changes = await store.insert_alerts(conn, opened) if opened else []
    changes += await store.resolve_alerts(conn, resolved) if resolved else []
    await tell(conn, changes)
    done = {change.alert_id for change in changes}
    missed = {agent.agent_id for agent, change in opened if change.alert_id not in done}
    return missed | {agent.agent_id for agent, change in resolved if change.alert.alert_id not in done}


async def tell(conn: Connection, changes: Sequence[AlertChange]) -> None:
    """Note for the channels, the log and the metrics what has changed."""
    if not changes:
        return
    await outbox.enqueue(conn, changes)
    for change in changes:
        TRANSITIONS.labels(change.state).inc()
        log.info(
            "alert",
            state=change.state,
            alert_id=change.alert_id,
            rule_id=change.rule_id,
            agent_id=change.agent_id,
            org_id=change.org_id,
            value=change.value,
        )
