"""Write what evaluations and people changed: commands, states, and the log last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from monitor.auth.tokens import new_id
from monitor.commands.store import wakeup_key
from monitor.db.wakeups import notify
from monitor.scaling.apply import Order, Turn
from monitor.scaling.live import store
from monitor.scaling.log.append import append

if TYPE_CHECKING:
    from monitor.db.postgres import Connection


async def record(conn: Connection, org_id: str, turns: Sequence[Turn], now: datetime) -> None:
    """Store *turns*, of policies of *org_id* that are held, in one transaction.

    An agent may have been deleted since its host was seen.  The id of its command is
    kept with the others, and found to be gone with the next evaluation.
    """
    states = []
    commands: list[tuple[str, Order]] = []
    for turn in turns:
        state = turn.state
        if turn.orders:
            ours = [(new_id("cmd"), order) for order in turn.orders]
            state = replace(state, open_commands=(*state.open_commands, *(it for it, _ in ours)))
            commands += ours
        states.append(state)
    if commands:
        for agent_id in sorted(await store.insert_commands(conn, org_id, commands)):
            await notify(conn, wakeup_key(agent_id))
    if states:
        await store.write_states(conn, org_id, states)
    await append(conn, org_id, [row for turn in turns for row in turn.rows], now)
