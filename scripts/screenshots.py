"""Draw the screenshots of the documentation: ``docs/images/*.png``.

    python -m scripts.screenshots [--only NAME]

Runs the service on fresh data, pushes an hour of a made-up fleet, and opens each
page in light and dark, wide and narrow.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Browser, Page

from tests.browser import fleet
from tests.browser.stage import NARROW, PICTURED, log_in, missing, new_context, own_service, started_browser
from tests.browser.tails import answer_tails

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PAST_SECONDS = 3_700  # a little more than the hour that charts show
PUSH_SECONDS = 15  # between two pushes of the past
EVALUATED_SECONDS = 60.0  # policies are evaluated every 15 s
SETTLE_MS = 1_500  # until charts are drawn
EXPLORE = "/explore?metric=container_cpu_usage_percent%7Bagent%3D%22host-1%22%2Cgroup%3D~%22web%7Ccheckout%7Csearch%22%7D"
NEW_RULE = (
    "/alerts/rules/new?name=Busy+shop&operator=gt&threshold=60"
    "&metric=container_cpu_usage_percent%7Bagent%3D%22host-1%22%2Cgroup%3D~%22web%7Ccheckout%7Ccache%22%7D"
)

# Name, path, width, colours.  What stands in braces is made when the service runs.
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
    ("logs-light", "/logs?q=timed+out", PICTURED, "light"),
    ("logs-dark", "/logs", PICTURED, "dark"),
    ("logs-narrow", "/logs?stream=stderr", NARROW, "dark"),
    ("tail-dark", "{tail}", PICTURED, "dark"),
    ("tail-light", "{tail}", PICTURED, "light"),
    ("tail-narrow", "{tail}", NARROW, "light"),
    ("explore-dark", EXPLORE, PICTURED, "dark"),
    ("explore-narrow", EXPLORE, NARROW, "dark"),
    ("alerts-light", "/alerts", PICTURED, "light"),
    ("alerts-narrow", "/alerts", NARROW, "dark"),
    ("alert-light", "{alert}", PICTURED, "light"),
    ("alert-dark", "{alert}", PICTURED, "dark"),
    ("alert-narrow", "{alert}", NARROW, "light"),
    ("rules-dark", "/alerts/rules", PICTURED, "dark"),
    ("rules-narrow", "/alerts/rules", NARROW, "light"),
    ("rule-light", NEW_RULE, PICTURED, "light"),
    ("rule-dark", NEW_RULE, PICTURED, "dark"),
    ("rule-narrow", NEW_RULE, NARROW, "dark"),
    ("channels-light", "/alerts/channels", PICTURED, "light"),
    ("channels-narrow", "/alerts/channels", NARROW, "dark"),
    ("scaling-light", "/scaling", PICTURED, "light"),
    ("scaling-narrow", "/scaling", NARROW, "dark"),
    ("policy-light", "{policy}", PICTURED, "light"),
    ("policy-dark", "{policy}", PICTURED, "dark"),
    ("policy-narrow", "{policy}", NARROW, "light"),
    ("policy-new-light", "/scaling/new", PICTURED, "light"),
    ("policy-new-narrow", "/scaling/new", NARROW, "dark"),
    ("decisions-dark", "/scaling/decisions", PICTURED, "dark"),
    ("decisions-narrow", "/scaling/decisions", NARROW, "light"),
    ("decision-light", "/scaling/decisions?open=1", PICTURED, "light"),
    ("settings-keys-light", "/settings/keys", PICTURED, "light"),
    ("settings-limits-dark", "/settings/limits", PICTURED, "dark"),
    ("docs-light", "/docs", PICTURED, "light"),
)

RULES: list[dict[str, Any]] = [
    {
        "name": "Container CPU high",
        "metric": 'container_cpu_usage_percent{group!=""}',
        "operator": "gt",
        "threshold": 60,
        "severity": "critical",
    },
    {
        "name": "Container stopped",
        "metric": 'container_running{group="backup"}',
        "operator": "lt",
        "threshold": 1,
        "severity": "warning",
    },
    {
        "name": "Pod not ready",
        "metric": 'kube_pod_ready{namespace="shop"}',
        "operator": "lt",
        "threshold": 1,
        "severity": "warning",
    },
    {"name": "Agent offline", "metric": "agent_up", "operator": "lt", "threshold": 1, "severity": "critical"},
]
CHANNELS: list[dict[str, Any]] = [
    {
        "name": "on call",
        "type": "webhook",
        "settings": {"url": "https://hooks.example.com/on-call", "secret": "s"},
    },
    {
        "name": "shop team",
        "type": "slack",
        "settings": {"url": "https://hooks.example.com/shop"},
        "severities": ["critical"],
        "sendResolved": False,
    },
]


POLICIES: list[dict[str, Any]] = [
    {
        "name": "web of the shop",
        "runtime": "docker",
        "targetRef": "default/web",
        "cpuTargetPercent": 25,
        "maxReplicas": 20,
        "stepSize": 4,
    },
    {"name": "payments", "runtime": "kubernetes", "targetRef": "shop/payments", "cpuTargetPercent": 62},
    {
        "name": "catalog",
        "runtime": "kubernetes",
        "targetRef": "shop/catalog",
        "cpuTargetPercent": 30,
        "memoryTargetPercent": 50,
    },
    {
        "name": "orders",
        "runtime": "kubernetes",
        "targetRef": "shop/orders",
        "cpuTargetPercent": 25,
        "stepSize": 2,
        "dryRun": False,
        "approvalRequired": True,
    },
]


async def fill(session: aiohttp.ClientSession, api_key: str) -> fleet.Member:
    """Push the past and the present of the fleet, and its logs; return the first host."""
    hosts = {name: await fleet.join(session, api_key, name) for name in ("host-1", "host-2", "host-3")}
    prod = await fleet.join(session, api_key, "prod-cluster", "kubernetes")
    now = time.time()
    moment = now - PAST_SECONDS
    while moment < now:
        bodies = [(member, fleet.host(name, moment)) for name, member in hosts.items()]
        bodies.append((prod, fleet.cluster(moment)))
        await asyncio.gather(*(member.push(body) for member, body in bodies))
        moment += PUSH_SECONDS
    for name, member in hosts.items():
        await member.ship(fleet.log(name, now - PAST_SECONDS, now))
    return hosts["host-1"]


def paths_of(host: fleet.Member) -> dict[str, str]:
    """Return the paths that name something of the first host."""
    first, second, third, *_ = fleet.host("host-1", 0)["containers"]
    on = "%2C".join(f"c%2F{host.agent_id}%2F{each['id']}" for each in (first, second, third))
    return {"": f"/containers/{host.agent_id}/{first['id']}", "{tail}": f"/tail?on={on}"}


@asynccontextmanager
async def entered(running: dict[str, str]) -> AsyncIterator[aiohttp.ClientSession]:
    """Talk to the service as the admin."""
    async with aiohttp.ClientSession(running["baseUrl"]) as session:
        account = {name: running[name] for name in ("email", "password")}
        async with session.post("/auth/login", json=account) as response:
            session.headers["Authorization"] = f"Bearer {(await response.json())['token']}"
        yield session


async def make(session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Make what must be accepted, and return it."""
    async with session.post(path, json=body) as response:
        assert response.status == 201, await response.text()
        made: dict[str, Any] = await response.json()
        return made


