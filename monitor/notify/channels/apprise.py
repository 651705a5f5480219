"""Whatever Apprise knows, by one of its URLs; only where the configuration enables it.

https://github.com/caronc/apprise/wiki

Apprise opens its own connections, so no guard stands before their targets.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
from typing import Any

import msgspec

from monitor.config import Notifications
from monitor.errors import BadRequest
from monitor.notify.channels.kind import Kind, Url
from monitor.notify.compose import subject, text
from monitor.notify.models import Message
from monitor.notify.outlet import EXCHANGE_SECONDS, NotDelivered, Outlet

ABSENT = "the service lacks the package apprise"
DISABLED = "apprise is not enabled in the service's configuration"


class Settings(msgspec.Struct, frozen=True):
    """An Apprise URL; it holds the receiver's tokens."""

    url: Url


def check(settings: Settings, notifications: Notifications) -> None:
    """Refuse what the configuration does not enable, and what Apprise does not know."""
    if not notifications.apprise:
        raise BadRequest(f"type: {DISABLED}", field="type")
    library = _library()
    if library is None:
        raise BadRequest(f"type: {ABSENT}", field="type")
    if library.Apprise.instantiate(settings.url) is None:
        raise BadRequest("settings.url: no URL that Apprise knows", field="settings.url")


async def send(outlet: Outlet, settings: Settings, message: Message) -> None:
    """Let Apprise send the message as text."""
    if not outlet.settings.apprise:
        raise NotDelivered(DISABLED)
    library = await asyncio.to_thread(_library)
    if library is None:
        raise NotDelivered(ABSENT)
    sender = library.Apprise()
    if not sender.add(settings.url):
        raise NotDelivered("no URL that Apprise knows")
    try:
        async with asyncio.timeout(EXCHANGE_SECONDS):
            told = await sender.async_notify(body=text(message), title=subject(message))
    except TimeoutError:
        raise NotDelivered(f"Apprise was not done within {EXCHANGE_SECONDS:.0f} s") from None
    if not told:
        raise NotDelivered("Apprise could not deliver")


@functools.cache
def _library() -> Any:
    """Return Apprise, None where it is not installed; the first time it takes half a second."""
    try:
        library: Any = importlib.import_module("apprise")
    except ModuleNotFoundError:
        return None
    library.Apprise.instantiate("json://localhost")  # reads its hundred plugins
    return library


KIND = Kind(Settings, check, send, secrets=("url",))
