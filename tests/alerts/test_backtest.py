"""What a rule would have fired over stored history."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from monitor.alerts.backtest import episodes
from monitor.alerts.models import Episode, Operator
from monitor.tsdb.window import Grid

METRIC = {"__name__": "m"}
GRID = Grid(0, 600_000, 15_000)


def points(*values: float | None, step: float = 15) -> list[tuple[float, float]]:
    return [(number * step, value) for number, value in enumerate(values) if value is not None]


@pytest.mark.parametrize(
    ("operator", "values", "found"),
    [
        ("gt", points(1, 2, 3), []),
        ("gt", points(1, 90, 95, 91, 1), [(15, 60, 95)]),
        ("gt", points(90, 1, 85, 1), [(0, 15, 90), (30, 45, 85)]),
        ("lt", points(90, 70, 60, 90), [(15, 45, 60)]),
        ("lte", points(80, 81), [(0, 15, 80)]),
        ("gte", points(80, 79), [(0, 15, 80)]),
        ("eq", points(80, 80, 81), [(0, 30, 80)]),
        ("gt", points(90, None, None, 92, 1), [(0, 60, 92)]),  # no point: nothing changes
        ("gt", [(0, 90), (400, 92), (415, 1)], [(0, 0, 90), (400, 415, 92)]),  # gone between
        ("gt", [(0, 1), (590, 90)], [(590, None, 90)]),
        ("gt", [(0, 90), (200, 90)], [(0, 200, 90)]),  # gone before the end
        ("gt", points(*[90] * 41), [(0, None, 90)]),
        ("gt", [], []),
    ],
)
def test_episodes_begin_and_end_as_alerts_do(operator: Operator, values: Any, found: list[Any]):
    assert list(episodes(operator, 80, METRIC, values, GRID)) == [
        Episode(METRIC, start, end, peak) for start, end, peak in found
    ]


BODY = {"metric": "history", "operator": "gt", "threshold": 80}


async def backtest(api: Any, **fields: Any) -> Any:
    async with api.post("/api/v1/alerts/rules/backtest", json={**BODY, **fields}) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_stored_history_is_judged(api, agent, other):
    end = time.time() // 15 * 15
    values = [10, 90, 95, 10, 99]
    samples = [
        {"metric": "history", "value": value, "labels": {"q": q}, "timestamp": end - 60 + 15 * number}
        for number, value in enumerate(values)
        for q in ("a", "b")
    ]
    await agent.pushed(samples=[*samples, {"metric": "other", "value": 100}])
    window = {"start": end - 60, "end": end, "name": "a rule", "severity": "page"}

    for _ in range(60):  # VictoriaMetrics shows new series after a while
        found = await backtest(api, **window)
        if found["count"] == 4:
            break
        await asyncio.sleep(0.2)
    one = await backtest(api, **{**window, "metric": 'history{q="a"}', "step": "30s"})

    assert [(it["metric"]["q"], it["start"], it["end"], it["peak"]) for it in found["episodes"]] == [
        ("a", end - 45, end - 15, 95),
        ("b", end - 45, end - 15, 95),
        ("a", end, None, 99),
        ("b", end, None, 99),
    ]
    assert found["firingSeconds"] == 60
    assert found["episodes"][0]["metric"] == {
        "__name__": "history",
        "agent": "host-1",
        "agent_id": agent.agent_id,
        "q": "a",
    }
    assert [(it["start"], it["end"], it["peak"]) for it in one["episodes"]] == [(end - 30, None, 99)]
    assert await backtest(other, **window) == {"episodes": [], "count": 0, "firingSeconds": 0}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metric": "sum(a)"}, "metric"),
        ({"operator": "above"}, "operator"),
        ({"threshold": None}, "threshold"),
        ({"start": None}, "start"),
        ({"start": "now"}, "start"),
        ({"end": 0}, "end"),
        ({"end": 8 * 86_400 + 1}, "start"),
        ({"step": "soon"}, "step"),
        ({"step": 0}, "step"),
        ({"end": 1000 + 6 * 86_400, "step": "1s"}, "step"),
    ],
)
async def test_a_bad_backtest_is_refused_with_its_field(api, change, field):
    body = {**BODY, "start": 1000, "end": 2000, **change}

    async with api.post("/api/v1/alert-rules/backtest", json=body) as response:
        assert response.status == 400
        assert (await response.json())["field"] == field


async def test_a_window_before_the_retention_is_empty(api):
    assert await backtest(api, start=1000, end=2000) == {"episodes": [], "count": 0, "firingSeconds": 0}
