"""Put samples of an organization straight into VictoriaMetrics, visible at once."""

import asyncio
import time

from monitor.tsdb.client import TSDB

SECOND = 1_000
VISIBLE_SECONDS = 60.0  # newer versions flush after 4 s; a series asked for too early stays hidden for 11


def now_ms():
    return time.time_ns() // 1_000_000


async def store(app, org_id, *lines):
    """Store Influx lines without their organization: ``cpu,host=a usage=1 1893456000000``."""
    tsdb = app.app[TSDB]
    tagged = [line.replace(",", f",org_id={org_id},", 1) for line in lines]
    await tsdb.write("\n".join(tagged).encode())
    await tsdb.force_flush()


async def eventually(ask, accepted):
    """Ask until the answer is accepted; return it."""
    async with asyncio.timeout(VISIBLE_SECONDS):
        while not accepted(answer := await ask()):
            await asyncio.sleep(0.1)
    return answer
