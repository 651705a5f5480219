"""The statements of identity: one indexed query authenticates a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address
from itertools import cycle, islice
from typing import TYPE_CHECKING

from monitor.auth.models import AgentCaller, ApiKey, Organization, Plan, Role, Tenant, UserLogin
from monitor.db.postgres import found

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

KEYS = 4  # looked up at once; a statement for any number of them would be planned anew each time


async def tenant_by_session(
    conn: Connection, org_id: str, user_id: str, issued_at: float, jti: str
) -> Tenant | None:
    """Return the user of a session that is still valid.

    A session issued before the last change of the password is dead, but for the one
    in which it was changed.
    """
    row = await conn.fetchrow(
        """
        SELECT u.id AS subject_id, u.email AS name, u.role, u.must_change_password,
               o.id AS org_id, o.name AS org_name, o.plan, o.suspended,
               o.metrics_retention_seconds, o.logs_retention_seconds,
        ARRAY(SELECT d.agent_id FROM agent_deletions d WHERE d.org_id = o.id AND d.hidden) AS hidden_agents
        FROM users u JOIN organizations o ON o.id = u.org_id
        WHERE u.id = $2 AND u.org_id = $1 AND (u.tokens_valid_from <= $3::float8 OR u.kept_jti = $4)
        """,
        org_id,
        user_id,
        issued_at,
        jti,
    )
    return None if row is None else Tenant(kind="user", jti=jti or None, **row)


async def tenants_by_api_key(conn: Connection, key_hashes: Sequence[bytes]) -> dict[bytes, Tenant]:
    """Return the API keys with these SHA-256, KEYS at the most, by them; they act as members."""
    rows = await conn.fetch(
        """
        SELECT k.key_hash, k.id AS subject_id, k.name, o.id AS org_id, o.name AS org_name, o.plan, o.suspended,
               o.metrics_retention_seconds, o.logs_retention_seconds,
        ARRAY(SELECT d.agent_id FROM agent_deletions d WHERE d.org_id = o.id AND d.hidden) AS hidden_agents
        FROM api_keys k JOIN organizations o ON o.id = k.org_id
        WHERE k.key_hash IN ($1, $2, $3, $4)
        """,
        *islice(cycle(key_hashes), KEYS),
    )
    return {row.pop("key_hash"): Tenant(kind="api_key", role="member", **row) for row in map(dict, rows)}


async def agent_by_token(conn: Connection, token_hash: bytes) -> AgentCaller | None:
    """Return the agent whose token has this SHA-256."""
    row = await conn.fetchrow(
        """
        SELECT a.id AS agent_id, a.org_id, a.name, a.type, a.pool,
               o.plan, o.suspended, o.metrics_retention_seconds
        FROM agents a JOIN organizations o ON o.id = a.org_id
        WHERE a.token_hash = $1
        """,
        token_hash,
    )
    return None if row is None else AgentCaller(**row)


async def user_by_email(conn: Connection, email: str) -> UserLogin | None:
    """Return the user who logs in with *email*, of whichever organization."""
    row = await conn.fetchrow(
        """
        SELECT u.id, u.org_id, u.role, o.plan, u.password_hash, u.must_change_password,
               u.tokens_valid_from
        FROM users u JOIN organizations o ON o.id = u.org_id
        WHERE u.email = $1
        """,
        email,
    )
    return None if row is None else UserLogin(**row)


async def change_password(
    conn: Connection,
    org_id: str,
    user_id: str,
    *,
    old_hash: str,
    new_hash: str,
    valid_from: int,
    kept_jti: str | None,
) -> bool:
    """Set the password and end all sessions issued before *valid_from* but one.

    False if *old_hash* is no longer the user's: another change came first.
    """
    row = await conn.fetchrow(
        """
        UPDATE users
        SET password_hash = $4, must_change_password = false,
            tokens_valid_from = greatest(tokens_valid_from, $5), kept_jti = $6
        WHERE org_id = $1 AND id = $2 AND password_hash = $3
        RETURNING id
        """,
        org_id,
        user_id,
        old_hash,
        new_hash,
        valid_from,
        kept_jti,
    )
    return row is not None


async def lock_login(conn: Connection, email: str, address: str) -> None:
    """Let one login at a time be counted for an address and for an e-mail.

    The address always first: logins cannot lock each other out.
    """
    for name in (f"login address {address}", f"login email {email}"):
        await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name)


async def seconds_blocked(
    conn: Connection,
    email: str,
    address: IPv4Address | IPv6Address,
    *,
    window_seconds: float,
    email_failures: int,
    address_failures: int,
) -> int | None:
    """Return the seconds until a login may be tried again, None if it may now.

    The failure that keeps the count at its limit is the n-th newest: once it has
    left the window there is room for one more.
    """
    seconds: int | None = await conn.fetchval(
        """
        SELECT greatest(1, ceil(extract(epoch FROM
            max(failed_at) + make_interval(secs => $3) - statement_timestamp())))::integer
        FROM (
            (SELECT failed_at FROM login_failures
             WHERE email = $1 AND failed_at > statement_timestamp() - make_interval(secs => $3)
             ORDER BY failed_at DESC OFFSET $4 - 1 LIMIT 1)
            UNION ALL
            (SELECT failed_at FROM login_failures
             WHERE address = $2 AND failed_at > statement_timestamp() - make_interval(secs => $3)
             ORDER BY failed_at DESC OFFSET $5 - 1 LIMIT 1)
        ) AS full_counts
        HAVING count(*) > 0
        """,
        email,
        address,
        window_seconds,
        email_failures,
        address_failures,
    )
    return seconds


async def insert_failure(conn: Connection, email: str, address: IPv4Address | IPv6Address) -> None:
    """Count a failed login."""
    await conn.execute("INSERT INTO login_failures (email, address) VALUES ($1, $2)", email, address)


async def delete_failures(conn: Connection, email: str) -> None:
    """Forget the failed logins of *email*."""
    await conn.execute("DELETE FROM login_failures WHERE email = $1", email)


async def delete_old_failures(conn: Connection, window_seconds: float) -> None:
    """Forget the failed logins that count no more."""
    await conn.execute(
        "DELETE FROM login_failures WHERE failed_at < now() - make_interval(secs => $1)",
        window_seconds,
    )


async def touch_api_keys(conn: Connection, used: Mapping[str, datetime]) -> None:
    """Set ``last_used_at`` of the keys by id; it never goes back."""
    # Locked in the order of the ids: replicas that flush together wait, never deadlock.
    await conn.execute(
        """
        WITH used AS (SELECT * FROM unnest($1::text[], $2::timestamptz[]) AS used (id, at)),
        locked AS (
            SELECT k.id, used.at FROM api_keys k JOIN used USING (id)
            ORDER BY k.id FOR NO KEY UPDATE OF k
        )
        UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, locked.at)
        FROM locked WHERE k.id = locked.id
        """,
        list(used.keys()),
        list(used.values()),
    )


async def insert_organization(conn: Connection, org_id: str, name: str, plan: Plan) -> None:
    """Create an organization without settings of its own."""
    await conn.execute("INSERT INTO organizations (id, name, plan) VALUES ($1, $2, $3)", org_id, name, plan)


async def list_organizations(conn: Connection) -> list[Organization]:
    """Return all organizations, oldest first."""
    rows = await conn.fetch(
        """
        SELECT id, name, plan, suspended, metrics_retention_seconds, logs_retention_seconds
        FROM organizations ORDER BY created_at, id
        """
    )
    return [Organization(**row) for row in rows]


async def lock_organization(conn: Connection, org_id: str) -> Organization | None:
    """Return the organization, locked against other changes until the transaction ends."""
    row = await conn.fetchrow(
        """
        SELECT id, name, plan, suspended, metrics_retention_seconds, logs_retention_seconds
        FROM organizations WHERE id = $1 FOR NO KEY UPDATE
        """,
        org_id,
    )
    return None if row is None else Organization(**row)


async def update_organization(conn: Connection, org: Organization) -> None:
    """Store plan, suspension and own settings of *org*."""
    await conn.execute(
        """
        UPDATE organizations
        SET plan = $2, suspended = $3, metrics_retention_seconds = $4, logs_retention_seconds = $5
        WHERE id = $1
        """,
        org.id,
        org.plan,
        org.suspended,
        org.metrics_retention_seconds,
        org.logs_retention_seconds,
    )


async def organization_exists(conn: Connection, org_id: str) -> bool:
    """Return whether there is such an organization."""
    return bool(await conn.fetchval("SELECT true FROM organizations WHERE id = $1", org_id))


async def insert_user(
    conn: Connection,
    org_id: str,
    *,
    user_id: str,
    email: str,
    role: Role,
    password_hash: str,
    must_change_password: bool,
) -> bool:
    """Create a user; False if the e-mail is somebody's already."""
    row = await conn.fetchrow(
        """
        INSERT INTO users (id, org_id, email, role, password_hash, must_change_password)
        VALUES ($2, $1, $3, $4, $5, $6)
        ON CONFLICT (email) DO NOTHING RETURNING id
        """,
        org_id,
        user_id,
        email,
        role,
        password_hash,
        must_change_password,
    )
    return row is not None


async def insert_api_key(
    conn: Connection, org_id: str, *, key_id: str, name: str, prefix: str, key_hash: bytes
) -> ApiKey:
    """Create an API key."""
    row = await conn.fetchrow(
        """
        INSERT INTO api_keys (id, org_id, name, prefix, key_hash) VALUES ($2, $1, $3, $4, $5)
        RETURNING id, name, prefix, created_at, last_used_at
        """,
        org_id,
        key_id,
        name,
        prefix,
        key_hash,
    )
    return ApiKey(**found(row))


async def delete_api_key_of_any(conn: Connection, key_id: str) -> str | None:
    """Delete the API key of whichever organization, for the command line; return its id."""
    deleted: str | None = await conn.fetchval("DELETE FROM api_keys WHERE id = $1 RETURNING id", key_id)
    return deleted
