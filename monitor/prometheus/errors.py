"""Errors below ``/prometheus`` in Prometheus' form: what its clients show to their users.

401, 402 and 503 stay as documented for the whole API, and so does a bug's 500.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from monitor.errors import BadRequest, ServiceError
from monitor.prometheus.forms import failure
from monitor.web.codec import reply

PREFIX = "/prometheus/"
_AS_DOCUMENTED = frozenset((401, 402, 500, 503))


@web.middleware
async def prometheus_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer the errors of everything below ``/prometheus``; stands between errors and authentication."""
    if not request.path.startswith(PREFIX):
        return await handler(request)
    try:
        return await handler(request)
    except ServiceError as error:
        if error.status in _AS_DOCUMENTED:
            raise
        return _response(error)
    except (UnicodeError, web.RequestPayloadError):
        return _response(BadRequest("not valid text"))
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as error:
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        text = "method not allowed" if headers else "not found"
        return reply(failure(error.status, text), status=error.status, headers=headers)


def _response(error: ServiceError) -> web.Response:
    headers = None
    if error.retry_after_seconds is not None:
        headers = {"Retry-After": str(error.retry_after_seconds)}
    return reply(failure(error.status, error.text), status=error.status, headers=headers)
