"""The pages about scaling in a real browser: a policy from its first draft to its last rollback."""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from monitor.auth import provision
from tests.browser import fleet
from tests.browser.stage import Watched, log_in, new_context, watched
from tests.conftest import PASSWORD
from tests.scaling.conftest import Round, changed, evaluate, new_policy, shown

pytestmark = pytest.mark.xdist_group("browser")

REFRESH_SECONDS = 30  # until a page has asked again, on a busy machine
SAMPLES_SECONDS = 30  # until new series can be queried
# The four pods of orders use between 36 and 84 %: more than enough for one replica more.
POLICY = {"name": "orders", "runtime": "kubernetes", "targetRef": "shop/orders", "cpuTargetPercent": 20}
PROPOSING = {**POLICY, "dryRun": False, "approvalRequired": True}


@pytest.fixture
def round_(app: Any, pool: Any, api: Any) -> Round:
    """Evaluate all policies of ``api``'s organization now, instead of every 15 seconds."""
    return lambda: evaluate(app, pool, api.org_id)


async def until_queried(api: Any) -> None:
    """Wait until the pods' usage can be queried."""
    async with asyncio.timeout(SAMPLES_SECONDS):
        query = {"metric": 'kube_pod_cpu_usage_percent{workload="Deployment/orders"}'}
        while len((await api.json("/api/v1/metrics/instant", params=query))["series"]) < 4:
            await asyncio.sleep(0.5)


