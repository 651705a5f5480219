"""What one push does: identify, read, check, wait for the transaction that stores it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from aiohttp import web

from monitor.auth import store as auth_store
from monitor.auth.middleware import admitted_agent
from monitor.auth.models import AGENT_TOKEN_HASH, AgentCaller
from monitor.config import CONFIG
from monitor.db.postgres import connection
from monitor.errors import OrgSuspended, ServiceError, StorageUnavailable, Unauthorized
from monitor.ingest.batch import PUSHES, Batches, Recent
from monitor.ingest.change import change_of
from monitor.ingest.check import check
from monitor.web.codec import check_type, decode, read_bytes
from monitor.web.errors import ORG_ID
from monitor.wire.push import Push
from monitor.wire.tail import LogRequest

WAIT_SECONDS = 15.0  # a push that is not stored by then is refused


class Ingest:
    """The pushes of one process.

    Agents that were identified once are remembered, which spares each push a query:
    the transaction that stores it reads again whether the agent may push.
    """

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._callers: Recent[AgentCaller] = Recent()
        self._batches = Batches(app)

    async def push(self, request: web.Request) -> list[LogRequest]:
        """Store the push in *request*; when this returns, it is durable.

        Returns the log requests that wait for the agent.

        Raises:
            Unauthorized: Not this agent's token, or the agent was deleted.
            OrgSuspended: The agent keeps its backlog.
            BadRequest: Names the field; nothing of the push is stored.
            TooManyRequests: More series than the organization may push at once.
            StorageUnavailable: Whether it is stored is unknown; repeating is harmless.
        """
        token_hash = request[AGENT_TOKEN_HASH]
        remembered = self._callers.get(token_hash)
        caller = remembered or await self._identify(request, token_hash)
        if caller.agent_id != request.match_info["agentId"]:
            raise Unauthorized
        request[ORG_ID] = caller.org_id
        try:
            push, at_ms = await self._read(request, caller, remembered is not None)
        except ServiceError:
            PUSHES.labels("refused").inc()
            raise
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                change = change_of(caller.agent_id, caller.org_id, push, at_ms)
                return await self._batches.add(caller.agent_id, push, at_ms, change)
        except TimeoutError:
            raise StorageUnavailable from None
        except (Unauthorized, OrgSuspended):
            self._callers.pop(token_hash, None)
            raise

    async def _identify(self, request: web.Request, token_hash: bytes) -> AgentCaller:
        self._callers.pop(token_hash, None)
        async with connection(request.app) as conn:
            caller = admitted_agent(request, await auth_store.agent_by_token(conn, token_hash))
        self._callers.keep(token_hash, caller)
        return caller

    async def _read(self, request: web.Request, caller: AgentCaller, remembered: bool) -> tuple[Push, int]:
        try:
            return await self._checked(request, caller)
        except ServiceError:
            if not remembered:
                raise
        # Whoever may not push learns that, not what is wrong with the push; and what the
        # organization may have changed meanwhile.
        return await self._checked(request, await self._identify(request, request[AGENT_TOKEN_HASH]))

    async def _checked(self, request: web.Request, caller: AgentCaller) -> tuple[Push, int]:
        check_type(request)
        push = decode(await read_bytes(request), Push)
        config = self._app[CONFIG].config
        checked = check(
            push,
            now_ms=time.time_ns() // 1_000_000,
            retention_seconds=config.retention.effective(
                "metrics", caller.org_id, caller.plan, caller.metrics_retention_seconds
            ),
            series_limit=config.limits.for_org(caller.org_id).series_per_push,
        )
        return push, checked.at_ms


INGEST: web.AppKey[Ingest] = web.AppKey("INGEST", Ingest)


async def ingest_context(app: web.Application) -> AsyncIterator[None]:
    """Make the ingest when the journal is there."""
    app[INGEST] = Ingest(app)
    yield
