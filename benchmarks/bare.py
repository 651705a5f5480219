"""What aiohttp costs by itself: two processes that pass range queries to VictoriaMetrics as they come.

    python benchmarks/bare.py PORT URL

``benchmarks.range`` starts it.  No authentication, no guard, no change of the answer; the client is the service's own.
"""

from __future__ import annotations

import asyncio
import os
import sys

from aiohttp import web

from monitor.dev.files import LOOPBACK
from monitor.tsdb.keepalive import Origin

SECONDS = 30.0
ANSWER_BYTES = 1 << 30


async def serve(port: int, url: str) -> None:
    """Pass requests on until the process is ended."""
    origin = Origin(url)

    async def handler(request: web.Request) -> web.Response:
        answer = await origin.ask(request.path_qs, seconds=SECONDS, most_bytes=ANSWER_BYTES)
        return web.Response(body=answer.body, status=answer.status, content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/v1/query_range", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port, reuse_port=True).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    os.fork()  # two, as the service has two web workers
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
