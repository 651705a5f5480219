"""The whole of docker-compose.yml on a real engine: `make test-compose` (needs root, 10 minutes at first)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.compose.stack import Compose, Engine

BASE_URL = "http://127.0.0.1:8080"
ARRIVAL_SECONDS = 120.0
EMAIL, PASSWORD = "admin@example.com", "correct horse battery staple"

pytestmark = pytest.mark.skipif(
    "COMPOSE_CACHE" not in os.environ, reason="builds images for minutes: run it by `make test-compose`"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    missing = [name for name in ("debootstrap", "docker-compose", "dockerd") if shutil.which(name) is None]
    assert not missing, f"not installed: {missing}"
    engine = Engine(Path(os.environ["COMPOSE_CACHE"]))
    engine.start()
    try:
        engine.build()
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def compose(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    compose = Compose(engine, tmp_path_factory.mktemp("compose"))
    try:
        yield compose
    finally:
        compose("--profile", "agent", "down", "--volumes", "--timeout", "40")


async def until(found: Callable[[], Any], what: str) -> Any:
    """Return the first true answer of *found*, which may fail with the service not there."""
    async with asyncio.timeout(ARRIVAL_SECONDS):
        while True:
            try:
                if answer := await found():
                    return answer
            except (aiohttp.ClientError, OSError):
                pass
            await asyncio.sleep(0.5)
    raise AssertionError(what)


async def test_the_whole_stack_by_compose(compose: Compose) -> None:
    compose("up", "--detach")
    said = compose("exec", "-T", "monitor", "monitor", "org", "create", "--name", "Example", "--plan", "pro")
    org_id = json.loads(said)["orgId"]
    user = ("user", "create", "--org", org_id, "--email", EMAIL, "--role", "admin", "--password-stdin")
    compose("exec", "-T", "monitor", "monitor", *user, input=PASSWORD)
    said = compose("exec", "-T", "monitor", "monitor", "apikey", "create", "--org", org_id, "--name", "agent")
    key = json.loads(said)["key"]
    (compose.folder / "deploy/compose/secrets/agent_api_key").write_text(key)

    async with aiohttp.ClientSession(BASE_URL, cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:

        async def ready() -> bool:
            async with client.get("/readyz") as response:
                return response.status == 200

        async def log_in() -> None:
            body = {"email": EMAIL, "password": PASSWORD}
            async with client.post("/auth/login", json=body) as response:
                assert response.status == 200, await response.text()

        async def containers() -> list[dict[str, Any]]:
            async with client.get("/api/v1/containers") as response:
                listed: list[dict[str, Any]] = await response.json()
                return listed if response.status == 200 else []

        async def points() -> set[float]:
            query = {"metric": "agent_up", "start": str(started), "end": str(int(time.time())), "step": "15s"}
            async with client.get("/api/v1/metrics/range", params=query) as response:
                series = (await response.json())["series"]
                return {at for one in series for at, _ in one["values"]}

        await until(ready, "ready")
        await log_in()
        async with client.get("/") as response:
            assert response.status == 200
            assert "<div id=" in await response.text()
        started = int(time.time()) - 60
        compose("--profile", "agent", "up", "--detach")
        await until(containers, "the agent's containers")
        names = {container["name"] for container in await containers()}
        assert {f"monitor_{name}_1" for name in ("postgres", "victoriametrics", "monitor", "agent")} <= names
        before = await until(points, "samples")

        compose("--profile", "agent", "restart", "--timeout", "40")
        await until(ready, "ready again")
        await log_in()
        assert await until(containers, "the containers after a restart")
        assert before <= await points()
        async with client.get("/api/v1/agents") as response:
            agents = await response.json()
        assert len(agents) == 1  # it kept its identity
