"""The SQL of lines on their way: written by whoever takes them, read by whoever shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from monitor.logs.tail.models import Receiver, Request, Row
from monitor.logs.tail.store import UNWATCHED_SECONDS, WATCH_SECONDS
from monitor.wire.tail import LogRequest

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

_decode = msgspec.json.Decoder(LogRequest).decode


def wakeup_key(request_id: str) -> str:
    """Return what the viewers of a request listen for."""
    return f"tail:{request_id}"


async def note_sign(conn: Connection, org_id: str, agent_id: str, request_id: str) -> Receiver | None:
    """Note that the agent has the request's stream open; return the request, locked.

    None if this agent has no such request.
    """
    row = await conn.fetchrow(
        "UPDATE tail_requests r SET"
        " streamed_at = CASE WHEN r.ended_at IS NULL THEN clock_timestamp() ELSE r.streamed_at END"
        " FROM (SELECT id, streamed_at IS NOT NULL AS opened FROM tail_requests"
        "  WHERE org_id = $1 AND agent_id = $2 AND id = $3 FOR NO KEY UPDATE) AS before"
        " WHERE r.org_id = $1 AND r.id = before.id"
        " RETURNING r.request, r.next_seq, r.bytes, r.end_reason, before.opened,"
        "  r.left_at IS NULL OR r.left_at > clock_timestamp() - make_interval(secs => $5) AS watched,"
        "  r.ended_at IS NULL AND r.expires_at > clock_timestamp()"
        "  AND r.watched_at > clock_timestamp() - make_interval(secs => $4) AS alive",
        org_id,
        agent_id,
        request_id,
        UNWATCHED_SECONDS,
        WATCH_SECONDS,  # somebody who has just come may not have said so
    )
    if row is None:
        return None
    values = dict(row)
    return Receiver(source=_decode(values.pop("request")).source, **values)


async def append_lines(
    conn: Connection,
    org_id: str,
    request_id: str,
    rows: Sequence[Row],
    *,
    next_seq: int,
    end_bytes: Sequence[int],
) -> None:
    """Store rows of a locked request.

    Args:
        conn: In the transaction that holds the lock.
        org_id: The organization.
        request_id: The request.
        rows: At least one.
        next_seq: The number of the line after them.
        end_bytes: The bytes of all events that ever came, up to and with each row.
    """
    await conn.execute(
        "WITH added AS (INSERT INTO tail_lines (request_id, org_id, first_seq, last_seq, end_byte, events)"
        "  SELECT $2, $1, r.first_seq, r.last_seq, r.end_byte, r.events"
        "  FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])"
        "   AS r (first_seq, last_seq, end_byte, events))"
        " UPDATE tail_requests SET next_seq = $7, bytes = $8 WHERE org_id = $1 AND id = $2",
        org_id,
        request_id,
        [row.first_seq for row in rows],
        [row.last_seq for row in rows],
        end_bytes,
        [row.events for row in rows],
        next_seq,
        end_bytes[-1],
    )


async def trim(conn: Connection, org_id: str, request_id: str, before_byte: int) -> None:
    """Delete the oldest lines of a request."""
    await conn.execute(
        "DELETE FROM tail_lines WHERE org_id = $1 AND request_id = $2 AND end_byte <= $3",
        org_id,
        request_id,
        before_byte,
    )


async def note_watched(conn: Connection, org_ids: Sequence[str], request_ids: Sequence[str]) -> None:
    """Note that these requests, of any organizations, are watched now."""
    await conn.execute(
        "UPDATE tail_requests r SET watched_at = clock_timestamp(), left_at = NULL"
        " FROM (SELECT t.id, t.org_id FROM unnest($1::text[], $2::text[]) AS w (org_id, id)"
        "  JOIN tail_requests t ON t.org_id = w.org_id AND t.id = w.id AND t.ended_at IS NULL"
        # Two processes that watch the same ones must lock them in one order.
        "  ORDER BY t.id FOR NO KEY UPDATE OF t) AS s"
        " WHERE r.org_id = s.org_id AND r.id = s.id",
        org_ids,
        request_ids,
    )


async def note_left(conn: Connection, org_id: str, request_id: str) -> None:
    """Note that the last viewer of a process has left; other processes say that theirs are there."""
    await conn.execute(
        "UPDATE tail_requests SET watched_at = clock_timestamp(), left_at = clock_timestamp()"
        " WHERE org_id = $1 AND id = $2 AND ended_at IS NULL",
        org_id,
        request_id,
    )


async def read_new(
    conn: Connection, places: Mapping[str, tuple[str, int]], limit: int
) -> dict[str, tuple[Request, Row | None]]:
    """Return requests as they are now, each with its next rows joined to one, if there are any.

    Args:
        conn: A connection.
        places: By request: its organization, and the number of the line that is next.
        limit: Stored rows of a request.
    """
    records = await conn.fetch(
        "SELECT r.id, r.org_id, r.agent_id, r.next_seq, r.streamed_at IS NOT NULL, r.end_reason, r.error,"
        "  l.first_seq, l.last_seq, l.events"
        " FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w (id, org_id, next_seq)"
        " JOIN tail_requests r ON r.org_id = w.org_id AND r.id = w.id"
        # Joined here: at thousands of lines a second a record for each would cost more than all the rest.
        " CROSS JOIN LATERAL (SELECT min(first_seq) AS first_seq, max(last_seq) AS last_seq,"
        "   string_agg(events, ''::bytea ORDER BY last_seq) AS events"
        "  FROM (SELECT first_seq, last_seq, events FROM tail_lines"
        "   WHERE request_id = w.id AND org_id = w.org_id AND last_seq >= w.next_seq"
        "   ORDER BY last_seq LIMIT $4) AS next_rows) AS l",
        list(places),
        [org_id for org_id, _ in places.values()],
        [next_seq for _, next_seq in places.values()],
        limit,
    )
    found: dict[str, tuple[Request, Row | None]] = {}
    for id_, org_id, agent_id, next_seq, opened, end_reason, error, first, last, events in records:
        row = None if events is None else Row(first, last, events)
        found[id_] = Request(id_, org_id, agent_id, next_seq, opened, end_reason, error), row
    return found


async def read_lines(conn: Connection, org_id: str, request_id: str, next_seq: int, limit: int) -> list[Row]:
    """Return the next rows of a request, from the line with the number *next_seq* on."""
    rows = await conn.fetch(
        "SELECT first_seq, last_seq, events FROM tail_lines"
        " WHERE org_id = $1 AND request_id = $2 AND last_seq >= $3 ORDER BY last_seq LIMIT $4",
        org_id,
        request_id,
        next_seq,
        limit,
    )
    return [Row(**row) for row in rows]
