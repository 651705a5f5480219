"""One question to VictoriaMetrics, and what its failures mean to the service.

Its own words are logged and never passed on: they hold the query, the URL and
the organization.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog

from monitor.errors import BadRequest, ServiceError, StorageUnavailable
from monitor.tsdb.keepalive import LeftError, Origin
from monitor.tsdb.response import Answer, TooLargeError, UnreachableError

ANSWER_BYTES = 64 * 1024 * 1024  # of one answer: about 2.5 million points
LINES_REFUSED = frozenset((400, 413, 422))  # the lines' fault; 401 or 404 are the configuration's
SHOWN_BYTES = 500  # of an answer in the log

# Bounds that a narrower query keeps; the three left out are about time and load.
_TOO_MUCH = re.compile(
    rb"-search\.max(?!QueryDuration|ConcurrentRequests|QueueDuration)|not enough memory"
    rb"|matching (?:unique )?timeseries exceeds|too many points"
)

log = structlog.get_logger()


class Refused(Exception):
    """VictoriaMetrics takes these lines never, however often they are sent.

    Attributes:
        status: The HTTP status it answered with.
    """

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"refused with status {status}")


async def ask(
    origin: Origin,
    target: str,
    body: bytes | None,
    *,
    seconds: float,
    plain: bool = False,
    left: Callable[[], bool] | None = None,
    sink: Callable[[bytes], None] | None = None,
) -> Answer:
    """GET *target*, or POST *body* to it as a form, or as *plain* text.

    With *sink* the body of a success goes there as it comes.

    Raises:
        StorageUnavailable: It cannot be reached, or has not answered within *seconds*.
        BadRequest: The answer is larger than is taken.
        ConnectionResetError: *left* said that nobody waits for the answer.
    """
    content_type = "text/plain" if plain else "application/x-www-form-urlencoded"
    try:
        return await origin.ask(
            target,
            body,
            content_type=content_type,
            seconds=seconds,
            most_bytes=ANSWER_BYTES,
            left=left,
            sink=sink,
        )
    except UnreachableError as error:
        raise StorageUnavailable from error
    except TooLargeError:
        raise _too_much() from None
    except LeftError:
        raise ConnectionResetError("the client left before its query was answered") from None


def failure(url: str, answer: Answer) -> ServiceError:
    """Return the error that an answer with a status of failure stands for."""
    path, shown = url.partition("?")[0], answer.body[:SHOWN_BYTES].decode("utf-8", "replace")
    if _TOO_MUCH.search(answer.body):
        log.info("query too large", path=path, status=answer.status, answer=shown)
        return _too_much()
    log.error("VictoriaMetrics failed", path=path, status=answer.status, answer=shown)
    error = StorageUnavailable()
    error.__cause__ = OSError(f"{path} answered {answer.status}")
    return error


def refused(answer: Answer) -> Refused:
    """Return the error of a write that fails again whenever it is repeated."""
    shown = answer.body[:SHOWN_BYTES].decode("utf-8", "replace")
    log.error("VictoriaMetrics refused a write", status=answer.status, answer=shown)
    return Refused(answer.status)


def _too_much() -> BadRequest:
    return BadRequest(
        "selector: selects too many series or points; add matchers, shorten the window or lengthen the step",
        field="selector",
    )
