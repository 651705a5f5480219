"""Every page, wide and narrow, light and dark: readable by all, silent, and nothing from elsewhere."""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from monitor.auth import provision
from tests.browser import fleet
from tests.browser.stage import HEIGHTS, NARROW, WIDE, Watched, log_in, new_context, watched
from tests.conftest import PASSWORD
from tests.scaling.conftest import evaluate, new_policy

pytestmark = pytest.mark.xdist_group("browser")

QUERY = "/explore?metric=container_cpu_usage_percent"
A_REFRESH_MS = 31_000  # three refreshes of a list
SAMPLES_MS = 20_000  # until new series can be queried, and a page has asked again
FIRST_LOAD_BYTES = 300_000  # of JavaScript as it is transferred
NASTY = '<img src=x onerror="window.broken=1">'


async def entered(app: Any, browser: Browser, account: str) -> Watched:
    """Open a window and log in."""
    seen = await watched(await new_context(browser), app.base_url)
    await log_in(seen.page, app.base_url, account, PASSWORD)
    return seen


def container_path(host: fleet.Member) -> str:
    return f"/containers/{host.agent_id}/{fleet.host('host-1', 0)['containers'][0]['id']}"


async def fired(api: Any) -> str:
    """Make a rule that fires; returns the path of an alert."""
    rule = {"name": "Busy", "metric": "container_cpu_usage_percent", "operator": "gt", "threshold": 50}
    assert (await api.post("/api/v1/alerts/rules", json=rule)).status == 201
    return f"/alerts/{(await api.json('/api/v1/alerts'))[0]['id']}"


async def decided(app: Any, pool: Any, api: Any) -> str:
    """Make a policy that has made a proposal, and one with a decision; returns the path of the former."""
    policy = {"name": "orders", "runtime": "kubernetes", "targetRef": "shop/orders", "cpuTargetPercent": 20}
    await new_policy(api, {**policy, "name": "orders, tried"})
    waiting = await new_policy(api, {**policy, "dryRun": False, "approvalRequired": True})
    await evaluate(app, pool, api.org_id)
    return f"/scaling/{waiting['id']}"


async def test_every_page_is_accessible_quiet_and_fits(
    app: Any, browser: Browser, host: fleet.Member, account: str, api: Any, pool: Any
):
    alert = await fired(api)
    policy = await decided(app, pool, api)
    seen = await entered(app, browser, account)
    page = seen.page
    found: dict[str, list[str]] = {}
    for path, waits_for in (
        ("/", "canvas"),
        ("/agents", "text=prod-cluster"),
        ("/agents?connect=1", "text=Make an API key"),
        ("/containers?group=project&sort=-cpu", "text=shop-web-1"),
        (container_path(host), "canvas"),
        ("/pods", "text=orders-"),
        ("/nodes", "text=node-a"),
        ("/logs", "text=No line is found"),
        ("/tail", "text=Nothing is followed yet"),
        ("/alerts", "text=shop-search-1"),
        (alert, "canvas"),
        ("/alerts/rules", "text=Busy"),
        ("/alerts/rules/new?metric=container_cpu_usage_percent&threshold=50", "text=It would have fired"),
        ("/alerts/channels", "text=Nobody is told"),
        ("/scaling", "text=orders, tried"),
        (policy, "canvas"),
        (f"{policy}/edit", "text=Workload"),
        ("/scaling/decisions", "text=Head of the chain"),
        ("/scaling/decisions?open=1", "text=Manifest"),
        (QUERY, "canvas"),
        ("/settings/profile", "text=Organization"),
        ("/settings/keys", "text=a key"),
        ("/settings/users", f"text={account}"),
        ("/settings/limits", "text=Retention"),
        ("/agents/nowhere", "text=There is no such page"),
        ("/login", "text=E-mail"),
    ):
        await page.emulate_media(color_scheme="light")
        await page.set_viewport_size({"width": WIDE, "height": HEIGHTS[WIDE]})
        await seen.go(path)
        await page.locator(waits_for).first.wait_for(timeout=SAMPLES_MS)
        found[f"{path} light, wide"] = await seen.violations()
        await page.emulate_media(color_scheme="dark")
        await expect(page.locator("body")).not_to_have_css("color", "rgb(0, 0, 0)")
        found[f"{path} dark, wide"] = await seen.violations(only=["color-contrast"])
        await page.set_viewport_size({"width": NARROW, "height": HEIGHTS[NARROW]})
        found[f"{path} dark, narrow"] = await seen.violations()
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        found[f"{path} width"] = [f"{wider} px wider than the window"] if wider > 0 else []
    await page.set_viewport_size({"width": WIDE, "height": HEIGHTS[WIDE]})
    await seen.go("/agents")
    for name, opens in (
        ("menu", lambda: page.get_by_role("button", name="Account").click()),
        ("palette", lambda: page.keyboard.press("Control+k")),
        ("keys", lambda: page.keyboard.press("?")),
        ("confirmation", lambda: page.get_by_role("button", name="Delete host-1").click()),
    ):
        await opens()
        await page.get_by_role("menu" if name == "menu" else "dialog").wait_for()
        found[name] = await seen.violations()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
    found["complaints"] = seen.complaints()

    told = [f"{path}: {problem}" for path, problems in found.items() for problem in problems]
    assert not told, "\n".join(told)
    await page.context.close()


