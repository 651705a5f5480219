"""The SQL of commands and of the polls that wait for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from monitor.auth.tokens import new_id
from monitor.commands.models import CommandType
from monitor.db.postgres import found
from monitor.db.wakeups import notify
from monitor.wire.commands import Command, CommandResult
from monitor.wire.times import in_utc

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

LEASE_SECONDS = 30.0  # a command handed out is hidden for so long (contract 9)
POLL_SECONDS = 45.0  # no poll lasts longer: 30 s of waiting and the time to answer
KEPT_SECONDS = 86_400.0  # a result repeated within a day still finds its command
MESSAGE_CHARACTERS = 4_096  # of a result: enough to see why, too little to be a log


def wakeup_key(agent_id: str) -> str:
    """Return what the waiting poll of *agent_id* listens for."""
    return f"commands:{agent_id}"


async def enqueue(
    conn: Connection, org_id: str, agent_id: str, type_: CommandType, payload: Mapping[str, Any]
) -> str:
    """Tell an agent to do something; return the command's id.

    In a transaction it is handed out when that commits: at once if the agent waits.

    Raises:
        NotFound: Not an agent of this organization.
    """
    command_id = new_id("cmd")
    added = await conn.fetchrow(
        "INSERT INTO commands (id, org_id, agent_id, type, payload)"
        " SELECT $3, a.org_id, a.id, $4, $5"
        " FROM (SELECT org_id, id FROM agents WHERE org_id = $1 AND id = $2 FOR KEY SHARE) AS a"
        " RETURNING EXISTS (SELECT 1 FROM command_polls p WHERE p.org_id = $1 AND p.agent_id = $2"
        "  AND p.opened_at > clock_timestamp() - make_interval(secs => $6)) AS is_awaited",
        org_id,
        agent_id,
        command_id,
        type_,
        msgspec.json.encode(payload).decode(),
        POLL_SECONDS,
    )
    if found(added)["is_awaited"]:
        await notify(conn, wakeup_key(agent_id))
    return command_id


async def open_poll(conn: Connection, org_id: str, agent_id: str, poll_id: str) -> bool:
    """Make *poll_id* the one that holds for the agent; return whether another one did."""
    replaced: bool = await conn.fetchval(
        "INSERT INTO command_polls (org_id, agent_id, poll_id) VALUES ($1, $2, $3)"
        " ON CONFLICT (agent_id) DO UPDATE SET poll_id = excluded.poll_id, opened_at = excluded.opened_at"
        " RETURNING command_polls.xmax <> 0",
        org_id,
        agent_id,
        poll_id,
    )
    return replaced


async def close_poll(conn: Connection, org_id: str, agent_id: str, poll_id: str) -> None:
    """Note that *poll_id* has ended; a newer one stays."""
    await conn.execute(
        "DELETE FROM command_polls WHERE org_id = $1 AND agent_id = $2 AND poll_id = $3",
        org_id,
        agent_id,
        poll_id,
    )


async def holds(conn: Connection, org_id: str, agent_id: str, poll_id: str) -> bool:
    """Return whether *poll_id* is still the newest poll of its agent."""
    newest: str | None = await conn.fetchval(
        "SELECT poll_id FROM command_polls WHERE org_id = $1 AND agent_id = $2", org_id, agent_id
    )
    return newest == poll_id


async def polls_to_wake(
    conn: Connection, org_ids: Sequence[str], agent_ids: Sequence[str], poll_ids: Sequence[str]
) -> set[str]:
    """Return the agents, of those given, for whom a command waits or whose poll no longer holds."""
    rows = await conn.fetch(
        "SELECT w.agent_id FROM unnest($1::text[], $2::text[], $3::text[]) AS w (org_id, agent_id, poll_id)"
        " WHERE NOT EXISTS (SELECT 1 FROM command_polls p"
        "  WHERE p.org_id = w.org_id AND p.agent_id = w.agent_id AND p.poll_id = w.poll_id)"
        " OR EXISTS (SELECT 1 FROM commands c WHERE c.org_id = w.org_id AND c.agent_id = w.agent_id"
        "  AND c.status IS NULL AND c.expires_at > clock_timestamp()"
        "  AND (c.leased_until IS NULL OR c.leased_until <= clock_timestamp()))",
        org_ids,
        agent_ids,
        poll_ids,
    )
    return {row["agent_id"] for row in rows}


async def take(conn: Connection, org_id: str, agent_id: str) -> Command | None:
    """Lease the agent's oldest command that is neither done, leased nor expired."""
    row = await conn.fetchrow(
        "UPDATE commands SET attempt = attempt + 1,"
        "  leased_until = clock_timestamp() + make_interval(secs => $3)"
        " WHERE id = (SELECT id FROM commands WHERE org_id = $1 AND agent_id = $2 AND status IS NULL"
        "   AND expires_at > clock_timestamp()"
        "   AND (leased_until IS NULL OR leased_until <= clock_timestamp())"
        "  ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)"
        " RETURNING id AS command_id, type, payload, created_at, expires_at, attempt",
        org_id,
        agent_id,
        LEASE_SECONDS,
    )
    if row is None:
        return None
    return Command(
        command_id=row["command_id"],
        type=row["type"],
        payload=msgspec.json.decode(row["payload"]),
        created_at=in_utc(row["created_at"].isoformat()),
        expires_at=in_utc(row["expires_at"].isoformat()),
        attempt=row["attempt"],
    )


async def release(conn: Connection, org_id: str, command: Command) -> None:
    """Give a command back that could not be handed out, unless somebody has it since."""
    await conn.execute(
        "UPDATE commands SET leased_until = NULL WHERE org_id = $1 AND id = $2 AND attempt = $3",
        org_id,
        command.command_id,
        command.attempt,
    )


async def note_result(
    conn: Connection, org_id: str, agent_id: str, command_id: str, result: CommandResult
) -> str | None:
    """Keep the first result of a command; return its id, None if the agent has no such command."""
    message = None if result.message is None else result.message.replace("\0", "\ufffd")
    known: str | None = await conn.fetchval(
        "UPDATE commands SET status = coalesce(status, $4),"
        " message = CASE WHEN status IS NULL THEN left($5, $6) ELSE message END,"
        " finished_at = coalesce(finished_at, clock_timestamp())"
        " WHERE org_id = $1 AND agent_id = $2 AND id = $3 RETURNING id",
        org_id,
        agent_id,
        command_id,
        result.status,
        message,
        MESSAGE_CHARACTERS,
    )
    return known


async def forget_old(conn: Connection) -> None:
    """Delete commands a day after they were made, and polls of processes that died."""
    await conn.execute(
        "DELETE FROM commands WHERE org_id IS NOT NULL"
        " AND created_at < clock_timestamp() - make_interval(secs => $1)",
        KEPT_SECONDS,
    )
    await conn.execute(
        "DELETE FROM command_polls WHERE org_id IS NOT NULL"
        " AND opened_at < clock_timestamp() - make_interval(secs => $1)",
        POLL_SECONDS,
    )
