"""The pool: what means "away", and what a transaction and a claim promise."""

from __future__ import annotations

import asyncio
import secrets

import asyncpg
import pytest
from aiohttp import web

from monitor.db import postgres
from monitor.db.claims import claim
from monitor.db.postgres import POOL, connect, connection, create_pool, found, transaction, translated
from monitor.errors import NotFound, StorageUnavailable


@pytest.fixture
def holder(pool) -> web.Application:
    """An application that has nothing but the pool."""
    app = web.Application()
    app[POOL] = pool
    return app


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        asyncpg.ConnectionDoesNotExistError(),
        asyncpg.AdminShutdownError(),
        asyncpg.CannotConnectNowError(),
        asyncpg.TooManyConnectionsError(),
        asyncpg.ReadOnlySQLTransactionError(),
        asyncpg.InterfaceError(""),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_means_away_is_told_as_such(error):
    with pytest.raises(StorageUnavailable) as caught, translated():
        raise error

    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [asyncpg.UniqueViolationError(), asyncpg.UndefinedTableError(), ValueError()]
)
def test_any_other_error_stays_what_it_is(error):
    with pytest.raises(type(error)), translated():
        raise error


async def test_a_transaction_commits_whole_or_not_at_all(holder, pool):
    name = f"test.{secrets.token_hex(8)}"

    async def claim_and_fail() -> None:
        async with transaction(holder) as conn:
            await claim(conn, name, 60)
            raise NotFound

    with pytest.raises(NotFound):
        await claim_and_fail()
    assert await pool.fetchval("SELECT count(*) FROM claims WHERE name = $1", name) == 0

    async with transaction(holder) as conn:
        await claim(conn, name, 60)
    assert await pool.fetchval("SELECT count(*) FROM claims WHERE name = $1", name) == 1


async def test_a_connection_that_was_killed_is_replaced(holder, superuser):
    async def ask_after_the_kill() -> None:
        async with connection(holder) as conn:
            pid = await conn.fetchval("SELECT pg_backend_pid()")
            await superuser.execute("SELECT pg_terminate_backend($1)", pid)
            await asyncio.sleep(0.05)
            await conn.fetchval("SELECT 1")

    with pytest.raises(StorageUnavailable):
        await ask_after_the_kill()

    async with connection(holder) as conn:
        assert await conn.fetchval("SELECT 1") == 1


async def test_an_exhausted_pool_is_told_and_not_waited_out(servers, monkeypatch):
    monkeypatch.setattr(postgres, "ACQUIRE_SECONDS", 0.1)
    app = web.Application()
    app[POOL] = small = await create_pool(servers.app_dsn, size=1)

    async with connection(app):
        with pytest.raises(StorageUnavailable):
            async with connection(app):
                raise AssertionError("there was only one")

    await small.close()


async def test_a_server_that_is_not_there_is_away(unused_tcp_port):
    with pytest.raises(StorageUnavailable):
        await connect(f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none")


def test_no_row_is_not_found():
    assert found(0) == 0
    with pytest.raises(NotFound):
        found(None)


async def test_of_many_that_claim_at_once_one_gets_it(pool):
    name = f"test.{secrets.token_hex(8)}"

    async def attempt() -> bool:
        async with pool.acquire() as conn:
            return await claim(conn, name, 60)

    assert sum(await asyncio.gather(*(attempt() for _ in range(5)))) == 1


async def test_a_claim_that_ran_out_is_free(pool):
    name = f"test.{secrets.token_hex(8)}"
    async with pool.acquire() as conn:
        assert await claim(conn, name, 0.05)
        assert not await claim(conn, name, 0.05)
        await asyncio.sleep(0.06)
        assert await claim(conn, name, 0.05)
