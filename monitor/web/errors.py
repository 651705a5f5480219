"""The one place where an exception becomes a response.

Every error body is ``{"error": …}``.  A ``ServiceError`` carries its own status
and text; aiohttp's own refusals get ours; anything else is a bug: logged with its
trace, answered with 500 and the request's id.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from monitor.errors import BadRequest, NotFound, ServiceError
from monitor.web.codec import encode
from monitor.web.log import shows_debug
from monitor.web.observe import observe_request

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
SLOW_SECONDS = 1.0  # a request slower than this is worth a line
_STATUS_TEXT = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "payload_too_large"}

# Whose request it is, for the log; the authentication puts it here.
ORG_ID: web.RequestKey[str] = web.RequestKey("ORG_ID", str)

log = structlog.get_logger()


def error_response(error: ServiceError, request_id: str | None = None) -> web.Response:
    """Return the response that *error* stands for."""
    body: dict[str, str] = {"error": error.text}
    if error.field is not None:
        body["field"] = error.field
    if request_id is not None:
        body["requestId"] = request_id
    headers = {}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    return web.Response(
        body=encode(body), status=error.status, headers=headers, content_type="application/json"
    )


def _from_aiohttp(error: web.HTTPException) -> web.Response:
    text = _STATUS_TEXT.get(error.status, (error.reason or "error").lower().replace(" ", "_"))
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return web.Response(
        body=encode({"error": text}), status=error.status, headers=headers, content_type="application/json"
    )


def _refuse_nul(request: web.Request) -> None:
    """Refuse a path whose parameter holds NUL: it is nobody's id, and no text for Postgres."""
    if any("\0" in part for part in request.match_info.values()):
        raise NotFound


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as documented; give each request its id; log and count it."""
    started = time.monotonic()
    given = request.headers.get("X-Request-Id", "")
    request_id = given if REQUEST_ID.match(given) else f"{random.getrandbits(64):016x}"
    response: web.StreamResponse
    try:
        _refuse_nul(request)
        response = await handler(request)
    except ServiceError as error:
        response = error_response(error)
        if error.status >= 500:
            log.warning("unavailable", request_id=request_id, path=request.path, cause=repr(error.__cause__))
    except web.HTTPException as error:
        response = _from_aiohttp(error)
    except (UnicodeError, web.RequestPayloadError):  # a header, query or body that is no text
        response = error_response(BadRequest("bad_request: not valid text"))
    except ConnectionResetError:
        raise  # the client left: nobody reads an answer
    except Exception:
        log.exception("bug", request_id=request_id, method=request.method, path=request.path)
        response = error_response(ServiceError(), request_id)
    if not response.prepared:
        response.headers["X-Request-Id"] = request_id
        response.headers["Server"] = "monitor"
    seconds = time.monotonic() - started
    observe_request(request, response.status, seconds)
    worth_a_line = response.status >= 400 or seconds > SLOW_SECONDS
    if worth_a_line or shows_debug():
        line = log.info if worth_a_line else log.debug
        line(
            "request",
            request_id=request_id,
            method=request.method,
            path=request.path,
            status=response.status,
            seconds=round(seconds, 4),
            org_id=request.get(ORG_ID),
        )
    return response
