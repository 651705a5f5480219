"""Try a policy on stored history: read what was observed, a span at a time, and decide again.

Replicas and metrics are those observed then; what the policy would have changed about
them is not known.  Its cooldowns are those of the simulated decisions, as in a dry run.
The event loop only waits: for VictoriaMetrics, and for the one thread that decides.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from monitor.config import CONFIG
from monitor.errors import BadRequest, StorageUnavailable
from monitor.scaling.replay import Kind, Replay, Series, Span, agent_selectors, replica_selectors
from monitor.scaling.spec import PolicySpec
from monitor.scaling.timeline import STEP_SECONDS, Simulation, Timeline
from monitor.tsdb.client import TSDB, Tsdb
from monitor.tsdb.places import Places
from monitor.tsdb.selector import Selector, parse
from monitor.tsdb.window import Grid, ahead, check_order, check_range, clamp, time_ms

if TYPE_CHECKING:
    from aiohttp import web

    from monitor.auth.models import Tenant

P = ParamSpec("P")
T = TypeVar("T")

STEP_MS: Final = STEP_SECONDS * 1000
FIRST_POINTS: Final = 240  # of the first span: an hour; the next ones are as long as memory allows
SPAN_POINTS: Final = 5_760  # of any span: a day
SPAN_VALUES: Final = 500_000  # of all series of a span: about 20 MB
# Of all spans: some 20 s of one core, which is 100 containers for seven days with two metrics.
MOST_VALUES: Final = 20_000_000
CONCURRENT: Final = 2  # simulations of an organization in this process, each with a span in memory


class Window(Struct, frozen=True):
    """When to try a policy: unix seconds."""

    start: float
    end: float


class _Matrix(msgspec.Struct):
    result: list[_Sampled]


class _Sampled(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Answer(msgspec.Struct):
    data: _Matrix


_answer = msgspec.json.Decoder(_Answer)
_places = Places(CONCURRENT)
# One for all: what several threads compute takes the interpreter from the event loop several times.
_thread = ThreadPoolExecutor(1, thread_name_prefix="scaling.simulate")


async def simulate(
    app: web.Application,
    tenant: Tenant,
    policy: PolicySpec,
    window: Window,
    agent_ids: Collection[str] | None = None,
    left: Callable[[], bool] | None = None,
) -> Simulation:
    """Return what *policy* would have decided every 15 seconds of *window*.

    Args:
        app: The service.
        tenant: Whose history it is.
        policy: What to try.
        window: At most seven days; what is beyond retention is left out.
        agent_ids: Agents that count: those of a Docker policy's pool, or its ``agentId``.
            None is all of them.
        left: Tells whether whoever asked has gone.

    Raises:
        BadRequest: Names the field that is not valid.
        StorageUnavailable: VictoriaMetrics is away.
        TooManyRequests: The organization has enough of them under way.
    """
    if policy.policy_type == "spot_shift":
        raise BadRequest(
            "policyType: spot_shift cannot be simulated, as history holds no labels of nodes",
            field="policyType",
        )
    now_ms = time.time_ns() // 1_000_000
    grid = Grid(time_ms(window.start, "start"), time_ms(window.end, "end"), STEP_MS)
    check_order(grid)
    check_range(grid)
    retention = app[CONFIG].config.retention.effective(
        "metrics", tenant.org_id, tenant.plan, tenant.metrics_retention_seconds
    )
    kept = clamp(grid, now_ms - retention * 1000)
    timeline = Timeline(policy)
    if kept is not None:
        history = _History(app[TSDB], tenant, now_ms, left)
        with _places.held(tenant.org_id):
            await _replay(history, kept, policy, Replay(policy, agent_ids), timeline)
    return timeline.told()


async def _replay(
    history: _History, grid: Grid, policy: PolicySpec, replay: Replay, timeline: Timeline
) -> None:
    """Let *timeline* follow *grid*, in spans as long as their series allow."""
    selectors = replica_selectors(policy)
    if policy.wake_metric is not None:
        selectors["wake"] = parse(policy.wake_metric, field="wakeMetric")
    start_ms, points, left_over = grid.start_ms, FIRST_POINTS, MOST_VALUES
    while start_ms <= grid.end_ms:
        part = Grid(start_ms, min(grid.end_ms, start_ms + (points - 1) * STEP_MS), STEP_MS)
        span = await history.read(selectors, part)
        agent_ids = replay.agent_ids(span)
        if agent_ids:
            span |= await history.read(agent_selectors(policy, agent_ids), part)
        series = sum(map(len, span.values()))
        left_over -= series * part.points
        if left_over < 0:
            raise BadRequest(
                "start: there are too many replicas for so long a time; use a shorter window", field="start"
            )
        await _in_thread(_follow, timeline, replay, part, span)
        start_ms += part.points * STEP_MS
        points = max(1, min(SPAN_POINTS, SPAN_VALUES // max(1, series)))


async def _in_thread(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_thread, partial(work, *args, **options))


def _follow(timeline: Timeline, replay: Replay, grid: Grid, span: Span) -> None:
    times = [(grid.start_ms + number * STEP_MS) / 1000 for number in range(grid.points)]
    timeline.follow(replay.inputs(times, span))


class _History(Struct, frozen=True):
    """One organization's series; ``now_ms`` is the present, ``left`` as of ``simulate``."""

    tsdb: Tsdb
    tenant: Tenant
    now_ms: int
    left: Callable[[], bool] | None

    async def read(self, selectors: dict[Kind, Selector], grid: Grid) -> Span:
        """Return the series of each selector on the points of *grid*."""
        found: Span = {}
        for kind, selector in selectors.items():
            bound = selector.for_tenant(self.tenant.org_id, self.tenant.hidden_agents)
            answer = await self.tsdb.query_range(bound, ahead(grid, self.now_ms), self.left)
            found[kind] = await _in_thread(_series, answer, grid)
        return found


def _series(answer: bytes, grid: Grid) -> list[Series]:
    try:
        sampled = _answer.decode(answer).data.result
    except msgspec.DecodeError as error:
        raise StorageUnavailable from error
    found = []
    for one in sampled:
        values: list[float | None] = [None] * grid.points
        for at, text in one.values:
            number = round((at * 1000 - grid.start_ms) / grid.step_ms)
            value = float(text)
            if number < grid.points and math.isfinite(value):
                values[number] = value
        found.append(Series(one.metric, values))
    return found
