"""Registration: an API key in, an agent's identity out.

The key stands in the header or, only when there is no header, in the body.  So a
body may have to be read before its sender is known: it is kept small then.
"""

from __future__ import annotations

import msgspec
from aiohttp import web

from monitor.agents import store
from monitor.auth import tokens
from monitor.auth.credentials import API_KEY_HEADER
from monitor.auth.middleware import tenant_by_api_key
from monitor.auth.models import Tenant
from monitor.config import CONFIG
from monitor.db.postgres import transaction
from monitor.errors import BadRequest, TooManyRequests, Unauthorized
from monitor.web.codec import check_type, decode, read_bytes
from monitor.wire.push import Registered, Registration

BODY_BYTES = 64 * 1024  # a registration is a few hundred bytes
NAME_BYTES = 1024  # as for every name that becomes a label (contract 3)
DEFAULT_POOL = "default"


class _Key(msgspec.Struct, rename="camel"):
    """The one field of a body that says who sent it."""

    api_key: str | None = None


async def register(request: web.Request) -> Registered:
    """Store a new agent of the key's organization and return its id and token.

    Raises:
        Unauthorized: No valid API key; a key in the header wins over the body's.
        TooManyRequests: The organization has as many agents as it may have.
        BadRequest: The body is invalid; names the field.
    """
    tenant, body = await _caller(request)
    check_type(request)
    new = decode(body, Registration)
    _check_name("name", new.name)
    if new.pool is not None:
        _check_name("pool", new.pool)
    _check_text("version", new.version or "")
    return await _store(request.app, tenant, new)


async def _caller(request: web.Request) -> tuple[Tenant, bytes]:
    in_header = request.headers.getall(API_KEY_HEADER, [])
    if in_header:
        tenant = await tenant_by_api_key(request, in_header)
        return tenant, await read_bytes(request, limit=BODY_BYTES)
    body = await read_bytes(request, limit=BODY_BYTES)
    try:
        key = decode(body, _Key).api_key
    except BadRequest:
        raise Unauthorized from None
    return await tenant_by_api_key(request, [key] if key else []), body


def _check_name(field: str, text: str) -> None:
    if not text.strip():
        raise BadRequest(f"{field}: expected string that is not empty", field=field)
    _check_text(field, text)


def _check_text(field: str, text: str) -> None:
    if "\0" in text:
        raise BadRequest(f"{field}: NUL is not allowed", field=field)
    if len(text.encode()) > NAME_BYTES:
        raise BadRequest(f"{field}: at most {NAME_BYTES} bytes", field=field)


async def _store(app: web.Application, tenant: Tenant, new: Registration) -> Registered:
    agent_id = tokens.new_id("agent")
    token = tokens.new_agent_token()
    ceiling = app[CONFIG].config.limits.for_org(tenant.org_id).agents
    async with transaction(app) as conn:
        await store.lock_organization(conn, tenant.org_id)
        if await store.count_agents(conn, tenant.org_id) >= ceiling:
            raise TooManyRequests(f"limit reached: {ceiling} agents")
        await store.insert_agent(
            conn,
            tenant.org_id,
            agent_id=agent_id,
            name=new.name,
            type_=new.type,
            pool=new.pool or DEFAULT_POOL,
            version=new.version or "",
            token_hash=tokens.digest(token),
        )
    return Registered(agent_id=agent_id, token=token)
