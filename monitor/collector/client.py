"""The service's HTTP API, as an agent uses it.

Three things can come of a request: it is done, the service is away (asked again
later), or it is refused for good.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct
from yarl import URL

from monitor.collector.connection import (
    REFUSED_STATUSES,
    REQUEST_SECONDS,
    TOKEN_REFUSED,
    Answer,
    Connection,
    away,
    decode,
    raise_refusal,
    told,
)
from monitor.collector.failure import CREDENTIAL_REFUSED, AgentStopped, TailOver
from monitor.collector.state import Identity
from monitor.wire.commands import Command, CommandResult
from monitor.wire.logs import BATCH_ID_HEADER, CONTENT_TYPE, Accepted
from monitor.wire.push import PushReply, Registered, Registration
from monitor.wire.tail import TailReply

COMMAND_WAIT_SECONDS = 25
# The service answers a poll after its wait; longer means that it or the way to it is gone.
POLL_SECONDS = COMMAND_WAIT_SECONDS + 15.0


class Service:
    """A connection to the service at *url*; use it as an async context manager."""

    def __init__(self, url: str, user_agent: str, ca_file: Path | None = None) -> None:
        self._base = URL(url) / "api" / "v1" / "agents"
        self._connection = Connection(user_agent, ca_file)

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.__aexit__(kind, error, trace)

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
            return decode(answer, Registered)
        if answer.status == 401:
            text = "registration refused: the API key is not valid (--api-key, MONITOR_API_KEY)"
            raise AgentStopped(text, exit_code=CREDENTIAL_REFUSED)
        if answer.status in REFUSED_STATUSES | {403, 409}:
            raise AgentStopped(f"registration refused: {told(answer)}")
        raise away(answer)

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
            return decode(answer, PushReply)
        raise_refusal(answer)
        raise away(answer)

    async def next_command(self, agent_id: str, token: str) -> Command | None:
        """Wait up to 25 s for a command; None if there was none.

        Raises:
            AgentStopped, ServiceAway: As ``push``.
        """
        answer = await self._connection.request(
            "GET",
            (self._base / agent_id / "commands").with_query(wait=COMMAND_WAIT_SECONDS),
            None,
            _bearer(token),
            POLL_SECONDS,
        )
        if answer.status == 200:
            return decode(answer, Command)
        if answer.status == 204:
            return None
        if answer.status == 401:
            raise AgentStopped(TOKEN_REFUSED, exit_code=CREDENTIAL_REFUSED)
        raise away(answer)

    async def report(self, agent_id: str, token: str, command_id: str, result: CommandResult) -> None:
        """Report what came of a command; one that the service no longer knows needs no report.

        Raises:
            AgentStopped, BodyRefused, ServiceAway: As ``push``.
        """
        url = self._base / agent_id / "commands" / command_id / "result"
        answer = await self._post(url, msgspec.json.encode(result), _bearer(token))
        if answer.status in {200, 204, 404}:
            return
        raise_refusal(answer)
        raise away(answer)

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
            decode(answer, Accepted)
            return
        raise_refusal(answer)
        raise away(answer)

    async def send_lines(
        self,
        agent_id: str,
        token: str,
        request_id: str,
        body: bytes,
        *,
        end: bool = False,
        error: str | None = None,
    ) -> int:
        """Send *body*, gzipped NDJSON or nothing, of a live tail; every line below the returned number is stored.

        Args:
            agent_id: This agent.
            token: Its token.
            request_id: The log request.
            body: Lines with their numbers.
            end: No more lines come.
            error: Why they cannot be read, for the viewer.

        Raises:
            TailOver: Nobody wants them any more.
            AgentStopped, BodyRefused, ServiceAway: As ``push``.
        """
        query = ({"end": "1"} if end else {}) | ({"error": error} if error else {})
        answer = await self._post(
            (self._base / agent_id / "log-streams" / request_id).with_query(query),
            body,
            _bearer(token) | {"Content-Type": CONTENT_TYPE} | ({"Content-Encoding": "gzip"} if body else {}),
        )
        if answer.status == 200:
            return decode(answer, TailReply).next
        if answer.status in {404, 410}:
            raise TailOver(told(answer))
        raise_refusal(answer)
        raise away(answer)

    async def ask(
        self,
        method: str,
        identity: Identity,
        path: str,
        expected: frozenset[int],
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Return the answer to a request below the agent's own path, if its status is an *expected* one.

        Raises:
            AgentStopped, BodyRefused, ServiceAway: As ``push``.
        """
        sent = _bearer(identity.token) | (headers or {})
        answer = await self._connection.request(
            method, self._base / identity.agent_id / path, body, sent, REQUEST_SECONDS
        )
        if answer.status in expected:
            return answer
        raise_refusal(answer)
        raise away(answer)

    async def _post(self, url: URL, body: bytes, headers: dict[str, str]) -> Answer:
        return await self._connection.request("POST", url, body, headers, REQUEST_SECONDS)


def json_of(body: Struct) -> bytes:
    """Return the JSON of a request without the top-level keys that say nothing."""
    said = {key: value for key, value in msgspec.to_builtins(body).items() if value is not None}
    return msgspec.json.encode(said)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
