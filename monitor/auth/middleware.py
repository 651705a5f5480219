"""Who may ask for what: denied by default, opened in sight of the route.

A handler without a marker takes tenants alone: viewers to read, members to change.
Refusals come in this order: 401 (who), 402 (suspended), 403 (a foreign page's
cookie, a password to be changed, role, plan), and only then the handler's own.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import msgspec
from aiohttp import web

from monitor.auth import credentials, store, tokens
from monitor.auth.last_used import note
from monitor.auth.lookups import LOOKUPS
from monitor.auth.models import (
    AGENT,
    AGENT_TOKEN_HASH,
    TENANT,
    AgentCaller,
    Feature,
    Plan,
    Role,
    Tenant,
)
from monitor.auth.origin import is_foreign
from monitor.config import CONFIG
from monitor.db.postgres import connection
from monitor.errors import Forbidden, OrgSuspended, Unauthorized
from monitor.web.errors import ORG_ID

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
H = TypeVar("H", bound=Callable[..., Any])

READS = ("GET", "HEAD")
RANKS: dict[Role, int] = {"viewer": 0, "member": 1, "admin": 2}
# The plans that have a feature, and what the others are told.
FEATURES: dict[Feature, tuple[frozenset[Plan], str]] = {
    "log_streaming": (
        frozenset(("pro", "enterprise")),
        "Log streaming is available on the Pro plan",
    ),
    "gpu_policies": (
        frozenset(("pro", "enterprise")),
        "GPU-aware policies are available on the Pro plan",
    ),
}


class Access(msgspec.Struct, frozen=True):
    """Who may call a handler.

    Attributes:
        kind: Everybody, users and API keys, or the agent named in the path.
        role: The least role; None is viewer to read and member to change.
        feature: What the organization's plan must have.
        before_password_change: Also open to a user who must change the password.
        api_key_bearer: An API key may also come as Bearer or as Basic password.
        deferred: The handler authenticates the agent itself.
    """

    kind: Literal["public", "tenant", "agent"] = "tenant"
    role: Role | None = None
    feature: Feature | None = None
    before_password_change: bool = False
    api_key_bearer: bool = False
    deferred: bool = False


_UNMARKED = Access()


def access_of(handler: Any) -> Access:
    """Return who may call *handler*."""
    access: Access = getattr(handler, "__access__", _UNMARKED)
    return access


def _mark(handler: H, access: Access) -> H:
    handler.__access__ = access  # type: ignore[attr-defined]
    return handler


def public(handler: H) -> H:
    """Open a handler to everybody; nobody is identified."""
    return _mark(handler, Access("public"))


def requires(
    *,
    role: Role | None = None,
    feature: Feature | None = None,
    before_password_change: bool = False,
    api_key_bearer: bool = False,
) -> Callable[[H], H]:
    """Open a handler to tenants, who are then in ``request[TENANT]``; see ``Access``."""
    access = Access(
        role=role,
        feature=feature,
        before_password_change=before_password_change,
        api_key_bearer=api_key_bearer,
    )
    return lambda handler: _mark(handler, access)


@overload
def agent(handler: H, /) -> H: ...
@overload
def agent(*, deferred: bool = False) -> Callable[[H], H]: ...
def agent(handler: H | None = None, /, *, deferred: bool = False) -> H | Callable[[H], H]:
    """Open a handler to the agent that the path's ``agentId`` names: ``request[AGENT]``.

    With *deferred* only the token's hash is taken, into ``request[AGENT_TOKEN_HASH]``:
    the handler finds the agent with ``store.agent_by_token`` in its own transaction and
    admits it with ``admitted_agent``.
    """
    access = Access("agent", deferred=deferred)
    if handler is not None:
        return _mark(handler, access)
    return lambda marked: _mark(marked, access)


def security_of(handler: Any) -> list[dict[str, list[str]]]:
    """Return the security requirements of *handler*, as OpenAPI writes them."""
    schemes = {"public": [], "tenant": ["bearer", "cookie", "apiKey"], "agent": ["agentToken"]}
    return [{scheme: []} for scheme in schemes[access_of(handler).kind]]


@web.middleware
async def authentication(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through to its handler if the handler is open to its caller."""
    if request.match_info.http_exception is None:  # an unknown path is 404 whoever asks
        access = access_of(request.match_info.handler)
        if access.kind == "tenant":
            await _admit_tenant(request, access)
        elif access.deferred:
            request[AGENT_TOKEN_HASH] = agent_token_hash(request)
        elif access.kind == "agent":
            await agent_from_request(request)
    return await handler(request)


