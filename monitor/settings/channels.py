"""Make, change, show and try notification channels.

Secrets go in and never come out: a setting that is one is shown empty, and stays as it
is when it comes back empty.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from monitor.auth.checks import checked_name
from monitor.auth.tokens import new_id
from monitor.config import Notifications
from monitor.db.postgres import Connection, connection, found
from monitor.errors import BadRequest, TooManyRequests
from monitor.notify.channels import kinds, store
from monitor.notify.channels.models import (
    Channel,
    ChannelChange,
    DeadNotification,
    Delivery,
    DeliveryState,
    NewChannel,
    Progress,
    Stored,
    Tested,
    Type,
)
from monitor.notify.compose import trial
from monitor.notify.outlet import OUTLET, NotDelivered
from monitor.web.codec import encode, explain


async def list_channels(conn: Connection, org_id: str) -> list[Channel]:
    """Return the channels of *org_id* with their deliveries, oldest first."""
    progress = await store.progress(conn, org_id)
    dead = await store.dead_notifications(conn, org_id)
    return [
        shown(channel, progress.get(channel.id, Progress()), dead.get(channel.id, ()))
        for channel in await store.list_channels(conn, org_id)
    ]


async def create_channel(
    conn: Connection, org_id: str, new: NewChannel, notifications: Notifications
) -> Channel:
    """Store a new channel.

    Raises:
        BadRequest: The name or the settings cannot be.
        TooManyRequests: The organization has as many as it may.
    """
    stored = Stored(
        id=new_id("channel"),
        name=checked_name(new.name),
        type=new.type,
        settings=checked_settings(new.type, without_empty_secrets(new.type, new.settings), notifications),
        severities=new.severities,
        rule_ids=new.rule_ids,
        send_resolved=new.send_resolved,
        enabled=new.enabled,
        created_at=datetime.now(UTC),  # the table's own is what counts
    )
    check(stored)
    inserted = await store.insert_channel(conn, org_id, stored)
    if inserted is None:
        raise TooManyRequests(f"channels: an organization has at most {store.CHANNELS}", field="channels")
    return shown(inserted, Progress(), ())


async def change_channel(
    conn: Connection, org_id: str, channel_id: str, change: ChannelChange, notifications: Notifications
) -> Channel:
    """Change what is given of a channel, inside a transaction.

    What failed before is tried again at once.  A channel that is turned off forgets what it
    waits to be told.

    Raises:
        BadRequest: The name or the settings cannot be, or another type is given.
        NotFound: No such channel in the organization.
    """
    old = found(await store.lock_channel(conn, org_id, channel_id))
    if change.type not in (msgspec.UNSET, old.type):
        raise BadRequest("type: cannot be changed", field="type")
    given = {
        name: value
        for name in ("severities", "rule_ids", "send_resolved", "enabled")
        if (value := getattr(change, name)) is not msgspec.UNSET
    }
    new = msgspec.structs.replace(old, **given)
    if change.name is not msgspec.UNSET:
        new = msgspec.structs.replace(new, name=checked_name(change.name))
    if change.settings is not msgspec.UNSET:
        settings = msgspec.json.decode(old.settings) | without_empty_secrets(old.type, change.settings)
        new = msgspec.structs.replace(new, settings=checked_settings(old.type, settings, notifications))
    check(new)
    await store.update_channel(conn, org_id, new)
    if new.enabled:
        await store.try_again(conn, org_id, channel_id)
    else:
        await store.drop_waiting(conn, org_id, channel_id)
    return next(channel for channel in await list_channels(conn, org_id) if channel.id == channel_id)


async def try_channel(app: web.Application, org_id: str, channel_id: str) -> Tested:
    """Send a test message now, whether the channel is enabled or not; tell what became of it.

    Raises:
        NotFound: No such channel in the organization.
    """
    async with connection(app) as conn:
        channel = found(await store.get_channel(conn, org_id, channel_id))
    try:
        message = trial(org_id, datetime.now(UTC))
        await kinds.send(app[OUTLET], channel.type, channel.settings, message)
    except NotDelivered as error:
        return Tested(delivered=False, error=str(error))
    return Tested(delivered=True)


def without_empty_secrets(type_: Type, settings: dict[str, Any]) -> dict[str, Any]:
    """Return *settings* without the secrets that are empty, as they are shown."""
    secrets = kinds.KINDS[type_].secrets
    return {name: value for name, value in settings.items() if name not in secrets or value != ""}


def checked_settings(type_: Type, settings: dict[str, Any], notifications: Notifications) -> str:
    """Return the settings of a channel as JSON, without what its type does not know.

    Raises:
        BadRequest: They are not what the type needs; names the setting.
    """
    kind = kinds.KINDS[type_]
    try:
        read = msgspec.convert(settings, kind.settings)
    except msgspec.ValidationError as error:
        reason = explain(error)
        field = f"settings.{reason.field}" if reason.field else "settings"
        raise BadRequest(f"settings.{reason.text}", field=field) from None
    kind.check(read, notifications)
    return encode(read).decode()


def check(channel: Stored) -> None:
    """Refuse what does not go together.

    Raises:
        BadRequest: An Alertmanager that is never told of an end would go on for ever.
    """
    if channel.type == "alertmanager" and not channel.send_resolved:
        raise BadRequest(
            "sendResolved: an alertmanager channel always sends it; the Alertmanager's receivers decide",
            field="sendResolved",
        )


def shown(channel: Stored, progress: Progress, dead: tuple[DeadNotification, ...]) -> Channel:
    """Return a channel as the API shows it, its secrets empty."""
    settings: dict[str, Any] = msgspec.json.decode(channel.settings)
    secrets = kinds.KINDS[channel.type].secrets
    return Channel(
        id=channel.id,
        name=channel.name,
        type=channel.type,
        settings={name: "" if name in secrets else value for name, value in settings.items()},
        secrets_set=tuple(name for name in secrets if settings.get(name)),
        severities=tuple(channel.severities),
        rule_ids=tuple(channel.rule_ids),
        send_resolved=channel.send_resolved,
        enabled=channel.enabled,
        created_at=channel.created_at,
        delivery=Delivery(
            state=state_of(progress),
            waiting=progress.waiting,
            dead=progress.dead,
            last_delivered_at=progress.delivered_at,
            last_error=progress.error,
            last_error_at=progress.error_at,
            next_attempt_at=progress.paused_until,
        ),
        dead=dead,
    )


def state_of(progress: Progress) -> DeliveryState:
    """Return how the last delivery ended."""
    if progress.error is not None:
        return "failing"
    return "new" if progress.delivered_at is None else "delivered"
