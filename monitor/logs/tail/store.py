"""The SQL of log requests: opened by viewers, ended and forgotten by the background process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from monitor.db.postgres import found
from monitor.logs.tail.models import EndReason, Request
from monitor.wire.tail import SIGN_SECONDS, LogRequest

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

UNWATCHED_SECONDS = 60.0  # a request lives so long after its last viewer (contract 11)
AGENT_SECONDS = 30.0  # an agent that has not begun by then has not heard of it (contract 11)
WATCH_SECONDS = 15.0  # a process that has a viewer says so more often
SILENT_SECONDS = 3 * SIGN_SECONDS  # an agent that sends nothing for so long is told again
OFFLINE_SECONDS = 90.0  # an agent that neither pushes nor sends for so long is offline (api.md)
LINES_SECONDS = 60.0  # how long lines of an ended request can be asked for
ENDED_SECONDS = 600.0  # how long it is known that a request has ended: 410, then 404

NO_AGENT = "the agent did not answer within 30 s"
OFFLINE = "the agent is offline"

_REQUEST = "id, org_id, agent_id, next_seq, streamed_at IS NOT NULL AS opened, end_reason, error"
_decode = msgspec.json.Decoder(LogRequest).decode


class Reporter(Struct, frozen=True):
    """An agent, and whether it pushed lately."""

    agent_id: str
    online: bool


async def reporters(conn: Connection, org_id: str) -> list[Reporter]:
    """Return the agents that ever pushed, first the one that did so last."""
    rows = await conn.fetch(
        "SELECT agent_id, last_seen > clock_timestamp() - make_interval(secs => $2) AS online"
        " FROM agent_state WHERE org_id = $1 AND last_seen IS NOT NULL ORDER BY last_seen DESC, agent_id",
        org_id,
        OFFLINE_SECONDS,
    )
    return [Reporter(**row) for row in rows]


async def lock_requests(conn: Connection, org_id: str) -> None:
    """Make whoever opens a tail of *org_id* wait for those before: they share, and are counted."""
    await conn.execute("SELECT 1 FROM organizations WHERE id = $1 FOR NO KEY UPDATE", org_id)


async def join_shared(conn: Connection, org_id: str, agent_id: str, shared_as: str) -> Request | None:
    """Watch the request that asks for the same, if there is one."""
    row = await conn.fetchrow(
        "UPDATE tail_requests SET watched_at = clock_timestamp(), left_at = NULL"  # noqa: S608 - a constant
        " WHERE org_id = $1 AND agent_id = $2 AND shared_as = $3 AND ended_at IS NULL"
        f" RETURNING {_REQUEST}",
        org_id,
        agent_id,
        shared_as,
    )
    return None if row is None else Request(**row)


async def rejoin(conn: Connection, org_id: str, request_id: str) -> tuple[Request, LogRequest] | None:
    """Watch a request again; one that has ended too, as long as its lines are there."""
    row = await conn.fetchrow(
        "UPDATE tail_requests SET"  # noqa: S608 - a constant
        " watched_at = CASE WHEN ended_at IS NULL THEN clock_timestamp() ELSE watched_at END,"
        " left_at = CASE WHEN ended_at IS NULL THEN NULL ELSE left_at END"
        " WHERE org_id = $1 AND id = $2"
        "  AND (ended_at IS NULL OR ended_at > clock_timestamp() - make_interval(secs => $3))"
        f" RETURNING {_REQUEST}, request",
        org_id,
        request_id,
        LINES_SECONDS,
    )
    if row is None:
        return None
    values = dict(row)
    asked = _decode(values.pop("request"))
    return Request(**values), asked


async def count_watched(conn: Connection, org_id: str) -> int:
    """Return how many requests of the organization somebody watches."""
    count: int = await conn.fetchval(
        "SELECT count(*) FROM tail_requests WHERE org_id = $1 AND ended_at IS NULL AND left_at IS NULL"
        " AND watched_at > clock_timestamp() - make_interval(secs => $2)",
        org_id,
        WATCH_SECONDS,
    )
    return count


async def insert_request(
    conn: Connection,
    org_id: str,
    agent_id: str,
    asked: LogRequest,
    *,
    shared_as: str | None,
    seconds: float,
) -> Request:
    """Store a new request that lives *seconds*, and let the agent's next pushes ask for it.

    Raises:
        NotFound: The agent is gone.
    """
    # The agent's state first: whoever deletes an agent locks in that order too.
    found(
        await conn.fetchval(
            "UPDATE agent_state SET tails_until = clock_timestamp() + make_interval(secs => $3)"
            " WHERE org_id = $1 AND agent_id = $2 RETURNING agent_id",
            org_id,
            agent_id,
            AGENT_SECONDS,
        )
    )
    await conn.execute(
        "INSERT INTO tail_requests (id, org_id, agent_id, request, shared_as, expires_at)"
        " VALUES ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6))",
        asked.request_id,
        org_id,
        agent_id,
        msgspec.json.encode(asked).decode(),
        shared_as,
        seconds,
    )
    return Request(id=asked.request_id, org_id=org_id, agent_id=agent_id, next_seq=0, opened=False)


async def waiting_requests(conn: Connection, agent_ids: Sequence[str]) -> dict[str, list[LogRequest]]:
    """Return the requests of each agent whose stream is not open, oldest first."""
    rows = await conn.fetch(
        "SELECT agent_id, request FROM tail_requests WHERE agent_id = ANY($1::text[]) AND ended_at IS NULL"
        " AND (streamed_at IS NULL OR streamed_at < clock_timestamp() - make_interval(secs => $2))"
        " AND watched_at > clock_timestamp() - make_interval(secs => $3)"
        " ORDER BY created_at, id",
        agent_ids,
        SILENT_SECONDS,
        UNWATCHED_SECONDS,
    )
    waiting: dict[str, list[LogRequest]] = {}
    for row in rows:
        waiting.setdefault(row["agent_id"], []).append(_decode(row["request"]))
    return waiting


async def offer_again(conn: Connection) -> None:
    """Let the pushes of agents that stopped sending ask for their requests."""
    await conn.execute(
        "UPDATE agent_state SET tails_until = clock_timestamp() + make_interval(secs => $2)"
        " WHERE agent_id IN (SELECT s.agent_id FROM agent_state s"
        "  JOIN tail_requests r ON r.agent_id = s.agent_id AND r.org_id = s.org_id"
        "  WHERE r.ended_at IS NULL AND r.streamed_at < clock_timestamp() - make_interval(secs => $1)"
        "   AND (s.tails_until IS NULL OR s.tails_until < clock_timestamp() + make_interval(secs => $1))"
        "  ORDER BY s.agent_id FOR NO KEY UPDATE OF s SKIP LOCKED)",
        SILENT_SECONDS,
        2 * SILENT_SECONDS,
    )


async def end(
    conn: Connection, org_id: str, request_id: str, reason: EndReason, error: str | None = None
) -> None:
    """Note that no more lines come; the first reason stays."""
    await conn.execute(
        "UPDATE tail_requests SET ended_at = clock_timestamp(), end_reason = $3, error = $4"
        " WHERE org_id = $1 AND id = $2 AND ended_at IS NULL",
        org_id,
        request_id,
        reason,
        error,
    )


async def end_dead(conn: Connection, org_id: str | None = None) -> list[str]:
    """End requests that nobody may, does or can serve, of one organization or of all; return their ids."""
    rows = await conn.fetch(
        "UPDATE tail_requests r SET ended_at = clock_timestamp(), end_reason = d.reason, error = d.error"
        " FROM (SELECT t.id, t.org_id,"
        "   CASE WHEN o.suspended THEN 'suspended'"
        "    WHEN t.expires_at <= clock_timestamp() THEN 'expired'"
        "    WHEN t.watched_at <= clock_timestamp() - make_interval(secs => $2) THEN 'unwatched'"
        "    WHEN t.streamed_at IS NULL AND t.created_at <= clock_timestamp() - make_interval(secs => $3)"
        "     THEN 'error'"
        "    WHEN t.streamed_at <= clock_timestamp() - make_interval(secs => $4)"
        "     AND s.last_seen <= clock_timestamp() - make_interval(secs => $4) THEN 'error' END AS reason,"
        "   CASE WHEN t.streamed_at IS NULL THEN $5 ELSE $6 END AS error"
        "   FROM tail_requests t JOIN agent_state s ON s.agent_id = t.agent_id AND s.org_id = t.org_id"
        "   JOIN organizations o ON o.id = t.org_id"
        "   WHERE t.ended_at IS NULL AND ($1::text IS NULL OR t.org_id = $1)"
        "   FOR NO KEY UPDATE OF t SKIP LOCKED) AS d"
        " WHERE r.id = d.id AND r.org_id = d.org_id AND d.reason IS NOT NULL"
        " RETURNING r.id",
        org_id,
        UNWATCHED_SECONDS,
        AGENT_SECONDS,
        OFFLINE_SECONDS,
        NO_AGENT,
        OFFLINE,
    )
    return [row["id"] for row in rows]


async def forget_ended(conn: Connection) -> None:
    """Delete the lines of requests that ended a while ago, and requests that ended long ago."""
    await conn.execute(
        # The request is locked first, as whoever deletes its agent does.
        "DELETE FROM tail_lines WHERE request_id IN (SELECT r.id FROM tail_requests r"
        "  WHERE r.ended_at < clock_timestamp() - make_interval(secs => $1)"
        "   AND EXISTS (SELECT 1 FROM tail_lines l WHERE l.request_id = r.id) FOR UPDATE OF r SKIP LOCKED)",
        LINES_SECONDS,
    )
    await conn.execute(
        "DELETE FROM tail_requests WHERE id IN (SELECT id FROM tail_requests"
        "  WHERE ended_at < clock_timestamp() - make_interval(secs => $1) FOR UPDATE SKIP LOCKED)",
        ENDED_SECONDS,
    )
