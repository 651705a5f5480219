"""A service with a database of its own, whose notifications go out when a test says so.

The service of the other tests delivers by itself, so it must not see these.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import asyncpg
import pytest
from aiosmtpd.smtp import SMTP

from monitor.db.migrate import migrate
from monitor.db.postgres import Pool, create_pool
from monitor.notify import deliver
from monitor.notify.models import AlertChange
from monitor.notify.outbox import enqueue
from tests.conftest import Addresses, Api, Service, settings, start_service
from tests.notify.receivers import Mailbox, Receiver, change

with warnings.catch_warnings():  # Apprise's plugins import a module that Python deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("apprise").Apprise.instantiate("json://localhost")


def in_database(dsn: str, name: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


@pytest.fixture(scope="package")
async def database(servers: Addresses, superuser: asyncpg.Connection) -> AsyncIterator[Addresses]:
    name = f"notify_{secrets.token_hex(4)}"
    await superuser.execute(f"CREATE DATABASE {name} OWNER monitor_owner")
    addresses = Addresses(
        in_database(servers.owner_dsn, name),
        in_database(servers.app_dsn, name),
        in_database(servers.superuser_dsn, name),
        servers.vm_url,
    )
    await migrate(addresses.owner_dsn)
    yield addresses
    await superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="package")
async def mailbox() -> AsyncIterator[Mailbox]:
    """A real mail server."""
    box = Mailbox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(box), "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    yield box
    server.close()
    await server.wait_closed()


@pytest.fixture(scope="package")
async def app(
    database: Addresses, mailbox: Mailbox, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    """A web process alone: nothing is delivered behind a test's back."""
    smtp = {"host": "127.0.0.1", "port": mailbox.port, "from": "monitor@example.com", "starttls": "false"}
    values = settings(
        database,
        server={
            "listen": "127.0.0.1:1",
            "internal_listen": "127.0.0.1:2",
            "public_url": "https://monitor.example.com/",
        },
        notifications={"allow_private_targets": "true", "apprise": "true", "smtp": smtp},
    )
    path = tmp_path_factory.mktemp("notify") / "monitor.yaml"
    service = await start_service(path, values, "web")
    yield service
    await service.stop()


@pytest.fixture(scope="package")
async def pool(database: Addresses) -> AsyncIterator[Pool]:
    opened = await create_pool(database.app_dsn, size=5)
    yield opened
    await opened.close()


@pytest.fixture(scope="package")
async def session(app: Service) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(app.base_url, cookie_jar=aiohttp.DummyCookieJar()) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """An HTTP server that keeps what it is sent."""
    started = Receiver()
    await started.start()
    yield started
    await started.stop()


class Outbox:
    """The outbox of one organization: note changes, deliver them, look at them."""

    def __init__(self, app: Service, pool: Pool, admin: Api) -> None:
        self.app = app
        self.pool = pool
        self.admin = admin
        self.org_id = admin.org_id

    async def channel(self, **body: Any) -> str:
        """Make a channel and return its id."""
        answer = await self.admin.post("/api/v1/settings/channels", json={"name": "a channel", **body})
        assert answer.status == 201, await answer.text()
        made: str = (await answer.json())["id"]
        return made

    async def shown(self, channel_id: str) -> dict[str, Any]:
        """Return the channel as the API shows it."""
        channels = await self.admin.json("/api/v1/settings/channels")
        return next(channel for channel in channels if channel["id"] == channel_id)

    def change(self, alert_id: str = "alert_1", state: str = "firing", **fields: Any) -> AlertChange:
        return change(self.org_id, alert_id, state, **fields)

    async def note(self, *changes: AlertChange) -> None:
        async with self.pool.acquire() as conn, conn.transaction():
            await enqueue(conn, changes)

    async def deliver(self) -> None:
        await deliver.deliver(self.app.app)

    async def deliver_next(self, **options: Any) -> bool:
        return await deliver.deliver_next(self.app.app, **options)

    async def pass_seconds(self, seconds: float) -> None:
        """Let the organization's outbox be that much older."""
        async with self.pool.acquire() as conn:
            for table, columns in (
                ("notifications", ("created_at", "due_at", "delivered_at", "dead_at", "repeat_at")),
                ("notification_channels", ("lease_until", "paused_until", "served_at")),
            ):
                moved = ", ".join(f"{column} = {column} - make_interval(secs => $2)" for column in columns)
                await conn.execute(f"UPDATE {table} SET {moved} WHERE org_id = $1", self.org_id, seconds)


@pytest.fixture
async def outbox(app: Service, pool: Pool, admin: Api) -> AsyncIterator[Outbox]:
    made = Outbox(app, pool, admin)
    yield made
    async with pool.acquire() as conn:  # what is left over would be delivered in the next test
        await conn.execute("DELETE FROM notification_channels WHERE org_id = $1", made.org_id)


@pytest.fixture
def webhook(outbox: Outbox, receiver: Receiver) -> Callable[..., Any]:
    """Make a webhook channel to the receiver: ``await webhook(severities=["critical"])``."""

    async def make(secret: str | None = None, **body: Any) -> str:
        return await outbox.channel(type="webhook", settings={"url": receiver.url, "secret": secret}, **body)

    return make