async def test_docs_describes_the_api_under_the_same_policy(app: Any, browser: Browser):
    seen = await watched(await new_context(browser), app.base_url)

    await seen.go("/docs")

    await seen.page.get_by_text("inventory", exact=True).click()
    await expect(seen.page.get_by_text("/api/v1/containers").first).to_be_visible()
    assert seen.complaints() == []
    await seen.page.context.close()


async def test_names_are_shown_as_text(app: Any, browser: Browser, session: Any, api: Any, account: str):
    nasty = await fleet.join(session, api.secret, NASTY)
    container = {"id": "1", "name": NASTY, "image": NASTY, "state": "exited", "labels": {NASTY: NASTY}}
    await nasty.push({"containers": [container]})
    rule = {"name": NASTY, "metric": "container_running", "operator": "lt", "threshold": 1, "severity": NASTY}
    assert (await api.post("/api/v1/alerts/rules", json=rule)).status == 201
    [alert] = await api.json("/api/v1/alerts")
    policy = {"name": NASTY, "runtime": "docker", "targetRef": f"default/{NASTY}", "cpuTargetPercent": 50}
    scaled = await new_policy(api, policy)
    seen = await entered(app, browser, account)

    for path in (
        *("/", "/agents", "/containers", f"/containers/{nasty.agent_id}/1"),
        *("/alerts", f"/alerts/{alert['id']}", "/alerts/rules", f"/alerts/rules/{alert['ruleId']}"),
        *("/scaling", f"/scaling/{scaled['id']}"),
    ):
        await seen.go(path)
        await expect(seen.page.get_by_text(NASTY).filter(visible=True).first).to_be_visible()

    assert await seen.page.evaluate("window.broken") is None
    assert seen.complaints() == []
    await seen.page.context.close()


async def test_the_first_load_is_small_and_a_page_brings_only_its_own(
    app: Any, browser: Browser, host: fleet.Member, account: str
):
    seen = await entered(app, browser, account)

    await seen.go("/")

    await seen.page.locator("canvas").first.wait_for(timeout=SAMPLES_MS)
    scripts = await seen.page.evaluate(
        "performance.getEntriesByType('resource').filter(e => e.name.endsWith('.js'))"
        ".map(e => [e.name.split('/').pop(), e.encodedBodySize])"
    )
    assert 0 < sum(size for _, size in scripts) < FIRST_LOAD_BYTES, scripts
    assert not any(name.startswith(("Explore", "docs", "Settings")) for name, _ in scripts)
    await seen.page.context.close()


async def test_no_script_can_read_the_session(app: Any, browser: Browser, account: str):
    seen = await entered(app, browser, account)

    stored = await seen.page.evaluate("JSON.stringify([document.cookie, localStorage, sessionStorage])")

    [cookie] = await seen.page.context.cookies()
    assert cookie["name"] == "auth_token"
    assert cookie["httpOnly"]
    assert cookie["value"] not in stored
    assert "auth_token" not in stored
    await seen.page.context.close()


