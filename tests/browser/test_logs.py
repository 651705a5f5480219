"""Log search in a real browser: what agents ship is found, shown as text, and taken along."""

from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser import fleet
from tests.browser.stage import NARROW, Watched

pytestmark = pytest.mark.xdist_group("browser")

SAMPLES_MS = 20_000  # until new series can be queried, and a page has asked again
LINES = 450  # more than two pages of a search
NASTY = '<img src=x onerror="window.broken=1"><b>bold</b>'
COLOURED = (
    "\x1b[31mred\x1b[0m \x1b[38;5;208morange\x1b[0m \x1b[1;38;2;1;2;3mdark\x1b[0m \x1b[41mground\x1b[0m"
    "\x1b[2J\x1b]0;a title\x07 plain\r"
)

# Messages, and the text that is seen of them.
ESCAPED = (
    ("\x1b[38:2::255:100:0mcolons\x1b[m and\x1b[48;5;236m 256\x1b[49m", "colons and 256"),
    ("\x1b[?25lhidden cursor\x1b(B\x1b=", "hidden cursor"),
    ("\x1bP0;1|data\x1b\\device\x9b1m C1", "device C1"),
    ("cut \x1b[38;5", "cut "),
    ("bell\x07 and return\rover", "bell\u2407 and return\u240dover"),
    ("\x1b]8;;https://elsewhere.example\x1b\\a link\x1b]8;;\x1b\\", "a link"),
)


def web(number: int, message: str, *, ago: float, stream: str = "stdout") -> dict[str, Any]:
    """Return a line of a web container, so many seconds *ago*."""
    container = fleet.host("host-1", 0)["containers"][number]
    at = datetime.fromtimestamp(time.time() - ago, UTC)
    return {
        "time": at.isoformat().replace("+00:00", "Z"),
        "stream": stream,
        "message": message,
        "containerId": container["id"],
        "container": container["name"],
    }


@pytest.fixture
async def lines(host: fleet.Member) -> None:
    """Ship lines of two containers: one that counts down, and one with a few odd ones."""
    counted = [web(0, f"request {number} of {LINES}", ago=60 + number) for number in range(LINES)]
    odd = [
        web(1, "connection reset by peer", ago=40, stream="stderr"),
        web(1, "connection is fine", ago=39),
        web(1, NASTY, ago=38),
        web(1, COLOURED, ago=37),
    ]
    odd += [web(2, f"| {message}", ago=59 - place) for place, (message, _) in enumerate(ESCAPED)]
    await host.ship(counted + odd)


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Lines", exact=True).get_by_role("listitem")


async def search(page: Page, words: str) -> None:
    """Search for *words* by keys alone."""
    await page.keyboard.press("/")
    await page.keyboard.press("Control+A")
    await page.keyboard.type(words)
    await page.keyboard.press("Enter")


async def test_lines_are_searched_filtered_and_linked_to(seen: Watched, lines: None):
    page = seen.page
    await seen.go("/logs")
    await expect(page.get_by_text(f"{LINES + 4 + len(ESCAPED)} lines", exact=True)).to_be_visible()
    await expect(rows(page).first).to_contain_text("plain")

    # Words, and what they find is marked; then a filter: both in the URL.
    await page.locator("body").click()
    await search(page, 'CONNECTION -"is fine"')
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("stderr: connection reset by peer")
    await expect(page.locator("mark")).to_have_text(["connection"])
    await expect(page).to_have_url(re.compile(r"/logs\?q=CONNECTION\+-%22is\+fine%22$"))
    await page.get_by_label("Stream").select_option("stdout")
    await expect(page.get_by_role("heading", name="No line is found")).to_be_visible()
    await expect(page).to_have_url(re.compile("stream=stdout"))
    await page.go_back()
    await expect(rows(page)).to_have_count(1)

    # One line: its fields, the lines around it, and its own address.
    await rows(page).get_by_role("button").first.click()
    await expect(page.get_by_text("Container id")).to_be_visible()
    await page.get_by_role("button", name="Lines around it").click()
    around = page.get_by_role("dialog").get_by_role("list", name="Lines around it").get_by_role("listitem")
    await expect(around).to_have_count(4)
    await expect(around.first).to_have_attribute("aria-current", "true")
    await expect(page.get_by_text("There are no earlier lines")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=seen.base_url)
    await page.get_by_role("button", name="Copy link").click()
    address = await page.evaluate("navigator.clipboard.readText()")
    await page.goto(address)
    await expect(
        page.locator("[aria-current=true]").get_by_text("connection reset by peer").first
    ).to_be_visible()
    await expect(page.get_by_text("Container id")).to_be_visible()
    assert await seen.violations() == []

    # From there to all lines of its container.
    await page.get_by_role("link", name="Only this container").click()
    await expect(rows(page)).to_have_count(4)
    await page.get_by_role("button", name="Any container", exact=True).click()
    await expect(page).not_to_have_url(re.compile("containerId"))
    assert seen.complaints() == []


async def test_a_line_is_text_with_the_colours_of_its_escapes(seen: Watched, lines: None):
    page = seen.page
    await seen.go("/logs")

    nasty = rows(page).filter(has_text=NASTY)
    await expect(nasty).to_be_visible()
    assert await page.evaluate("[window.broken, document.querySelectorAll('li img, li b').length]") == [
        None,
        0,
    ]
    coloured = rows(page).first.locator(".message")
    await expect(coloured).to_have_text("red orange dark ground plain")
    await expect(coloured.locator("span")).to_have_text(["red", "orange", "dark", "ground"])
    await expect(coloured.locator(".ink-1")).to_have_css("color", "rgb(201, 42, 42)")
    await expect(coloured.locator(".ground")).to_have_css("background-color", "rgb(205, 0, 0)")
    await expect(coloured.locator(".bold")).to_have_css("font-weight", "700")
    await expect(rows(page).locator(".message").filter(has_text="| ")).to_have_text(
        [f"| {shown}" for _, shown in reversed(ESCAPED)]
    )
    assert await seen.violations() == []
    await page.emulate_media(color_scheme="dark")
    await expect(coloured.locator(".ink-1")).to_have_css("color", "rgb(255, 135, 135)")
    await page.set_viewport_size({"width": NARROW, "height": 740})
    assert await seen.violations() == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert seen.complaints() == []


