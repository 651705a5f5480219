"""How many lines and bytes an organization may send, counted over all replicas.

Each process lets lines through by what it knows and tells the others once a second
through Postgres: for as long, each may let through what is left.  A batch is taken
whole while anything is left, so none is too large to ever come through.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec import Struct

from monitor.config import CONFIG
from monitor.db.postgres import connection
from monitor.errors import TooManyRequests
from monitor.logs.ingest import store
from monitor.logs.ingest.store import BURST_SECONDS, Rate, Spent

if TYPE_CHECKING:
    from monitor.config import OrgLimits

EXCHANGE_SECONDS = 1.0
IDLE_SECONDS = 600.0  # an organization that sends nothing is forgotten
FULL_DAY_RETRY_SECONDS = 3_600  # with the day's bytes used up there is no hurry
MIB = 2**20


class Account(Struct, eq=False):
    """What this process knows of an organization: what was left at *at* (monotonic), spent since."""

    left: Rate
    at: float
    lines: int = 0
    bytes: int = 0


def refusal(account: Account, limits: OrgLimits, now: float) -> TooManyRequests | None:
    """Return why an organization may send nothing *now* (monotonic seconds), None if it may."""
    if account.left.day_bytes + account.bytes >= limits.log_mib_per_day * MIB:
        return TooManyRequests(
            f"log_mib_per_day: {limits.log_mib_per_day} MiB of log lines are allowed a day",
            retry_after_seconds=FULL_DAY_RETRY_SECONDS,
        )
    rate = limits.log_lines_per_second
    left = min(account.left.lines_left + rate * (now - account.at), rate * BURST_SECONDS) - account.lines
    if left > 0:
        return None
    return TooManyRequests(
        f"log_lines_per_second: {rate} log lines are allowed a second",
        retry_after_seconds=math.ceil(min(1 - left / rate, 60)) if rate else 60,
    )


class Ceilings:
    """The accounts of this process."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._accounts: dict[str, Account] = {}

    def _limits(self, org_id: str) -> OrgLimits:
        return self._app[CONFIG].config.limits.for_org(org_id)

    async def admit(self, org_id: str) -> None:
        """Let an organization send another batch.

        Raises:
            TooManyRequests: A ceiling is reached; names it.
            StorageUnavailable: Postgres is away.
        """
        if org_id not in self._accounts:
            await self._exchange([org_id])
        refused = refusal(self._accounts[org_id], self._limits(org_id), time.monotonic())
        if refused is not None:
            raise refused

    def spend(self, org_id: str, lines: int, size: int) -> None:
        """Count what was let through: lines, and bytes uncompressed."""
        account = self._accounts.get(org_id)
        if account is not None:
            account.lines += lines
            account.bytes += size

    async def exchange(self) -> None:
        """Tell what was spent, learn what is left; forget who sends nothing."""
        now = time.monotonic()
        idle = [
            org_id for org_id, it in self._accounts.items() if not it.lines and now - it.at > IDLE_SECONDS
        ]
        for org_id in idle:
            del self._accounts[org_id]
        spending = [org_id for org_id, it in self._accounts.items() if it.lines]
        if spending:
            await self._exchange(spending)

    async def _exchange(self, org_ids: list[str]) -> None:
        told = {}
        for org_id in sorted(org_ids):
            account = self._accounts.get(org_id)
            lines, size = (account.lines, account.bytes) if account else (0, 0)
            told[org_id] = Spent(org_id, lines, size, self._limits(org_id).log_lines_per_second)
        async with connection(self._app) as conn:
            rates = await store.exchange_rates(conn, list(told.values()))
        now = time.monotonic()
        for org_id, rate in rates.items():
            account = self._accounts.get(org_id) or Account(rate, now)
            # What was spent while the others were told is still to be told.
            self._accounts[org_id] = Account(
                rate, now, account.lines - told[org_id].lines, account.bytes - told[org_id].bytes
            )


CEILINGS: web.AppKey[Ceilings] = web.AppKey("CEILINGS", Ceilings)


async def ceilings_context(app: web.Application) -> AsyncIterator[None]:
    """Keep the accounts of this process."""
    app[CEILINGS] = Ceilings(app)
    yield


async def exchange(app: web.Application) -> None:
    """Tell the other processes what was let through."""
    await app[CEILINGS].exchange()
