"""A channel as the API shows it, and what a request may say of one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from monitor.notify.models import State

Type = Literal["webhook", "alertmanager", "slack", "email", "apprise"]
DeliveryState = Literal["new", "delivered", "failing"]

Severities = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(max_length=100)]
RuleIds = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=1000)]


class NewChannel(Struct, frozen=True, rename="camel"):
    """Body of ``POST /api/v1/settings/channels``.

    Attributes:
        settings: What the type needs: ``url``, ``secret``, ``to``.
        severities: Only alerts of these severities; empty for all.
        rule_ids: Only alerts of these rules; empty for all.
    """

    name: str
    type: Type
    settings: dict[str, Any]
    severities: Severities = ()
    rule_ids: RuleIds = ()
    send_resolved: bool = True
    enabled: bool = True


class ChannelChange(Struct, frozen=True, rename="camel"):
    """Body of ``PUT /api/v1/settings/channels/{id}``; what is left out stays, in settings too.

    A secret that is sent as it is shown, empty, stays as well; null takes it away.
    """

    name: str | UnsetType = UNSET
    type: Type | UnsetType = UNSET
    settings: dict[str, Any] | UnsetType = UNSET
    severities: Severities | UnsetType = UNSET
    rule_ids: RuleIds | UnsetType = UNSET
    send_resolved: bool | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class Stored(Struct, frozen=True):
    """A channel's own columns; ``settings`` is JSON, with the secrets."""

    id: str
    name: str
    type: Type
    settings: str
    severities: tuple[str, ...]
    rule_ids: tuple[str, ...]
    send_resolved: bool
    enabled: bool
    created_at: datetime


class Progress(Struct, frozen=True):
    """What a channel was told, and what not: the columns that deliveries write."""

    waiting: int = 0
    dead: int = 0
    failures: int = 0
    delivered_at: datetime | None = None
    error: str | None = None
    error_at: datetime | None = None
    paused_until: datetime | None = None


class DeadNotification(Struct, frozen=True, rename="camel"):
    """A notification that was given up after 24 hours."""

    alert_id: str
    state: State
    rule_name: str
    resource_name: str
    error: str
    dead_at: datetime


class Delivery(Struct, frozen=True, rename="camel"):
    """How it goes.

    Attributes:
        state: ``new`` before the first delivery, ``failing`` since the last one failed.
        waiting: Notifications on their way.
        dead: Notifications given up within the last 7 days.
        last_error: What went wrong last; null after a good delivery.
        next_attempt_at: Until when a failing channel rests.
    """

    state: DeliveryState
    waiting: int
    dead: int
    last_delivered_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    next_attempt_at: datetime | None


class Channel(Struct, frozen=True, rename="camel"):
    """A notification channel.

    Attributes:
        settings: The type's own settings, the secrets among them empty.
        secrets_set: Which secrets are set.
        dead: The newest 20 notifications that were given up, newest first.
    """

    id: str
    name: str
    type: Type
    settings: dict[str, Any]
    secrets_set: tuple[str, ...]
    severities: tuple[str, ...]
    rule_ids: tuple[str, ...]
    send_resolved: bool
    enabled: bool
    created_at: datetime
    delivery: Delivery
    dead: tuple[DeadNotification, ...]


class Tested(Struct, frozen=True):
    """Answer of ``POST /api/v1/settings/channels/{id}/test``: what became of the message."""

    delivered: bool
    error: str | None = None
