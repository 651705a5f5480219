"""Write ``agent_up`` 0 for agents that are offline, and judge the rules that watch it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from monitor.alerts.live.offline import judge_offline
from monitor.alerts.live.turn import LIVE
from monitor.db.claims import claim
from monitor.db.postgres import transaction
from monitor.ingest.samples import AgentRef, agent_down_line
from monitor.journal.journal import JOURNAL
from monitor.lifecycle import store

if TYPE_CHECKING:
    from aiohttp import web

ROUND_SECONDS = 1.0  # how late an agent may be found offline
WRITE_SECONDS = 15.0  # between two samples, as agents push


async def mark_offline(app: web.Application) -> None:
    """Write the samples of all offline agents, if no other process did within 15 s."""
    async with transaction(app) as conn:
        if not await claim(conn, "lifecycle.offline", WRITE_SECONDS):
            return
    async with app[JOURNAL].entry() as entry:
        agents = await store.offline_agents(entry.conn)
        at_ms = time.time_ns() // 1_000_000
        entry.lines = b"".join(
            agent_down_line(AgentRef(agent.org_id, agent.agent_id, agent.name), at_ms) for agent in agents
        )
        entry.sample_count = len(agents)
        turn = await judge_offline(entry.conn, app[LIVE])
    if turn is not None:
        turn.keep()