async def test_older_lines_come_when_one_scrolls_and_all_are_taken_along(
    seen: Watched, lines: None, tmp_path: Path
):
    page = seen.page
    await seen.go("/logs?q=request")
    await expect(page.get_by_text("The newest 200 lines")).to_be_visible()

    last = page.get_by_text(f"request {LINES - 1} of {LINES}")
    async with asyncio.timeout(30):
        while not await last.is_visible():
            await page.mouse.wheel(0, 20_000)
            await page.wait_for_timeout(50)
    await expect(page.get_by_text("These are all.")).to_be_visible()
    await page.get_by_role("button", name="Wrap").click()
    await expect(page.get_by_role("list", name="Lines", exact=True)).to_have_class("lines")

    for form, ending in (("JSON, an object a line", "ndjson"), ("Plain text", "log")):
        await page.get_by_role("button", name="Download").click()
        async with page.expect_download() as coming:
            await page.get_by_role("menuitem", name=form).click()
        download = await coming.value
        assert download.suggested_filename.endswith(f".{ending}")
        path = tmp_path / ending
        await download.save_as(path)
        taken = path.read_text("utf-8").splitlines()
        assert len(taken) == LINES
        if ending == "ndjson":
            assert [json.loads(each)["message"] for each in taken] == [
                f"request {number} of {LINES}" for number in range(LINES)
            ]
        else:
            assert re.fullmatch(rf"\S+Z shop-web-1 stdout request 0 of {LINES}", taken[0])
    await expect(page.get_by_text(f"{LINES} lines are saved.").first).to_be_visible()
    assert seen.complaints() == []


async def test_dragging_over_the_histogram_zooms(seen: Watched, lines: None):
    page = seen.page
    await seen.go("/logs?q=request")
    bars = page.get_by_role("figure", name="Lines over time").locator("svg")
    await bars.wait_for()

    box = await bars.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 20)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.999, box["y"] + 30, steps=3)
    await page.mouse.up()

    await expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
    figure = page.get_by_role("figure", name="Lines over time")
    await expect(figure.get_by_text(re.compile(r"^\d+ lines$"))).not_to_have_text(f"{LINES} lines")
    counted = int((await figure.get_by_text(re.compile(r"^\d+ lines$")).inner_text()).split()[0])
    assert 0 < counted < LINES
    await figure.get_by_role("button", name="Table").click()
    await figure.get_by_role("table").get_by_role("button").first.click()
    await expect(page.get_by_label("Range")).to_have_value("fixed")
    await page.go_back()
    await page.go_back()
    await expect(figure.get_by_text(f"{LINES} lines")).to_be_visible()
    assert seen.complaints() == []


async def test_what_is_refused_and_what_takes_too_long_is_told_where_it_helps(seen: Watched, lines: None):
    page = seen.page
    many = "+".join(f"w{number}" for number in range(65))
    await seen.go(f"/logs?q={many}")
    await expect(page.get_by_role("search").get_by_text("q: more than 64 words and phrases")).to_be_visible()

    slow = {"error": "search_too_slow: not finished within 10 s; ask for a shorter time"}
    await page.route("**/api/v1/logs/*", lambda route: route.fulfill(status=503, json=slow))
    await seen.go("/logs?range=7d")
    alert = page.get_by_role("alert").filter(has_text="The search took too long")
    await expect(alert).to_contain_text("Choose a shorter range")
    assert await seen.violations() == []
    await expect(page.get_by_text("Connection lost")).to_have_count(0)
    await page.unroute("**/api/v1/logs/*")
    await alert.get_by_role("button", name="The last 15 minutes").click()
    await expect(page).to_have_url(re.compile("range=15m"))
    await expect(rows(page).first).to_be_visible()
    refused = re.compile(r"error: Failed to load resource: .* status of (400|503) .*/api/v1/logs/")
    assert [each for each in seen.complaints() if not refused.match(each)] == []


async def test_a_container_and_a_pod_show_their_newest_lines(
    seen: Watched, host: fleet.Member, lines: None, session: Any, api: Any
):
    page = seen.page
    container = fleet.host("host-1", 0)["containers"][1]
    await seen.go(f"/containers/{host.agent_id}/{container['id']}")
    newest = page.get_by_role("list", name="Newest lines").get_by_role("listitem")
    await expect(newest).to_have_count(4)
    await expect(page.get_by_role("link", name="Live tail").last).to_have_attribute(
        "href", f"/tail?on=c%2F{host.agent_id}%2F{container['id']}"
    )
    await page.get_by_role("link", name="Search these logs").click()
    await expect(rows(page)).to_have_count(4)

    await seen.go("/pods")
    await page.get_by_role("link", name=re.compile("^orders-")).first.click()
    await expect(page.get_by_role("heading", name="Logs")).to_be_visible()
    await expect(page.get_by_text("No line came in this range.")).to_be_visible()
    await expect(page.get_by_role("table", name="Containers")).to_contain_text("orders:1")
    await page.locator("canvas").first.wait_for(timeout=SAMPLES_MS)
    assert await seen.violations() == []
    await page.emulate_media(color_scheme="dark")
    await page.set_viewport_size({"width": NARROW, "height": 740})
    assert await seen.violations() == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert seen.complaints() == []
