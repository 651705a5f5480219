"""The statements of the channels; what is on its way to them is in ``notify.store``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from monitor.notify.channels.models import DeadNotification, Progress, Stored
from monitor.notify.models import AlertChange

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

CHANNELS = 100  # of one organization: each alert is noted once for each
DEAD_SHOWN = 20  # of one channel


async def list_channels(conn: Connection, org_id: str) -> list[Stored]:
    """Return the channels of *org_id*, oldest first."""
    rows = await conn.fetch(
        """
        SELECT id, name, type, settings, severities, rule_ids, send_resolved, enabled, created_at
        FROM notification_channels WHERE org_id = $1 ORDER BY created_at, id
        """,
        org_id,
    )
    return [Stored(**row) for row in rows]


async def get_channel(conn: Connection, org_id: str, channel_id: str) -> Stored | None:
    """Return a channel."""
    row = await conn.fetchrow(
        """
        SELECT id, name, type, settings, severities, rule_ids, send_resolved, enabled, created_at
        FROM notification_channels WHERE org_id = $1 AND id = $2
        """,
        org_id,
        channel_id,
    )
    return None if row is None else Stored(**row)


async def lock_channel(conn: Connection, org_id: str, channel_id: str) -> Stored | None:
    """Return a channel, locked until the transaction ends."""
    row = await conn.fetchrow(
        """
        SELECT id, name, type, settings, severities, rule_ids, send_resolved, enabled, created_at
        FROM notification_channels WHERE org_id = $1 AND id = $2 FOR NO KEY UPDATE
        """,
        org_id,
        channel_id,
    )
    return None if row is None else Stored(**row)


async def insert_channel(conn: Connection, org_id: str, channel: Stored) -> Stored | None:
    """Store a new channel and return it with its time; None if the organization has its 100."""
    row = await conn.fetchrow(
        """
        INSERT INTO notification_channels
            (org_id, id, name, type, settings, severities, rule_ids, send_resolved, enabled)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
        WHERE (SELECT count(*) FROM notification_channels WHERE org_id = $1) < $10
        RETURNING id, name, type, settings, severities, rule_ids, send_resolved, enabled, created_at
        """,
        org_id,
        channel.id,
        channel.name,
        channel.type,
        channel.settings,
        channel.severities,
        channel.rule_ids,
        channel.send_resolved,
        channel.enabled,
        CHANNELS,
    )
    return None if row is None else Stored(**row)


async def update_channel(conn: Connection, org_id: str, channel: Stored) -> None:
    """Store what was changed of a channel, and end its rest: the change may be the cure."""
    await conn.execute(
        """
        UPDATE notification_channels SET name = $3, settings = $4, severities = $5, rule_ids = $6,
            send_resolved = $7, enabled = $8, paused_until = '-infinity', failures = 0
        WHERE org_id = $1 AND id = $2
        """,
        org_id,
        channel.id,
        channel.name,
        channel.settings,
        channel.severities,
        channel.rule_ids,
        channel.send_resolved,
        channel.enabled,
    )


async def try_again(conn: Connection, org_id: str, channel_id: str) -> None:
    """Make due what failed before, together again."""
    await conn.execute(
        """
        UPDATE notifications SET due_at = clock_timestamp(), alone = false
        WHERE org_id = $1 AND channel_id = $2 AND delivered_at IS NULL AND dead_at IS NULL AND attempts > 0
        """,
        org_id,
        channel_id,
    )


async def drop_waiting(conn: Connection, org_id: str, channel_id: str) -> None:
    """Delete what a channel waits to be told, now or again."""
    await conn.execute(
        """
        DELETE FROM notifications WHERE org_id = $1 AND channel_id = $2
            AND (repeat_at IS NOT NULL OR (delivered_at IS NULL AND dead_at IS NULL))
        """,
        org_id,
        channel_id,
    )


async def delete_channel(conn: Connection, org_id: str, channel_id: str) -> str | None:
    """Delete a channel with all that is on its way to it; return its id."""
    deleted: str | None = await conn.fetchval(
        "DELETE FROM notification_channels WHERE org_id = $1 AND id = $2 RETURNING id", org_id, channel_id
    )
    return deleted


async def progress(conn: Connection, org_id: str) -> dict[str, Progress]:
    """Return how each channel of *org_id* goes, by its id."""
    rows = await conn.fetch(
        """
        SELECT c.id, c.failures, c.delivered_at, c.error, c.error_at,
            CASE WHEN c.paused_until > clock_timestamp() THEN c.paused_until END AS paused_until,
            count(n.id) FILTER (WHERE n.dead_at IS NULL) AS waiting,
            count(n.id) FILTER (WHERE n.dead_at IS NOT NULL) AS dead
        FROM notification_channels c
        LEFT JOIN notifications n ON n.channel_id = c.id AND n.delivered_at IS NULL
        WHERE c.org_id = $1 GROUP BY c.id
        """,
        org_id,
    )
    return {row["id"]: Progress(**{name: row[name] for name in Progress.__struct_fields__}) for row in rows}


async def dead_notifications(conn: Connection, org_id: str) -> dict[str, tuple[DeadNotification, ...]]:
    """Return the newest that were given up, newest first, by the id of their channel."""
    rows = await conn.fetch(
        """
        SELECT c.id, n.change, n.error, n.dead_at FROM notification_channels c
        CROSS JOIN LATERAL (
            SELECT change, error, dead_at FROM notifications
            WHERE channel_id = c.id AND dead_at IS NOT NULL ORDER BY dead_at DESC, id DESC LIMIT $2
        ) n
        WHERE c.org_id = $1
        """,
        org_id,
        DEAD_SHOWN,
    )
    found: dict[str, tuple[DeadNotification, ...]] = {}
    for row in rows:
        change = msgspec.msgpack.decode(row["change"], type=AlertChange)
        shown = DeadNotification(
            change.alert_id,
            change.state,
            change.rule_name,
            change.resource_name,
            row["error"] or "",
            row["dead_at"],
        )
        found[row["id"]] = (*found.get(row["id"], ()), shown)
    return found
