"""The Prometheus HTTP API: queries, the index, and what its clients ask around them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aiohttp import web

from monitor import __version__
from monitor.auth.middleware import requires
from monitor.auth.models import TENANT
from monitor.errors import BadRequest
from monitor.metrics.parameters import Parameters, read_parameters
from monitor.metrics.scope import gone, now_ms, oldest_ms
from monitor.metrics.send import send
from monitor.prometheus import forms, rules, times
from monitor.prometheus.arithmetic import evaluate
from monitor.prometheus.errors import Handler, prometheus_errors
from monitor.tsdb import render, window
from monitor.tsdb.catalogue import metadata
from monitor.tsdb.client import EVERYTHING, TSDB
from monitor.tsdb.selector import ORG, BoundSelector, parse
from monitor.web.codec import encode, reply
from monitor.web.openapi import describes

API = "/prometheus/api/v1"
# Grafana asks it which features it may use: those of the Prometheus whose grammar the guard has.
BUILD = {
    "version": "2.42.0",
    "revision": f"monitor {__version__}",
    "branch": "",
    "buildUser": "",
    "buildDate": "",
    "goVersion": "",
}
MOST_MATCHES = 32  # match[] of one request; Grafana sends one
TRUNCATED = "results truncated due to limit"

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LIMIT = re.compile(r"-?[0-9]{1,18}", re.ASCII)

routes = web.RouteTableDef()


def endpoint(path: str) -> Callable[[Handler], Handler]:
    """Offer a handler below the API's prefix by GET and POST, to every role, to API keys as Bearer too."""

    def mark(handler: Handler) -> Handler:
        described = describes(reply=dict[str, Any])(prometheus_errors(handler))
        marked = requires(role="viewer", api_key_bearer=True)(described)
        return routes.get(f"{API}{path}")(routes.post(f"{API}{path}")(marked))

    return mark


@endpoint("/query")
async def query(request: web.Request) -> web.StreamResponse:
    """Return the newest sample of each selected series at a time."""
    parameters = await read_parameters(request)
    now = now_ms()
    at_ms = times.moment_of(parameters, now)
    text = _required(parameters, "query")
    if (value := evaluate(text)) is not None:
        return await send(request, forms.scalar(value, at_ms))
    selector = parse(text, field="query").for_tenant(request[TENANT].org_id, request[TENANT].hidden_agents)
    if at_ms < oldest_ms(request, now):
        return await send(request, forms.vector(b"[]"))
    answer = await request.app[TSDB].query(selector, at_ms, gone(request))
    return await send(request, forms.vector(render.instant_texts(answer)))


@endpoint("/query_range")
async def query_range(request: web.Request) -> web.StreamResponse:
    """Return the values of each selected series over a range."""
    parameters = await read_parameters(request)
    text = _required(parameters, "query")
    grid = times.grid_of(parameters)
    if (value := evaluate(text)) is not None:
        return await send(request, forms.constant(value, grid))
    selector = parse(text, field="query").for_tenant(request[TENANT].org_id, request[TENANT].hidden_agents)
    now = now_ms()
    kept = window.clamp(grid, oldest_ms(request, now))
    if kept is None:
        return await send(request, forms.matrix(iter((b"[]",))))
    answer = render.RangeTexts(kept)
    await request.app[TSDB].stream_range(selector, window.ahead(kept, now), answer.feed, gone(request))
    return await send(request, forms.matrix(answer.pieces()))


@endpoint("/series")
async def series(request: web.Request) -> web.StreamResponse:
    """Return the label sets of the selected series."""
    parameters = await read_parameters(request)
    selectors = _selectors(request, parameters)
    if not selectors:
        raise BadRequest("no match[] parameter provided", field="match[]")
    limit = _limit(parameters, "limit")
    span = _span(request, parameters)
    if span is None:
        return reply(forms.success([]))
    answer = await request.app[TSDB].series(selectors, *span, gone(request))
    return await _listed(request, render.label_sets(answer), limit)