async def alarm(session: aiohttp.ClientSession) -> str:
    """Make rules that fire, and channels; acknowledge an alert; return the path of another."""
    for rule in RULES:
        await make(session, "/api/v1/alerts/rules", rule)
    for channel in CHANNELS:
        await make(session, "/api/v1/settings/channels", channel)
    async with session.get("/api/v1/alerts") as response:
        alerts = await response.json()
    first, second, *_ = (alert for alert in alerts if alert["ruleName"] == RULES[0]["name"])
    comment = {"comment": "The index is rebuilt until noon. Anna looks after it."}
    async with session.put(f"/api/v1/alerts/{second['id']}/acknowledge", json=comment) as response:
        assert response.status == 204
    return f"/alerts/{first['id']}"


async def scale(session: aiohttp.ClientSession) -> str:
    """Make policies, and wait until they have decided; return the path of one that waits for approval."""
    made = [await make(session, "/api/v1/scaling/policies", policy) for policy in POLICIES]
    waiting = f"/api/v1/scaling/policies/{made[-1]['id']}"
    async with asyncio.timeout(EVALUATED_SECONDS):
        while True:
            async with session.get(waiting) as response:
                if (await response.json())["pendingApproval"]:
                    return f"/scaling/{made[-1]['id']}"
            await asyncio.sleep(1)


async def draw(page: Page, base_url: str, name: str, path: str) -> None:
    """Open a page, and write its picture."""
    await page.goto(f"{base_url}{path}")
    await page.locator("h1, h2").first.wait_for()
    if not path.startswith("/tail"):  # that one never stops to load
        await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(SETTLE_MS)
    await page.screenshot(path=IMAGES / f"{name}.png")


async def draw_all(browser: Browser, running: dict[str, str], made: dict[str, str], only: str | None) -> None:
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
                await draw(page, base_url, name, made.get(path, path))
        await context.close()


async def main(only: str | None) -> None:
    """Run the service, fill it, draw."""
    if reason := missing():
        raise SystemExit(reason)
    async with (
        own_service() as running,
        started_browser() as browser,
        aiohttp.ClientSession(running["baseUrl"]) as session,
    ):
        host = await fill(session, running["apiKey"])
        async with entered(running) as admin:
            made = {**paths_of(host), "{alert}": await alarm(admin), "{policy}": await scale(admin)}
        tails = asyncio.create_task(answer_tails(host, "host-1"), name="tails")
        await draw_all(browser, running, made, only)
        tails.cancel()
        with suppress(asyncio.CancelledError):
            await tails


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="the beginning of the names to draw")
    asyncio.run(main(parser.parse_args().only))
