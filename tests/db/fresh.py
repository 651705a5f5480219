"""An empty database of a test's own, on the Postgres of the run."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import asyncpg


class Database(NamedTuple):
    """The same empty database, by each role."""

    owner_dsn: str
    app_dsn: str


@asynccontextmanager
async def fresh_database(servers: Any) -> AsyncIterator[Database]:
    """Make a database that holds nothing; it is gone when the block ends, whoever is connected."""
    name = f"fresh_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(servers.superuser_dsn)
    await admin.execute(f"CREATE DATABASE {name} OWNER monitor_owner")
    try:
        yield Database(*(_of(dsn, name) for dsn in (servers.owner_dsn, servers.app_dsn)))
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


def _of(dsn: str, name: str) -> str:
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()
