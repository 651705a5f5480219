"""Change and remove users; an organization never loses its last admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from monitor.auth.checks import checked_email
from monitor.db.postgres import found
from monitor.errors import Conflict
from monitor.settings import store
from monitor.settings.models import User, UserChange

if TYPE_CHECKING:
    from monitor.db.postgres import Connection


async def change_user(conn: Connection, org_id: str, user_id: str, change: UserChange) -> User:
    """Change what is given of a user, inside a transaction; return all of it.

    Raises:
        BadRequest: Malformed e-mail.
        Conflict: The e-mail is somebody's already, or the last admin would be none any more.
        NotFound: No such user in the organization.
    """
    admins = await store.lock_admins(conn, org_id)
    user = found(await store.lock_user(conn, org_id, user_id))
    if change.email is not msgspec.UNSET:
        user = msgspec.structs.replace(user, email=checked_email(change.email))
    if change.role is not msgspec.UNSET:
        user = msgspec.structs.replace(user, role=change.role)
    if admins == [user_id] and user.role != "admin":
        raise Conflict("role: the last admin cannot be demoted", field="role")
    await store.update_user(conn, org_id, user)
    return user


async def remove_user(conn: Connection, org_id: str, user_id: str) -> None:
    """Delete a user, inside a transaction.

    Raises:
        Conflict: It is the last admin.
        NotFound: No such user in the organization.
    """
    if await store.lock_admins(conn, org_id) == [user_id]:
        raise Conflict("the last admin cannot be removed", field="id")
    found(await store.delete_user(conn, org_id, user_id))
