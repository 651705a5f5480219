"""``/auth/*`` and ``/api/v1/me``."""

from __future__ import annotations

import time

from aiohttp import web

from monitor.auth import login as logins
from monitor.auth import tokens
from monitor.auth.credentials import COOKIE
from monitor.auth.middleware import public, requires
from monitor.auth.models import TENANT, LoggedIn, Login, Me, PasswordChange
from monitor.auth.origin import client_address
from monitor.config import CONFIG
from monitor.web.codec import check_type, decode, no_content, read_body, read_bytes, reply
from monitor.web.openapi import describes

LOGIN_BYTES = 32 * 1024  # whoever asks is not known yet; the longest login, escaped, has 16 KiB
NO_STORE = {"Cache-Control": "no-store"}

routes = web.RouteTableDef()


@routes.post("/auth/login")
@public
@describes(body=Login, reply=LoggedIn)
async def login(request: web.Request) -> web.Response:
    """Log in; 200 with a token for 24 hours, which is also set as cookie."""
    check_type(request)
    given = decode(await read_bytes(request, limit=LOGIN_BYTES), Login)
    client = client_address(request)
    user = await logins.verified_user(request.app, given.email, given.password, client.address)
    token = tokens.issue(
        request.app[CONFIG].config.auth.jwt_secrets,
        user_id=user.id,
        org_id=user.org_id,
        role=user.role,
        plan=user.plan,
        now=time.time(),
        not_before=user.tokens_valid_from,
    )
    response = reply(
        LoggedIn(token, user.org_id, user.role, user.plan, user.must_change_password), headers=NO_STORE
    )
    response.set_cookie(
        COOKIE,
        token,
        max_age=tokens.SESSION_SECONDS,
        path="/",
        httponly=True,
        samesite="Lax",
        secure=client.scheme == "https",
    )
    return response


@routes.post("/auth/logout")
@requires(role="viewer", before_password_change=True)
@describes(status=204)
async def logout(request: web.Request) -> web.Response:
    """Clear the cookie; 204."""
    response = no_content()
    response.del_cookie(
        COOKIE,
        path="/",
        httponly=True,
        samesite="Lax",
        secure=client_address(request).scheme == "https",
    )
    return response


@routes.post("/auth/password")
@requires(role="viewer", before_password_change=True)
@describes(body=PasswordChange, status=204)
async def change_password(request: web.Request) -> web.Response:
    """Change the own password; 204, and all other sessions of the user end."""
    change = await read_body(request, PasswordChange)
    await logins.change_password(
        request.app, request[TENANT], change, client_address(request).address, time.time()
    )
    return no_content()


@routes.get("/api/v1/me")
@requires(role="viewer", before_password_change=True)
@describes(reply=Me)
async def me(request: web.Request) -> web.Response:
    """Return the caller: the user or the API key, with organization and plan."""
    tenant = request[TENANT]
    named = {"email": tenant.name} if tenant.kind == "user" else {"key_name": tenant.name}
    return reply(
        Me(
            kind=tenant.kind,
            id=tenant.subject_id,
            role=tenant.role,
            org_id=tenant.org_id,
            org_name=tenant.org_name,
            plan=tenant.plan,
            must_change_password=tenant.must_change_password,
            **named,
        )
    )
