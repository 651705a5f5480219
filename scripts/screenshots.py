"""Draw the screenshots of the documentation: ``docs/images/*.png``.

    python -m scripts.screenshots [--only NAME]

Runs the service on fresh data, pushes an hour of a made-up fleet, and opens each
page in light and dark, wide and narrow.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

import aiohttp
from playwright.async_api import Browser, Page

from tests.browser import fleet
from tests.browser.stage import NARROW, PICTURED, log_in, missing, new_context, own_service, started_browser

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PAST_SECONDS = 3_700  # a little more than the hour that charts show
PUSH_SECONDS = 15  # between two pushes of the past
SETTLE_MS = 1_500  # until charts are drawn
EXPLORE = "/explore?metric=container_cpu_usage_percent%7Bagent%3D%22host-1%22%2Cgroup%3D~%22web%7Ccheckout%7Csearch%22%7D"

# Name, path, width, colours.
PICTURES = (
    ("overview-light", "/", PICTURED, "light"),
    ("overview-dark", "/", PICTURED, "dark"),
    ("overview-narrow", "/", NARROW, "light"),
    ("agents-light", "/agents", PICTURED, "light"),
    ("containers-light", "/containers?group=project&sort=-cpu", PICTURED, "light"),
    ("containers-narrow", "/containers?sort=-cpu", NARROW, "dark"),
    ("container-light", "", PICTURED, "light"),
    ("container-dark", "", PICTURED, "dark"),
    ("container-narrow", "", NARROW, "light"),
    ("pods-light", "/pods?group=workload", PICTURED, "light"),
    ("nodes-dark", "/nodes", PICTURED, "dark"),
    ("explore-dark", EXPLORE, PICTURED, "dark"),
    ("explore-narrow", EXPLORE, NARROW, "dark"),
    ("settings-keys-light", "/settings/keys", PICTURED, "light"),
    ("settings-limits-dark", "/settings/limits", PICTURED, "dark"),
    ("docs-light", "/docs", PICTURED, "light"),
)


async def fill(base_url: str, api_key: str) -> str:
    """Push the past and the present of the fleet; return the path of a container's page."""
    async with aiohttp.ClientSession(base_url) as session:
        hosts = {name: await fleet.join(session, api_key, name) for name in ("host-1", "host-2", "host-3")}
        prod = await fleet.join(session, api_key, "prod-cluster", "kubernetes")
        now = time.time()
        moment = now - PAST_SECONDS
        while moment < now:
            bodies = [(member, fleet.host(name, moment)) for name, member in hosts.items()]
            bodies.append((prod, fleet.cluster(moment)))
            await asyncio.gather(*(member.push(body) for member, body in bodies))
            moment += PUSH_SECONDS
        first = fleet.host("host-1", now)["containers"][0]
        return f"/containers/{hosts['host-1'].agent_id}/{first['id']}"


async def draw(page: Page, base_url: str, name: str, path: str) -> None:
    """Open a page, and write its picture."""
    await page.goto(f"{base_url}{path}")
    await page.locator("h1, h2").first.wait_for()
    await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(SETTLE_MS)
    await page.screenshot(path=IMAGES / f"{name}.png")


async def draw_all(browser: Browser, running: dict[str, str], container: str, only: str | None) -> None:
    """Write every picture, or those whose name begins with *only*."""
    base_url = running["baseUrl"]
    IMAGES.mkdir(parents=True, exist_ok=True)
    for width, scheme in sorted({picture[2:] for picture in PICTURES}):
        context = await new_context(browser, width, scheme)
        page = await context.new_page()
        if not only or "login".startswith(only):
            await page.goto(f"{base_url}/login")
            await page.get_by_label("E-mail").wait_for()
            await page.screenshot(
                path=IMAGES / f"login-{scheme}-{'narrow' if width == NARROW else 'wide'}.png"
            )
        await log_in(page, base_url, running["email"], running["password"])
        for name, path, *look in PICTURES:
            if look == [width, scheme] and (not only or name.startswith(only)):
                await draw(page, base_url, name, path or container)
        await context.close()


async def main(only: str | None) -> None:
    """Run the service, fill it, draw."""
    if reason := missing():
        raise SystemExit(reason)
    async with own_service() as running, started_browser() as browser:
        container = await fill(running["baseUrl"], running["apiKey"])
        await draw_all(browser, running, container, only)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="the beginning of the names to draw")
    asyncio.run(main(parser.parse_args().only))
