"""The way of a new organization, from the first login to the last logout, in a real browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from monitor.auth import provision
from tests.browser.stage import log_in, new_context, watched
from tests.collector.fakes import FakeEngine, served
from tests.collector.shapes import cgroup_v1, listed

pytestmark = pytest.mark.xdist_group("browser")

NEW_PASSWORD = "a password of one's own"
PUSH_MS = 25_000  # until a new agent's first push is on the screen
SAMPLES_MS = 20_000  # until new series can be queried, and a page has asked again
CONTAINER_ID = "a" * 64


@pytest.fixture
async def newcomer(pool: Any) -> tuple[str, str]:
    """Make an organization with an admin; returns the e-mail and the one-time password."""
    email = f"{secrets.token_hex(6)}@example.com"
    async with pool.acquire() as conn:
        org_id = await provision.create_org(conn, "Newcomers", "pro")
        _, password = await provision.create_user(conn, org_id, email, "admin", None)
    return email, password


@contextlib.asynccontextmanager
async def real_agent(base_url: str, api_key: str, state_dir: Path):
    """Run ``monitor agent`` beside an engine that has one busy container."""
    engine = FakeEngine()
    engine.containers = [
        listed(
            CONTAINER_ID,
            "shop-web-1",
            labels={"com.docker.compose.project": "shop", "com.docker.compose.service": "web"},
            ports=[{"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}],
        )
    ]
    engine.stats = {CONTAINER_ID: cgroup_v1()}
    async with served(engine.app()) as host:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "monitor", "agent", "--url", base_url, "--name", "host-1"),
            *("--interval", "1s", "--state-dir", str(state_dir), "--docker-host", host),
            env={**os.environ, "MONITOR_API_KEY": api_key},
            stderr=asyncio.subprocess.DEVNULL,
        )
        yield
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        assert await process.wait() == 0


async def drag(page: Page, chart: Locator) -> None:
    """Drag over the middle of a chart."""
    box = await chart.locator(".u-over").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    await page.mouse.move(box["x"] + box["width"] * 0.4, y)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.8, y, steps=4)
    await page.mouse.up()


async def test_from_the_first_login_to_the_logout(
    app: Any, browser: Browser, newcomer: tuple[str, str], anonymous: Any, tmp_path: Path
):
    email, password = newcomer
    context = await new_context(browser)
    await context.grant_permissions(["clipboard-read", "clipboard-write"], origin=app.base_url)
    seen = await watched(context, app.base_url)
    page = seen.page

    # First login, and the password that has to be changed.
    await log_in(page, app.base_url, email, password)
    await page.wait_for_url("**/password")
    await page.get_by_label("Current password").fill(password)
    await page.get_by_role("textbox", name="New password", exact=True).fill(NEW_PASSWORD)
    await page.get_by_role("textbox", name="New password, again").fill(NEW_PASSWORD)
    await page.get_by_role("button", name="Change the password").click()

    # No agent yet: a key, the command, and a wait that ends by itself.
    await expect(page.get_by_role("heading", name="Connect the first agent")).to_be_visible()
    await page.evaluate("window.notReloaded = true")
    await page.get_by_role("button", name="Make an API key").click()
    command = await page.get_by_label("Commands for Docker").inner_text()
    [key] = re.findall(r"MONITOR_API_KEY=(mk_\S+)", command)
    assert f"MONITOR_URL={app.base_url}" in command
    for place in ("systemd", "Kubernetes", "This machine"):
        await page.get_by_role("tab", name=place).click()
        assert key in await page.get_by_label(f"Commands for {place}").inner_text()
    async with real_agent(app.base_url, key, tmp_path / "agent"):
        await expect(page.get_by_role("link", name="Agents online 1 / 1")).to_be_visible(timeout=PUSH_MS)
        await expect(page.get_by_role("link", name="Containers running 1 / 1")).to_be_visible()
        assert await page.evaluate("window.notReloaded") is True

        # The container, its ports, its charts and their numbers.
        await page.keyboard.press("g")
        await page.keyboard.press("c")
        await page.get_by_role("table", name="Containers").get_by_role("link", name="shop-web-1").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("shop-web-1")
        await expect(page.get_by_role("cell", name="80/tcp")).to_be_visible()
        await expect(page.get_by_role("cell", name="0.0.0.0:8080")).to_be_visible()
        memory = page.get_by_role("figure", name="Memory")
        await expect(memory.locator("canvas")).to_be_visible(timeout=SAMPLES_MS)
        await memory.get_by_role("button", name="Table").click()
        await expect(memory.get_by_role("cell", name="80 MiB").first).to_be_visible()
        await memory.get_by_role("button", name="Table").click()

        # Zoom, and back.
        await drag(page, memory)
        await page.wait_for_url(re.compile(r"[?&]from=\d+&to=\d+"))
        await expect(page.get_by_label("Range", exact=True)).to_have_value("fixed")
        await page.go_back()
        await expect(page.get_by_label("Range", exact=True)).to_have_value("1h")

        # A query: completed, refused in the service's words, answered, shared.
        await explore(page, app.base_url)

    # A key of its own: shown once, valid, revoked, refused.
    await page.goto(f"{app.base_url}/settings/keys")
    await page.get_by_label("Name of a new key").fill("grafana")
    await page.get_by_role("button", name="Make a key").click()
    key = (await page.get_by_label("The key", exact=True).inner_text()).strip()
    await page.get_by_role("dialog").get_by_role("button", name="Copy").click()
    await expect(page.get_by_text("Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == key
    await page.keyboard.press("Escape")
    await expect(page.get_by_text(key)).to_have_count(0)
    assert (await anonymous.get("/api/v1/agents", headers={"X-API-Key": key})).status == 200
    await page.get_by_role("button", name="Revoke grafana").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True).click()
    await expect(page.get_by_role("button", name="Revoke grafana")).to_have_count(0)
    assert (await anonymous.get("/api/v1/agents", headers={"X-API-Key": key})).status == 401

    # A colleague, who can log in.
    await page.get_by_role("tab", name="Users").click()
    colleague = f"colleague-{email}"
    await page.get_by_label("E-mail of a new user").fill(colleague)
    await page.get_by_role("button", name="Make a user").click()
    one_time = (await page.get_by_label("The one-time password").inner_text()).strip()
    await page.keyboard.press("Escape")
    await expect(page.get_by_label(f"Role of {colleague}")).to_have_value("viewer")
    async with anonymous.post("/auth/login", json={"email": colleague, "password": one_time}) as response:
        assert (await response.json())["mustChangePassword"] is True

    # Limits: refused at its place, then kept.
    await page.get_by_role("tab", name="Usage and limits").click()
    await page.get_by_label("Metrics").fill("soon")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert").filter(has_text="metricsRetention")).to_be_visible()
    await page.get_by_label("Metrics").fill("10d")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("In force: 10d.")).to_be_visible()

    # The agent, deleted by its name.
    await page.goto(f"{app.base_url}/agents")
    await page.get_by_role("button", name="Delete host-1").click()
    delete = page.get_by_role("button", name="Delete for ever")
    await expect(delete).to_be_disabled()
    await page.get_by_label("Type host-1 to confirm").fill("host-1")
    await delete.click()
    await expect(page.get_by_role("heading", name="No agent yet")).to_be_visible()

    # The end of the session.
    await page.get_by_role("button", name="Account").click()
    await page.get_by_role("menuitem", name="Log out").click()
    await page.wait_for_url("**/login")
    assert await context.cookies() == []
    # What was refused on purpose is told by the browser itself.
    refused = re.compile(
        r"error: Failed to load resource: .* status of 400 .*(metrics/range|settings/limits)"
    )
    assert [each for each in seen.complaints() if not refused.match(each)] == []
    await context.close()


async def explore(page: Page, base_url: str) -> None:
    """Ask for a selector in the editor."""
    await page.keyboard.press("g")
    await page.keyboard.press("e")
    editor = page.get_by_role("textbox", name="Selector")
    await editor.click()
    await page.keyboard.type("container_mem")
    await page.get_by_role("option", name=re.compile("container_memory_usage_percent")).wait_for()
    await page.keyboard.press("Control+A")
    await page.keyboard.type("rate(x)", delay=5)
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Run").click()
    answer = await page.request.get(f"{base_url}/api/v1/metrics/range", params={"metric": "rate(x)"})
    words = (await answer.json())["error"]
    await expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()

    await editor.click()
    await page.keyboard.press("Control+A")
    await page.keyboard.insert_text('container_memory_working_set_bytes{container="shop-web-1"}')
    await page.keyboard.press("Escape")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("metric=container_memory_working_set_bytes"))
    await expect(page.get_by_role("heading", name="1 series")).to_be_visible()
    await expect(
        page.get_by_role("table", name="Series").get_by_role("cell", name="80 MiB").last
    ).to_be_visible()
    await page.get_by_role("button", name="Copy as curl").click()
    command = await page.evaluate("navigator.clipboard.readText()")
    assert f"curl -G '{base_url}/api/v1/metrics/range'" in command
    assert "--data-urlencode 'metric=container_memory_working_set_bytes{container=\"shop-web-1\"}'" in command
    await page.reload()
    await expect(page.get_by_role("heading", name="1 series")).to_be_visible()
