"""A browser for the session, and an organization with a fleet for the pages."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser

from tests.browser import fleet
from tests.browser.stage import missing, started_browser

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
