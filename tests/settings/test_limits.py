from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

from monitor.config import (
    Auth,
    Config,
    Postgres,
    Retention,
    RetentionDefault,
    RetentionOverride,
    VictoriaMetrics,
)
from monitor.settings.limits import limits_of
from monitor.settings.models import Usage

LIMITS = "/api/v1/settings/limits"


async def limits(caller):
    answer = await caller.get(LIMITS)
    assert answer.status == 200, await answer.text()
    return await answer.json()


async def test_without_own_settings_the_ceilings_hold(viewer):
    shown = await limits(viewer)

    assert (shown["metricsRetention"], shown["logsRetention"]) == (None, None)
    assert shown["effective"] == shown["ceilings"] == {"metricsRetention": "30d", "logsRetention": "7d"}
    assert shown["usage"] == {"agents": 0, "series": 0, "logBytes": 0}


async def test_an_own_setting_holds_up_to_the_ceiling(admin):
    answer = await admin.put(LIMITS, json={"metricsRetention": "12h", "logsRetention": "365d"})
    shown = await answer.json()

    assert answer.status == 200
    assert (shown["metricsRetention"], shown["logsRetention"]) == ("12h", "365d")
    assert shown["effective"] == {"metricsRetention": "12h", "logsRetention": "7d"}
    assert shown == await limits(admin)


async def test_what_is_left_out_stays_and_null_unsets(admin):
    await admin.put(LIMITS, json={"metricsRetention": "12h", "logsRetention": "1d"})

    kept = await (await admin.put(LIMITS, json={"logsRetention": "2d"})).json()
    unset = await (await admin.put(LIMITS, json={"metricsRetention": None})).json()

    assert (kept["metricsRetention"], kept["logsRetention"]) == ("12h", "2d")
    assert (unset["metricsRetention"], unset["logsRetention"]) == (None, "2d")
    assert unset["effective"]["metricsRetention"] == "30d"


@pytest.mark.parametrize("field", ["metricsRetention", "logsRetention"])
@pytest.mark.parametrize("value", ["", "soon", "0s", "-1d", "200y", 30, True, ["1d"]])
async def test_what_is_no_duration_is_refused_by_its_field_and_changes_nothing(admin, field, value):
    answer = await admin.put(LIMITS, json={"metricsRetention": "1d", "logsRetention": "1d"} | {field: value})

    assert answer.status == 400
    assert (await answer.json())["field"] == field
    assert (await limits(admin))["metricsRetention"] is None


async def test_everybody_reads_and_only_admins_write(api, admin, member, viewer, anonymous):
    for caller, read, write in (
        (api, 200, 403),
        (admin, 200, 200),
        (member, 200, 403),
        (viewer, 200, 403),
        (anonymous, 401, 401),
    ):
        assert (await caller.get(LIMITS)).status == read
        assert (await caller.put(LIMITS, json={})).status == write


async def test_usage_counts_the_bytes_of_the_organizations_own_logs(api, other, agent):
    line = {"time": datetime.now(UTC).isoformat(), "stream": "stdout", "message": "x", "containerId": "c1"}
    async with agent.api.post(
        f"{agent.path}/logs",
        data=json.dumps(line),
        headers={"Content-Type": "application/x-ndjson", "X-Batch-Id": "1:1"},
    ) as accepted:
        assert accepted.status == 200, await accepted.text()

    assert (await limits(api))["usage"]["logBytes"] > 0
    assert (await limits(other))["usage"]["logBytes"] == 0


async def test_usage_counts_the_organizations_own_agents_and_series(api, other, make_agent):
    agent = await make_agent(api)
    await make_agent(other)
    await agent.pushed(containers=[{"id": "c1", "name": "web", "cpuPercent": 1.5}])

    async with asyncio.timeout(20):  # VictoriaMetrics shows a new series after its next flush
        while (used := (await limits(api))["usage"])["series"] == 0:
            await asyncio.sleep(0.2)

    assert used["agents"] == 1
    assert (await limits(other))["usage"] == {"agents": 1, "series": 0, "logBytes": 0}


def test_the_ceiling_is_the_organizations_else_the_plans_else_the_defaults():
    config = Config(
        postgres=Postgres(dsn="postgresql://monitor@localhost/monitor"),
        victoriametrics=VictoriaMetrics(url="http://localhost:8428"),
        auth=Auth(jwt_secrets=("x" * 32,)),
        retention=Retention(
            default=RetentionDefault(metrics=86_400, logs=3_600),
            plans={"pro": RetentionOverride(metrics=2 * 86_400)},
            organizations={"org_1": RetentionOverride(logs=7_200)},
        ),
    )

    shown = limits_of(config, "org_1", "pro", Usage(0, 0, 0), metrics_seconds=3 * 86_400, logs_seconds=60)

    assert (shown.ceilings.metrics_retention, shown.ceilings.logs_retention) == ("2d", "2h")
    assert (shown.effective.metrics_retention, shown.effective.logs_retention) == ("2d", "1m")
    assert (shown.metrics_retention, shown.logs_retention) == ("3d", "1m")