@endpoint("/labels")
async def labels(request: web.Request) -> web.StreamResponse:
    """Return the names of labels."""
    parameters = await read_parameters(request)
    selectors = _selectors(request, parameters) or [
        EVERYTHING.for_tenant(request[TENANT].org_id, request[TENANT].hidden_agents)
    ]
    limit = _limit(parameters, "limit")
    span = _span(request, parameters)
    if span is None:
        return reply(forms.success([]))
    answer = await request.app[TSDB].labels(selectors, *span, gone(request))
    return await _listed(request, render.label_names(answer), limit)


@endpoint("/label/{name}/values")
async def label_values(request: web.Request) -> web.StreamResponse:
    """Return the values of a label; the organization's has none."""
    parameters = await read_parameters(request)
    name = request.match_info["name"]
    if not _LABEL.fullmatch(name):
        raise BadRequest("invalid label name", field="name")
    selectors = _selectors(request, parameters) or [
        EVERYTHING.for_tenant(request[TENANT].org_id, request[TENANT].hidden_agents)
    ]
    limit = _limit(parameters, "limit")
    span = _span(request, parameters)
    # U__ begins an escaped name to newer storage: it would mean another label there.
    if span is None or name == ORG or name.startswith("U__"):
        return reply(forms.success([]))
    answer = await request.app[TSDB].label_values(name, selectors, *span, gone(request))
    return await _listed(request, render.label_values(answer), limit)


@endpoint("/metadata")
async def metric_metadata(request: web.Request) -> web.StreamResponse:
    """Return type and help of the catalogue's metrics."""
    parameters = await read_parameters(request)
    metric = parameters.one("metric")
    limit = _limit(parameters, "limit")
    known = metadata()
    names = [name for name in known if not metric or name == metric][:limit]
    return reply(forms.success({name: known[name] for name in names}))


@endpoint("/status/buildinfo")
async def buildinfo(request: web.Request) -> web.StreamResponse:
    """Return the version of Prometheus whose API this is."""
    return reply(forms.success(BUILD))


@endpoint("/rules")
async def rule_groups(request: web.Request) -> web.StreamResponse:
    """Return the rule groups."""
    return reply(forms.success({"groups": await rules.rule_groups(request)}))


@endpoint("/alerts")
async def active_alerts(request: web.Request) -> web.StreamResponse:
    """Return the active alerts."""
    return reply(forms.success({"alerts": await rules.active_alerts(request)}))


@endpoint("/query_exemplars")
async def query_exemplars(request: web.Request) -> web.StreamResponse:
    """Return no exemplars: none are kept."""
    return reply(forms.success([]))


def _required(parameters: Parameters, name: str) -> str:
    text = parameters.one(name)
    if text is None:
        raise BadRequest(f"{name}: required", field=name)
    return text


def _selectors(request: web.Request, parameters: Parameters) -> list[BoundSelector]:
    """Return every ``match[]``, bound."""
    texts = parameters.all("match[]")
    if len(texts) > MOST_MATCHES:
        raise BadRequest(f"match[]: at most {MOST_MATCHES}", field="match[]")
    tenant = request[TENANT]
    return [
        parse(text, field="match[]").for_tenant(tenant.org_id, tenant.hidden_agents)
        for text in dict.fromkeys(texts)
    ]


def _span(request: web.Request, parameters: Parameters) -> tuple[int, int] | None:
    now = now_ms()
    return times.span_of(parameters, oldest_ms(request, now), now)


def _limit(parameters: Parameters, name: str) -> int | None:
    """Return a limit above zero; absent, zero and below mean that there is none."""
    text = parameters.one(name)
    if not text:
        return None
    if not _LIMIT.fullmatch(text):
        raise BadRequest(f"{name}: expected a number", field=name)
    return int(text) if int(text) > 0 else None


async def _listed(request: web.Request, entries: list[Any], limit: int | None) -> web.StreamResponse:
    warnings = [TRUNCATED] if limit is not None and len(entries) > limit else None
    return await send(request, iter((encode(forms.success(entries[:limit], warnings)),)))
