"""Check an organization's decision log: its chain, and every decision made again from its inputs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from monitor.scaling.chain import CANNOT_PROVE, GENESIS, Checked, Fault, closed, verify
from monitor.scaling.log import store

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

PART = 500  # rows that are read and checked together: some 20 ms


class Verification(Struct, frozen=True, rename="camel"):
    """What came of a check.

    Attributes:
        ok: The chain is whole, and every decision follows from its inputs.
        rows: How many rows are good, from the first on.
        recomputed: How many of them were decided again, with the same result.
        head_id: Id of the newest row, 0 if there is none.
        head_hash: Its hash: to be kept elsewhere, and compared.
        fault: The first row that is not as it was written.
        cannot_prove: What a good chain says nothing about.
    """

    ok: bool
    rows: int
    recomputed: int
    head_id: int
    head_hash: str
    fault: Fault | None
    cannot_prove: tuple[str, ...]


async def check_log(conn: Connection, org_id: str) -> Verification:
    """Return what the log of *org_id* is worth; in a transaction that sees one moment."""
    head = await store.head(conn, org_id)
    checked = Checked()
    while checked.fault is None:
        rows = await store.following(conn, org_id, checked.last_id, PART)
        if not rows:
            break
        checked = await asyncio.to_thread(verify, org_id, rows, checked)
    checked = closed(checked, head)
    return Verification(
        ok=checked.fault is None,
        rows=checked.rows,
        recomputed=checked.recomputed,
        head_id=0 if head is None else head.last_id,
        head_hash=GENESIS if head is None else head.hash,
        fault=checked.fault,
        cannot_prove=CANNOT_PROVE,
    )
