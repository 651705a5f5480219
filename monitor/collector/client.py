"""The service's HTTP API, as an agent uses it.

Three things can come of a request: it is done, the service is away (asked again
later), or it is refused for good.  Redirects are not followed: a credential
goes to the configured address alone.
"""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from monitor.collector.failure import AgentStopped, BodyRefused, ServiceAway
from monitor.wire.push import PushReply, Registered, Registration

REQUEST_SECONDS = 30.0  # for the whole request; the service answers a push in milliseconds
CONNECT_SECONDS = 10.0
RETRY_AFTER_LIMIT_SECONDS = 300.0  # a wrong header must not silence the agent for a day
TEXT_LIMIT = 500  # characters of the service's words that are logged
# The verdicts on a body.  Everything else may be a proxy's or a passing state: ask again.
REFUSED_STATUSES = frozenset({400, 413, 415, 422})

Reply = TypeVar("Reply")


class Answer(Struct, frozen=True):
    """An HTTP answer, read to its end."""

    status: int
    body: bytes
    retry_after_seconds: float
    location: str


class _ErrorBody(Struct, frozen=True):
    error: str


class Service:
    """A connection to the service at *url*; use it as an async context manager."""

    def __init__(self, url: str, user_agent: str) -> None:
        self._base = URL(url) / "api" / "v1" / "agents"
        self._user_agent = user_agent

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS, connect=CONNECT_SECONDS),
            headers={"User-Agent": self._user_agent},
            trust_env=True,  # HTTPS_PROXY and NO_PROXY: many hosts reach out through a proxy only
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def register(self, registration: Registration, api_key: str) -> Registered:
        """Register a new agent.

        Raises:
            AgentStopped: The key or the registration is refused.
            ServiceAway: Ask again later.
        """
        answer = await self._post(
            self._base / "register",
            json_of(registration),
            {"X-API-Key": api_key},
        )
        if answer.status in {200, 201}:
            return _decode(answer, Registered)
        if answer.status == 401:
            raise AgentStopped("registration refused: the API key is not valid (--api-key, MONITOR_API_KEY)")
        if answer.status in REFUSED_STATUSES | {403, 409}:
            raise AgentStopped(f"registration refused: {_told(answer)}")
        raise _away(answer)

    async def push(self, agent_id: str, token: str, body: bytes) -> PushReply:
        """Push *body*, a gzipped JSON snapshot.

        Raises:
            AgentStopped: The agent was deleted or its token is no longer valid.
            BodyRefused: The service will never take this body.
            ServiceAway: Ask again later.
        """
        answer = await self._post(
            self._base / agent_id / "push",
            body,
            {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"},
        )
        if answer.status == 200:
            return _decode(answer, PushReply)
        if answer.status == 401:
            raise AgentStopped("the agent was deleted or its token is no longer valid")
        if answer.status in REFUSED_STATUSES:
            raise BodyRefused(_told(answer))
        raise _away(answer)

    async def _post(self, url: URL, body: bytes, headers: dict[str, str]) -> Answer:
        try:
            async with self._session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json"} | headers,
                allow_redirects=False,
            ) as response:
                return Answer(
                    response.status,
                    await response.read(),
                    retry_after_seconds(response.headers.get("Retry-After", "")),
                    response.headers.get("Location", ""),
                )
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise ServiceAway(f"the service cannot be reached: {error or type(error).__name__}") from error


def json_of(body: Struct) -> bytes:
    """Return the JSON of a request without the top-level keys that say nothing."""
    said = {key: value for key, value in msgspec.to_builtins(body).items() if value is not None}
    return msgspec.json.encode(said)


def retry_after_seconds(header: str) -> float:
    """Return the seconds of a Retry-After header, at most 300; 0 where it gives none.

    The service writes seconds; the HTTP date that proxies may write is ignored.
    """
    try:
        seconds = float(header)
    except ValueError:
        return 0.0
    return min(seconds, RETRY_AFTER_LIMIT_SECONDS) if math.isfinite(seconds) and seconds > 0 else 0.0


def _decode(answer: Answer, kind: type[Reply]) -> Reply:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except ValueError as error:
        # A captive portal or a wrong address answers 200 with a page of its own.
        raise ServiceAway(f"{answer.status}, but not an answer of the service: {error}") from error


def _away(answer: Answer) -> ServiceAway:
    return ServiceAway(_told(answer), retry_after_seconds=answer.retry_after_seconds)


def _told(answer: Answer) -> str:
    """Return the status and what the service said about it, on one bounded line."""
    if answer.location:
        return f"{answer.status}: redirected to {answer.location[:TEXT_LIMIT]}; is --url right?"
    try:
        text = msgspec.json.decode(answer.body, type=_ErrorBody).error
    except ValueError:
        text = answer.body.decode(errors="replace")
    return f"{answer.status}: {' '.join(text.split())[:TEXT_LIMIT]}"
