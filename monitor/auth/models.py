"""Who asks, and the bodies of ``/auth`` and ``/api/v1/me``.

A handler finds its caller under ``request[TENANT]`` or ``request[AGENT]``; the
middleware has put it there, or the handler would not run.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from aiohttp import web

Plan: TypeAlias = Literal["free", "pro", "enterprise"]
Role: TypeAlias = Literal["viewer", "member", "admin"]
Feature: TypeAlias = Literal["log_streaming", "gpu_policies"]

PASSWORD_MIN = 12  # characters (contract 2)
PASSWORD_MAX = 1024  # characters: Argon2 reads all of them
EMAIL_MAX = 320  # characters: 64 before the @ and 255 after it (RFC 5321)
NAME_MAX = 200  # characters of an organization's or a key's name

Password = Annotated[str, msgspec.Meta(max_length=PASSWORD_MAX)]
NewPassword = Annotated[str, msgspec.Meta(min_length=PASSWORD_MIN, max_length=PASSWORD_MAX)]
Email = Annotated[str, msgspec.Meta(min_length=1, max_length=EMAIL_MAX)]


class Tenant(msgspec.Struct, frozen=True):
    """A user or an API key, with what its organization is allowed now.

    Attributes:
        subject_id: Id of the user or of the key.
        name: The user's e-mail, or the key's name.
        jti: Id of the session's token; None for a key.
        metrics_retention_seconds: The organization's own setting; None if it has none.
        logs_retention_seconds: The organization's own setting; None if it has none.
        hidden_agents: Deleted agents that VictoriaMetrics may still know; queries leave them out.
    """

    kind: Literal["user", "api_key"]
    subject_id: str
    name: str
    role: Role
    org_id: str
    org_name: str
    plan: Plan
    suspended: bool
    metrics_retention_seconds: int | None
    logs_retention_seconds: int | None
    hidden_agents: list[str]
    must_change_password: bool = False
    jti: str | None = None


class AgentCaller(msgspec.Struct, frozen=True):
    """An agent that showed its token.

    Attributes:
        metrics_retention_seconds: Its organization's own setting; None if it has none.
    """

    agent_id: str
    org_id: str
    name: str
    type: Literal["docker", "kubernetes"]
    pool: str
    plan: Plan
    suspended: bool
    metrics_retention_seconds: int | None


TENANT: web.RequestKey[Tenant] = web.RequestKey("TENANT", Tenant)
AGENT: web.RequestKey[AgentCaller] = web.RequestKey("AGENT", AgentCaller)
# SHA-256 of the token on a route that authenticates its agent itself.
AGENT_TOKEN_HASH: web.RequestKey[bytes] = web.RequestKey("AGENT_TOKEN_HASH", bytes)


class UserLogin(msgspec.Struct, frozen=True):
    """What a login needs to know of a user.

    Attributes:
        tokens_valid_from: Unix seconds; tokens issued earlier are dead.
    """

    id: str
    org_id: str
    role: Role
    plan: Plan
    password_hash: str
    must_change_password: bool
    tokens_valid_from: int


class Organization(msgspec.Struct, frozen=True):
    """An organization; its own retention settings are None where it has none."""

    id: str
    name: str
    plan: Plan
    suspended: bool
    metrics_retention_seconds: int | None
    logs_retention_seconds: int | None


class ApiKey(msgspec.Struct, frozen=True, rename="camel"):
    """What is stored and shown of an API key: never the key."""

    id: str
    name: str
    prefix: str
    created_at: datetime
    last_used_at: datetime | None


class Login(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``POST /auth/login``."""

    email: Email
    password: Password


class LoggedIn(msgspec.Struct, frozen=True, rename="camel"):
    """Reply to a login; the token lives for 24 hours."""

    token: str
    org_id: str
    role: Role
    plan: Plan
    must_change_password: bool


class PasswordChange(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``POST /auth/password``."""

    current_password: Password
    new_password: NewPassword


class Me(msgspec.Struct, frozen=True, rename="camel"):
    """The caller: a user has an e-mail, an API key has a key name."""

    kind: Literal["user", "api_key"]
    id: str
    role: Role
    org_id: str
    org_name: str
    plan: Plan
    must_change_password: bool
    email: str | msgspec.UnsetType = msgspec.UNSET
    key_name: str | msgspec.UnsetType = msgspec.UNSET
