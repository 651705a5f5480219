"""Wake-ups: who hears which hint, until when, and what a lost connection costs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest
from aiohttp import web

from monitor.db import wakeups as module
from monitor.db.postgres import POOL, Pool
from monitor.db.wakeups import APPLICATION, KEYS_A_NOTIFICATION, Hints, Wakeups, notify
from monitor.errors import StorageUnavailable
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
async def hints(pool: Pool) -> AsyncIterator[Hints]:
    """What gives the hints of a process that has nothing but the pool."""
    app = web.Application()
    app[POOL] = pool
    giving = Hints(app)
    yield giving
    await giving.stop()


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


async def test_one_notification_wakes_the_listeners_of_as_many_keys_as_it_may_hold(
    pool: Pool, wakeups: Wakeups, key: str
):
    keys = [f"{key}:{number}".ljust(79, "x") for number in range(KEYS_A_NOTIFICATION)]
    called: list[str] = []
    with contextlib.ExitStack() as stack:
        for one in keys:
            stack.enter_context(wakeups.calling(one, lambda one=one: called.append(one)))
        async with pool.acquire() as conn:
            await notify(conn, *keys)
        await heard(pool, wakeups)

    assert called == keys


async def test_every_hint_that_is_given_is_heard_however_many_come_together(
    wakeups: Wakeups, hints: Hints, key: str
):
    keys = [f"{key}:{number}" for number in range(3 * KEYS_A_NOTIFICATION)]
    called: set[str] = set()
    with contextlib.ExitStack() as stack:
        for one in keys:
            stack.enter_context(wakeups.calling(one, lambda one=one: called.add(one)))
            hints.give(one)
        await until(lambda: called == set(keys))
        called.clear()
        hints.give(keys[0])

        await until(lambda: called == {keys[0]})


async def test_hints_given_together_share_a_notification(
    hints: Hints, key: str, monkeypatch: pytest.MonkeyPatch
):
    sent: list[list[str]] = []

    async def note(_: object, *keys: str) -> None:
        sent.append(list(keys))

    monkeypatch.setattr(module, "notify", note)
    for one in ("a", "b", "a"):
        hints.give(f"{key}:{one}")
    await hints.stop()

    assert sent == [[f"{key}:a", f"{key}:b"]]


async def test_what_was_given_is_sent_before_the_end(pool: Pool, wakeups: Wakeups, hints: Hints, key: str):
    with wakeups.listening(key) as event:
        hints.give(key)
        await hints.stop()
        await heard(pool, wakeups)

        assert event.is_set()


@pytest.mark.parametrize("error", [StorageUnavailable(), ValueError()], ids=["away", "broken"])
async def test_a_hint_that_cannot_be_sent_is_dropped_and_the_next_one_goes_out(
    wakeups: Wakeups, hints: Hints, key: str, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    async def fails(*_: object) -> None:
        raise error

    with wakeups.listening(key) as event:
        with monkeypatch.context() as broken:
            broken.setattr(module, "notify", fails)
            hints.give(f"{key}:lost")
            await hints.stop()
        hints.give(key)

        async with asyncio.timeout(SECONDS):
            await event.wait()
