"""A browser for the session, and an organization with a fleet for the pages."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser

from monitor.auth import provision
from tests.browser import fleet
from tests.browser.stage import Watched, log_in, missing, new_context, started_browser, watched
from tests.conftest import PASSWORD

PUSHES = 4  # of the last minute: enough for rates and lines
PUSH_SECONDS = 15


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Debian's chromium; skips where it, or the build, is missing."""
    if reason := missing():
        pytest.skip(reason)
    async with started_browser() as opened:
        yield opened


@pytest.fixture
async def host(session: aiohttp.ClientSession, api: Any) -> fleet.Member:
    """The Docker host of ``api``'s organization, beside a cluster; both have pushed."""
    docker = await fleet.join(session, api.secret, "host-1")
    cluster = await fleet.join(session, api.secret, "prod-cluster", "kubernetes")
    now = time.time()
    for number in reversed(range(PUSHES)):
        moment = now - number * PUSH_SECONDS
        await docker.push(fleet.host("host-1", moment))
        await cluster.push(fleet.cluster(moment))
    return docker


@pytest.fixture
async def account(pool: Any, api: Any) -> str:
    """Make an admin of ``api``'s organization; returns the e-mail, the password is ``PASSWORD``."""
    email = f"{secrets.token_hex(6)}@example.com"
    async with pool.acquire() as conn:
        await provision.create_user(conn, api.org_id, email, "admin", PASSWORD)
    return email


@pytest.fixture
async def seen(app: Any, browser: Browser, account: str) -> AsyncIterator[Watched]:
    """A window of somebody who is logged in."""
    made = await watched(await new_context(browser), app.base_url)
    await log_in(made.page, app.base_url, account, PASSWORD)
    yield made
    await made.page.context.close()
