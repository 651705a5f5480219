"""Append rows to an organization's decision log, and tell where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from monitor.db.postgres import transaction
from monitor.scaling.chain import Row, Stored, next_hash, row_text
from monitor.scaling.log import store

if TYPE_CHECKING:
    from aiohttp import web

    from monitor.db.postgres import Connection

LOOK_SECONDS = 300.0  # how late a head may be told
TELL_SECONDS = 86_400.0  # a head kept elsewhere each day shows what was rewritten since

log = structlog.get_logger()


async def append(conn: Connection, org_id: str, rows: Sequence[Row], now: datetime) -> None:
    """Number, date and chain *rows* and store them; nobody else appends until the transaction ends.

    To be called last in a transaction: whoever decides for the same organization waits here.
    """
    if not rows:
        return
    head = await store.lock_head(conn, org_id)
    ts = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    stored = []
    last_id, prev = head.last_id, head.hash
    for last_id, row in enumerate(rows, head.last_id + 1):
        body = row_text(replace(row, org_id=org_id, id=last_id, ts=ts))
        digest = next_hash(prev, body)
        stored.append(Stored(last_id, row.policy_id, body, prev, digest))
        prev = digest
    await store.insert_rows(conn, org_id, stored)


async def tell_heads(app: web.Application) -> None:
    """Write the head of every chain to the service's log once a day, to be kept elsewhere."""
    async with transaction(app) as conn:
        heads = await store.heads_to_tell(conn, TELL_SECONDS)
    for head in heads:
        log.info("head of the decision log", org_id=head.org_id, last_id=head.last_id, hash=head.hash)
