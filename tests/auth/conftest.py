"""A service of identity alone: its own routes, and the probes."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from monitor.auth import provision, tokens
from monitor.auth import routes as auth_routes
from monitor.auth.last_used import last_used
from monitor.auth.lookups import lookups_context
from monitor.auth.middleware import authentication
from monitor.config import CONFIG, Auth, Config, Postgres, Server, VictoriaMetrics
from monitor.db.postgres import POOL
from monitor.web.errors import errors
from tests.auth.probes import PASSWORD, SECRETS, probes, session_of


class Org(NamedTuple):
    """An organization of one test, and its API key."""

    id: str
    api_key_id: str
    api_key: str


class User(NamedTuple):
    """A user, and a session of theirs."""

    id: str
    email: str
    token: str


class Agent(NamedTuple):
    """An agent and its token."""

    id: str
    token: str


Serve = Callable[..., AbstractAsyncContextManager[aiohttp.ClientSession]]


@pytest.fixture(scope="session")
def serve(servers: Any) -> Serve:
    """Start a service with these server settings and pool; give a client without cookies."""

    @asynccontextmanager
    async def service(pool: Any, **server: Any) -> AsyncIterator[aiohttp.ClientSession]:
        config = Config(
            server=Server(**server),
            auth=Auth(jwt_secrets=SECRETS),
            postgres=Postgres(dsn=servers.app_dsn),
            victoriametrics=VictoriaMetrics(url=servers.vm_url),
        )
        app = web.Application(middlewares=[errors, authentication])
        app[CONFIG] = SimpleNamespace(config=config)  # type: ignore[misc]
        app[POOL] = pool
        app.cleanup_ctx.append(last_used)
        app.cleanup_ctx.append(lookups_context)
        app.add_routes(auth_routes.routes)
        app.add_routes(probes)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(base, cookie_jar=aiohttp.DummyCookieJar()) as client:
            yield client
        await runner.cleanup()

    return service


@pytest.fixture(scope="session")
async def service(serve: Serve, pool: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """A service behind a trusted proxy on this machine: a test chooses its client's address."""
    async with serve(pool, trusted_proxies=(ip_network("127.0.0.0/8"),)) as client:
        yield client


@pytest.fixture
def address() -> str:
    """An address that no other test sends from."""
    return ".".join(["10", *(str(secrets.randbelow(254) + 1) for _ in range(3))])


@pytest.fixture
def make_organization(pool: Any) -> Callable[..., Awaitable[Org]]:
    async def make(plan: str = "pro") -> Org:
        async with pool.acquire() as conn:
            org_id = await provision.create_org(conn, "Acme", plan)
            return Org(org_id, *await provision.create_api_key(conn, org_id, "ci"))

    return make


@pytest.fixture
async def org(make_organization: Callable[..., Awaitable[Org]]) -> Org:
    return await make_organization()


@pytest.fixture
def make_user(pool: Any, org: Org) -> Callable[..., Awaitable[User]]:
    async def make(role: str = "member", *, org_id: str = org.id, one_time: bool = False) -> User:
        email = f"{role}-{secrets.token_hex(8)}@example.org"
        async with pool.acquire() as conn:
            user_id, _ = await provision.create_user(
                conn, org_id, email, role, None if one_time else PASSWORD
            )
        return User(user_id, email, session_of(user_id, org_id, role))

    return make


@pytest.fixture
def make_agent(pool: Any, org: Org) -> Callable[..., Awaitable[Agent]]:
    async def make(org_id: str = org.id) -> Agent:
        made = Agent(tokens.new_id("agent"), tokens.new_agent_token())
        await pool.execute(
            "INSERT INTO agents (id, org_id, name, type, pool, token_hash)"
            " VALUES ($1, $2, 'a', 'docker', 'default', $3)",
            made.id,
            org_id,
            tokens.digest(made.token),
        )
        return made

    return make
