"""One Postgres and one VictoriaMetrics per run, one organization per test, the service itself in process."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
import structlog
import yaml
from aiohttp import web

from monitor.app import make_app
from monitor.auth import provision
from monitor.config import CONFIG, Config, ConfigFile
from monitor.db.migrate import migrate
from monitor.db.postgres import Pool, create_pool
from monitor.serve import make_runner
from tests.servers import start_servers

# Handed from the process that started the servers to the workers of a parallel run.
ADDRESSES = "MONITOR_TEST_SERVERS"
JWT_SECRET = "a secret of the tests, thirty-two bytes and more"
PASSWORD = "correct horse battery"
_running: list[Any] = []


@dataclass(frozen=True)
class Addresses:
    """Where the servers of this run are."""

    owner_dsn: str
    app_dsn: str
    superuser_dsn: str
    vm_url: str


def _from_warning_on(_: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Keep the output of failed tests short; ``capture_logs`` still sees every event."""
    if method in ("debug", "info"):
        raise structlog.DropEvent
    return event


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the servers once, in the process that distributes the tests."""
    structlog.configure(processors=[_from_warning_on, *structlog.get_config()["processors"]])
    if hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    root = Path(tempfile.mkdtemp(prefix="monitor-tests-"))
    root.chmod(0o755)  # Postgres runs as another user
    servers = start_servers(root)
    _running.append((servers, root))
    fields = ("owner_dsn", "app_dsn", "superuser_dsn", "vm_url")
    os.environ[ADDRESSES] = json.dumps({name: getattr(servers, name) for name in fields})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop what was started."""
    while _running:
        servers, root = _running.pop()
        servers.stop()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
async def servers() -> Addresses:
    addresses = Addresses(**json.loads(os.environ[ADDRESSES]))
    await migrate(addresses.owner_dsn)
    return addresses


@pytest.fixture(scope="session")
async def pool(servers: Addresses) -> AsyncIterator[Pool]:
    """Connections of the serving role, for provisioning and for looking."""
    opened = await create_pool(servers.app_dsn, size=5)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
async def superuser(servers: Addresses) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(servers.superuser_dsn)
    yield conn
    await conn.close()


def settings(servers: Addresses, **changes: Any) -> dict[str, Any]:
    """Return the YAML settings of a service under test."""
    return {
        "server": {"listen": "127.0.0.1:1", "internal_listen": "127.0.0.1:2"},
        "postgres": {"dsn": servers.app_dsn, "owner_dsn": servers.owner_dsn},
        "victoriametrics": {"url": servers.vm_url},
        "auth": {"jwt_secrets": [JWT_SECRET]},
        **changes,
    }


@dataclass
class Service:
    """A service that runs in this process."""

    app: web.Application
    base_url: str
    config_path: Path
    runner: web.AppRunner

    @property
    def app_config(self) -> Config:
        return self.app[CONFIG].config

    async def stop(self) -> None:
        await self.runner.cleanup()


async def start_service(config_path: Path, values: dict[str, Any], role: str = "all") -> Service:
    """Start the service in this process on a free port, by the settings of *values*."""
    config_path.write_text(yaml.safe_dump(values))
    app = make_app(ConfigFile(config_path), role)  # type: ignore[arg-type]
    runner = make_runner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return Service(app, f"http://{host}:{port}", config_path, runner)


