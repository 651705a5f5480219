"""``/api/v1/settings``: API keys, users, limits."""

from __future__ import annotations

import msgspec
from aiohttp import web

from monitor.auth import provision
from monitor.auth.checks import checked_email, retention_seconds
from monitor.auth.middleware import requires
from monitor.auth.models import TENANT, ApiKey
from monitor.config import CONFIG
from monitor.db.postgres import connection, found, transaction
from monitor.settings import members, store
from monitor.settings.limits import limits_of, usage
from monitor.settings.models import (
    CreatedKey,
    CreatedUser,
    Limits,
    LimitsChange,
    NewKey,
    NewUser,
    User,
    UserChange,
)
from monitor.web.codec import no_content, read_body, reply
from monitor.web.openapi import describes

NO_STORE = {"Cache-Control": "no-store"}  # an answer that holds a secret
ID = "{id:[A-Za-z0-9_-]{1,64}}"  # anything else is nobody's id, and NUL no text for Postgres

routes = web.RouteTableDef()


@routes.get("/api/v1/settings/api-keys")
@requires(role="admin")
@describes(reply=list[ApiKey])
async def list_keys(request: web.Request) -> web.Response:
    """List the API keys, oldest first; never the keys themselves."""
    async with connection(request.app) as conn:
        return reply(await store.list_keys(conn, request[TENANT].org_id))


@routes.post("/api/v1/settings/api-keys")
@requires(role="admin")
@describes(body=NewKey, reply=CreatedKey, status=201)
async def create_key(request: web.Request) -> web.Response:
    """Create an API key; 201 with the key, which is shown this once."""
    new = await read_body(request, NewKey)
    async with transaction(request.app) as conn:
        stored, key = await provision.new_api_key(conn, request[TENANT].org_id, new.name)
    created = CreatedKey(stored.id, stored.name, stored.prefix, stored.created_at, key)
    return reply(created, status=201, headers=NO_STORE)


@routes.delete(f"/api/v1/settings/api-keys/{ID}")
@requires(role="admin")
@describes(status=204)
async def delete_key(request: web.Request) -> web.Response:
    """Revoke an API key; 204, and its next request is refused."""
    async with transaction(request.app) as conn:
        found(await store.delete_key(conn, request[TENANT].org_id, request.match_info["id"]))
    return no_content()


@routes.get("/api/v1/settings/users")
@requires(role="admin")
@describes(reply=list[User])
async def list_users(request: web.Request) -> web.Response:
    """List the users, oldest first."""
    async with connection(request.app) as conn:
        return reply(await store.list_users(conn, request[TENANT].org_id))


@routes.post("/api/v1/settings/users")
@requires(role="admin")
@describes(body=NewUser, reply=CreatedUser, status=201)
async def create_user(request: web.Request) -> web.Response:
    """Create a user; 201 with a one-time password, which must be changed at the first login."""
    new = await read_body(request, NewUser)
    async with transaction(request.app) as conn:
        user_id, password = await provision.create_user(
            conn, request[TENANT].org_id, new.email, new.role, None
        )
    created = CreatedUser(user_id, checked_email(new.email), new.role, password or "")
    return reply(created, status=201, headers=NO_STORE)


@routes.put(f"/api/v1/settings/users/{ID}")
@requires(role="admin")
@describes(body=UserChange, reply=User)
async def change_user(request: web.Request) -> web.Response:
    """Change e-mail or role of a user; 200 with the user."""
    change = await read_body(request, UserChange)
    async with transaction(request.app) as conn:
        user = await members.change_user(conn, request[TENANT].org_id, request.match_info["id"], change)
    return reply(user)


@routes.delete(f"/api/v1/settings/users/{ID}")
@requires(role="admin")
@describes(status=204)
async def delete_user(request: web.Request) -> web.Response:
    """Delete a user; 204, and their next request is refused."""
    async with transaction(request.app) as conn:
        await members.remove_user(conn, request[TENANT].org_id, request.match_info["id"])
    return no_content()


@routes.get("/api/v1/settings/limits")
@requires(role="viewer")
@describes(reply=Limits)
async def get_limits(request: web.Request) -> web.Response:
    """Return the own retention settings, what holds, the ceilings, and the present usage."""
    tenant = request[TENANT]
    limits = limits_of(
        request.app[CONFIG].config,
        tenant.org_id,
        tenant.plan,
        await usage(request.app, tenant.org_id),
        metrics_seconds=tenant.metrics_retention_seconds,
        logs_seconds=tenant.logs_retention_seconds,
    )
    return reply(limits)


@routes.put("/api/v1/settings/limits")
@requires(role="admin")
@describes(body=LimitsChange, reply=Limits)
async def put_limits(request: web.Request) -> web.Response:
    """Set or, with null, unset the own retention settings; 200 with what follows."""
    change = await read_body(request, LimitsChange)
    metrics_seconds = _seconds(change.metrics_retention, "metricsRetention")
    logs_seconds = _seconds(change.logs_retention, "logsRetention")
    # Before the change: an answer of 503 then means that nothing was changed.
    used = await usage(request.app, request[TENANT].org_id)
    async with transaction(request.app) as conn:
        org = await provision.set_org(
            conn,
            request[TENANT].org_id,
            metrics_retention_seconds=metrics_seconds,
            logs_retention_seconds=logs_seconds,
        )
    limits = limits_of(
        request.app[CONFIG].config,
        org.id,
        org.plan,
        used,
        metrics_seconds=org.metrics_retention_seconds,
        logs_seconds=org.logs_retention_seconds,
    )
    return reply(limits)


def _seconds(duration: str | msgspec.UnsetType | None, field: str) -> int | msgspec.UnsetType | None:
    return retention_seconds(duration, field=field) if isinstance(duration, str) else duration
