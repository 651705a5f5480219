"""Run a server for a block, and ask Postgres one question."""

from contextlib import asynccontextmanager

import asyncpg


@asynccontextmanager
async def started(server):
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


async def fetchval(dsn, query):
    conn = await asyncpg.connect(dsn)
    try:
        return await conn.fetchval(query)
    finally:
        await conn.close()
