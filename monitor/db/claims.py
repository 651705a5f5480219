"""Claim a piece of work for a while, so that one process of all replicas does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monitor.db.postgres import Connection


async def claim(conn: Connection, name: str, seconds: float) -> bool:
    """Return whether *name* is ours for *seconds*; False while somebody holds it."""
    taken = await conn.fetchval(
        "INSERT INTO claims (name, until) VALUES ($1, clock_timestamp() + make_interval(secs => $2))"
        " ON CONFLICT (name) DO UPDATE SET until = excluded.until WHERE claims.until <= clock_timestamp()"
        " RETURNING true",
        name,
        seconds,
    )
    return taken is True
