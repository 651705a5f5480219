"""Query metrics: instant and range, by GET or by a form."""

from __future__ import annotations

from aiohttp import web

from monitor.auth.middleware import requires
from monitor.auth.models import TENANT
from monitor.metrics.models import Instant, InstantQuery, Range, RangeQuery
from monitor.metrics.parameters import Parameters, read_parameters
from monitor.metrics.scope import gone, now_ms, oldest_ms
from monitor.metrics.send import send
from monitor.tsdb import render, window
from monitor.tsdb.client import TSDB
from monitor.web.openapi import describes

EMPTY = b'{"series":[],"count":0}'

routes = web.RouteTableDef()


@routes.get("/api/v1/metrics/instant")
@routes.post("/api/v1/metrics/instant")
@requires(role="viewer")
@describes(query=InstantQuery, reply=Instant)
async def instant(request: web.Request) -> web.StreamResponse:
    """Return the newest sample of each selected series."""
    parameters = await read_parameters(request)
    selector = parameters.selector("metric", "selector").for_tenant(
        request[TENANT].org_id, request[TENANT].hidden_agents
    )
    answer = await request.app[TSDB].query(selector, now_ms(), gone(request))
    return await send(request, iter((render.instant_numbers(answer),)))


@routes.get("/api/v1/metrics/range")
@routes.post("/api/v1/metrics/range")
@requires(role="viewer")
@describes(query=RangeQuery, reply=Range)
async def range_(request: web.Request) -> web.StreamResponse:
    """Return the values of each selected series at start + k * step, within the retention."""
    parameters = await read_parameters(request)
    selector = parameters.selector("metric", "selector").for_tenant(
        request[TENANT].org_id, request[TENANT].hidden_agents
    )
    now = now_ms()
    grid = window.clamp(asked_grid(parameters, now), oldest_ms(request, now))
    if grid is None:
        return await send(request, iter((EMPTY,)))
    window.check_points(grid)
    answer = render.RangeNumbers(grid)
    await request.app[TSDB].stream_range(selector, window.ahead(grid, now), answer.feed, gone(request))
    return await send(request, answer.pieces())


def asked_grid(parameters: Parameters, now: int) -> window.Grid:
    """Return the grid that the parameters of a range query ask for.

    Raises:
        BadRequest: One is wrong, the end is before the start, or they are 7 days apart.
    """
    start_ms, end_ms = window.window_of(parameters.one("start"), parameters.one("end"), now)
    step = parameters.one("step")
    grid = window.Grid(start_ms, end_ms, window.step_ms(window.DEFAULT_STEP if step is None else step))
    window.check_order(grid)
    window.check_range(grid)
    return grid
