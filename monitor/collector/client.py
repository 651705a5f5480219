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
from monitor.wire.commands import Command, CommandResult
from monitor.wire.logs import BATCH_ID_HEADER, CONTENT_TYPE, Accepted
from monitor.wire.push import PushReply, Registered, Registration

REQUEST_SECONDS = 30.0  # for the whole request; the service answers a push in milliseconds
CONNECT_SECONDS = 10.0
COMMAND_WAIT_SECONDS = 25
# The service answers a poll after its wait; longer means that it or the way to it is gone.
POLL_SECONDS = COMMAND_WAIT_SECONDS + 15.0
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


class _ErrorBody(Struct, frozen=True):
    error: str


class Service:
    """A connection to the service at *url*; use it as an async context manager."""

    def __init__(self, url: str, user_agent: str) -> None:
        self._base = URL(url) / "api" / "v1" / "agents"
        self._user_agent = user_agent

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
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
            self._base / agent_id / "push", body, _bearer(token) | {"Content-Encoding": "gzip"}
        )
        if answer.status == 200:
            return _decode(answer, PushReply)
        _raise_refusal(answer)
        raise _away(answer)

    async def next_command(self, agent_id: str, token: str) -> Command | None:
        """Wait up to 25 s for a command; None if there was none.

        Raises:
            AgentStopped, ServiceAway: As ``push``.
        """
        answer = await self._request(
            "GET",
            (self._base / agent_id / "commands").with_query(wait=COMMAND_WAIT_SECONDS),
            None,
            _bearer(token),
            POLL_SECONDS,
        )
        if answer.status == 200:
            return _decode(answer, Command)
        if answer.status == 204:
            return None
        if answer.status == 401:
            raise AgentStopped(TOKEN_REFUSED)
        raise _away(answer)

    async def report(self, agent_id: str, token: str, command_id: str, result: CommandResult) -> None:
        """Report what came of a command; one that the service no longer knows needs no report.

        Raises:
            AgentStopped, BodyRefused, ServiceAway: As ``push``.
        """
        url = self._base / agent_id / "commands" / command_id / "result"
        answer = await self._post(url, msgspec.json.encode(result), _bearer(token))
        if answer.status in {200, 204, 404}:
            return
        _raise_refusal(answer)
        raise _away(answer)

    async def ship_logs(self, agent_id: str, token: str, batch_id: str, body: bytes) -> None:
        """Send *body*, gzipped NDJSON; the service takes a batch id once.

        Raises:
            AgentStopped, BodyRefused, ServiceAway: As ``push``.
        """
        answer = await self._post(
            self._base / agent_id / "logs",
            body,
            _bearer(token)
            | {"Content-Type": CONTENT_TYPE, "Content-Encoding": "gzip", BATCH_ID_HEADER: batch_id},
        )
        if answer.status == 200:
            _decode(answer, Accepted)
            return
        _raise_refusal(answer)
        raise _away(answer)

    async def _post(self, url: URL, body: bytes, headers: dict[str, str]) -> Answer:
        return await self._request("POST", url, body, headers, REQUEST_SECONDS)

    async def _request(
        self, method: str, url: URL, body: bytes | None, headers: dict[str, str], seconds: float
    ) -> Answer:
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


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _raise_refusal(answer: Answer) -> None:
    """Raise what ends the agent, or the sending of one body."""
    if answer.status == 401:
        raise AgentStopped(TOKEN_REFUSED)
    if answer.status in REFUSED_STATUSES:
        raise BodyRefused(_told(answer))


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
