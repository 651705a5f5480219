"""The pages about alerts in a real browser: from a rule's first draft to the end of its alert."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from monitor.auth import provision
from tests.browser import fleet
from tests.browser.stage import Watched, log_in, new_context, watched
from tests.conftest import PASSWORD, Addresses, Service, settings, start_service
from tests.notify.receivers import Receiver

pytestmark = pytest.mark.xdist_group("browser")

SAMPLES_MS = 20_000  # until new series can be queried, and a page has asked again
REFRESH_MS = 20_000  # until a page has asked again, on a busy machine
SELECTOR = 'container_cpu_usage_percent{container="shop-cache-1"}'  # moves around 9 %
RULE = {"name": "Busy", "metric": "container_cpu_usage_percent", "operator": "gt", "threshold": 50}


def with_cpu(percent: float, name: str = "shop-cache-1") -> dict[str, Any]:
    """Return what host-1 pushes now, one container of it with that much CPU."""
    pushed = fleet.host("host-1", time.time())
    for container in pushed["containers"]:
        if container["name"] == name:
            container["cpuPercent"] = percent
    return pushed


async def write(page: Page, selector: str) -> None:
    """Write a selector into the editor, in the place of what is there."""
    await page.get_by_role("textbox", name="Selector").click()
    await page.keyboard.press("Control+A")
    await page.keyboard.insert_text(selector)
    await page.keyboard.press("Escape")


async def test_a_rule_is_tried_out_and_its_alert_is_acknowledged_and_resolved(
    seen: Watched, host: fleet.Member, api: Any
):
    page = seen.page

    # A template, a refusal in the service's words, and another selector.
    await seen.go("/alerts/rules")
    await page.get_by_role("link", name="New rule").click()
    await page.get_by_role("button", name="Container CPU high").click()
    await expect(page.get_by_label("Threshold")).to_have_value("90")
    await write(page, "rate(x)")
    words = (await (await api.get("/api/v1/metrics/instant", params={"metric": "rate(x)"})).json())["error"]
    await expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()
    await write(page, SELECTOR)
    await expect(page.get_by_text("1 series, none would fire now.")).to_be_visible(timeout=SAMPLES_MS)

    # What another threshold means, now and before.
    await page.get_by_label("Threshold").fill("1")
    await expect(page.get_by_text("1 series, 1 would fire now.")).to_be_visible()
    await expect(page.get_by_text("It would have fired once")).to_be_visible()
    await expect(page.get_by_role("table", name="Would have fired").get_by_role("row")).to_have_count(2)
    chart = page.get_by_role("figure", name="Values, and when it would have fired")
    await expect(chart.locator("canvas")).to_be_visible()
    await page.get_by_label("Threshold").fill("soon")
    await expect(page.get_by_text("Expected a number")).to_be_visible()
    await page.get_by_label("Threshold").fill("50")
    await expect(page.get_by_text("It would not have fired.")).to_be_visible()
    await page.get_by_label("Name").fill("Cache is busy")
    await page.get_by_role("button", name="Make the rule").click()
    await expect(page.get_by_role("link", name="Cache is busy", exact=True)).to_be_visible()

    # The push that violates it is seen on both pages, and neither is loaded again.
    await seen.go("/alerts")
    await expect(page.get_by_role("heading", name="No alert has fired")).to_be_visible()
    overview = await watched(page.context, seen.base_url)
    await overview.go("/")
    await expect(overview.page.get_by_role("heading", name="Alerts firing: 0")).to_be_visible()
    for shown in (page, overview.page):
        await shown.evaluate("window.notReloaded = true")
    await host.push(with_cpu(97))
    newest = overview.page.get_by_role("table", name="Newest alerts")
    await expect(newest.get_by_role("link", name="Cache is busy")).to_be_visible(timeout=REFRESH_MS)
    await expect(overview.page.get_by_role("heading", name="Alerts firing: 1")).to_be_visible()
    await page.bring_to_front()
    row = page.get_by_role("table", name="Alerts").get_by_role("row").filter(has_text="Cache is busy")
    await expect(row.get_by_text("97 % > 50 %")).to_be_visible(timeout=REFRESH_MS)
    for shown in (page, overview.page):
        assert await shown.evaluate("window.notReloaded") is True
    await overview.page.close()

    # The alert: what is known of it, a comment, the end.
    await row.get_by_role("link", name="Cache is busy").click()
    await expect(page.get_by_role("figure").locator("canvas")).to_be_visible(timeout=SAMPLES_MS)
    await page.get_by_role("button", name="Acknowledge").click()
    await page.get_by_label("Comment").fill("The index is rebuilt.\nAnna looks after it.")
    assert await seen.violations() == []
    await page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    await expect(page.get_by_text("acknowledged", exact=True)).to_be_visible()
    await expect(page.get_by_text("Anna looks after it.")).to_be_visible()
    await expect(page.get_by_text("Acknowledged by")).to_be_visible()
    await expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)
    await page.get_by_role("button", name="Resolve").click()
    await expect(page.get_by_text("resolved", exact=True)).to_be_visible()
    await expect(page.get_by_text("somebody said so")).to_be_visible()
    [alert] = await api.json("/api/v1/alerts")
    assert (alert["state"], alert["resolvedBy"]) == ("resolved", "user")
    assert alert["comment"] == "The index is rebuilt.\nAnna looks after it."
    refused = re.compile(r"error: Failed to load resource: .* status of 400 .*metrics/instant")
    assert [each for each in seen.complaints() + overview.complaints() if not refused.match(each)] == []


async def test_alerts_are_filtered_by_the_url(seen: Watched, host: fleet.Member, api: Any):
    for rule in (RULE, {**RULE, "name": "Stopped", "metric": "container_running", "operator": "lt"}):
        body = (
            {**rule, "severity": "critical"} if rule is RULE else {**rule, "severity": "info", "threshold": 1}
        )
        assert (await api.post("/api/v1/alerts/rules", json=body)).status == 201
    page = seen.page
    rows = page.get_by_role("table", name="Alerts").get_by_role("row")

    await seen.go("/alerts?severity=info")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(1)).to_contain_text("data-backup-1")
    await page.get_by_label("Severity").select_option("")
    await page.get_by_label("State").select_option("resolved")
    await expect(page).to_have_url(f"{seen.base_url}/alerts?state=resolved")
    await expect(page.get_by_role("heading", name="No alert matches")).to_be_visible()
    await page.get_by_label("State").select_option("firing")
    await page.get_by_label("Rule").select_option("Busy")
    await page.keyboard.press("/")
    await page.get_by_label("Filter alerts").fill("search")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(1)).to_contain_text("shop-search-1")
    await page.reload()
    await expect(rows).to_have_count(2)
    await expect(page.get_by_label("State")).to_have_value("firing")
    assert seen.complaints() == []


async def test_a_containers_page_shows_its_alerts_and_rules_and_begins_a_new_one(
    seen: Watched, host: fleet.Member, api: Any
):
    made = await (
        await api.post("/api/v1/alerts/rules", json={**RULE, "metric": SELECTOR, "threshold": 5})
    ).json()
    [alert] = await api.json("/api/v1/alerts")
    page = seen.page

    await seen.go(f"/containers/{host.agent_id}/{alert['resourceId']}")

    card = page.get_by_role("region", name="Alerts")
    await expect(card.get_by_role("table", name="Alerts of this container").get_by_role("row")).to_have_count(
        1
    )
    watching = card.get_by_role("table", name="Rules that watch it")
    await expect(watching.get_by_role("link", name="Busy")).to_be_visible(timeout=SAMPLES_MS)
    await expect(watching.get_by_text("> 5 %")).to_be_visible()
    await watching.get_by_role("link", name="Busy").click()
    await page.wait_for_url(f"**/alerts/rules/{made['id']}")
    await page.go_back()
    await page.get_by_role("link", name="Make a rule").click()
    await expect(page.get_by_label("Name")).to_have_value("CPU of shop-cache-1")
    editor = page.get_by_role("textbox", name="Selector")
    await expect(editor).to_have_text('container_cpu_usage_percent{agent="host-1",container="shop-cache-1"}')
    assert seen.complaints() == []


async def test_a_rule_is_changed_turned_off_and_deleted(seen: Watched, host: fleet.Member, api: Any):
    assert (await api.post("/api/v1/alerts/rules", json=RULE)).status == 201
    page = seen.page

    await seen.go("/alerts/rules")
    await page.get_by_role("link", name="Edit Busy").click()
    await expect(page.get_by_label("Fires when it is")).to_be_disabled()
    await page.get_by_label("Threshold").fill("99")
    await page.get_by_label("Name").fill("Very busy")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("cell", name="> 99 %")).to_be_visible()
    switch = page.get_by_role("switch", name="Very busy: enabled")
    await page.locator("label").filter(has=switch).click()
    await expect(switch).not_to_be_checked()
    [rule] = await api.json("/api/v1/alerts/rules")
    assert (rule["name"], rule["threshold"], rule["enabled"]) == ("Very busy", 99, False)
    await page.get_by_role("button", name="Delete Very busy").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No rules yet")).to_be_visible()
    assert await api.json("/api/v1/alerts/rules") == []
    assert seen.complaints() == []


async def test_a_viewer_is_offered_nothing_that_changes_anything(
    app: Any, browser: Browser, host: fleet.Member, pool: Any, api: Any
):
    rule = await (await api.post("/api/v1/alerts/rules", json=RULE)).json()
    [alert, *_] = await api.json("/api/v1/alerts")
    email = f"{secrets.token_hex(6)}@example.com"
    async with pool.acquire() as conn:
        await provision.create_user(conn, api.org_id, email, "viewer", PASSWORD)
    seen = await watched(await new_context(browser), app.base_url)
    page = seen.page
    await log_in(page, app.base_url, email, PASSWORD)

    for path, there in (
        ("/alerts", page.get_by_role("table", name="Alerts")),
        (f"/alerts/{alert['id']}", page.get_by_text("Value when it fired")),
        ("/alerts/rules", page.get_by_role("table", name="Rules")),
        (f"/alerts/rules/{rule['id']}", page.get_by_role("heading", name="Before now")),
        (f"/containers/{host.agent_id}/{alert['resourceId']}", page.get_by_text("Rules that watch it")),
    ):
        await seen.go(path)
        await there.wait_for(timeout=SAMPLES_MS)
        changing = re.compile("Acknowledge|Resolve|New rule|Make a rule|Edit|Delete|Save")
        for role in ("button", "link"):
            await expect(page.get_by_role(role, name=changing)).to_have_count(0)
        await expect(page.get_by_role("main").get_by_role("switch", disabled=False)).to_have_count(0)
    await seen.go("/alerts/channels")
    await expect(page.get_by_role("heading", name="For admins")).to_be_visible()
    assert seen.complaints() == []
    await page.context.close()


@pytest.fixture
async def lenient(servers: Addresses, app: Service, tmp_path: Path) -> AsyncIterator[Service]:
    """A web process beside ``app`` that may send to this machine."""
    values = settings(servers, notifications={"allow_private_targets": "true"})
    service = await start_service(tmp_path / "monitor.yaml", values, "web")
    yield service
    await service.stop()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """An HTTP server that keeps what it is sent."""
    started = Receiver()
    await started.start()
    yield started
    await started.stop()


async def test_a_channel_is_made_tested_and_changed_and_its_secret_never_shown(
    lenient: Service, browser: Browser, account: str, receiver: Receiver
):
    seen = await watched(await new_context(browser), lenient.base_url)
    page = seen.page
    await log_in(page, lenient.base_url, account, PASSWORD)

    # Refused at its place, then taken.
    await seen.go("/alerts/channels")
    await page.get_by_role("button", name="New channel").click()
    await page.get_by_label("Name").fill("on call")
    await page.get_by_label("URL").fill("nowhere")
    await page.get_by_label("Secret", exact=True).fill("a secret of ours")
    await page.get_by_role("button", name="Make the channel").click()
    await expect(page.get_by_text("settings.url: expected a URL")).to_be_visible()
    await page.get_by_label("URL").fill(receiver.url)
    severities = page.get_by_role("dialog").get_by_label("Severities")
    await severities.fill("critical")
    await severities.press("Enter")
    assert await seen.violations() == []
    await page.get_by_role("button", name="Make the channel").click()

    # The test says what truly became of it.
    card = page.get_by_role("region", name="on call")
    await expect(card.get_by_text("Told of severity critical, and of its end.")).to_be_visible()
    await card.get_by_role("button", name="Test on call").click()
    await expect(card.get_by_text("The test message was delivered.")).to_be_visible()
    [request] = receiver.requests
    assert request.json["test"] is True
    assert "X-Monitor-Signature" in request.headers
    receiver.status = 500
    await card.get_by_role("button", name="Test on call").click()
    await expect(card.get_by_text(re.compile("was not delivered: .*500"))).to_be_visible()
    assert await seen.violations() == []

    # Changed without its secret, which stays and is not in the page.
    await card.get_by_role("button", name="Edit on call").click()
    await expect(page.get_by_label("Secret", exact=True)).to_have_value("")
    await page.get_by_label("Name").fill("nobody")
    await page.get_by_role("button", name="Save").click()
    receiver.status = 200
    await page.get_by_role("button", name="Test nobody").click()
    await expect(page.get_by_text("The test message was delivered.")).to_be_visible()
    assert "X-Monitor-Signature" in receiver.requests[-1].headers
    assert "a secret of ours" not in await page.content()
    await page.get_by_role("button", name="Delete nobody").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="Nobody is told yet")).to_be_visible()
    refused = re.compile(r"error: Failed to load resource: .* status of 400 .*settings/channels")
    assert [each for each in seen.complaints() if not refused.match(each)] == []
    await page.context.close()
