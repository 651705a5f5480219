"""Judge agents that are offline: their ``agent_up`` is 0.  All their other alerts stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.alerts.live import store
from monitor.alerts.series import AGENT_UP

if TYPE_CHECKING:
    from monitor.alerts.live.turn import Live, Turn
    from monitor.db.postgres import Connection


async def judge_offline(conn: Connection, live: Live) -> Turn | None:
    """Judge all agents that are offline now, in the caller's transaction.

    Returns:
        What to ``keep`` after the commit; None if nothing changed.
    """
    agents = await store.offline_agents(conn)
    looked = await live.begin(conn, agents)
    changed = [
        agent.agent_id for agent in agents if looked.judge_down(agent.agent_id, AGENT_UP, only_look=True)
    ]
    looked.keep()
    if not changed:
        return None
    # Only those are locked of which something changes; whoever came back meanwhile is left out.
    held = await store.lock_offline(conn, changed)
    turn = await live.begin(conn, held)
    for agent in held:
        turn.judge_down(agent.agent_id, AGENT_UP)
    await turn.record(conn)
    return turn
