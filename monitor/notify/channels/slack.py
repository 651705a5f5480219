"""Slack, and what takes the same incoming webhooks, as Mattermost does.

https://api.slack.com/messaging/webhooks
"""

from __future__ import annotations

from typing import Any

import msgspec

from monitor.config import Notifications
from monitor.notify.channels.kind import Kind, Url, check_url
from monitor.notify.compose import LISTED, lines, subject
from monitor.notify.models import Message, Notice
from monitor.notify.outlet import Outlet

COLORS = {"firing": "#d32f2f", "acknowledged": "#f9a825", "resolved": "#2e7d32"}
TEXT_CHARACTERS = 2_500  # of one attachment; Slack cuts at 3,000


class Settings(msgspec.Struct, frozen=True):
    """The incoming webhook's URL: whoever knows it can post."""

    url: Url


def check(settings: Settings, notifications: Notifications) -> None:
    """Refuse a URL that cannot be a target."""
    check_url(settings.url, notifications)


async def send(outlet: Outlet, settings: Settings, message: Message) -> None:
    """POST one message with an attachment for each of the first 20 alerts."""
    attachments = [attachment(notice) for notice in message.notices[:LISTED]]
    if len(message.notices) > LISTED:
        attachments.append({"text": f"and {len(message.notices) - LISTED} more"})
    body = msgspec.json.encode({"text": escaped(subject(message)), "attachments": attachments})
    await outlet.post(settings.url, body, {"Content-Type": "application/json"})


def attachment(notice: Notice) -> dict[str, Any]:
    """Return one alert as an attachment."""
    title, *rest = lines(notice)
    text = escaped("\n".join(rest)[:TEXT_CHARACTERS])
    shown: dict[str, Any] = {
        "color": COLORS[notice.change.state],
        "title": escaped(title[:TEXT_CHARACTERS]),
        "text": text,
        "fallback": escaped(title[:TEXT_CHARACTERS]),
    }
    return shown | ({"title_link": notice.link} if notice.link else {})


def escaped(text: str) -> str:
    """Return *text* so that Slack reads nothing into it, no mention of everybody either."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


KIND = Kind(Settings, check, send, secrets=("url",))
