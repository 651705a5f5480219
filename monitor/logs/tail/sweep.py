"""End requests that nobody may, does or can serve, and forget those that ended."""

from __future__ import annotations

from aiohttp import web

from monitor.db.postgres import connection, transaction
from monitor.db.wakeups import notify
from monitor.logs.tail import store
from monitor.logs.tail.lines.store import wakeup_key

ROUND_SECONDS = 2.0  # how much later than said a request ends


async def end_dead(app: web.Application, org_id: str | None = None) -> None:
    """End what is dead, of one organization or of all, and tell its viewers.

    In a transaction of its own: it locks several requests, and must wait for none.
    """
    async with transaction(app) as conn:
        for request_id in await store.end_dead(conn, org_id):
            await notify(conn, wakeup_key(request_id))


async def sweep(app: web.Application) -> None:
    """End what is dead, let agents that fell silent hear of their requests again, forget the rest."""
    await end_dead(app)
    async with connection(app) as conn:
        await store.offer_again(conn)
        await store.forget_ended(conn)
