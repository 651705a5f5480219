"""The first organization of ``monitor dev``, its administrator and its API key: made once, then kept."""

from __future__ import annotations

import secrets
from pathlib import Path

import asyncpg
import msgspec

from monitor.auth.provision import create_api_key, create_org, create_user
from monitor.dev.files import DevError, write_private
from monitor.errors import Conflict

ORGANIZATION = "dev"
PLAN = "pro"
EMAIL = "admin@example.com"
PASSWORD_BYTES = 15  # 20 characters: above the 12 that the service asks for, short enough to copy


class Account(msgspec.Struct, frozen=True, rename="camel"):
    """What opens the service: for people an e-mail and a password, for programs a key."""

    org_id: str
    email: str
    password: str
    api_key: str


async def kept_account(owner_dsn: str, path: Path) -> Account:
    """Return the account kept in *path*; at the first call create it, in the database and there.

    Raises:
        DevError: The database has the account and *path* is lost.
    """
    if account := _read(path):
        return account
    # Written before the commit: who is killed between the two finds it here next time.
    pending = path.with_suffix(".pending")
    conn = await asyncpg.connect(owner_dsn)
    try:
        async with conn.transaction():
            account = await _create(conn)
            write_private(pending, msgspec.json.encode(account).decode())
    except (Conflict, asyncpg.UniqueViolationError):
        account = _read(pending)
        if account is None:
            raise DevError(
                f"{path} is missing, but the database knows {EMAIL}: put the file back,"
                f" or remove {path.parent} to begin anew"
            ) from None
    finally:
        await conn.close()
    pending.replace(path)
    return account


def _read(path: Path) -> Account | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Account)
    except FileNotFoundError:
        return None


async def _create(conn: asyncpg.Connection[asyncpg.Record]) -> Account:
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    org_id = await create_org(conn, ORGANIZATION, PLAN)
    await create_user(conn, org_id, EMAIL, "admin", password)
    _, api_key = await create_api_key(conn, org_id, ORGANIZATION)
    return Account(org_id=org_id, email=EMAIL, password=password, api_key=api_key)
