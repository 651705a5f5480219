"""Bring what was noted to its channels: any number of workers in any number of processes.

A worker takes a channel for a while, and with it all that waits for it: that is one
message.  Whoever dies on the way loses the lease, and another tells it again; so
everything is told at least once, and to one channel by one worker at a time.  No
connection to Postgres is held while a receiver is waited for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import msgspec
import structlog
from aiohttp import web
from prometheus_client import Counter

from monitor.config import CONFIG
from monitor.db.postgres import connection, transaction
from monitor.notify import store
from monitor.notify.channels import kinds
from monitor.notify.compose import linked, merged
from monitor.notify.history import with_values
from monitor.notify.models import AlertChange, Message
from monitor.notify.outlet import OUTLET, NotDelivered
from monitor.notify.retry import given_up_before, retry_seconds
from monitor.tsdb.client import TSDB

WORKERS = 8  # of one process: as many receivers may be slow before others wait for them
ROUND_SECONDS = 1.0  # how late a notification may be noticed
LEASE_SECONDS = 60.0  # several times the 13 s that values and receiver may take
SWEEP_SECONDS = 300.0  # what was told costs nothing but room

MESSAGES = Counter("monitor_notification_messages_total", "Messages to receivers.", ["type", "outcome"])

log = structlog.get_logger()


async def deliver(app: web.Application) -> None:
    """Send until nothing is due; the round of one worker."""
    while await deliver_next(app):
        pass


async def deliver_next(app: web.Application, lease_seconds: float = LEASE_SECONDS) -> bool:
    """Send one message to one channel; False if there is none to be sent."""
    async with transaction(app) as conn:
        claim = await store.claim_channel(conn, lease_seconds)
        if claim is None:
            return False
        rows = next_group(await store.due_rows(conn, claim))
        if not rows:
            await store.release(conn, claim)
            return False
    try:
        await _send(app, claim, rows)
    except NotDelivered as error:
        await _note_failure(app, claim, rows, str(error), alone=error.malformed)
    except asyncio.CancelledError:
        async with connection(app) as conn:  # the next one need not wait for the lease to end
            await store.release(conn, claim)
        raise
    except Exception:
        log.exception("bug in a notification", channel_id=claim.channel_id)
        await _note_failure(app, claim, rows, "internal_error", alone=True)
    else:
        MESSAGES.labels(claim.type, "delivered").inc()
        async with transaction(app) as conn:
            repeat_seconds = kinds.KINDS[claim.type].repeat_seconds
            await store.note_delivered(conn, claim, [row.id for row in rows], repeat_seconds)
    return True


def next_group(rows: Sequence[store.Row]) -> list[store.Row]:
    """Return the rows of the next message: all that may go together, else the first alone."""
    return [row for row in rows if not row.alone] or list(rows[:1])


async def _send(app: web.Application, claim: store.Claim, rows: Sequence[store.Row]) -> None:
    changes = [(row.series, msgspec.msgpack.decode(row.change, type=AlertChange)) for row in rows]
    public_url = app[CONFIG].config.server.public_url
    notices = [linked(notice, public_url) for notice in merged(changes)]
    notices = await with_values(app[TSDB], claim.org_id, notices, claim.now)
    message = Message(claim.org_id, claim.now, tuple(notices))
    await kinds.send(app[OUTLET], claim.type, claim.settings, message)


async def _note_failure(
    app: web.Application, claim: store.Claim, rows: Sequence[store.Row], error: str, *, alone: bool
) -> None:
    """Let channel and rows wait; give up what is a day old."""
    MESSAGES.labels(claim.type, "failed").inc()
    log.warning("notification failed", org_id=claim.org_id, channel_id=claim.channel_id, cause=error)
    pause = retry_seconds(claim.failures + 1, random.random())  # noqa: S311 - spreads retries
    attempts = max(row.attempts for row in rows) + 1
    # What is refused for itself waits by its own count: others may be taken meanwhile.
    wait = retry_seconds(attempts, random.random()) if alone else pause  # noqa: S311 - spreads retries
    async with transaction(app) as conn:
        if await store.pause(conn, claim, error, pause):
            await store.postpone(conn, claim, [row.id for row in rows], error, wait, alone=alone)
            await store.give_up(conn, claim, error, given_up_before(claim.now))


async def forget_old(app: web.Application) -> None:
    """Delete what nobody needs any more."""
    async with transaction(app) as conn:
        await store.forget_old(conn)
