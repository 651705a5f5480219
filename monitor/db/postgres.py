"""One pool of connections a process, and what its failures mean.

Whatever says that Postgres is away becomes ``StorageUnavailable``; every other
error is a bug and stays one.  A connection is never held while another server
is waited for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import asyncpg
from aiohttp import web

from monitor.errors import NotFound, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.config import Config

Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)

T = TypeVar("T")

POOL: web.AppKey[Pool] = web.AppKey("POOL", asyncpg.Pool)

CONNECT_SECONDS = 5.0  # a server that needs longer to answer is away
ACQUIRE_SECONDS = 5.0  # a full pool is an overload: better told than waited out
STATEMENT_SECONDS = 15.0  # no statement on a request's path is this slow

# A prepared statement keeps the plan made while its tables were small: 10 agents are read
# whole and joined by hash or merge, 10,000 must not be, and until the next ANALYZE a push
# would cost five times as much.  Everything joined here has an index on one side: with
# these a plan goes through it at every size.  Compiling (jit) what cannot avoid reading
# a table costs more than reading it.
PLANNING = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}

AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,  # class 08
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,  # a failover's old primary
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors that mean "Postgres is away" into StorageUnavailable."""
    try:
        yield
    except AWAY as error:
        raise StorageUnavailable from error


@asynccontextmanager
async def connection(app: web.Application) -> AsyncIterator[Connection]:
    """Lend a connection, outside of any transaction.

    Raises:
        StorageUnavailable: Postgres is away, or the pool is exhausted.
    """
    with translated():
        async with app[POOL].acquire(timeout=ACQUIRE_SECONDS) as conn:
            yield conn


@asynccontextmanager
async def transaction(app: web.Application) -> AsyncIterator[Connection]:
    """Lend a connection inside a transaction that commits when the block ends well.

    Raises:
        StorageUnavailable: Postgres is away, or the pool is exhausted.
    """
    async with connection(app) as conn, conn.transaction():
        yield conn


def is_open(conn: Connection) -> bool:
    """Return whether a lent connection that was kept for a while still lives."""
    try:
        return not conn.is_closed()
    except asyncpg.InterfaceError:  # the pool has taken it back because it ended
        return False


def found(row: T | None) -> T:
    """Return *row*, or raise NotFound: absence is an answer of the query."""
    if row is None:
        raise NotFound
    return row


async def connect(dsn: str) -> asyncpg.Connection[asyncpg.Record]:
    """Open one connection of its own.

    Raises:
        StorageUnavailable: Postgres is away.
    """
    with translated():
        return await asyncpg.connect(
            dsn, timeout=CONNECT_SECONDS, server_settings={"application_name": "monitor"}
        )


async def create_pool(dsn: str, *, size: int, min_size: int = 1) -> Pool:
    """Open a pool of at most *size* connections."""
    return await asyncpg.create_pool(
        dsn,
        min_size=min_size,
        max_size=size,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        server_settings={"application_name": "monitor", **PLANNING},
        reset=_unchanged,
    )


async def _unchanged(_: Connection) -> None:
    """Reset nothing when a connection comes back, which spares each request a round trip.

    No statement of ours outlives its transaction: ``SET LOCAL`` alone, and whoever
    listens has a connection of its own.
    """


def pool_context(config: Config) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return the cleanup context that opens the pool at start and closes it at the end."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        with translated():
            pool = await create_pool(config.postgres.dsn, size=config.postgres.pool_size)
        app[POOL] = pool
        yield
        await pool.close()

    return context