async def admit_again(request: web.Request) -> None:
    """Ask once more whether the tenant may do what *request* asked for: for answers that go on and on.

    Raises:
        ServiceError: As at first, if the tenant may not any more.
    """
    await _admit_tenant(request, access_of(request.match_info.handler))


async def _admit_tenant(request: web.Request, access: Access) -> None:
    presented = credentials.presented(request.headers, api_key_bearer=access.api_key_bearer)
    for kind, text in presented:
        tenant = await _tenant_of(request, kind, text)
        if tenant is not None:
            break
    else:
        raise Unauthorized
    _identify(request, tenant)
    if kind == "cookie" and request.method not in READS and is_foreign(request):
        raise Forbidden
    if tenant.must_change_password and not access.before_password_change:
        raise Forbidden("password_change_required")
    require_role(tenant, access.role or ("viewer" if request.method in READS else "member"))
    if access.feature is not None:
        require_feature(tenant, access.feature)


async def _tenant_of(
    request: web.Request, kind: Literal["session", "cookie", "api_key"], text: str
) -> Tenant | None:
    if kind == "api_key":
        if not tokens.API_KEY.fullmatch(text):
            return None
        return await request.app[LOOKUPS].tenant(tokens.digest(text))
    session = tokens.verify(text, request.app[CONFIG].config.auth.jwt_secrets, time.time())
    if session is None:
        return None
    async with connection(request.app) as conn:
        return await store.tenant_by_session(conn, session.org_id, session.sub, session.iat, session.jti)


def _identify(request: web.Request, tenant: Tenant) -> None:
    request[TENANT] = tenant
    request[ORG_ID] = tenant.org_id
    if tenant.suspended:
        raise OrgSuspended
    if tenant.kind == "api_key":
        note(request.app, tenant.subject_id)


async def tenant_by_api_key(request: web.Request, keys: Sequence[str]) -> Tenant:
    """Return the tenant of the one API key in *keys*, and keep it in ``request[TENANT]``.

    For a handler that is marked public because the key may stand in the body.

    Raises:
        OrgSuspended: The key is good, its organization is suspended.
        Unauthorized: None or several, or no valid key.
    """
    tenant = await _tenant_of(request, "api_key", keys[0].strip()) if len(keys) == 1 else None
    if tenant is None:
        raise Unauthorized
    _identify(request, tenant)
    return tenant


def require_role(tenant: Tenant, role: Role) -> None:
    """Refuse a tenant below *role*.

    Raises:
        Forbidden: With the text ``forbidden``.
    """
    if RANKS[tenant.role] < RANKS[role]:
        raise Forbidden


def require_feature(tenant: Tenant, feature: Feature) -> None:
    """Refuse a tenant whose plan has no *feature*.

    Raises:
        Forbidden: Says which plan has it.
    """
    plans, text = FEATURES[feature]
    if tenant.plan not in plans:
        raise Forbidden(text)


def agent_token_hash(request: web.Request) -> bytes:
    """Return the SHA-256 of the agent's token that *request* shows.

    Raises:
        Unauthorized: There is none, more than one, or no agent's token.
    """
    return tokens.digest(credentials.agent_token(request.headers))


async def agent_from_request(request: web.Request) -> AgentCaller:
    """Return the agent that sent *request*, and keep it in ``request[AGENT]``.

    Raises:
        OrgSuspended: The token is good, the agent's organization is suspended.
        Unauthorized: No valid token, or that of another agent than the path's.
    """
    token_hash = agent_token_hash(request)
    async with connection(request.app) as conn:
        caller = await store.agent_by_token(conn, token_hash)
    return admitted_agent(request, caller)


def admitted_agent(request: web.Request, caller: AgentCaller | None) -> AgentCaller:
    """Return *caller* if the path of *request* is its own, and keep it in ``request[AGENT]``.

    Raises:
        OrgSuspended: It is, but its organization is suspended.
        Unauthorized: There is no caller, or the path is another agent's.
    """
    if caller is None or caller.agent_id != request.match_info.get("agentId"):
        raise Unauthorized
    request[AGENT] = caller
    request[ORG_ID] = caller.org_id
    if caller.suspended:
        raise OrgSuspended
    return caller
