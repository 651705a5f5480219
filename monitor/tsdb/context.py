"""The client of VictoriaMetrics, for as long as the app lives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from aiohttp import web

from monitor.config import Config
from monitor.tsdb.client import TSDB, Tsdb


def tsdb_context(config: Config) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return the cleanup context that offers the client under ``TSDB`` while the app lives."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        settings = config.victoriametrics
        client = Tsdb(
            settings.write_base,
            settings.read_base,
            settings.watch_bases,
            query_seconds=settings.query_timeout_seconds,
            concurrent_queries=settings.concurrent_queries_per_org,
        )
        app[TSDB] = client
        yield
        await client.close()

    return context
