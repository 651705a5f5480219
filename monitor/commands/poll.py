"""Long polls of agents: wait for a command, and hand it out.

A poll ends at once when a command comes, on whichever replica it was made; when a
newer poll of its agent begins, on whichever replica that is; and when the service
ends.  A hint may be lost: once a second one query looks for all polls that wait here.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec import Struct
from prometheus_client import Gauge

from monitor.commands import store
from monitor.db.postgres import connection
from monitor.db.wakeups import WAKEUPS, notify
from monitor.errors import StorageUnavailable
from monitor.web.codec import reply
from monitor.wire.commands import Command

if TYPE_CHECKING:
    from monitor.auth.models import AgentCaller

LOOK_SECONDS = 1.0  # how much later a command comes whose hint was lost
FORGET_SECONDS = 300.0  # old commands cost nothing but room

WAITING = Gauge("monitor_command_polls", "Polls that wait for a command.", multiprocess_mode="livesum")


class Poll(Struct, eq=False):
    """A poll that waits in this process.

    Attributes:
        wake: Set when there may be a command, or when the poll has to end.
        ended: A newer poll of the same agent has begun here.
    """

    org_id: str
    agent_id: str
    poll_id: str
    wake: asyncio.Event
    ended: bool = False


class Polls:
    """The polls that wait in this process, at most one for each agent."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._polls: dict[str, Poll] = {}
        self._closed = False

    async def command_for(
        self, caller: AgentCaller, seconds: float, transport: asyncio.BaseTransport | None
    ) -> Command | None:
        """Return the agent's oldest command, leased; None if none comes within *seconds*.

        None too when a newer poll of the agent begins, when *transport* is closed and
        when the service ends.

        Raises:
            StorageUnavailable: Postgres is away.
        """
        if self._closed:
            return None
        with self._app[WAKEUPS].listening(store.wakeup_key(caller.agent_id)) as wake:
            poll = Poll(caller.org_id, caller.agent_id, secrets.token_hex(8), wake)
            older = self._polls.get(poll.agent_id)
            if older is not None:
                older.ended = True
                older.wake.set()
            self._polls[poll.agent_id] = poll
            WAITING.inc()
            try:
                return await self._wait(poll, seconds, transport)
            finally:
                WAITING.dec()
                if self._polls.get(poll.agent_id) is poll:
                    del self._polls[poll.agent_id]
                with contextlib.suppress(StorageUnavailable):  # it is forgotten by itself
                    async with connection(self._app) as conn:
                        await store.close_poll(conn, poll.org_id, poll.agent_id, poll.poll_id)

    async def _wait(
        self, poll: Poll, seconds: float, transport: asyncio.BaseTransport | None
    ) -> Command | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        async with connection(self._app) as conn:
            if await store.open_poll(conn, poll.org_id, poll.agent_id, poll.poll_id):
                await notify(conn, store.wakeup_key(poll.agent_id))
        while True:
            poll.wake.clear()
            if poll.ended or self._closed or is_gone(transport):
                return None
            async with connection(self._app) as conn:
                if not await store.holds(conn, poll.org_id, poll.agent_id, poll.poll_id):
                    return None
                command = await store.take(conn, poll.org_id, poll.agent_id)
            if command is not None or loop.time() >= deadline:
                return command
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await poll.wake.wait()

    async def look(self) -> None:
        """Wake the polls whose hint was lost, with one query for all."""
        polls = list(self._polls.values())
        if not polls:
            return
        async with connection(self._app) as conn:
            agents = await store.polls_to_wake(
                conn,
                [poll.org_id for poll in polls],
                [poll.agent_id for poll in polls],
                [poll.poll_id for poll in polls],
            )
        for poll in polls:
            if poll.agent_id in agents:
                poll.wake.set()

    def close(self) -> None:
        """End every poll, and each that is still to come."""
        self._closed = True
        for poll in self._polls.values():
            poll.wake.set()


POLLS: web.AppKey[Polls] = web.AppKey("POLLS", Polls)


def is_gone(transport: asyncio.BaseTransport | None) -> bool:
    """Return whether the client at the other end of *transport* has left."""
    return transport is None or transport.is_closing()


async def hand_out(request: web.Request, org_id: str, command: Command) -> web.StreamResponse:
    """Answer *request* with a leased command; give it back if the client has left.

    Raises:
        ConnectionResetError: Nobody reads the answer.
    """
    response = reply(command)
    try:
        if is_gone(request.transport):
            raise ConnectionResetError
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        with contextlib.suppress(StorageUnavailable):  # the lease ends by itself
            async with connection(request.app) as conn:
                await store.release(conn, org_id, command)
        raise
    return response


async def look(app: web.Application) -> None:
    """Look for what the waiting polls may have missed."""
    await app[POLLS].look()


async def forget(app: web.Application) -> None:
    """Delete old commands."""
    async with connection(app) as conn:
        await store.forget_old(conn)


async def polls_context(app: web.Application) -> AsyncIterator[None]:
    """Keep the polls of this process."""
    app[POLLS] = Polls(app)
    yield


async def end_polls(app: web.Application) -> None:
    """End the polls at shutdown: each is answered with 204."""
    app[POLLS].close()
