"""E-mail through the mail server of the configuration: one plain text a message."""

from __future__ import annotations

from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Annotated

import msgspec

from monitor.config import Notifications
from monitor.errors import BadRequest
from monitor.notify.channels.kind import Kind
from monitor.notify.compose import subject, text
from monitor.notify.models import Message
from monitor.notify.outlet import NotDelivered, Outlet

# ASCII alone: what else is allowed needs servers that say so.
Recipient = Annotated[
    str, msgspec.Meta(pattern=r"^[!#-\'*+\-/-9=?A-Z^-~.]{1,64}@[A-Za-z0-9.-]{1,253}$", max_length=254)
]


class Settings(msgspec.Struct, frozen=True):
    """Whom to write to: one address, or up to 20."""

    to: Recipient | Annotated[tuple[Recipient, ...], msgspec.Meta(min_length=1, max_length=20)]


def check(settings: Settings, notifications: Notifications) -> None:
    """Refuse e-mail where no mail server is configured."""
    if not notifications.smtp.host:
        raise BadRequest("type: email needs notifications.smtp in the service's configuration", field="type")


async def send(outlet: Outlet, settings: Settings, message: Message) -> None:
    """Hand the mail to the mail server."""
    sender = outlet.settings.smtp.sender
    if sender is None:
        raise NotDelivered("the configuration names no mail server")
    recipients = [settings.to] if isinstance(settings.to, str) else list(settings.to)
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Subject"] = subject(message)
    mail["Date"] = format_datetime(message.sent_at)
    mail["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no answer wanted
    mail.set_content(text(message))
    await outlet.mail(mail, recipients)


KIND = Kind(Settings, check, send)