async def test_a_policy_is_tried_out_goes_live_is_approved_and_rolled_back(
    seen: Watched, host: fleet.Member, api: Any, round_: Round
):
    page = seen.page
    await until_queried(api)

    # Tried on what is stored, before there is a policy.
    await seen.go("/scaling")
    await page.get_by_role("link", name="New policy").click()
    await page.get_by_label("Name").fill("orders")
    workload = page.get_by_role("combobox", name="Workload")
    await workload.fill("order")
    await page.get_by_role("option", name="shop/Deployment/orders").click()
    await page.get_by_label("Most replicas").fill("0")
    await page.get_by_label("CPU, %").fill("a lot")
    await expect(page.get_by_text("Expected a number")).to_be_visible()
    await page.get_by_label("CPU, %").fill("20")
    await page.get_by_role("button", name="Make the policy").click()
    await expect(page.get_by_text("minReplicas: must not be above maxReplicas (0)")).to_be_visible()
    await page.get_by_label("Most replicas").fill("10")
    await page.get_by_role("button", name="Simulate").click()
    simulation = page.get_by_role("region", name="Simulation")
    await expect(simulation.get_by_text("It would have changed the replicas once.")).to_be_visible()
    replicas = simulation.get_by_role("figure", name="Replicas")
    await replicas.get_by_role("button", name="Table").click()
    await expect(replicas.get_by_role("columnheader", name="Wanted")).to_be_visible()
    assert await seen.violations() == []
    await page.get_by_role("button", name="Make the policy").click()

    # A dry run: its decision comes by itself, on the overview too.
    await expect(page.get_by_text("dry run", exact=True)).to_be_visible()
    [policy] = await api.json("/api/v1/scaling/policies")
    overview = await watched(page.context, seen.base_url)
    await overview.go("/")
    for opened in (page, overview.page):
        await opened.evaluate("window.notReloaded = true")
    await round_()
    newest = overview.page.get_by_role("table", name="Newest decisions")
    await expect(newest.get_by_role("row").filter(has_text="dry run")).to_contain_text("4 → 5")
    await page.bring_to_front()
    rows = page.get_by_role("table", name="Decisions").get_by_role("row")
    await expect(rows.filter(has_text="dry run")).to_contain_text("4 → 5")
    for opened in (page, overview.page):
        assert await opened.evaluate("window.notReloaded") is True
    await overview.page.close()

    # Live, with approval: the proposal, its manifest, the yes.
    await page.get_by_role("link", name="Edit").click()
    approval = page.get_by_role("switch", name="Every change needs approval")
    await page.locator("label").filter(has_text="Every change needs approval").click()
    await expect(approval).to_be_checked()
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("button", name="Go live").click()
    await page.get_by_role("dialog").get_by_role("button", name="Go live").click()
    await expect(page.get_by_text("live", exact=True)).to_be_visible()
    await round_()
    waiting = page.get_by_role("region", name="Waits for approval")
    await expect(waiting.get_by_role("heading")).to_have_text("Waits for approval: 4 → 5")
    manifest = waiting.get_by_label("Manifest")
    await expect(manifest.locator(".removed")).to_contain_text('"replicas": 4')
    await expect(manifest.locator(".added")).to_contain_text('"replicas": 5')
    await waiting.get_by_label("Comment").fill("before the sale")
    assert await seen.violations() == []
    await waiting.get_by_role("button", name="Approve").click()
    await expect(waiting).to_have_count(0)
    await expect(rows.filter(has_text="applied")).to_contain_text("before the sale")

    # Back, and no further than there is.
    for _ in range(2):
        await page.get_by_role("button", name="Roll back").click()
        await page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        await expect(rows.filter(has_text="rolled back")).to_contain_text("5 → 4")
    await expect(page.get_by_role("alert").filter(has_text="nothing to roll back")).to_be_visible()
    await page.get_by_role("button", name="Cancel").click()
    stored = await shown(api, policy)
    assert (stored["dryRun"], stored["desiredReplicas"], stored["pendingApproval"]) == (False, 4, None)

    # The log: filtered, opened under a link, checked.
    await page.get_by_role("region", name="Decisions").get_by_role("link", name="All").click()
    await expect(rows).to_have_count(4)
    await page.get_by_label("Action").select_option("rollback")
    await expect(rows).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"[?&]action=rollback"))
    await rows.nth(1).get_by_role("link").first.click()
    await expect(page.get_by_role("dialog").get_by_text("Rolled back from 5 to 4")).to_be_visible()
    await page.reload()
    [newest_row, *_] = await api.json("/api/v1/scaling/decisions")
    dialog = page.get_by_role("dialog", name=f"Decision {newest_row['id']}: 5 → 4")
    await expect(dialog.get_by_text(newest_row["hash"])).to_be_visible()
    await page.keyboard.press("Escape")
    chain = page.get_by_role("region", name="Chain")
    await expect(chain.get_by_text(newest_row["hash"])).to_be_visible()
    await chain.get_by_role("button", name="Verify").click()
    await expect(chain.get_by_text("The chain is whole")).to_be_visible()
    await expect(chain.get_by_text("3 rows; 2 were decided again")).to_be_visible()
    assert await seen.violations() == []

    # Paused, deleted by its name; what it decided stays.
    await seen.go(f"/scaling/{policy['id']}")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_text("paused", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_label("Type orders to confirm").fill("orders")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No policies yet")).to_be_visible()
    await page.get_by_role("tab", name="Decisions").click()
    await expect(rows).to_have_count(4)
    refused = re.compile(r"error: Failed to load resource: .* status of 400 .*/scaling/policies")
    assert [each for each in seen.complaints() + overview.complaints() if not refused.match(each)] == []


async def test_a_proposal_is_rejected_and_one_that_is_old_is_not_approved(
    seen: Watched, host: fleet.Member, api: Any, round_: Round
):
    policy = await new_policy(api, PROPOSING)
    await round_()
    page = seen.page
    await seen.go("/scaling")
    await page.get_by_role("link", name="4 → 5 waits for approval").click()
    waiting = page.get_by_role("region", name="Waits for approval")
    first = (await shown(api, policy))["pendingApproval"]["generation"]

    # While somebody looks at a proposal, another one takes its place.
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        held.set()
        await route.abort()

    await waiting.get_by_role("button", name="Approve").wait_for()
    await page.route("**/api/v1/scaling/policies/*", hold)
    await asyncio.wait_for(held.wait(), REFRESH_SECONDS)  # what was asked before has been answered
    await changed(api, policy, stepSize=2)
    await round_()
    assert (await shown(api, policy))["pendingApproval"]["generation"] > first
    await waiting.get_by_role("button", name="Approve").click()
    await expect(waiting.get_by_role("alert")).to_contain_text("waits for approval")
    assert (await shown(api, policy))["pendingApproval"] is not None
    await page.unroute_all()

    await expect(waiting.get_by_role("heading")).to_have_text("Waits for approval: 4 → 6")
    await waiting.get_by_role("button", name="Reject").click()
    await expect(waiting).to_have_count(0)
    stored = await shown(api, policy)
    assert (stored["pendingApproval"], stored["desiredReplicas"]) == (None, 4)
    assert await api.json("/api/v1/scaling/decisions") == []


async def test_commands_for_hosts_are_shown_with_the_replicas_of_the_whole_group(
    seen: Watched, host: fleet.Member, api: Any, round_: Round
):
    group = {"runtime": "docker", "targetRef": "default/web", "cpuTargetPercent": 5, "name": "web"}
    await new_policy(api, {**group, "maxReplicasPerHost": 9})
    await round_()

    await seen.go("/scaling/decisions?direction=up")

    rows = seen.page.get_by_role("table", name="Decisions").get_by_role("row")
    await rows.nth(1).get_by_role("link").first.click()
    manifest = seen.page.get_by_role("dialog").get_by_label("Manifest")
    await expect(manifest.locator(".removed")).to_contain_text("replicas in all: 3")
    await expect(manifest.locator(".added")).to_contain_text("replicas in all: 4")
    await expect(manifest).to_contain_text("docker.scale")
    assert seen.complaints() == []


async def test_a_viewer_may_simulate_and_change_nothing(
    app: Any, browser: Browser, host: fleet.Member, pool: Any, api: Any, round_: Round
):
    policy = await new_policy(api, PROPOSING)
    await round_()
    email = f"{secrets.token_hex(6)}@example.com"
    async with pool.acquire() as conn:
        await provision.create_user(conn, api.org_id, email, "viewer", PASSWORD)
    seen = await watched(await new_context(browser), app.base_url)
    page = seen.page
    await log_in(page, app.base_url, email, PASSWORD)

    changing = re.compile("New policy|Make|Edit|Go live|Pause|Roll back|Delete|Approve|Reject|Save")
    for path, there in (
        ("/scaling", page.get_by_role("table", name="Policies")),
        (f"/scaling/{policy['id']}", page.get_by_role("region", name="Waits for approval")),
        ("/scaling/decisions", page.get_by_role("button", name="Verify")),
        ("/scaling/new", page.get_by_role("heading", name="For members and admins")),
    ):
        await seen.go(path)
        await there.wait_for()
        for role in ("button", "link"):
            await expect(page.get_by_role("main").get_by_role(role, name=changing)).to_have_count(0)
    await seen.go(f"/scaling/{policy['id']}")
    await page.get_by_role("region", name="Simulation").locator("canvas").first.wait_for()
    assert seen.complaints() == []
    await page.context.close()
