"""Rules by the API: what is stored, what is refused, what follows at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.alerts.conftest import CPU, container, new_rule, open_alerts, put

FORMS = ("/api/v1/alerts/rules", "/api/v1/alert-rules")
BODY = {"name": "cpu", "metric": CPU, "operator": "gt", "threshold": 80}


async def rule_of(api: Any, rule_id: str) -> Any:
    [rule] = [rule for rule in await api.json("/api/v1/alerts/rules") if rule["id"] == rule_id]
    return rule


@pytest.mark.parametrize("form", FORMS)
async def test_a_rule_lives_under_both_forms_of_its_path(api, form):
    async with api.post(form, json={**BODY, "description": "hot"}) as response:
        created = await response.json()
        assert response.status == 201
    await put(api, f"{form}/{created['id']}/toggle")
    await put(api, f"{form}/{created['id']}", json={"name": "renamed"})
    [listed] = await api.json(form)
    async with api.delete(f"{form}/{created['id']}") as response:
        assert response.status == 204

    assert created["id"].startswith("rule_")
    assert created["createdAt"].endswith("Z")
    assert {key: created[key] for key in BODY} == BODY
    assert (created["orgId"], created["severity"], created["enabled"]) == (api.org_id, "warning", True)
    assert listed == {**created, "name": "renamed", "enabled": False}
    assert await api.json(form) == []


REFUSED = [
    ({"name": ""}, "name"),
    ({"name": "  "}, "name"),
    ({"name": "a\0b"}, "name"),
    ({"name": None}, "name"),
    ({"name": "x" * 201}, "name"),
    ({"metric": None}, "metric"),
    ({"metric": ""}, "metric"),
    ({"metric": "rate(a[5m])"}, "metric"),
    ({"metric": 'a{org_id="x"}'}, "metric"),
    ({"metric": 'a{b=~"("}'}, "metric"),
    ({"operator": "above"}, "operator"),
    ({"operator": None}, "operator"),
    ({"threshold": "80"}, "threshold"),
    ({"threshold": None}, "threshold"),
    ({"threshold": True}, "threshold"),
    ({"severity": 3}, "severity"),
    ({"severity": "a\0"}, "severity"),
    ({"description": "a\0"}, "description"),
]


@pytest.mark.parametrize(("change", "field"), REFUSED, ids=lambda it: str(it)[:40])
async def test_a_bad_rule_is_refused_with_its_field(api, change, field):
    async with api.post("/api/v1/alerts/rules", json={**BODY, **change}) as response:
        body = await response.json()

    assert response.status == 400
    assert body["field"] == field
    assert await api.json("/api/v1/alerts/rules") == []


@pytest.mark.parametrize("missing", ["name", "metric", "operator", "threshold"])
async def test_what_a_rule_needs_is_named_when_it_is_missing(api, missing):
    body = {key: value for key, value in BODY.items() if key != missing}

    async with api.post("/api/v1/alerts/rules", json=body) as response:
        assert response.status == 400
        assert (await response.json())["error"] == f"{missing}: required"


CHANGES = [
    ({}, {}),
    ({"name": "new"}, {"name": "new"}),
    ({"enabled": False}, {"enabled": False}),
    ({"threshold": 5.5}, {"threshold": 5.5}),
    ({"severity": "page"}, {"severity": "page"}),
    ({"targetMetric": "agent_up"}, {"targetMetric": "agent_up"}),
    ({"metric": CPU, "operator": "gt"}, {}),
    ({"description": "not applied", "id": "rule_x", "orgId": "org_x", "unknown": 1}, {}),
    ({"name": None, "threshold": None, "enabled": None, "severity": None}, {}),
]


@pytest.mark.parametrize(("change", "applied"), CHANGES, ids=str)
async def test_an_update_changes_what_it_names_and_nothing_else(api, change, applied):
    rule = await new_rule(api)

    await put(api, f"/api/v1/alerts/rules/{rule['id']}", json=change)

    assert await rule_of(api, rule["id"]) == {**rule, **applied}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metric": "agent_up"}, "metric"),
        ({"operator": "lt"}, "operator"),
        ({"targetMetric": "sum(a)"}, "targetMetric"),
        ({"threshold": "1"}, "threshold"),
        ({"name": ""}, "name"),
        ({"enabled": "no"}, "enabled"),
    ],
)
async def test_what_cannot_be_changed_is_refused_with_its_field(api, change, field):
    rule = await new_rule(api)

    async with api.put(f"/api/v1/alerts/rules/{rule['id']}", json=change) as response:
        assert response.status == 400
        assert (await response.json())["field"] == field
    assert await rule_of(api, rule["id"]) == rule


async def test_a_target_metric_can_be_unset(api):
    rule = await new_rule(api)
    await put(api, f"/api/v1/alerts/rules/{rule['id']}", json={"targetMetric": "agent_up"})

    await put(api, f"/api/v1/alerts/rules/{rule['id']}", json={"targetMetric": None})

    assert (await rule_of(api, rule["id"]))["targetMetric"] is None


async def test_a_rule_of_another_organization_is_not_found(api, other):
    rule = await new_rule(api)
    path = f"/api/v1/alerts/rules/{rule['id']}"

    await put(other, f"{path}/toggle", 404)
    await put(other, path, 404, json={"name": "x"})
    async with other.delete(path) as response:
        assert response.status == 404

    assert await rule_of(api, rule["id"]) == rule
    assert await other.json("/api/v1/alerts/rules") == []


async def test_one_rule_more_than_allowed_is_too_many(api, app, monkeypatch):
    monkeypatch.setattr(
        "monitor.config.models.Limits.for_org", lambda self, org_id: type("L", (), {"rules": 1})
    )
    await new_rule(api)

    async with api.post("/api/v1/alerts/rules", json=BODY) as response:
        assert response.status == 429
        assert (await response.json())["error"] == "limit reached: 1 rules"
        assert "Retry-After" in response.headers


async def test_a_new_rule_fires_for_the_newest_samples_before_it_answers(api, agent, make_agent):
    second = await make_agent(api, "host-2")
    await agent.pushed(containers=[container("a", 95), container("b", 5)])
    await second.pushed(
        containers=[],
        pods=[{"name": "p", "namespace": "n", "phase": "Failed"}],
        nodes=[{"name": "n1", "status": "x"}],
    )

    await new_rule(api)
    await new_rule(api, "kube_node_ready", "lt", 1)
    await new_rule(api, 'kube_pod_status_phase{phase="Failed"}', "eq", 1)
    await new_rule(api, "agent_containers", "gt", 1)

    fired = {(alert["resourceType"], alert["resourceId"]) for alert in await open_alerts(api)}
    assert fired == {("container", "id-of-a"), ("node", "n1"), ("pod", "n/p"), ("agent", agent.agent_id)}


async def test_a_new_threshold_fires_and_resolves_at_once(api, agent):
    rule = await new_rule(api)
    await agent.pushed(containers=[container("a", 95), container("b", 50)])
    path = f"/api/v1/alerts/rules/{rule['id']}"

    await put(api, path, json={"threshold": 40})
    lower = await open_alerts(api)
    await put(api, path, json={"threshold": 99})
    higher = await api.json("/api/v1/alerts")

    assert sorted((alert["resourceName"], alert["threshold"]) for alert in lower) == [("a", 80), ("b", 40)]
    assert [(alert["state"], alert["resolvedBy"]) for alert in higher] == [("resolved", "recovered")] * 2


async def test_disabling_resolves_and_enabling_fires_again(api, agent):
    rule = await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])
    [first] = await open_alerts(api)

    await put(api, f"/api/v1/alerts/rules/{rule['id']}/toggle")
    [disabled] = await api.json("/api/v1/alerts")
    await agent.pushed(containers=[container("a", 96)])
    quiet = await open_alerts(api)
    await put(api, f"/api/v1/alerts/rules/{rule['id']}/toggle")
    [second] = await open_alerts(api)

    assert (disabled["state"], disabled["resolvedBy"]) == ("resolved", "rule")
    assert quiet == []
    assert second["id"] != first["id"]
    assert second["value"] == 96


async def test_deleting_a_rule_resolves_its_alerts_and_keeps_them(api, agent):
    rule, kept = await new_rule(api), await new_rule(api, threshold=90)
    await agent.pushed(containers=[container("a", 95)])

    async with api.delete(f"/api/v1/alerts/rules/{rule['id']}") as response:
        assert response.status == 204
    await agent.pushed(containers=[container("a", 95)])
    by_rule = {alert["ruleId"]: alert for alert in await api.json("/api/v1/alerts")}

    assert (by_rule[rule["id"]]["state"], by_rule[rule["id"]]["resolvedBy"]) == ("resolved", "rule")
    assert by_rule[kept["id"]]["state"] == "firing"


async def test_a_snapshot_older_than_five_minutes_fires_no_new_rule(api, agent, pool):
    await agent.pushed(containers=[container("a", 95)])
    await pool.execute(
        "UPDATE agent_state SET collected_at = collected_at - interval '301 s',"
        " containers_at = containers_at - interval '301 s' WHERE agent_id = $1",
        agent.agent_id,
    )

    await new_rule(api)

    assert await open_alerts(api) == []


@pytest.mark.parametrize(
    ("metric", "warns"), [(CPU, False), ("nothing_pushes_this", True), ('{__name__=~".*up"}', False)]
)
async def test_a_rule_that_nothing_can_fire_is_answered_with_a_warning(api, metric, warns):
    rule = await new_rule(api, metric)

    assert ("warnings" in rule) is warns


async def test_a_rule_for_series_that_agents_push_gets_no_warning(api, agent):
    await agent.pushed(samples=[{"metric": "queue_length", "value": 1}])

    for _ in range(60):  # VictoriaMetrics shows a new series after a while
        rule = await new_rule(api, "queue_length")
        if "warnings" not in rule:
            break
        await asyncio.sleep(0.2)

    assert "warnings" not in rule


async def test_a_viewer_reads_and_backtests_and_changes_nothing(api, viewer):
    rule = await new_rule(api)

    assert await viewer.json("/api/v1/alerts/rules") == [rule]
    await put(viewer, f"/api/v1/alerts/rules/{rule['id']}/toggle", 403)
    async with viewer.post("/api/v1/alerts/rules", json=BODY) as response:
        assert response.status == 403
    async with viewer.post("/api/v1/alerts/rules/backtest", json={**BODY, "start": 1, "end": 2}) as response:
        assert response.status == 200
