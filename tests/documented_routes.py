"""Every route that the documents promise: the table to which the registered routes are held.

``source`` is where it is promised: ``api.md``, a section of the contract, or
``docs/api.md`` for what the service adds of its own.

The dashboard's pages, ``/docs`` among them, are not in it: they are there where the
dashboard was built.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aiohttp import web

from monitor.app import add_routes

PAGES = "monitor.web.static"


class Route(NamedTuple):
    """One documented route."""

    method: str
    path: str
    source: str


def _rows(source: str, text: str) -> list[Route]:
    pairs = (line.split() for line in text.strip().splitlines())
    return [Route(method, path, source) for methods, path in pairs for method in methods.split("|")]


DOCUMENTED = [
    *_rows("api.md", "POST /auth/login"),
    *_rows(
        "contract 2",
        """
        POST        /auth/logout
        POST        /auth/password
        GET         /api/v1/me
        GET|POST    /api/v1/settings/api-keys
        DELETE      /api/v1/settings/api-keys/{id}
        GET|PUT     /api/v1/settings/limits
        GET|POST    /api/v1/settings/users
        PUT|DELETE  /api/v1/settings/users/{id}
        """,
    ),
    *_rows(
        "contract 2",
        """
        GET  /healthz
        GET  /readyz
        GET  /openapi.json
        """,
    ),
    *_rows(
        "docs/api.md",
        """
        GET  /-/healthy
        GET  /-/ready
        """,
    ),
    *_rows(
        "api.md",
        """
        POST    /api/v1/agents/register
        POST    /api/v1/agents/{agentId}/push
        GET     /api/v1/agents
        DELETE  /api/v1/agents/{agentId}
        """,
    ),
    *_rows("docs/api.md", "GET /api/v1/settings/deletions"),
    *_rows(
        "api.md",
        """
        GET  /api/v1/containers
        GET  /api/v1/pods
        GET  /api/v1/nodes
        GET  /api/v1/cluster/summary
        """,
    ),
    *_rows(
        "api.md",
        """
        GET  /api/v1/metrics/instant
        GET  /api/v1/metrics/range
        """,
    ),
    *_rows(
        "contract 5",
        """
        POST  /api/v1/metrics/instant
        POST  /api/v1/metrics/range
        """,
    ),
    *_rows(
        "contract 5",
        """
        GET|POST  /prometheus/api/v1/query
        GET|POST  /prometheus/api/v1/query_range
        GET|POST  /prometheus/api/v1/series
        GET|POST  /prometheus/api/v1/labels
        GET|POST  /prometheus/api/v1/label/{name}/values
        GET|POST  /prometheus/api/v1/metadata
        GET|POST  /prometheus/api/v1/status/buildinfo
        GET|POST  /prometheus/api/v1/rules
        GET|POST  /prometheus/api/v1/alerts
        GET|POST  /prometheus/api/v1/query_exemplars
        """,
    ),
    *_rows("docs/api.md", "POST /prometheus/api/v1/write"),
    *_rows(
        "api.md",
        """
        GET|POST    /api/v1/alerts/rules
        GET|POST    /api/v1/alert-rules
        PUT|DELETE  /api/v1/alerts/rules/{id}
        PUT         /api/v1/alerts/rules/{id}/toggle
        GET         /api/v1/alerts
        PUT         /api/v1/alerts/{id}/acknowledge
        PUT         /api/v1/alerts/{id}/resolve
        """,
    ),
    *_rows("contract 6", "POST /api/v1/alerts/rules/backtest"),
    *_rows(
        "docs/api.md",
        """
        GET         /api/v1/alerts/{id}
        PUT|DELETE  /api/v1/alert-rules/{id}
        PUT         /api/v1/alert-rules/{id}/toggle
        POST        /api/v1/alert-rules/backtest
        """,
    ),
    *_rows(
        "contract 2",
        """
        GET|POST    /api/v1/settings/channels
        PUT|DELETE  /api/v1/settings/channels/{id}
        POST        /api/v1/settings/channels/{id}/test
        """,
    ),
    *_rows(
        "api.md",
        """
        GET|POST    /api/v1/scaling/policies
        PUT|DELETE  /api/v1/scaling/policies/{id}
        POST        /api/v1/scaling/policies/{id}/rollback
        GET         /api/v1/scaling/decisions
        GET         /api/v1/agents/{agentId}/scaling/desired
        POST        /api/v1/agents/{agentId}/scaling/status
        """,
    ),
    *_rows(
        "contract 8",
        """
        POST  /api/v1/scaling/policies/{id}/approve
        POST  /api/v1/scaling/policies/{id}/reject
        POST  /api/v1/scaling/policies/{id}/wake
        POST  /api/v1/scaling/policies/{id}/simulate
        POST  /api/v1/scaling/simulate
        """,
    ),
    *_rows(
        "docs/api.md",
        """
        GET  /api/v1/scaling/policies/{id}
        GET  /api/v1/scaling/decisions/verify
        """,
    ),
    *_rows(
        "api.md",
        """
        GET   /api/v1/agents/{agentId}/commands
        POST  /api/v1/agents/{agentId}/commands/{cid}/result
        """,
    ),
    *_rows(
        "api.md",
        """
        GET  /api/v1/logs/search
        """,
    ),
    *_rows(
        "api.md",
        """
        GET  /api/v1/logs/containers/{id}
        GET  /api/v1/logs/pods/{namespace}/{name}
        """,
    ),
    *_rows("contract 11", "POST /api/v1/agents/{agentId}/logs"),
    *_rows(
        "docs/api.md",
        """
        GET  /api/v1/logs/histogram
        GET  /api/v1/logs/context
        """,
    ),
    *_rows("contract 11", "POST /api/v1/agents/{agentId}/log-streams/{requestId}"),
]


def registered() -> list[Any]:
    """Return every registered route of the API but the HEAD that comes with each GET."""
    app = web.Application()
    add_routes(app)
    return [
        route
        for route in app.router.routes()
        if route.method != "HEAD" and route.handler.__module__ != PAGES and route.resource is not None
    ]
