"""Fired alerts: when they come, how they look, how they end."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.alerts.live import gauge
from monitor.alerts.live.turn import LIVE
from monitor.lifecycle import offline
from tests.alerts.conftest import CPU, container, new_rule, open_alerts, put
from tests.stack import own_stack

RATE = "container_network_receive_bytes_per_second"


async def test_the_very_next_request_sees_the_alert_a_thousand_times_of_a_thousand(api, agent):
    await new_rule(api)
    seen = []

    for number in range(1000):
        await agent.pushed(containers=[container(f"c{number}", 81 + number)])
        [alert] = await api.json("/api/v1/alerts", params={"state": "firing"})
        seen.append((alert["resourceName"], alert["value"]))

    assert seen == [(f"c{number}", 81 + number) for number in range(1000)]


async def test_an_alert_tells_what_fired_it(api, agent):
    rule = await new_rule(api, f'{CPU}{{container="web-1"}}', severity="page", name="hot")
    before = datetime.now(UTC) - timedelta(seconds=1)
    await agent.pushed(containers=[container("web-1", 95.5, image="nginx:1"), container("web-2", 99)])

    [alert] = await api.json("/api/v1/alerts")

    assert await api.json(f"/api/v1/alerts/{alert['id']}") == alert
    assert datetime.fromisoformat(alert.pop("firedAt")) >= before
    assert alert.pop("id").startswith("alert_")
    assert alert == {
        "orgId": api.org_id,
        "ruleId": rule["id"],
        "ruleName": "hot",
        "agentId": agent.agent_id,
        "resourceId": "id-of-web-1",
        "resourceType": "container",
        "resourceName": "web-1",
        "metric": {
            "__name__": CPU,
            "agent": "host-1",
            "agent_id": agent.agent_id,
            "container": "web-1",
            "container_id": "id-of-web-1",
            "group": "web",
            "image": "nginx:1",
        },
        "state": "firing",
        "message": f"{CPU} of web-1 is 95.5, above 80",
        "value": 95.5,
        "operator": "gt",
        "threshold": 80,
        "severity": "page",
        "acknowledgedAt": None,
        "acknowledgedBy": None,
        "comment": "",
        "resolvedAt": None,
        "resolvedBy": None,
        "stale": False,
    }


async def test_an_alert_says_who_acknowledged_it(api, agent, make_user):
    email = f"anna-{agent.agent_id}@example.com"
    anna = await make_user(api.org_id, "member", email)
    await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    [alert] = await open_alerts(api)

    await put(anna, f"/api/v1/alerts/{alert['id']}/acknowledge")

    assert (await api.json(f"/api/v1/alerts/{alert['id']}"))["acknowledgedBy"] == email


async def test_acknowledge_and_resolve_follow_the_table(api, agent):
    await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    [alert] = await open_alerts(api)
    path = f"/api/v1/alerts/{alert['id']}"

    await put(api, f"{path}/acknowledge", json={"comment": "looking"})
    acknowledged = await api.json(path)
    await put(api, f"{path}/acknowledge", 404)
    await agent.pushed(containers=[container("a", 96)])
    still = await open_alerts(api)
    await put(api, f"{path}/resolve")
    resolved = await api.json(path)
    await put(api, f"{path}/resolve")
    await put(api, f"{path}/acknowledge", 404)

    assert (acknowledged["state"], acknowledged["comment"]) == ("acknowledged", "looking")
    assert acknowledged["acknowledgedAt"].endswith("Z")
    assert acknowledged["acknowledgedBy"] == resolved["acknowledgedBy"] == "a key"
    assert still == [acknowledged]
    assert (resolved["state"], resolved["resolvedBy"]) == ("resolved", "user")
    assert await api.json(path) == resolved


async def test_after_a_manual_resolve_the_next_sample_fires_a_new_alert(api, agent):
    await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    [first] = await open_alerts(api)

    await put(api, f"/api/v1/alerts/{first['id']}/resolve")
    between = await open_alerts(api)
    await agent.pushed(containers=[container("a", 95)])
    [second] = await open_alerts(api)

    assert between == []
    assert second["id"] != first["id"]


@pytest.mark.parametrize("options", [{}, {"data": b""}, {"json": {}}, {"json": {"comment": None}}])
async def test_an_acknowledgement_needs_no_comment(api, agent, options):
    await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    [alert] = await open_alerts(api)

    await put(api, f"/api/v1/alerts/{alert['id']}/acknowledge", **options)

    assert (await api.json(f"/api/v1/alerts/{alert['id']}"))["comment"] == ""


async def test_alerts_of_another_organization_are_not_found(api, other, agent):
    await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    [alert] = await open_alerts(api)
    path = f"/api/v1/alerts/{alert['id']}"

    await put(other, f"{path}/acknowledge", 404)
    await put(other, f"{path}/resolve", 404)
    async with other.get(path) as response:
        assert response.status == 404

    assert await other.json("/api/v1/alerts") == []
    assert await open_alerts(api) == [alert]


async def test_the_list_is_the_newest_200_and_can_be_asked_for_a_state(api, agent):
    await new_rule(api, threshold=0)
    await agent.pushed(containers=[container(f"c{number}", 1) for number in range(201)])
    await agent.pushed(containers=[container(f"c{number}", 1) for number in range(5)])

    listed = await api.json("/api/v1/alerts")
    firing = await api.json("/api/v1/alerts", params={"state": "firing"})
    acknowledged = await api.json("/api/v1/alerts", params={"state": "acknowledged"})

    assert len(listed) == 200
    assert [alert["firedAt"] for alert in listed] == sorted((a["firedAt"] for a in listed), reverse=True)
    assert len(firing) == 5
    assert acknowledged == []
    async with api.get("/api/v1/alerts", params={"state": "open"}) as response:
        assert response.status == 400
        assert (await response.json())["field"] == "state"


async def test_a_repeated_push_and_forty_at_once_make_one_alert(api, agent):
    await new_rule(api)
    body = {"containers": [container("a", 95)]}

    await asyncio.gather(*(agent.pushed(**body) for _ in range(40)))
    await agent.pushed(**body)

    assert len(await api.json("/api/v1/alerts")) == 1


async def test_an_old_push_neither_fires_nor_resolves(api, agent, make_agent):
    late, backdated = agent, await make_agent(api, "host-2")
    await new_rule(api)
    now = datetime.now(UTC)
    await late.pushed(containers=[container("a", 95)], collectedAt=now.isoformat())

    await late.pushed(containers=[container("a", 5)], collectedAt=(now - timedelta(seconds=30)).isoformat())
    await backdated.pushed(
        containers=[container("b", 95)], collectedAt=(now - timedelta(seconds=301)).isoformat()
    )

    assert [alert["resourceName"] for alert in await open_alerts(api)] == ["a"]


async def test_samples_are_judged_by_time_whichever_process_has_seen_the_newest(api, agent, app):
    await new_rule(api, "queue_length")
    now = time.time()

    async def push(value: float, seconds_ago: float) -> None:
        app.app[LIVE]._watches.clear()  # as on another process
        await agent.pushed(
            samples=[{"metric": "queue_length", "value": value, "timestamp": now - seconds_ago}]
        )

    await push(95, 20)
    await push(5, 30)
    [alert] = await open_alerts(api)
    await push(5, 10)
    await push(95, 15)

    assert (alert["resourceType"], alert["resourceId"]) == (
        "series",
        f'queue_length{{agent="host-1",agent_id="{agent.agent_id}"}}',
    )
    assert await open_alerts(api) == []


async def test_a_rate_fires_with_the_push_that_makes_it(api, agent):
    await new_rule(api, RATE, threshold=1000)
    now = datetime.now(UTC)

    await agent.pushed(
        containers=[container("a", netRxBytes=0)], collectedAt=(now - timedelta(seconds=10)).isoformat()
    )
    before = await open_alerts(api)
    await agent.pushed(containers=[container("a", netRxBytes=50_000)], collectedAt=now.isoformat())
    [alert] = await open_alerts(api)

    assert before == []
    assert alert["value"] == 5000


async def test_a_deleted_agents_alerts_are_gone(api, agent, make_agent):
    stays = await make_agent(api, "stays")
    await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    await stays.pushed(containers=[container("b", 95)])

    await api.delete(agent.path)

    alerts = {alert["resourceName"]: alert for alert in await api.json("/api/v1/alerts")}
    assert (alerts["a"]["state"], alerts["a"]["resolvedBy"]) == ("resolved", "gone")
    assert alerts["b"]["state"] == "firing"


async def gone_offline(pool: Any, agent: Any) -> None:
    await pool.execute(
        "UPDATE agent_state SET last_seen = clock_timestamp() - interval '91 s' WHERE agent_id = $1",
        agent.agent_id,
    )


async def test_the_alerts_of_an_agent_that_is_offline_stay_and_are_stale(api, agent, pool):
    await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    [fresh] = await open_alerts(api)

    await gone_offline(pool, agent)
    [stale] = await open_alerts(api)
    await put(api, f"/api/v1/alerts/{fresh['id']}/resolve")
    [resolved] = await api.json("/api/v1/alerts")

    assert stale == {**fresh, "stale": True}
    assert resolved["stale"] is False


async def test_agent_up_fires_once_while_an_agent_is_offline_and_resolves_with_its_next_push(
    api, agent, pool, app
):
    await new_rule(api, "agent_up", "lt", 1)
    await agent.pushed()
    before = await open_alerts(api)
    await gone_offline(pool, agent)

    for _ in range(2):
        await pool.execute("DELETE FROM claims WHERE name = 'lifecycle.offline'")
        await offline.mark_offline(app.app)
    [alert] = await open_alerts(api)
    await agent.pushed()
    [after] = await api.json("/api/v1/alerts")

    assert before == []
    assert (alert["resourceType"], alert["resourceId"], alert["value"]) == ("agent", agent.agent_id, 0)
    assert (after["id"], after["resolvedBy"]) == (alert["id"], "recovered")


async def test_a_new_rule_fires_for_an_agent_that_is_offline_already(api, agent, pool):
    await agent.pushed(containers=[container("a", 95)])
    await gone_offline(pool, agent)

    await new_rule(api, "agent_up", "eq", 0)
    await new_rule(api, "agent_up", "eq", 1)
    await new_rule(api)

    assert sorted(alert["resourceType"] for alert in await open_alerts(api)) == ["agent", "container"]


async def test_prometheus_clients_see_rules_and_open_alerts(api, agent):
    await new_rule(api, name="hot", severity="page", description="why")
    await new_rule(api, name="idle", operator="lt", threshold=0.5)
    disabled = await new_rule(api, name="off")
    await put(api, f"/api/v1/alerts/rules/{disabled['id']}/toggle")
    await agent.pushed(containers=[container("a", 95)])
    [open_] = await open_alerts(api)

    [group] = (await api.json("/prometheus/api/v1/rules"))["data"]["groups"]
    [alert] = (await api.json("/prometheus/api/v1/alerts"))["data"]["alerts"]

    hot, idle = group["rules"]
    assert (hot["name"], hot["query"], hot["state"], hot["type"]) == (
        "hot",
        f"{CPU} > 80",
        "firing",
        "alerting",
    )
    assert (idle["query"], idle["state"], idle["alerts"]) == (f"{CPU} < 0.5", "inactive", [])
    assert hot["alerts"] == [alert]
    assert hot["annotations"] == {"description": "why"}
    assert alert["labels"] == {
        "alertname": "hot",
        "severity": "page",
        **{name: value for name, value in open_["metric"].items() if name != "__name__"},
    }
    assert (alert["state"], alert["activeAt"], alert["value"]) == ("firing", open_["firedAt"], "9.5e+01")


@pytest.fixture
async def stack(servers, tmp_path):
    tmp_path.chmod(0o755)
    async with own_stack(servers, tmp_path) as running:
        yield running


@pytest.mark.xdist_group("own-stack")
async def test_rules_fire_and_resolve_while_victoriametrics_is_stopped(stack):
    api = await stack.api()
    agent = await stack.agent(api)
    await stack.victoriametrics.stop()

    rule = await new_rule(api)
    unknown = await new_rule(api, "nobody_knows")
    await agent.pushed(containers=[container("a", 95)])
    fired = await open_alerts(api)
    await agent.pushed(containers=[container("a", 5)])

    assert [alert["ruleId"] for alert in fired] == [rule["id"]]
    assert "warnings" not in unknown
    assert await open_alerts(api) == []


@pytest.mark.xdist_group("own-stack")
async def test_how_many_alerts_fire_is_written_for_each_severity(stack):
    api = await stack.api()
    agent = await stack.agent(api)
    await new_rule(api, severity="page")
    await new_rule(api, "agent_up", "lt", 1)
    await agent.pushed(containers=[container("a", 95), container("b", 95)])
    await stack.conn.execute("DELETE FROM claims")

    await asyncio.gather(*(gauge.write_firing(stack.service.app) for _ in range(3)))
    found = await stack.until_samples("alerts_firing", 2)
    shown = await api.json("/api/v1/metrics/instant", params={"metric": "alerts_firing"})

    newest = {labels["severity"]: value for labels, at, value in sorted(found, key=lambda it: it[1])}
    assert newest == {"page": 2, "warning": 0}
    assert {series["metric"]["severity"] for series in shown["series"]} == {"page", "warning"}
