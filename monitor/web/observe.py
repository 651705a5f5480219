"""The service's own Prometheus metrics, and the internal listener that shows them.

Under ``monitor serve`` every process writes its figures into files of one folder
(``PROMETHEUS_MULTIPROC_DIR``), so that any of them answers for all.
"""

from __future__ import annotations

import os
from functools import cache

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
    multiprocess,
)
from prometheus_client import REGISTRY as DEFAULT_REGISTRY

# Whoever sends other words must not make a series of each.
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))

REQUESTS = Counter("monitor_http_requests_total", "Requests answered.", ["method", "route", "status"])
SECONDS = Histogram(
    "monitor_http_request_duration_seconds",
    "Time from the request's header to its response.",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)


def observe_request(request: web.Request, status: int, seconds: float) -> None:
    """Count one answered request under its route's pattern, never under its path."""
    resource = request.match_info.route.resource
    route = resource.canonical if resource is not None else "unmatched"
    method = request.method if request.method in METHODS else "other"
    _requests(method, route, status).inc()
    _seconds(route).observe(seconds)


# Looking a child up costs as much as counting: routes, methods and statuses are few.
@cache
def _requests(method: str, route: str, status: int) -> Counter:
    return REQUESTS.labels(method, route, str(status))


@cache
def _seconds(route: str) -> Histogram:
    return SECONDS.labels(route)


def render() -> bytes:
    """Return all metrics in the text format, of all processes where they share a folder."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest(DEFAULT_REGISTRY)


async def metrics_page(request: web.Request) -> web.Response:
    """Show the service's metrics in Prometheus' text format."""
    return web.Response(body=render(), headers={"Content-Type": CONTENT_TYPE_LATEST})
