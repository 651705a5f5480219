"""What a channel type is, and what the types have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from monitor.config import Notifications
from monitor.errors import BadRequest
from monitor.notify.addresses import is_odd_literal, is_private_literal
from monitor.notify.models import Message
from monitor.notify.outlet import Outlet

Url = Annotated[str, Meta(min_length=1, max_length=2000)]
SecretText = Annotated[str, Meta(max_length=500)]

FIRST_PRINTABLE = "!"  # what is below, white space and control characters, is in no URL


class Kind(Struct, frozen=True):
    """A channel type.

    Attributes:
        settings: The struct of its settings.
        check: Refuses settings, with BadRequest, that the configuration or the type does not allow.
        send: Brings a message to the receiver, or raises NotDelivered.
        secrets: Settings that are never shown.
        repeat_seconds: After which a firing alert is told again, None for never.
    """

    settings: type[Struct]
    check: Callable[[Any, Notifications], None]
    send: Callable[[Outlet, Any, Message], Awaitable[None]]
    secrets: tuple[str, ...] = ()
    repeat_seconds: float | None = None


def check_url(url: str, notifications: Notifications) -> None:
    """Refuse what is no target over HTTP, or plainly a private one.

    Raises:
        BadRequest: Says why, and never the URL: it may be a secret.
    """
    field = "settings.url"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise BadRequest(f"{field}: not a URL", field=field) from None
    if parts.scheme not in ("http", "https") or not host or any(c < FIRST_PRINTABLE for c in url):
        raise BadRequest(f"{field}: expected a URL such as https://host/path", field=field)
    if "@" in parts.netloc:
        raise BadRequest(f"{field}: user and password in the URL are not supported", field=field)
    if is_odd_literal(host):
        raise BadRequest(f"{field}: expected a host name or a plain address", field=field)
    if not notifications.allow_private_targets and is_private_literal(host):
        raise BadRequest(f"{field}: the address is private", field=field)
