"""Bodies of ``/api/v1/settings``: keys, users, limits."""

from __future__ import annotations

from datetime import datetime

import msgspec

from monitor.auth.models import Email, Role


class NewKey(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``POST /api/v1/settings/api-keys``."""

    name: str


class CreatedKey(msgspec.Struct, frozen=True, rename="camel"):
    """A new API key: the one answer that holds the key."""

    id: str
    name: str
    prefix: str
    created_at: datetime
    key: str


class User(msgspec.Struct, frozen=True, rename="camel"):
    """A user of the organization."""

    id: str
    email: str
    role: Role
    must_change_password: bool
    created_at: datetime


class NewUser(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``POST /api/v1/settings/users``."""

    email: Email
    role: Role


class CreatedUser(msgspec.Struct, frozen=True, rename="camel"):
    """A new user with the one-time password: the one answer that holds it."""

    id: str
    email: str
    role: Role
    password: str
    must_change_password: bool = True


class UserChange(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``PUT /api/v1/settings/users/{id}``; what is left out stays."""

    email: Email | msgspec.UnsetType = msgspec.UNSET
    role: Role | msgspec.UnsetType = msgspec.UNSET


class Retention(msgspec.Struct, frozen=True, rename="camel"):
    """How long is kept, as Prometheus durations."""

    metrics_retention: str
    logs_retention: str


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """What the organization uses now.

    Attributes:
        series: Time series with samples of today.
        log_bytes: Stored bytes of log lines.
    """

    agents: int
    series: int
    log_bytes: int


class Limits(msgspec.Struct, frozen=True, rename="camel"):
    """The organization's own settings, null where it has none, and what follows.

    Attributes:
        effective: What holds: the own setting, at most the ceiling.
        ceilings: What the service's configuration allows.
    """

    metrics_retention: str | None
    logs_retention: str | None
    effective: Retention
    ceilings: Retention
    usage: Usage


class LimitsChange(msgspec.Struct, frozen=True, rename="camel"):
    """Body of ``PUT /api/v1/settings/limits``: durations, null for none; what is left out stays."""

    metrics_retention: str | msgspec.UnsetType | None = msgspec.UNSET
    logs_retention: str | msgspec.UnsetType | None = msgspec.UNSET
