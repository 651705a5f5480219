"""Alive, ready, and what is down; the service's own metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from monitor.db.migrate import migrate
from monitor.dev.postgres import PostgresServer
from monitor.web.health import DRAINING
from monitor.web.observe import metrics_page
from tests.conftest import Addresses, settings, start_service
from tests.servers import FAST

UNAVAILABLE = {"error": "storage_unavailable"}


@asynccontextmanager
async def served(folder: Path, values: dict[str, Any]) -> AsyncIterator[tuple[web.Application, Any]]:
    """Serve by these settings; give the application and a client."""
    service = await start_service(folder / "monitor.yaml", values, "web")
    try:
        async with aiohttp.ClientSession(service.base_url) as client:
            yield service.app, client
    finally:
        await service.stop()


async def answer(client: Any, path: str, **options: Any) -> tuple[int, Any]:
    async with client.get(path, **options) as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", "ok"), ("/-/healthy", "ok"), ("/readyz", "ready"), ("/-/ready", "ready")],
)
async def test_a_service_with_its_stores_is_alive_and_ready(anonymous, path, status):
    assert await anonymous.json(path) == {"status": status}


async def test_victoriametrics_away_is_named_and_queries_are_503_while_pushes_go_on(
    servers, tmp_path, unused_tcp_port, api, agent
):
    away = {"victoriametrics": {"url": f"http://127.0.0.1:{unused_tcp_port}"}}
    async with served(tmp_path, settings(servers, **away)) as (_, client):
        alive = await answer(client, "/healthz")
        ready = await client.get("/readyz")
        query = await client.get("/api/v1/metrics/instant", params={"metric": "up"}, headers=api.headers)
        listed = await answer(client, "/api/v1/containers", headers=api.headers)
        pushed = await client.post(
            f"{agent.path}/push", json={"nodes": [{"name": "n"}]}, headers=agent.api.headers
        )

        assert alive == (200, {"status": "ok"})
        assert (ready.status, await ready.json()) == (
            503,
            {"error": "not_ready", "down": ["victoriametrics"]},
        )
        assert int(ready.headers["Retry-After"]) > 0
        assert (query.status, await query.json()) == (503, UNAVAILABLE)
        assert int(query.headers["Retry-After"]) > 0
        assert listed == (200, [])
        assert (pushed.status, await pushed.json()) == (200, {"ok": True, "logRequests": []})


async def test_postgres_away_is_named_and_everything_that_needs_it_is_503(servers, tmp_path):
    postgres = PostgresServer(tmp_path / "postgres", settings=FAST)
    tmp_path.chmod(0o755)  # Postgres runs as another user
    await postgres.start()
    try:
        await migrate(postgres.owner_dsn)
        own = Addresses(postgres.owner_dsn, postgres.app_dsn, postgres.superuser_dsn, servers.vm_url)
        async with served(tmp_path, settings(own)) as (_, client):
            before = await answer(client, "/readyz")
            await postgres.stop()

            assert before == (200, {"status": "ready"})
            assert await answer(client, "/healthz") == (200, {"status": "ok"})
            assert await answer(client, "/readyz") == (503, {"error": "not_ready", "down": ["postgres"]})
            key = {"X-API-Key": "mk_" + "x" * 43}
            assert await answer(client, "/api/v1/containers", headers=key) == (503, UNAVAILABLE)
            token = {"Authorization": "Bearer at_" + "x" * 43}
            for path in ("/api/v1/agents/agent_x/push", "/auth/login"):
                body = {"email": "a@example.com", "password": "x"}
                async with client.post(path, json=body, headers=token) as response:
                    assert (response.status, await response.json()) == (503, UNAVAILABLE)

            await postgres.start()
            assert await answer(client, "/readyz") == before
    finally:
        await postgres.stop()


async def test_a_service_that_ends_says_so_first(servers, tmp_path):
    async with served(tmp_path, settings(servers)) as (app, client):
        app[DRAINING].set()

        assert await answer(client, "/healthz") == (200, {"status": "ok"})
        assert await answer(client, "/readyz") == (503, {"error": "not_ready", "down": ["server"]})


async def requests_counted() -> dict[tuple[str, str, str], float]:
    """Return the count of each (method, route, status), off the page that Prometheus reads."""
    page = await metrics_page(None)  # type: ignore[arg-type]
    assert page.headers["Content-Type"].startswith("text/plain; version=")
    return {
        (sample.labels["method"], sample.labels["route"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(bytes(page.body).decode())  # type: ignore[arg-type]
        for sample in family.samples
        if sample.name == "monitor_http_requests_total"
    }


async def test_requests_are_counted_under_their_routes_and_never_under_their_paths(api, anonymous, agent):
    before = await requests_counted()
    await agent.pushed(version="1")
    await api.json("/api/v1/containers")
    await anonymous.get("/api/v1/containers")
    await anonymous.get(f"/no/such/{agent.agent_id}")
    await anonymous.request("PROPFIND", "/healthz")
    after = await requests_counted()

    assert {
        key: count - before.get(key, 0) for key, count in after.items() if count != before.get(key, 0)
    } == {
        ("POST", "/api/v1/agents/{agentId}/push", "200"): 1,
        ("GET", "/api/v1/containers", "200"): 1,
        ("GET", "/api/v1/containers", "401"): 1,
        ("GET", "unmatched", "404"): 1,
        ("other", "unmatched", "405"): 1,  # a series for each word would be the caller's to make
    }
    assert agent.agent_id not in str(after)


async def test_a_request_keeps_the_id_it_came_with_if_that_is_one(anonymous):
    for given, kept in (("a-1._B", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("", False)):
        async with anonymous.get("/healthz", headers={"X-Request-Id": given}) as response:
            returned = response.headers["X-Request-Id"]
        assert (returned == given) is kept
        assert returned
