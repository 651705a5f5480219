"""Wake-ups: who hears which hint, until when, and what a lost connection costs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest

from monitor.db.postgres import Pool
from monitor.db.wakeups import APPLICATION, Wakeups, notify
from tests.conftest import Addresses
from tests.logs.tailing import SECONDS, until


@pytest.fixture
async def wakeups(servers: Addresses) -> AsyncIterator[Wakeups]:
    """Wake-ups of a process that listens."""
    listening = Wakeups(servers.app_dsn)
    task = asyncio.create_task(listening.listen())
    try:
        with listening.listening("any") as connected:  # set by the first connection
            async with asyncio.timeout(SECONDS):
                await connected.wait()
        yield listening
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def key() -> str:
    """A key that nobody else notifies."""
    return f"test:{secrets.token_hex(8)}"


async def hint(pool: Pool, key: str) -> None:
    async with pool.acquire() as conn:
        await notify(conn, key)


async def heard(pool: Pool, wakeups: Wakeups) -> None:
    """Return when all hints given so far have been heard: they come in order."""
    last = f"test:{secrets.token_hex(8)}"
    with wakeups.listening(last) as event:
        await hint(pool, last)
        async with asyncio.timeout(SECONDS):
            await event.wait()


async def test_everyone_who_listens_for_a_key_hears_its_hint(pool: Pool, wakeups: Wakeups, key: str):
    calls: list[str] = []
    with (
        wakeups.calling(key, lambda: calls.append("first")),
        wakeups.calling(key, lambda: calls.append("second")),
        wakeups.listening(key) as event,
    ):
        await hint(pool, key)
        await heard(pool, wakeups)

    assert sorted(calls) == ["first", "second"]
    assert event.is_set()


async def test_a_hint_for_another_key_wakes_nobody(pool: Pool, wakeups: Wakeups, key: str):
    calls: list[None] = []
    with wakeups.calling(key, lambda: calls.append(None)), wakeups.listening(key) as event:
        await hint(pool, f"{key}:other")
        await heard(pool, wakeups)

        assert calls == []
        assert not event.is_set()


async def test_who_has_left_hears_nothing_and_the_others_still_do(pool: Pool, wakeups: Wakeups, key: str):
    calls: list[str] = []

    def stays() -> None:
        calls.append("stays")

    with wakeups.calling(key, stays):
        with wakeups.calling(key, stays), wakeups.calling(key, lambda: calls.append("leaves")):
            pass
        await hint(pool, key)
        await heard(pool, wakeups)
    await hint(pool, key)
    await heard(pool, wakeups)

    assert calls == ["stays"]


async def test_a_hint_of_a_transaction_that_fails_is_not_heard(pool: Pool, wakeups: Wakeups, key: str):
    with wakeups.listening(key) as event:
        with contextlib.suppress(ZeroDivisionError):
            async with pool.acquire() as conn, conn.transaction():
                await notify(conn, key)
                raise ZeroDivisionError
        await heard(pool, wakeups)

        assert not event.is_set()


async def test_everyone_is_called_when_hints_may_have_been_lost(
    wakeups: Wakeups, key: str, superuser: asyncpg.Connection[asyncpg.Record]
):
    calls: list[None] = []
    with wakeups.calling(key, lambda: calls.append(None)), wakeups.listening(key) as event:
        await superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", APPLICATION
        )

        await until(lambda: calls and event.is_set())
