"""Log in and change the password, against guessers.

Failures are counted in Postgres for all replicas.  The password is verified first
and counted afterwards, one login at a time for an e-mail and an address: of any
number of concurrent guesses only as many learn their result as the limit allows,
and no correct login is ever taken for a failure of another.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING

from aiohttp import web

from monitor.auth import store
from monitor.auth.models import PasswordChange, Tenant, UserLogin
from monitor.auth.passwords import hash_password, verify_password
from monitor.db.postgres import connection, transaction
from monitor.errors import BadRequest, Conflict, Forbidden, InvalidCredentials, TooManyRequests

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

WINDOW_SECONDS = 15 * 60.0  # the limits of contract 2
EMAIL_FAILURES = 10
ADDRESS_FAILURES = 50
IPV6_HOME_BITS = 64  # one subscriber's network: each of them has 2^64 addresses to try from


def login_name(email: str) -> str:
    """Return *email* as it is stored: trimmed, in lower case.

    Raises:
        BadRequest: It holds NUL, which no text in Postgres can.
    """
    if "\0" in email:
        raise BadRequest("email: must not hold NUL", field="email")
    return email.strip().lower()


def counted_address(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address under which a client's failures count."""
    if isinstance(address, IPv6Address):
        return IPv6Network((int(address), IPV6_HOME_BITS), strict=False).network_address
    return address


async def verified_user(
    app: web.Application, email: str, password: str, address: IPv4Address | IPv6Address
) -> UserLogin:
    """Return the user whose e-mail and password these are; a failure is counted.

    Raises:
        InvalidCredentials: Unknown e-mail or wrong password, after the same time.
        TooManyRequests: Too many failures of the e-mail or the address; says when
            the next attempt counts.
        StorageUnavailable: Postgres is away.
    """
    email = login_name(email)
    address = counted_address(address)
    async with connection(app) as conn:
        await _refuse_blocked(conn, email, address)
        user = await store.user_by_email(conn, email)
    good = await verify_password(password, user.password_hash if user else None)
    async with transaction(app) as conn:
        await store.lock_login(conn, email, str(address))
        # Also a right password gets no answer here: it would end the guessing.
        await _refuse_blocked(conn, email, address)
        if good:
            await store.delete_failures(conn, email)
        else:
            await store.insert_failure(conn, email, address)
    if user is None or not good:
        raise InvalidCredentials
    return user


async def _refuse_blocked(conn: Connection, email: str, address: IPv4Address | IPv6Address) -> None:
    seconds = await store.seconds_blocked(
        conn,
        email,
        address,
        window_seconds=WINDOW_SECONDS,
        email_failures=EMAIL_FAILURES,
        address_failures=ADDRESS_FAILURES,
    )
    if seconds is not None:
        raise TooManyRequests("too_many_login_attempts", retry_after_seconds=seconds)


async def change_password(
    app: web.Application,
    tenant: Tenant,
    change: PasswordChange,
    address: IPv4Address | IPv6Address,
    now: float,
) -> None:
    """Set the caller's password; every session of theirs ends but this one.

    Args:
        app: The application.
        tenant: The caller.
        change: The present and the new password.
        address: Of the client: a wrong present password is a failed login.
        now: Unix seconds.

    Raises:
        BadRequest: The present password is wrong, or the new one is the same.
        Conflict: It was changed by another request meanwhile.
        Forbidden: The caller is an API key.
        TooManyRequests: As for a login.
    """
    if tenant.kind != "user":
        raise Forbidden
    try:
        user = await verified_user(app, tenant.name, change.current_password, address)
    except InvalidCredentials:
        raise BadRequest("currentPassword: is wrong", field="currentPassword") from None
    if change.new_password == change.current_password:
        raise BadRequest("newPassword: must differ from the present one", field="newPassword")
    new_hash = await hash_password(change.new_password)
    async with transaction(app) as conn:
        changed = await store.change_password(
            conn,
            tenant.org_id,
            tenant.subject_id,
            old_hash=user.password_hash,
            new_hash=new_hash,
            # Tokens count in whole seconds: what was issued in this one ends, too.
            valid_from=int(now) + 1,
            kept_jti=tenant.jti,
        )
    if not changed:
        raise Conflict("currentPassword: was changed meanwhile", field="currentPassword")


async def forget_old_failures(app: web.Application) -> None:
    """Delete the failures that have left the window: one round of background work."""
    async with connection(app) as conn:
        await store.delete_old_failures(conn, WINDOW_SECONDS)
