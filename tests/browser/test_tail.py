"""The live tail in a real browser, beside an agent that streams when it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from monitor.auth import provision
from tests.browser import fleet
from tests.browser.stage import NARROW, Watched, log_in, new_context, watched
from tests.conftest import PASSWORD

pytestmark = pytest.mark.xdist_group("browser")

CONTAINERS = fleet.host("host-1", 0)["containers"]
LIVE_MS = 20_000  # from a look at the page to lines of the agent
BROKEN = re.compile(r"error: Failed to load resource: net::ERR_")


def path_of(host: fleet.Member) -> str:
    """Return the page that follows the first container of the host."""
    return "/tail?on=" + quote(f"c/{host.agent_id}/{CONTAINERS[0]['id']}", safe="")


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Lines", exact=True).get_by_role("listitem")


def followed(page: Page) -> Locator:
    return page.get_by_role("list", name="Followed").get_by_role("listitem")


class Relay:
    """A way to the service that can be cut."""

    def __init__(self, base_url: str) -> None:
        self._to = urlsplit(base_url)
        self._open: set[asyncio.StreamWriter] = set()
        self.base_url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Relay]:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield self
        server.close()
        self.cut()

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._open:
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there = await asyncio.open_connection(self._to.hostname, self._to.port)
            self._open |= {writer, there[1]}
            await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_lines_appear_as_the_agent_sends_them(seen: Watched, host: fleet.Member):
    page = seen.page
    await seen.go("/tail")
    await expect(page.get_by_role("heading", name="Nothing is followed yet")).to_be_visible()
    await page.get_by_role("combobox", name="Containers and pods").fill("shop-web-1")
    await page.get_by_role("option", name="shop-web-1").click()
    await page.keyboard.press("Escape")
    await expect(page).to_have_url(re.compile(rf"on=c%2F{host.agent_id}%2F{CONTAINERS[0]['id']}"))
    await expect(followed(page)).to_contain_text("waiting for the agent")

    request = (await host.asked())["requestId"]
    await host.stream(request, fleet.tail(0, 3, "\x1b[32mINFO\x1b[0m <i>{}</i>"))
    await expect(rows(page)).to_have_count(3, timeout=LIVE_MS)
    await expect(rows(page).first).to_contain_text("INFO <i>0</i>")
    await expect(followed(page)).to_contain_text("live")

    # Paused, it still takes what comes; and shows it when it goes on.
    await page.get_by_role("button", name="Pause").click()
    await host.stream(request, fleet.tail(3, 2))
    latest = page.get_by_role("button", name="2 new lines: go to the latest")
    await expect(latest).to_be_visible()
    await expect(rows(page)).to_have_count(3)
    await latest.click()
    await expect(rows(page)).to_have_count(5)
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()

    # A filter on what is there and on what comes; a gap is told; then nothing of it is left.
    await page.get_by_label("Filter lines").fill("line 4")
    await expect(rows(page)).to_have_count(1)
    await expect(page.get_by_text("1 of 5 lines")).to_be_visible()
    await host.stream(request, fleet.tail(40, 3))
    await expect(rows(page)).to_have_text(
        [re.compile("line 4$"), "35 lines skipped", *[re.compile(r"line 4\d$")] * 3]
    )
    await page.get_by_role("button", name="Clear", exact=True).last.click()
    await expect(rows(page)).to_have_count(0)
    await expect(page).to_have_url(re.compile("q=line"))
    assert seen.complaints() == []


async def test_several_are_merged_each_in_its_colour(
    seen: Watched, host: fleet.Member, session: Any, api: Any
):
    second = await fleet.join(session, api.secret, "host-2")
    await second.push(fleet.host("host-1", time.time()))  # the same names, and the same ids
    page = seen.page
    on = ",".join(f"c/{each.agent_id}/{CONTAINERS[0]['id']}" for each in (host, second))
    await seen.go(f"/tail?tail=0&on={quote(on, safe='')}")
    requests = [await each.asked() for each in (host, second)]
    assert [request["tail"] for request in requests] == [0, 0]
    await second.stream(requests[1]["requestId"], fleet.tail(0, 1, "second"))
    await expect(rows(page)).to_have_count(1, timeout=LIVE_MS)
    await host.stream(requests[0]["requestId"], fleet.tail(0, 1, "first", "stderr"))

    told = [re.compile(r"shop-web-1 \(host-2\)second"), re.compile(r"shop-web-1 \(host-1\)stderr: first")]
    await expect(rows(page)).to_have_text(told)
    sources = rows(page).locator(".source")
    colours = {await sources.nth(place).evaluate("e => getComputedStyle(e).color") for place in (0, 1)}
    assert len(colours) == 2
    assert await seen.violations() == []
    await page.emulate_media(color_scheme="dark")
    await page.set_viewport_size({"width": NARROW, "height": 740})
    await expect(page.locator("body")).not_to_have_css("background-color", "rgb(255, 255, 255)")
    assert await seen.violations() == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert seen.complaints() == []


async def test_a_cut_connection_goes_on_without_loss_or_repeat(
    app: Any, browser: Browser, host: fleet.Member, account: str
):
    async with Relay(app.base_url).running() as relay:
        seen = await watched(await new_context(browser), relay.base_url)
        page = seen.page
        await log_in(page, relay.base_url, account, PASSWORD)
        await seen.go(path_of(host))
        request = (await host.asked())["requestId"]
        await host.stream(request, fleet.tail(0, 5))
        await expect(rows(page)).to_have_count(5, timeout=LIVE_MS)

        for number in range(5, 15, 5):
            relay.cut()
            await host.stream(request, fleet.tail(number, 5))
            await expect(rows(page)).to_have_count(number + 5, timeout=LIVE_MS)
        await expect(rows(page)).to_have_text([re.compile(rf"line {number}$") for number in range(15)])
        await expect(followed(page)).to_contain_text("live")
        assert [each for each in seen.complaints() if not BROKEN.match(each)] == []
        await page.context.close()


async def test_the_end_stays_in_sight_until_one_scrolls_up(seen: Watched, host: fleet.Member):
    page = seen.page
    await seen.go(path_of(host))
    request = (await host.asked())["requestId"]
    sent = 0
    for _ in range(5):
        sent = await host.stream(request, fleet.tail(sent, 400))
    newest = page.get_by_text("line 1999", exact=True)
    await expect(newest).to_be_in_viewport(timeout=LIVE_MS)
    assert await rows(page).count() < 200, "rows are virtual"

    await page.locator(".tail").hover()
    await page.mouse.wheel(0, -600)
    await expect(page.get_by_role("button", name="Go to the latest")).to_be_visible()
    await host.stream(request, fleet.tail(2_000, 5))
    await expect(page.get_by_role("button", name="5 new lines: go to the latest")).to_be_visible()
    await expect(newest).not_to_be_in_viewport()
    await page.mouse.wheel(0, 20_000)  # back at the end by oneself
    await expect(page.get_by_text("line 2004", exact=True)).to_be_in_viewport()
    await expect(
        page.get_by_role("button", name=re.compile("go to the latest", re.IGNORECASE))
    ).to_have_count(0)
    assert seen.complaints() == []


async def test_a_plan_without_it_shows_what_the_service_says(
    app: Any, browser: Browser, make_api: Callable[..., Awaitable[Any]], session: Any, pool: Any
):
    free = await make_api(plan="free")
    email = f"{secrets.token_hex(6)}@example.com"
    async with pool.acquire() as conn:
        await provision.create_user(conn, free.org_id, email, "member", PASSWORD)
    host = await fleet.join(session, free.secret, "host-1")
    await host.push({"containers": CONTAINERS[:1]})
    seen = await watched(await new_context(browser), app.base_url)
    await log_in(seen.page, app.base_url, email, PASSWORD)

    await seen.go(path_of(host))

    card = seen.page.get_by_role("heading", name="Log streaming is available on the Pro plan")
    await expect(card).to_be_visible()
    assert await seen.violations() == []
    await seen.page.get_by_role("main").get_by_role("link", name="Log search").click()
    await expect(seen.page.get_by_role("heading", level=1)).to_have_text("Logs")
    refused = re.compile(r"error: Failed to load resource: .* status of 403 .*/api/v1/logs/containers/")
    assert [each for each in seen.complaints() if not refused.match(each)] == []
    await seen.page.context.close()


async def test_what_is_not_there_is_told_and_can_be_tried_again(seen: Watched, host: fleet.Member):
    page = seen.page
    await seen.go("/tail?on=" + quote(f"c/{host.agent_id}/{'0' * 64}", safe=""))
    await expect(followed(page)).to_contain_text("It does not exist any more.")
    new = {"id": "0" * 64, "name": "late", "state": "running"}
    await host.push({"containers": [new]})
    await page.get_by_role("button", name="Again").click()
    await expect(followed(page)).to_contain_text("waiting for the agent")
    refused = re.compile(r"error: Failed to load resource: .* status of 404 .*/api/v1/logs/containers/")
    assert [each for each in seen.complaints() if not refused.match(each)] == []
