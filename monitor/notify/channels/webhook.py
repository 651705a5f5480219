"""A webhook: one JSON document a message, signed with the channel's secret.

``X-Monitor-Signature`` is ``sha256=`` and the hexadecimal HMAC-SHA256, keyed with the
secret, of the timestamp in ``X-Monitor-Timestamp`` (unix seconds), a point, and the body.
A receiver refuses old timestamps, and knows a repeated alert by its ``id`` and ``state``.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime

import msgspec

from monitor.config import Notifications
from monitor.notify.channels.kind import Kind, SecretText, Url, check_url
from monitor.notify.models import Message, Notice, State
from monitor.notify.outlet import Outlet


class Settings(msgspec.Struct, frozen=True):
    """Where to; without a secret nothing is signed."""

    url: Url
    secret: SecretText | None = None


class Alert(msgspec.Struct, frozen=True, rename="camel"):
    """One alert of a webhook's document; a number that is not finite is null."""

    id: str
    state: State
    rule_id: str
    rule_name: str
    severity: str
    resource_type: str
    resource_id: str
    resource_name: str
    agent_id: str
    metric: dict[str, str]
    value: float
    threshold: float
    operator: str
    message: str
    at: datetime
    changes: int
    values: tuple[tuple[float, float], ...]
    link: str | None


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a webhook's request."""

    version: int
    org_id: str
    sent_at: datetime
    test: bool
    count: int
    alerts: tuple[Alert, ...]


def check(settings: Settings, notifications: Notifications) -> None:
    """Refuse a URL that cannot be a target."""
    check_url(settings.url, notifications)


async def send(outlet: Outlet, settings: Settings, message: Message) -> None:
    """POST the message; 2xx takes it."""
    alerts = tuple(alert_of(notice) for notice in message.notices)
    body = msgspec.json.encode(
        Document(1, message.org_id, message.sent_at, message.test, len(alerts), alerts)
    )
    headers = {"Content-Type": "application/json"}
    if settings.secret:
        timestamp = str(int(message.sent_at.timestamp()))
        headers["X-Monitor-Timestamp"] = timestamp
        headers["X-Monitor-Signature"] = signature(settings.secret, timestamp, body)
    await outlet.post(settings.url, body, headers)


def alert_of(notice: Notice) -> Alert:
    """Return the document's form of a notice."""
    change = notice.change
    return Alert(
        change.alert_id,
        change.state,
        change.rule_id,
        change.rule_name,
        change.severity,
        change.resource_type,
        change.resource_id,
        change.resource_name,
        change.agent_id,
        change.metric,
        change.value,
        change.threshold,
        change.operator,
        change.message,
        change.at,
        notice.changes,
        notice.values,
        notice.link,
    )


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of the header ``X-Monitor-Signature``."""
    signed = f"{timestamp}.".encode() + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


KIND = Kind(Settings, check, send, secrets=("secret",))
