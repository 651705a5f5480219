"""The statements of the outbox: what was noted, who delivers it now, what became of it.

Times are the database's, so that replicas need not agree on theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

# Flapping: this many changes of a rule and series within the window are told as they
# come; what follows is held, and told together when the hold is over.
FLAP_CHANGES = 4
FLAP_WINDOW_SECONDS = 600.0
FLAP_HOLD_SECONDS = 600.0
MESSAGE_ROWS = 500  # of one message: some 300 KB of JSON
KEEP_DELIVERED_SECONDS = 86_400.0  # what was told is not told again within a day
KEEP_DEAD_SECONDS = 7 * 86_400.0  # for the admins to see


class Claim(Struct, frozen=True):
    """A channel that is ours until ``lease_until``, the value that fences what we note.

    Attributes:
        settings: JSON of the channel type's own settings.
        failures: Deliveries that failed since the last good one.
        now: The database's time of the claim.
    """

    channel_id: str
    org_id: str
    type: str
    settings: str
    failures: int
    lease_until: datetime
    now: datetime


class Row(Struct, frozen=True):
    """A noted change that is to be told now.

    Attributes:
        series: Equal for all alerts of one rule and series.
        change: msgpack of the AlertChange.
        attempts: How often it was tried.
        alone: A receiver refused a message that it was part of.
    """

    id: int
    series: bytes
    change: bytes
    attempts: int
    alone: bool


async def insert_changes(
    conn: Connection,
    org_ids: Sequence[str],
    alert_ids: Sequence[str],
    states: Sequence[str],
    severities: Sequence[str],
    rule_ids: Sequence[str],
    series: Sequence[bytes],
    changes: Sequence[bytes],
) -> None:
    """Note changes, in their order, for the enabled channels whose filters they pass.

    What comes while earlier changes of its series wait is due with them.  A resolved
    alert is not repeated any more.  An Alertmanager knows no acknowledged alerts, and
    damps by itself.
    """
    await conn.execute(
        """
        WITH changed AS (
            SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[],
                $7::bytea[])
            WITH ORDINALITY AS a (org_id, alert_id, state, severity, rule_id, series, change, number)
        ), ended AS (
            UPDATE notifications n SET repeat_at = NULL FROM changed a
            WHERE a.state = 'resolved' AND n.org_id = a.org_id AND n.alert_id = a.alert_id
                AND n.repeat_at IS NOT NULL
        )
        INSERT INTO notifications (org_id, channel_id, alert_id, state, series, change, due_at)
        SELECT c.org_id, c.id, a.alert_id, a.state, a.series, a.change,
            CASE WHEN waiting.until > clock_timestamp() THEN waiting.until
                 WHEN recent.changes >= $8 AND c.type <> 'alertmanager'
                     THEN clock_timestamp() + make_interval(secs => $10)
                 ELSE clock_timestamp() END
        FROM changed a
        JOIN notification_channels c ON c.org_id = a.org_id AND c.enabled
            AND (c.severities = '{}' OR a.severity = ANY (c.severities))
            AND (c.rule_ids = '{}' OR a.rule_id = ANY (c.rule_ids))
            AND (c.send_resolved OR a.state <> 'resolved')
            AND (c.type <> 'alertmanager' OR a.state <> 'acknowledged')
        CROSS JOIN LATERAL (
            SELECT max(n.due_at) AS until FROM notifications n
            WHERE n.channel_id = c.id AND n.series = a.series AND n.delivered_at IS NULL AND n.dead_at IS NULL
        ) waiting
        CROSS JOIN LATERAL (
            SELECT count(*) AS changes FROM notifications n
            WHERE n.channel_id = c.id AND n.series = a.series
                AND n.created_at > clock_timestamp() - make_interval(secs => $9)
        ) recent
        ORDER BY a.number
        ON CONFLICT (channel_id, alert_id, state) DO NOTHING
        """,
        org_ids,
        alert_ids,
        states,
        severities,
        rule_ids,
        series,
        changes,
        FLAP_CHANGES,
        FLAP_WINDOW_SECONDS,
        FLAP_HOLD_SECONDS,
    )


async def claim_channel(conn: Connection, lease_seconds: float) -> Claim | None:
    """Take the channel that was served least lately of those that have something due."""
    row = await conn.fetchrow(
        """
        UPDATE notification_channels SET
            lease_until = clock_timestamp() + make_interval(secs => $1), served_at = clock_timestamp()
        WHERE id = (
            SELECT id FROM notification_channels
            WHERE enabled AND lease_until <= now() AND paused_until <= now()
                -- First what is due, which is little, then whose it is, of many.
                AND id = ANY (ARRAY(
                    SELECT channel_id FROM notifications
                    WHERE delivered_at IS NULL AND dead_at IS NULL AND due_at <= now()
                    UNION SELECT channel_id FROM notifications WHERE repeat_at <= now()))
            ORDER BY served_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
        RETURNING id AS channel_id, org_id, type, settings, failures, lease_until, clock_timestamp() AS now
        """,
        lease_seconds,
    )
    return None if row is None else Claim(**row)


async def due_rows(conn: Connection, claim: Claim) -> list[Row]:
    """Return what may go together, in order, and behind it what has to go alone.

    A change goes with or after the earlier ones of its series, never before.
    """
    rows = await conn.fetch(
        """
        SELECT id, series, change, attempts, alone FROM (
            SELECT *, bool_and(due_at <= $3 AND NOT alone) OVER earlier AS together,
                row_number() OVER earlier = 1 AND due_at <= $3 AS first
            FROM notifications
            WHERE org_id = $1 AND channel_id = $2 AND delivered_at IS NULL AND dead_at IS NULL
            WINDOW earlier AS (PARTITION BY series ORDER BY id)
        ) waiting
        WHERE together OR (alone AND first)
        UNION ALL
        SELECT id, series, change, attempts, alone FROM notifications
        WHERE org_id = $1 AND channel_id = $2 AND repeat_at <= $3
        ORDER BY alone, id LIMIT $4
        """,
        claim.org_id,
        claim.channel_id,
        claim.now,
        MESSAGE_ROWS,
    )
    return [Row(**row) for row in rows]


async def release(conn: Connection, claim: Claim) -> None:
    """Give a channel back without a word about its delivery."""
    await conn.execute(
        "UPDATE notification_channels SET lease_until = clock_timestamp()"
        " WHERE org_id = $1 AND id = $2 AND lease_until = $3",
        claim.org_id,
        claim.channel_id,
        claim.lease_until,
    )


async def note_delivered(
    conn: Connection, claim: Claim, ids: Sequence[int], repeat_seconds: float | None
) -> None:
    """Note that rows were told, and give the channel back if it is still ours.

    With *repeat_seconds* what fires and is not resolved yet is told again after that.
    """
    await conn.execute(
        """
        WITH told AS (
            UPDATE notifications n SET error = NULL, attempts = attempts + 1,
                delivered_at = coalesce(delivered_at, clock_timestamp()),
                repeat_at = CASE WHEN state = 'firing' AND NOT EXISTS (
                    SELECT 1 FROM notifications r
                    WHERE r.channel_id = n.channel_id AND r.alert_id = n.alert_id AND r.state = 'resolved')
                    THEN clock_timestamp() + make_interval(secs => $5) END
            WHERE org_id = $1 AND channel_id = $2 AND id = ANY ($4) AND dead_at IS NULL
        )
        UPDATE notification_channels SET lease_until = clock_timestamp(), failures = 0,
            delivered_at = clock_timestamp(), error = NULL, error_at = NULL
        WHERE org_id = $1 AND id = $2 AND lease_until = $3
        """,
        claim.org_id,
        claim.channel_id,
        claim.lease_until,
        ids,
        repeat_seconds,
    )


async def pause(conn: Connection, claim: Claim, error: str, seconds: float) -> bool:
    """Let a channel rest after a failure and give it back; False if it is no longer ours."""
    ours = await conn.fetchval(
        """
        UPDATE notification_channels SET lease_until = clock_timestamp(), failures = failures + 1,
            paused_until = now() + make_interval(secs => $4),
            error = $5, error_at = clock_timestamp()
        WHERE org_id = $1 AND id = $2 AND lease_until = $3 RETURNING true
        """,
        claim.org_id,
        claim.channel_id,
        claim.lease_until,
        seconds,
        error,
    )
    return ours is True


async def postpone(
    conn: Connection, claim: Claim, ids: Sequence[int], error: str, seconds: float, *, alone: bool
) -> None:
    """Let rows wait after a failure, with all that comes after them in their series.

    With *alone* each is told by itself from then on.
    """
    await conn.execute(
        """
        UPDATE notifications SET
            attempts = attempts + (id = ANY ($3))::integer,
            error = CASE WHEN id = ANY ($3) THEN $4 ELSE error END,
            due_at = greatest(due_at, now() + make_interval(secs => $5)),
            alone = alone OR (id = ANY ($3) AND $6),
            repeat_at = CASE WHEN repeat_at IS NOT NULL
                THEN now() + make_interval(secs => $5) END
        WHERE org_id = $1 AND channel_id = $2 AND dead_at IS NULL
            AND (delivered_at IS NULL OR repeat_at IS NOT NULL)
            AND series IN (SELECT series FROM notifications WHERE org_id = $1 AND id = ANY ($3))
        """,
        claim.org_id,
        claim.channel_id,
        ids,
        error,
        seconds,
        alone,
    )


async def give_up(conn: Connection, claim: Claim, error: str, noted_before: datetime) -> None:
    """Declare dead whatever a channel was not told in time."""
    await conn.execute(
        """
        UPDATE notifications SET dead_at = clock_timestamp(), error = coalesce(error, $4)
        WHERE org_id = $1 AND channel_id = $2 AND delivered_at IS NULL AND dead_at IS NULL
            AND created_at <= $3
        """,
        claim.org_id,
        claim.channel_id,
        noted_before,
        error,
    )


async def forget_old(conn: Connection) -> None:
    """Delete what was told a day ago and what was given up a week ago."""
    await conn.execute(
        """
        DELETE FROM notifications
        WHERE (delivered_at < clock_timestamp() - make_interval(secs => $1) AND repeat_at IS NULL)
            OR dead_at < clock_timestamp() - make_interval(secs => $2)
        """,
        KEEP_DELIVERED_SECONDS,
        KEEP_DEAD_SECONDS,
    )
