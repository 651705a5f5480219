"""All channel types by their names, and how a channel's settings are read and sent."""

from __future__ import annotations

from typing import Any

import msgspec

from monitor.notify.channels import alertmanager, apprise, email, slack, webhook
from monitor.notify.channels.kind import Kind
from monitor.notify.models import Message
from monitor.notify.outlet import Outlet

KINDS: dict[str, Kind] = {
    "webhook": webhook.KIND,
    "alertmanager": alertmanager.KIND,
    "slack": slack.KIND,
    "email": email.KIND,
    "apprise": apprise.KIND,
}


def settings_of(type_: str, settings: str) -> Any:
    """Return the settings struct of a type from the JSON that is stored."""
    return msgspec.json.decode(settings, type=KINDS[type_].settings)


async def send(outlet: Outlet, type_: str, settings: str, message: Message) -> None:
    """Bring *message* to a channel.

    Raises:
        NotDelivered: The receiver did not take it.
    """
    await KINDS[type_].send(outlet, settings_of(type_, settings), message)