@pytest.fixture(scope="session")
async def app(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """The service of this test process; tests share it and differ by organization."""
    service = await start_service(tmp_path_factory.mktemp("service") / "monitor.yaml", settings(servers))
    yield service
    await service.stop()


class Api:
    """A client of the service with one credential of one organization.

    The verbs are those of ``aiohttp.ClientSession``.  ``secret`` is the API key or token
    it shows, ``headers`` go with every request.
    """

    def __init__(
        self, session: aiohttp.ClientSession, org_id: str, secret: str, headers: dict[str, str]
    ) -> None:
        self.session = session
        self.org_id = org_id
        self.secret = secret
        self.headers = headers

    def request(self, method: str, path: str, **options: Any) -> Any:
        headers = {**self.headers, **options.pop("headers", {})}
        return self.session.request(method, path, headers=headers, **options)

    def __getattr__(self, verb: str) -> Any:
        if verb not in ("get", "post", "put", "delete", "head", "options", "patch"):
            raise AttributeError(verb)
        return lambda path, **options: self.request(verb.upper(), path, **options)

    async def json(self, path: str, **options: Any) -> Any:
        """GET *path*, which must answer 200, and return its JSON."""
        async with self.get(path, **options) as response:
            assert response.status == 200, (response.status, await response.text())
            return await response.json()


@pytest.fixture(scope="session")
async def session(app: Service) -> AsyncIterator[aiohttp.ClientSession]:
    # No cookies kept: a login of one test must not open another's requests.
    async with aiohttp.ClientSession(app.base_url, cookie_jar=aiohttp.DummyCookieJar()) as opened:
        yield opened


@pytest.fixture
async def make_org(pool: Pool) -> Callable[..., Awaitable[str]]:
    """Make an organization: ``await make_org(plan="free")`` returns its id."""

    async def make(plan: str = "pro") -> str:
        async with pool.acquire() as conn:
            return await provision.create_org(conn, "an organization", plan)

    return make


@pytest.fixture
async def make_api(
    pool: Pool, session: aiohttp.ClientSession, make_org: Callable[..., Awaitable[str]]
) -> Callable[..., Awaitable[Api]]:
    """Make an organization with an API key: ``await make_api(plan="free")``."""

    async def make(plan: str = "pro", org_id: str | None = None) -> Api:
        org_id = org_id or await make_org(plan)
        async with pool.acquire() as conn:
            _, key = await provision.create_api_key(conn, org_id, "a key")
        return Api(session, org_id, key, {"X-API-Key": key})

    return make


@pytest.fixture
async def api(make_api: Callable[..., Awaitable[Api]]) -> Api:
    """A fresh organization on the Pro plan, by API key."""
    return await make_api()


@pytest.fixture
async def other(make_api: Callable[..., Awaitable[Api]]) -> Api:
    """Another organization, by API key."""
    return await make_api()


@pytest.fixture
def anonymous(session: aiohttp.ClientSession) -> Api:
    """Nobody."""
    return Api(session, "", "", {})


@pytest.fixture
def make_user(pool: Pool, session: aiohttp.ClientSession) -> Callable[..., Awaitable[Api]]:
    """Make a user who has logged in: ``await make_user(org_id, "viewer")``."""

    async def make(org_id: str, role: str, email: str | None = None) -> Api:
        email = email or f"{secrets.token_hex(8)}@example.com"
        async with pool.acquire() as conn:
            await provision.create_user(conn, org_id, email, role, PASSWORD)
        async with session.post("/auth/login", json={"email": email, "password": PASSWORD}) as response:
            assert response.status == 200, await response.text()
            token = (await response.json())["token"]
        return Api(session, org_id, token, {"Authorization": f"Bearer {token}"})

    return make


@pytest.fixture
async def admin(api: Api, make_user: Callable[..., Awaitable[Api]]) -> Api:
    """An administrator of ``api``'s organization."""
    return await make_user(api.org_id, "admin")


@pytest.fixture
async def member(api: Api, make_user: Callable[..., Awaitable[Api]]) -> Api:
    """A member of ``api``'s organization."""
    return await make_user(api.org_id, "member")


@pytest.fixture
async def viewer(api: Api, make_user: Callable[..., Awaitable[Api]]) -> Api:
    """A viewer of ``api``'s organization."""
    return await make_user(api.org_id, "viewer")


@dataclass
class Agent:
    """A registered agent: ``await agent.push(containers=[…])`` returns the response."""

    api: Api
    agent_id: str

    @property
    def path(self) -> str:
        return f"/api/v1/agents/{self.agent_id}"

    async def push(self, **body: Any) -> aiohttp.ClientResponse:
        response = await self.api.post(f"{self.path}/push", json=body)
        await response.read()
        return response

    async def pushed(self, **body: Any) -> None:
        """Push what must be accepted."""
        response = await self.push(**body)
        assert response.status == 200, await response.text()


@pytest.fixture
def make_agent(session: aiohttp.ClientSession) -> Callable[..., Awaitable[Agent]]:
    """Register an agent: ``await make_agent(api, name="host-1", pool="web")``."""

    async def make(api: Api, name: str = "host-1", **fields: Any) -> Agent:
        body = {"name": name, "type": "docker", "version": "1.0", **fields}
        async with api.post("/api/v1/agents/register", json=body) as response:
            assert response.status == 200, await response.text()
            registered = await response.json()
        token = registered["token"]
        agent_api = Api(session, api.org_id, token, {"Authorization": f"Bearer {token}"})
        return Agent(agent_api, registered["agentId"])

    return make


@pytest.fixture
async def agent(api: Api, make_agent: Callable[..., Awaitable[Agent]]) -> Agent:
    """A Docker agent of ``api``'s organization."""
    return await make_agent(api)
