"""A browser and what it looks at: Debian's chromium, and a service of one's own for scripts.

Everything a page asks for is written down: what goes elsewhere, and what the
console says, are failures of a page.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    async_playwright,
    expect,
)

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, PICTURED, NARROW = 1440, 1200, 360  # CSS pixels
HEIGHTS = {WIDE: 900, PICTURED: 750, NARROW: 740}
WAIT_MS = 10_000  # for what a page should show at once; the machine may be busy
READY_SECONDS = 60.0
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
ROOT = Path(__file__).parents[2]

expect.set_options(timeout=2 * WAIT_MS)  # its own 5 s are little where two cores run everything


def missing() -> str | None:
    """Return what a browser test lacks here, if anything."""
    if CHROMIUM is None:
        return "chromium is not installed (make test installs it)"
    if not (ROOT / "monitor" / "static" / "index.html").is_file():
        return "the dashboard is not built (make setup builds it, unless MONITOR_SKIP_WEB=1)"
    return None


@asynccontextmanager
async def started_browser(*arguments: str) -> AsyncIterator[Browser]:
    """Run a browser without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=[*ARGUMENTS, *arguments]
        )
        yield browser
        await browser.close()


@dataclass
class Watched:
    """A page, and what it did that a page must not do."""

    page: Page
    base_url: str
    elsewhere: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def complaints(self) -> list[str]:
        """Return requests to others, and what the console said."""
        return [*(f"requested {url}" for url in self.elsewhere), *self.said]

    async def go(self, path: str) -> None:
        """Open *path* and wait until the page has drawn it."""
        await self.page.goto(f"{self.base_url}{path}")
        await self.page.locator("h1, h2").first.wait_for()

    async def violations(self, only: Sequence[str] = ()) -> list[str]:
        """Return what axe-core finds that is serious or critical, with the places; *only* some rules."""
        # As a script of the page's own the policy would refuse it; the debugger may evaluate it.
        await self.page.evaluate(AXE.read_text("utf-8"))
        what = {"type": "rule", "values": list(only)} if only else {"type": "tag", "values": AXE_TAGS}
        found = await self.page.evaluate(
            "runOnly => axe.run(document, {resultTypes: ['violations'], runOnly})", what
        )
        return [
            f"{each['id']}: {each['help']}: {node['html'][:200]} {[why['message'] for why in node['any']]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]


async def watched(context: BrowserContext, base_url: str) -> Watched:
    """Open a page that is watched."""
    made = Watched(await context.new_page(), base_url)
    made.page.set_default_timeout(WAIT_MS)

    def on_request(request: Request) -> None:
        if not request.url.startswith((base_url, "data:", "blob:")):
            made.elsewhere.append(request.url)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            made.said.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    made.page.on("request", on_request)
    made.page.on("console", on_console)
    made.page.on("pageerror", lambda error: made.said.append(f"thrown: {error}"))
    return made


async def new_context(browser: Browser, width: int = WIDE, scheme: str = "light") -> BrowserContext:
    """Open a window of *width* for somebody who prefers *scheme*."""
    return await browser.new_context(
        viewport={"width": width, "height": HEIGHTS[width]},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
    )


async def log_in(page: Page, base_url: str, email: str, password: str) -> None:
    """Log in by the form."""
    await page.goto(f"{base_url}/login")
    await page.get_by_label("E-mail").fill(email)
    await page.get_by_role("textbox", name="Password").fill(password)
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(lambda url: "/login" not in url)


@asynccontextmanager
async def own_service() -> AsyncIterator[dict[str, Any]]:
    """Run ``monitor dev`` on fresh data until the block ends; yields its ``dev.json``."""
    with tempfile.TemporaryDirectory(prefix="monitor-web-") as folder:
        Path(folder).chmod(0o755)  # Postgres runs as another user
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "monitor", "dev", "--data-dir", folder, "--port", str(port)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        ready = Path(folder) / "dev.json"
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not ready.exists():
                    assert process.returncode is None, "monitor dev ended before it was ready"
                    await asyncio.sleep(0.2)
            yield json.loads(ready.read_text("utf-8"))
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()
