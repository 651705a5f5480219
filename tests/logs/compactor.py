"""A process that compacts one organization and stops where it is told to, to be killed there.

Says ``here`` when it is there; ``nowhere`` makes it compact a few rows at a time.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from aiohttp import web

from monitor.db.postgres import POOL, create_pool
from monitor.logs import compact, store

STAY_SECONDS = 60.0


async def main(dsn: str, org_id: str, where: str) -> None:
    app = web.Application()
    app[POOL] = await create_pool(dsn, size=2)
    insert_chunk = store.insert_chunk

    async def stay(*arguments: Any) -> None:
        if where == "inserted":
            await insert_chunk(*arguments)
        print("here", flush=True)
        await asyncio.sleep(STAY_SECONDS)

    if where in ("removed", "inserted"):
        store.insert_chunk = stay
    if where == "nowhere":
        compact.MOST_ROWS = 2
        print("here", flush=True)
    day = await app[POOL].fetchval("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")
    while await compact.write_chunk(app, org_id, day):
        pass
    print("here", flush=True)
    await asyncio.sleep(STAY_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