async def test_a_lost_connection_is_told_and_heals_by_itself(
    app: Any, browser: Browser, host: fleet.Member, account: str
):
    seen = await entered(app, browser, account)
    page = seen.page
    await page.clock.install()
    await seen.go("/agents")
    await page.get_by_text("prod-cluster").wait_for()

    await page.context.set_offline(True)
    await page.clock.run_for(A_REFRESH_MS)
    await expect(page.get_by_text("Connection lost")).to_be_visible()
    await expect(page.get_by_text("prod-cluster")).to_be_visible()
    await page.context.set_offline(False)
    await page.clock.run_for(A_REFRESH_MS)
    await expect(page.get_by_text("Connection lost")).to_have_count(0)
    await page.context.close()


async def test_a_hidden_tab_asks_for_nothing(app: Any, browser: Browser, host: fleet.Member, account: str):
    seen = await entered(app, browser, account)
    page = seen.page
    await page.clock.install()
    await seen.go("/agents")
    await page.get_by_text("prod-cluster").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    await page.evaluate(
        "Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true});"
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))"
    )
    await page.clock.run_for(A_REFRESH_MS)
    assert asked == []

    await page.evaluate(
        "delete document.visibilityState; delete document.hidden;"
        "document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))"
    )
    async with asyncio.timeout(30):
        while not asked:
            await asyncio.sleep(0.1)
    await page.context.close()


async def test_filters_order_and_groups_are_in_the_url_and_under_the_keys(
    app: Any, browser: Browser, host: fleet.Member, account: str
):
    seen = await entered(app, browser, account)
    page = seen.page
    await seen.go("/containers")
    await page.get_by_text("shop-web-1").wait_for()

    await page.keyboard.press("/")
    await page.keyboard.type("shop web")
    await expect(page.get_by_text("3 of 12")).to_be_visible()
    await page.get_by_role("button", name="Name").click()
    await page.get_by_role("button", name="Name").click()
    await page.get_by_label("Group").select_option("project")
    await expect(page).to_have_url(f"{app.base_url}/containers?q=shop+web&sort=-name&group=project")
    await page.reload()
    rows = page.get_by_role("table", name="Containers").get_by_role("link")
    await expect(rows).to_have_text(["shop-web-3", "shop-web-2", "shop-web-1"])
    await expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")

    await page.locator("body").click()
    await page.keyboard.press("Control+k")
    await page.get_by_placeholder("Page, agent or container").fill("checkout-2")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("shop-checkout-2")
    assert seen.complaints() == []
    await page.context.close()


async def test_a_cluster_without_a_metrics_provider_says_so(
    app: Any, browser: Browser, session: Any, api: Any, account: str
):
    cluster = await fleet.join(session, api.secret, "small", "kubernetes")
    pushed = fleet.cluster(0, measured=False)
    del pushed["collectedAt"]
    await cluster.push(pushed)
    seen = await entered(app, browser, account)

    for path in ("/pods", "/nodes"):
        await seen.go(path)
        await expect(seen.page.get_by_text("No metrics provider in this cluster")).to_be_visible()
        await expect(seen.page.get_by_role("columnheader", name=re.compile("CPU"))).to_have_count(0)
    await seen.page.context.close()


async def test_a_viewer_sees_what_only_an_admin_may_change(
    app: Any, browser: Browser, host: fleet.Member, pool: Any, api: Any
):
    email = f"{secrets.token_hex(6)}@example.com"
    async with pool.acquire() as conn:
        await provision.create_user(conn, api.org_id, email, "viewer", PASSWORD)
    seen = await entered(app, browser, email)

    await seen.go("/agents")
    await seen.page.get_by_text("prod-cluster").wait_for()
    await expect(seen.page.get_by_role("button", name="Delete host-1")).to_have_count(0)
    await seen.go("/settings/keys")
    await expect(seen.page.get_by_role("heading", name="For admins")).to_be_visible()
    assert seen.complaints() == []
    await seen.page.context.close()
