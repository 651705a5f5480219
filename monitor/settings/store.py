"""The statements of the settings; those that make keys and users are in ``auth.store``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from monitor.auth.models import ApiKey
from monitor.errors import Conflict
from monitor.settings.models import User

if TYPE_CHECKING:
    from monitor.db.postgres import Connection


async def list_keys(conn: Connection, org_id: str) -> list[ApiKey]:
    """Return the API keys of *org_id*, oldest first."""
    rows = await conn.fetch(
        """
        SELECT id, name, prefix, created_at, last_used_at FROM api_keys
        WHERE org_id = $1 ORDER BY created_at, id
        """,
        org_id,
    )
    return [ApiKey(**row) for row in rows]


async def delete_key(conn: Connection, org_id: str, key_id: str) -> str | None:
    """Delete an API key; return its id."""
    deleted: str | None = await conn.fetchval(
        "DELETE FROM api_keys WHERE org_id = $1 AND id = $2 RETURNING id", org_id, key_id
    )
    return deleted


async def list_users(conn: Connection, org_id: str) -> list[User]:
    """Return the users of *org_id*, oldest first."""
    rows = await conn.fetch(
        """
        SELECT id, email, role, must_change_password, created_at FROM users
        WHERE org_id = $1 ORDER BY created_at, id
        """,
        org_id,
    )
    return [User(**row) for row in rows]


async def lock_admins(conn: Connection, org_id: str) -> list[str]:
    """Return the ids of the admins of *org_id*, locked until the transaction ends.

    Whoever removes an admin does this first: two that remove each other's wait here,
    and the second one sees what the first one left.
    """
    rows = await conn.fetch(
        "SELECT id FROM users WHERE org_id = $1 AND role = 'admin' ORDER BY id FOR UPDATE", org_id
    )
    return [row["id"] for row in rows]


async def lock_user(conn: Connection, org_id: str, user_id: str) -> User | None:
    """Return a user, locked until the transaction ends."""
    row = await conn.fetchrow(
        """
        SELECT id, email, role, must_change_password, created_at FROM users
        WHERE org_id = $1 AND id = $2 FOR UPDATE
        """,
        org_id,
        user_id,
    )
    return None if row is None else User(**row)


async def update_user(conn: Connection, org_id: str, user: User) -> None:
    """Store e-mail and role of *user*.

    Raises:
        Conflict: The e-mail is somebody's already.
    """
    try:
        await conn.execute(
            "UPDATE users SET email = $3, role = $4 WHERE org_id = $1 AND id = $2",
            org_id,
            user.id,
            user.email,
            user.role,
        )
    except asyncpg.UniqueViolationError:
        raise Conflict("email: is in use already", field="email") from None


async def delete_user(conn: Connection, org_id: str, user_id: str) -> str | None:
    """Delete a user; return the id.  Their sessions end with their next request."""
    deleted: str | None = await conn.fetchval(
        "DELETE FROM users WHERE org_id = $1 AND id = $2 RETURNING id", org_id, user_id
    )
    return deleted


async def count_agents(conn: Connection, org_id: str) -> int:
    """Return the number of agents of *org_id*."""
    count: int = await conn.fetchval("SELECT count(*) FROM agents WHERE org_id = $1", org_id)
    return count
