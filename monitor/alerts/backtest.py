"""What alerts a rule would have fired over stored history, by the condition that judges pushes.

One point each step stands for the samples.  A point that is missing changes nothing, as
while an agent is offline; after five minutes without one the series counts as gone.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from monitor.alerts.models import Backtest, BacktestRequest, Episode, Operator
from monitor.alerts.rules import CROSSES
from monitor.config import CONFIG
from monitor.errors import StorageUnavailable
from monitor.tsdb.client import TSDB
from monitor.tsdb.selector import ORG, parse
from monitor.tsdb.window import (
    DEFAULT_STEP,
    Grid,
    check_order,
    check_points,
    check_range,
    clamp,
    step_ms,
    time_ms,
)

if TYPE_CHECKING:
    from aiohttp import web

    from monitor.auth.models import Tenant

GONE_SECONDS = 300.0  # without a point, as the look-back of an instant query


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw


class _Matrix(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Matrix


_answer = msgspec.json.Decoder(_Answer)
_values = msgspec.json.Decoder(list[tuple[float, str]])


async def backtest(app: web.Application, tenant: Tenant, request: BacktestRequest) -> Backtest:
    """Return the alerts that a rule would have fired in a window of at most seven days.

    Raises:
        BadRequest: Names the field that is not valid.
        StorageUnavailable: VictoriaMetrics is away.
    """
    selector = parse(request.metric).for_tenant(tenant.org_id, tenant.hidden_agents)
    grid = _grid(request)
    retention = app[CONFIG].config.retention.effective(
        "metrics", tenant.org_id, tenant.plan, tenant.metrics_retention_seconds
    )
    kept = clamp(grid, time.time_ns() // 1_000_000 - retention * 1000)
    if kept is None:
        return Backtest([], 0, 0.0)
    answer = await app[TSDB].query_range(selector, kept)
    found: list[Episode] = []
    try:
        for series in _answer.decode(answer).data.result:
            series.metric.pop(ORG, None)
            points = _points(_values.decode(series.values))
            found += episodes(request.operator, request.threshold, series.metric, points, kept)
            await asyncio.sleep(0)  # seven days of one series are 40,000 points
    except msgspec.DecodeError as error:
        raise StorageUnavailable from error
    found.sort(key=lambda episode: (episode.start, sorted(episode.metric.items())))
    end = kept.end_ms / 1000
    return Backtest(found, len(found), sum((it.end or end) - it.start for it in found))


def _grid(request: BacktestRequest) -> Grid:
    step = DEFAULT_STEP if request.step is None else str(request.step)
    grid = Grid(time_ms(request.start, "start"), time_ms(request.end, "end"), step_ms(step))
    check_order(grid)
    check_range(grid)
    check_points(grid)
    return grid


def _points(values: Iterable[tuple[float, str]]) -> Iterator[tuple[float, float]]:
    """Yield the points with a number that rules judge."""
    for at, text in values:
        value = float(text)
        if math.isfinite(value):
            yield at, value


def episodes(
    operator: Operator,
    threshold: float,
    metric: dict[str, str],
    points: Iterable[tuple[float, float]],
    grid: Grid,
) -> Iterator[Episode]:
    """Yield the episodes of one series; pure.

    Args:
        operator: Of the rule.
        threshold: Of the rule.
        metric: Labels of the series.
        points: Unix seconds and value, in order.
        grid: The window; an episode that has not ended at its end has none.
    """
    crosses, gap = CROSSES[operator], GONE_SECONDS + grid.step_ms / 1000
    start: float | None = None
    peak = last = 0.0
    for at, value in points:
        if start is not None and at - last > gap:
            yield Episode(metric, start, last, peak)
            start = None
        if crosses(value, threshold):
            peak = value if start is None else _further(operator, peak, value)
            start = at if start is None else start
        elif start is not None:
            yield Episode(metric, start, at, peak)
            start = None
        last = at
    if start is not None:
        yield Episode(metric, start, last if grid.end_ms / 1000 - last > gap else None, peak)


def _further(operator: Operator, one: float, other: float) -> float:
    return min(one, other) if operator in ("lt", "lte") else max(one, other)
