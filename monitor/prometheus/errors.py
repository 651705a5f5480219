"""Errors of the handlers here in Prometheus' form, which its clients show to their users.

401, 402 and 503 stay as documented for the whole API, and so does a bug's 500.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from aiohttp import web

from monitor.errors import BadRequest, ServiceError
from monitor.prometheus.forms import failure
from monitor.web.codec import reply

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_AS_DOCUMENTED = frozenset((401, 402, 500, 503))


def prometheus_errors(handler: Handler) -> Handler:
    """Answer what *handler* refuses as Prometheus would."""

    @wraps(handler)
    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except ServiceError as error:
            if error.status in _AS_DOCUMENTED:
                raise
            return _response(error)
        except (UnicodeError, web.RequestPayloadError):
            return _response(BadRequest("not valid text"))

    return answered


def _response(error: ServiceError) -> web.Response:
    headers = None
    if error.retry_after_seconds is not None:
        headers = {"Retry-After": str(error.retry_after_seconds)}
    return reply(failure(error.status, error.text), status=error.status, headers=headers)
