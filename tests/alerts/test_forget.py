"""Resolved alerts are kept for as long as the configuration says, open ones until they are resolved."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.alerts.live.forget import forget_resolved
from monitor.db.postgres import Pool
from tests.alerts.conftest import container, new_rule, put
from tests.conftest import Agent, Api, Service


async def fire(api: Api, agent: Agent, *names: str) -> dict[str, str]:
    """Fire an alert for each of the containers; return their ids by name."""
    await agent.pushed(containers=[container(name, cpu=99) for name in names])
    return {alert["resourceName"]: alert["id"] for alert in await api.json("/api/v1/alerts")}


async def set_back(pool: Pool, alert_id: str, days: float) -> None:
    """Make all that happened to an alert lie *days* further back."""
    await pool.execute(
        "UPDATE fired_alerts SET fired_at = fired_at - $2 * interval '1 day',"
        " resolved_at = resolved_at - $2 * interval '1 day' WHERE id = $1",
        alert_id,
        days,
    )


async def listed(api: Api) -> set[Any]:
    return {alert["id"] for alert in await api.json("/api/v1/alerts")}


async def test_what_was_resolved_90_days_ago_is_forgotten(app: Service, api: Api, agent: Agent, pool: Pool):
    await new_rule(api)
    ids = await fire(api, agent, "old", "young", "open")
    for name in ("old", "young"):
        await put(api, f"/api/v1/alerts/{ids[name]}/resolve")
    for name, days in (("old", 90.01), ("young", 89.99), ("open", 400)):
        await set_back(pool, ids[name], days)

    await forget_resolved(app.app)

    assert await listed(api) == {ids["young"], ids["open"]}


async def test_many_are_forgotten_bit_by_bit(
    app: Service, api: Api, agent: Agent, pool: Pool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("monitor.alerts.live.forget.ROWS_AT_ONCE", 2)
    await new_rule(api)
    ids = await fire(api, agent, *(f"web-{number}" for number in range(5)))
    for alert_id in ids.values():
        await put(api, f"/api/v1/alerts/{alert_id}/resolve")
        await set_back(pool, alert_id, 91)

    await forget_resolved(app.app)

    assert await listed(api) == set()


async def test_what_is_held_by_another_waits_for_the_next_round(
    app: Service, api: Api, agent: Agent, pool: Pool
):
    await new_rule(api)
    ids = await fire(api, agent, "held", "free")
    for alert_id in ids.values():
        await put(api, f"/api/v1/alerts/{alert_id}/resolve")
        await set_back(pool, alert_id, 91)
    async with pool.acquire() as conn, conn.transaction():
        await conn.fetch("SELECT 1 FROM fired_alerts WHERE id = $1 FOR UPDATE", ids["held"])

        await forget_resolved(app.app)

        assert await listed(api) == {ids["held"]}
    await forget_resolved(app.app)
    assert await listed(api) == set()
