"""One keep-alive connection to the service, and what its answers mean to any request.

Redirects are not followed: a credential goes to the configured address alone.
"""

from __future__ import annotations

import math
import ssl
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from monitor.collector.failure import CREDENTIAL_REFUSED, AgentStopped, BodyRefused, ServiceAway

REQUEST_SECONDS = 30.0  # for the whole request; the service answers a push in milliseconds
CONNECT_SECONDS = 10.0
RETRY_AFTER_LIMIT_SECONDS = 300.0  # a wrong header must not silence the agent for a day
TEXT_LIMIT = 500  # characters of the service's words that are logged
# The verdicts on a body.  Everything else may be a proxy's or a passing state: ask again.
REFUSED_STATUSES = frozenset({400, 413, 415, 422})

TOKEN_REFUSED = "the agent was deleted or its token is no longer valid"  # noqa: S105 (no token)

Reply = TypeVar("Reply")


class Answer(Struct, frozen=True):
    """An HTTP answer, read to its end."""

    status: int
    body: bytes
    retry_after_seconds: float
    location: str
    etag: str = ""


class _ErrorBody(Struct, frozen=True):
    error: str


class Connection:
    """The connections to one service; use it as an async context manager.

    Args:
        user_agent: Of every request.
        ca_file: Certificates (PEM) that are trusted beside the system's; None for those alone.

    Raises:
        AgentStopped: On entering: *ca_file* holds none.
    """

    def __init__(self, user_agent: str, ca_file: Path | None) -> None:
        self._user_agent = user_agent
        self._ca_file = ca_file

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": self._user_agent},
            connector=None if self._ca_file is None else aiohttp.TCPConnector(ssl=trusting(self._ca_file)),
            trust_env=True,  # HTTPS_PROXY and NO_PROXY: many hosts reach out through a proxy only
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        url: URL,
        body: bytes | None,
        headers: dict[str, str],
        seconds: float = REQUEST_SECONDS,
    ) -> Answer:
        """Return the answer, whatever its status.

        Raises:
            ServiceAway: There is none within *seconds*.
        """
        json = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method,
                url,
                data=body,
                headers=json | headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds, connect=CONNECT_SECONDS),
            ) as response:
                return Answer(
                    response.status,
                    await response.read(),
                    retry_after_seconds(response.headers.get("Retry-After", ""), time.time()),
                    response.headers.get("Location", ""),
                    response.headers.get("ETag", ""),
                )
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise ServiceAway(f"the service cannot be reached: {error or type(error).__name__}") from error


def trusting(ca_file: Path) -> ssl.SSLContext:
    """Return a context that trusts the system's certificates and those of *ca_file*.

    Raises:
        AgentStopped: It cannot be read, or holds no certificate.
    """
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        raise AgentStopped(f"--ca-file {ca_file} cannot be used: {error}", exit_code=2) from error
    return context


def retry_after_seconds(header: str, now: float) -> float:
    """Return the seconds of a Retry-After header, at most 300; 0 where it gives none.

    Args:
        header: Seconds, as the service writes them, or an HTTP date, as some proxies do.
        now: Unix seconds.
    """
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now
        except ValueError:
            return 0.0
    return min(seconds, RETRY_AFTER_LIMIT_SECONDS) if math.isfinite(seconds) and seconds > 0 else 0.0


def raise_refusal(answer: Answer) -> None:
    """Raise what ends the agent, or the sending of one body."""
    if answer.status == 401:
        raise AgentStopped(TOKEN_REFUSED, exit_code=CREDENTIAL_REFUSED)
    if answer.status in REFUSED_STATUSES:
        raise BodyRefused(told(answer))


def decode(answer: Answer, kind: type[Reply]) -> Reply:
    """Return the body as *kind*.

    Raises:
        ServiceAway: It is none.
    """
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except ValueError as error:
        # A captive portal or a wrong address answers 200 with a page of its own.
        raise ServiceAway(f"{answer.status}, but not an answer of the service: {error}") from error


def away(answer: Answer) -> ServiceAway:
    """Return what says that a request did not come through."""
    return ServiceAway(told(answer), retry_after_seconds=answer.retry_after_seconds)


def told(answer: Answer) -> str:
    """Return the status and what the service said about it, on one bounded line."""
    if answer.location:
        return f"{answer.status}: redirected to {answer.location[:TEXT_LIMIT]}; is --url right?"
    try:
        text = msgspec.json.decode(answer.body, type=_ErrorBody).error
    except ValueError:
        text = answer.body.decode(errors="replace")
    return f"{answer.status}: {' '.join(text.split())[:TEXT_LIMIT]}"
