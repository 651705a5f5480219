"""Take the lines of a live tail from its agent.

Lines are stored as they come, whatever is left of the body, and acknowledged by the
answer.  A line that is stored already is left out.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec import Struct
from prometheus_client import Counter

from monitor.db.postgres import Connection, found, transaction
from monitor.db.wakeups import HINTS
from monitor.errors import BadRequest, Gone
from monitor.logs.parameters import Parameters
from monitor.logs.tail import store as requests
from monitor.logs.tail.lines import store
from monitor.logs.tail.lines.body import LineReader
from monitor.logs.tail.lines.events import Line, rows_of
from monitor.logs.tail.lines.feeds import FEEDS
from monitor.logs.tail.models import EndReason, Receiver, Row
from monitor.web.codec import BODY_BYTES, reply
from monitor.wire.tail import TailReply

if TYPE_CHECKING:
    from monitor.auth.models import AgentCaller

KEPT_BYTES = 8 * 1024 * 1024  # of events, a request: so far a viewer may be behind
TRIM_BYTES = KEPT_BYTES // 8  # older ones are trimmed whenever so much has come
SIGN_SECONDS = 5.0  # between two notes that the agent holds an idle body open
TURN_SECONDS = 1.0  # how soon an idle body ends when the service does
FIRST_SECONDS = 0.05  # a body that has brought nothing by then is a long one: tell the viewers
ERROR_CHARACTERS = 512  # of what an agent says went wrong

LINES = Counter("monitor_tail_lines_total", "Lines of live tails that were stored.")


class Finish(Struct, frozen=True):
    """What the parameters of a POST say of the stream: whether it ends, and why."""

    end: bool
    error: str | None


def finish_of(given: Parameters) -> Finish:
    """Return what the parameters say.

    Raises:
        BadRequest: One is wrong; names it.
    """
    end = given.text("end") or "0"
    if end not in ("0", "1"):
        raise BadRequest("end: expected 1 or 0", field="end")
    error = given.text("error")
    if error is not None and end == "0":
        raise BadRequest("error: only with end=1", field="error")
    return Finish(end == "1", None if error is None else error.replace("\0", "")[:ERROR_CHARACTERS])


async def receive(request: web.Request, caller: AgentCaller, request_id: str) -> web.Response:
    """Store the lines in the body of *request* and acknowledge them.

    Raises:
        BadRequest: A line is malformed; those before it may be stored.
        Gone: No lines are wanted any more.
        NotFound: Not a request to this agent.
        StorageUnavailable: Whether lines are stored is unknown; sending them again is harmless.
    """
    stream = Stream(request.app, caller, request_id, finish_of(Parameters(request)))
    body = LineReader(request)
    loop = asyncio.get_running_loop()
    sign_at = loop.time() + FIRST_SECONDS
    while not body.ended:
        if request.app[FEEDS].closed or body.size > BODY_BYTES:
            return _answer(await stream.store([]), closing=True)
        data = b""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(sign_at, loop.time() + TURN_SECONDS)):
                data = await body.read()
        for lines in body.lines(data):
            await stream.store(lines)
            sign_at = loop.time() + SIGN_SECONDS
        if loop.time() >= sign_at:
            await stream.store([])
            sign_at = loop.time() + SIGN_SECONDS
    return _answer(await stream.finish())


def _answer(next_seq: int, *, closing: bool = False) -> web.Response:
    response = reply(TailReply(next_seq))
    if closing:
        response.force_close()
    return response


class Stream:
    """The stream of one request, as far as one POST goes."""

    def __init__(self, app: web.Application, caller: AgentCaller, request_id: str, finish: Finish) -> None:
        self._app = app
        self._caller = caller
        self._request_id = request_id
        self._finish = finish
        self._next_seq: int | None = None

    async def store(self, lines: list[Line], *, last: bool = False) -> int:
        """Store what is new of *lines* and tell the viewers; return the number of the next line.

        Without lines it is a sign of the agent.  With *last* the stream ends, if it shall.

        Raises:
            Gone: No lines are wanted any more.
            NotFound: Not a request to this agent.
            StorageUnavailable: Whether they are stored is unknown.
        """
        caller, id_ = self._caller, self._request_id
        async with transaction(self._app) as conn:
            receiver = found(await store.note_sign(conn, caller.org_id, caller.agent_id, id_))
            if not receiver.alive:
                if self._finish.end and receiver.end_reason in ("complete", "error"):
                    return self._keep(receiver.next_seq)  # told again: the answer was lost
                raise Gone
            rows, next_seq = rows_of(id_, receiver.source, lines, receiver.next_seq)
            if rows:
                await self._append(conn, receiver, rows, next_seq)
            ends = last and self._finish.end
            if ends:
                reason: EndReason = "complete" if self._finish.error is None else "error"
                await requests.end(conn, caller.org_id, id_, reason, self._finish.error)
        if receiver.watched and (rows or ends or not receiver.opened):
            self._app[HINTS].give(store.wakeup_key(id_))
        LINES.inc(next_seq - receiver.next_seq)
        return self._keep(next_seq)

    def _keep(self, next_seq: int) -> int:
        self._next_seq = next_seq
        return next_seq

    async def finish(self) -> int:
        """End the stream if it shall end; return the number of the next line."""
        if self._finish.end or self._next_seq is None:
            return await self.store([], last=True)
        return self._next_seq

    async def _append(self, conn: Connection, receiver: Receiver, rows: list[Row], next_seq: int) -> None:
        org_id, total = self._caller.org_id, receiver.bytes
        end_bytes = list(accumulate((len(row.events) for row in rows), initial=total))[1:]
        await store.append_lines(conn, org_id, self._request_id, rows, next_seq=next_seq, end_bytes=end_bytes)
        if end_bytes[-1] > KEPT_BYTES and end_bytes[-1] // TRIM_BYTES > total // TRIM_BYTES:
            await store.trim(conn, org_id, self._request_id, end_bytes[-1] - KEPT_BYTES)
