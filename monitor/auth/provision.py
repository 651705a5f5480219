"""Create and change organizations, users and API keys; the command line and the settings share it.

What is done here holds on every running server with its next request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from monitor.auth import store, tokens
from monitor.auth.checks import checked_email, checked_name, checked_password, checked_plan, checked_role
from monitor.auth.models import ApiKey, Organization
from monitor.auth.passwords import hash_password
from monitor.errors import Conflict, NotFound

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def create_org(conn: Connection, name: str, plan: str) -> str:
    """Create an organization; return its id.

    Raises:
        BadRequest: The name is empty, too long or holds control characters; unknown plan.
    """
    org_id = tokens.new_id("org")
    await store.insert_organization(conn, org_id, checked_name(name), checked_plan(plan))
    return org_id


async def set_org(
    conn: Connection,
    org_id: str,
    *,
    plan: str | msgspec.UnsetType = msgspec.UNSET,
    suspended: bool | msgspec.UnsetType = msgspec.UNSET,
    metrics_retention_seconds: int | msgspec.UnsetType | None = msgspec.UNSET,
    logs_retention_seconds: int | msgspec.UnsetType | None = msgspec.UNSET,
) -> Organization:
    """Change what is given of an organization, inside a transaction; return all of it.

    Args:
        conn: A connection in a transaction.
        org_id: The organization.
        plan: Its new plan.
        suspended: Whether its requests are refused with 402.
        metrics_retention_seconds: Its own setting, None for none.
        logs_retention_seconds: Its own setting, None for none.

    Raises:
        BadRequest: Unknown plan.
        NotFound: No such organization.
    """
    if not isinstance(plan, msgspec.UnsetType):
        checked_plan(plan)
    present = await store.lock_organization(conn, org_id) if _ID.fullmatch(org_id) else None
    if present is None:
        raise NotFound(f"unknown organization {org_id!r}", field="org")
    given = {
        "plan": plan,
        "suspended": suspended,
        "metrics_retention_seconds": metrics_retention_seconds,
        "logs_retention_seconds": logs_retention_seconds,
    }
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    changed = msgspec.structs.replace(present, **changes)
    await store.update_organization(conn, changed)
    return changed


async def list_orgs(conn: Connection) -> list[Organization]:
    """Return all organizations, oldest first."""
    return await store.list_organizations(conn)


async def create_user(
    conn: Connection, org_id: str, email: str, role: str, password: str | None
) -> tuple[str, str | None]:
    """Create a user; return the id and, where *password* is None, the generated one-time password.

    A generated password must be changed before anything else.

    Raises:
        BadRequest: Malformed e-mail, unknown role, password outside 12-1024 characters.
        Conflict: The e-mail is somebody's already, of whichever organization.
        NotFound: No such organization.
        TooManyRequests: 200 passwords are being hashed already.
    """
    email, role_ = checked_email(email), checked_role(role)
    generated = tokens.one_time_password() if password is None else None
    password_hash = await hash_password(generated or checked_password(password or ""))
    await _existing(conn, org_id)
    user_id = tokens.new_id("user")
    created = await store.insert_user(
        conn,
        org_id,
        user_id=user_id,
        email=email,
        role=role_,
        password_hash=password_hash,
        must_change_password=generated is not None,
    )
    if not created:
        raise Conflict("email: is in use already", field="email")
    return user_id, generated


async def create_api_key(conn: Connection, org_id: str, name: str) -> tuple[str, str]:
    """Create an API key; return its id and the key itself, which is nowhere stored.

    Raises:
        BadRequest: The name is empty, too long or holds control characters.
        NotFound: No such organization.
    """
    await _existing(conn, org_id)
    stored, key = await new_api_key(conn, org_id, name)
    return stored.id, key


async def new_api_key(conn: Connection, org_id: str, name: str) -> tuple[ApiKey, str]:
    """Create an API key of an organization that exists; return what is stored, and the key.

    Raises:
        BadRequest: The name is empty, too long or holds control characters.
    """
    key = tokens.new_api_key()
    stored = await store.insert_api_key(
        conn,
        org_id,
        key_id=tokens.new_id("key"),
        name=checked_name(name),
        prefix=tokens.shown_prefix(key),
        key_hash=tokens.digest(key),
    )
    return stored, key


async def revoke_api_key(conn: Connection, key_id: str) -> None:
    """Delete an API key of whichever organization: its next request is refused.

    Raises:
        NotFound: No such key.
    """
    deleted = await store.delete_api_key_of_any(conn, key_id) if _ID.fullmatch(key_id) else None
    if deleted is None:
        raise NotFound(f"unknown API key {key_id!r}", field="id")


async def _existing(conn: Connection, org_id: str) -> None:
    if not (_ID.fullmatch(org_id) and await store.organization_exists(conn, org_id)):
        raise NotFound(f"unknown organization {org_id!r}", field="org")
