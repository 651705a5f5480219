"""What callers see of a VictoriaMetrics that is away, slow or busy."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.conftest import settings, start_service

QUERIES = ["/api/v1/metrics/instant?metric=up", "/api/v1/metrics/range?metric=up", "/prometheus/api/v1/query?query=up",
           "/prometheus/api/v1/series?match[]=up"]  # fmt: skip


class Slow:
    """A VictoriaMetrics whose queries never end by themselves."""

    def __init__(self):
        self.waiting = 0
        self.left = 0

    async def answer(self, request):
        if not request.path.startswith("/api/v1/"):
            return web.Response(text="vm_app_start_timestamp 1893456000\n")
        self.waiting += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.left += 1
            raise
        return web.Response()


@pytest.fixture
async def slow():
    server = Slow()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def with_storage(servers, api, tmp_path):
    """Start a service on another VictoriaMetrics; returns a client of it."""
    opened = []

    async def start(**victoriametrics):
        values = settings(servers, victoriametrics=victoriametrics)
        service = await start_service(tmp_path / "monitor.yaml", values, "web")
        session = aiohttp.ClientSession(service.base_url, headers=api.headers)
        opened.append((session, service))
        return session

    yield start
    for session, service in opened:
        await session.close()
        await service.stop()


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("query", QUERIES)
async def test_a_storage_that_is_away_is_told_as_503(with_storage, unused_tcp_port, query):
    session = await with_storage(url=f"http://127.0.0.1:{unused_tcp_port}")

    async with session.get(query) as response:
        assert response.status == 503
        assert await response.json() == {"error": "storage_unavailable"}
        assert int(response.headers["Retry-After"]) > 0


async def test_a_query_that_takes_too_long_is_told_as_503(with_storage, slow):
    session = await with_storage(url=slow.url, query_timeout="1s")

    async with session.get(QUERIES[0]) as response:
        assert response.status == 503
    await until(lambda: slow.left == 1)


@pytest.mark.parametrize("query", QUERIES)
async def test_a_client_that_leaves_ends_its_query(with_storage, slow, query):
    session = await with_storage(url=slow.url)

    with pytest.raises(asyncio.TimeoutError):
        await session.get(query, timeout=aiohttp.ClientTimeout(total=0.2))

    await until(lambda: slow.left == 1)


async def test_too_many_queries_at_a_time_are_told_as_429(with_storage, slow):
    session = await with_storage(url=slow.url, concurrent_queries_per_org=1)
    first = asyncio.create_task(session.get(QUERIES[0]))
    await until(lambda: slow.waiting == 1)

    async with session.get(QUERIES[1]) as response:
        assert response.status == 429
        assert await response.json() == {"error": "limit reached: 1 concurrent queries"}
        assert response.headers["Retry-After"] == "1"
    async with session.get(QUERIES[2]) as response:
        assert response.status == 429
        assert (await response.json())["status"] == "error"
    first.cancel()
    await asyncio.wait([first])
