"""Live tails: read a log while somebody watches it, and send its lines as they come (contract 11).

A tail is asked for by a ``logs.tail`` command and by push replies, often by both: one
request is one tail.  Its lines go up in short POSTs, one at a time, each under its
number until the service has acknowledged it, so a lost connection neither loses nor
doubles any.  It ends with its log, or when the service says that nobody watches.

Where lines come from is a ``LineSource``: one for each kind of agent.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
import structlog
from msgspec.structs import replace

from monitor.collector.backoff import backoff_seconds
from monitor.collector.client import Service
from monitor.collector.failure import (
    AgentStopped,
    BodyRefused,
    CollectorError,
    CommandFailed,
    ServiceAway,
    TailFailed,
    TailOver,
)
from monitor.collector.state import Identity
from monitor.collector.tail_ring import Ring
from monitor.wire.tail import SIGN_SECONDS, LogRequest

log = structlog.get_logger(__name__)

MAX_TAILS = 20  # at once; the service allows an organization 10, each may hold 4 MiB
MAX_REFUSALS = 20  # at once: requests above the bound whose viewers are being told
BODY_BYTES = 256 * 1024  # of lines in a POST, before compression
GATHER_SECONDS = 0.1  # between two POSTs of a busy log; the first line goes at once
AWAY_DOUBLINGS = 2  # at most 4 s between two attempts: somebody watches
GIVE_UP_SECONDS = 600.0  # the service forgets a request that was silent for so long
KNOWN_ENDED = 1_000  # requests that may be asked for once more, because push and command crossed
ERROR_CHARACTERS = 500  # it travels in an address
REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


class LineSource(Protocol):
    """Reads the logs that one kind of agent has."""

    async def tail(self, request: LogRequest, lines: Ring) -> None:
        """Add the newest ``tail`` lines of a log, oldest first; with ``follow`` new ones until it ends.

        ``await lines.ready()`` before each ``lines.add(TailLine(time, stream, message))``,
        which numbers it.  Cancelled when nobody watches any more.

        Raises:
            TailFailed: The log cannot be read, or not any further; the text is shown to the viewer.
        """
        ...


class Tails:
    """The live tails of this agent; they end with the context.

    Args:
        service: Who wants the lines.
        sources: By the ``source`` of a request.
    """

    def __init__(self, service: Service, sources: Mapping[str, LineSource]) -> None:
        self._service = service
        self._sources = sources
        self._tasks: dict[str, asyncio.Task[bool]] = {}
        self._ended: dict[str, None] = {}

    def start(self, identity: Identity, asked: Any) -> str:
        """Start the tail that *asked*, a log request as JSON gave it, describes; return what to tell.

        One that is known already goes on as it is.

        Raises:
            CommandFailed: It is none, or one too many; of the latter its viewer is told, too.
        """
        try:
            request = msgspec.convert(asked, LogRequest)
        except msgspec.ValidationError as error:
            raise CommandFailed(f"not a log request: {error}") from error
        if not REQUEST_ID.fullmatch(request.request_id):
            raise CommandFailed("not a log request: requestId: expected letters, digits, - and _")
        if request.request_id in self._tasks or request.request_id in self._ended:
            return "known already"
        source = self._sources.get(request.source)
        if source is None:
            refusal = f"this agent reads no logs of {request.source}"
        elif len(self._tasks) >= MAX_TAILS:
            refusal = f"this agent tails {MAX_TAILS} logs already"
        else:
            self._begin(identity, request, source)
            return "tail started"
        if len(self._tasks) < MAX_TAILS + MAX_REFUSALS:
            self._begin(identity, request, Refusal(refusal))
        raise CommandFailed(refusal)

    def start_all(self, identity: Identity, asked: Iterable[Any]) -> None:
        """Start the tails of a push reply; what is wrong with one of them is logged."""
        for one in asked:
            try:
                self.start(identity, one)
            except CommandFailed as error:
                log.warning("log request refused", error=str(error))

    @property
    def running(self) -> int:
        """How many tails there are now."""
        return len(self._tasks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, identity: Identity, request: LogRequest, source: LineSource) -> None:
        tail = Tail(self._service, identity, request, source)
        task = asyncio.create_task(tail.run(), name=f"tail {request.request_id}")
        self._tasks[request.request_id] = task
        task.add_done_callback(lambda _: self._note_end(request.request_id))

    def _note_end(self, request_id: str) -> None:
        task = self._tasks.pop(request_id)
        if task.cancelled() or not task.result():
            return  # asked for once more, it goes on
        self._ended[request_id] = None
        while len(self._ended) > KNOWN_ENDED:
            del self._ended[next(iter(self._ended))]


class Refusal:
    """The source of a tail that is not to be: its viewer learns why."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def tail(self, request: LogRequest, lines: Ring) -> None:
        """Fail."""
        raise TailFailed(self._text)


class Tail:
    """One live tail."""

    def __init__(self, service: Service, identity: Identity, request: LogRequest, source: LineSource) -> None:
        self._service = service
        self._identity = identity
        self._request = request
        self._source = source
        self._ring = Ring()

    async def run(self) -> bool:
        """Send the log's lines until it ends or nobody wants them; return whether the request is done with."""
        known = {"request": self._request.request_id}
        log.info("tail started", **known)
        try:
            await (
                self._deliver()
            )  # nothing yet: the service learns that we are there, and we whether we were before
            await self._send_lines()
        except TailOver as reason:
            log.info("tail over", reason=str(reason), dropped=self._ring.dropped, **known)
        except ServiceAway as error:
            log.warning("tail given up", error=str(error), **known)
            return False
        except AgentStopped as error:  # every push learns it too, and ends the agent
            log.debug("tail over", reason=str(error), **known)
        except BodyRefused as error:
            log.error("lines of a tail refused", error=str(error), **known)
            await self._give_up(f"the service refused the agent's lines: {error}")
        except Exception:
            log.exception("tail failed", **known)
            return False
        else:
            log.info("tail ended", error=self._ring.error, dropped=self._ring.dropped, **known)
        return True

    async def _send_lines(self) -> None:
        reader = asyncio.create_task(self._read(), name=f"log of {self._request.request_id}")
        try:
            while True:
                await self._ring.wait(1, SIGN_SECONDS)
                if await self._deliver():
                    return
                await self._ring.wait(BODY_BYTES, GATHER_SECONDS)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(self) -> None:
        """Read the log into the ring, and note there how that ended."""
        error: str | None = None
        try:
            await self._source.tail(self._still_wanted(), self._ring)
        except TailFailed as failure:
            error = str(failure)
        except Exception as failure:
            log.exception("log not read", request=self._request.request_id)
            error = f"internal error: {type(failure).__name__}"
        self._ring.end(error)

    def _still_wanted(self) -> LogRequest:
        """Return the request without the history that an earlier run of this agent has sent.

        Raises:
            TailFailed: History is all that was wanted, and how much of it came is not known.
        """
        if self._ring.next_seq == 0:
            return self._request
        if not self._request.follow:
            raise TailFailed("the agent was restarted meanwhile; ask again")
        return replace(self._request, tail=0, since_seconds=None)

    async def _deliver(self) -> bool:
        """Send what there is, or a sign of life, until the service has taken it; return whether that was all.

        Raises:
            TailOver: Nobody wants it.
            ServiceAway: It was away for very long.
            AgentStopped, BodyRefused: As ``Service.send_lines``.
        """
        began = time.monotonic()
        failures = 0
        while True:
            try:
                return await self._send()
            except ServiceAway as error:
                if time.monotonic() - began > GIVE_UP_SECONDS:
                    raise
                log.debug("lines of a tail wait", error=str(error))
                doublings = min(failures, AWAY_DOUBLINGS)
                seconds = backoff_seconds(doublings, error.retry_after_seconds, random.random())  # noqa: S311 (jitter)
                failures += 1
                await asyncio.sleep(seconds)

    async def _send(self) -> bool:
        body, is_last = self._ring.body(BODY_BYTES)
        is_last = is_last and self._ring.ended
        next_seq = await self._post(body, end=is_last, error=self._ring.error if is_last else None)
        if not self._ring.acknowledge(next_seq) and body:
            raise ServiceAway("the service took none of the lines")
        return is_last and self._ring.is_empty

    async def _give_up(self, text: str) -> None:
        with suppress(CollectorError):
            await self._post(b"", end=True, error=text)

    async def _post(self, body: bytes, *, end: bool, error: str | None) -> int:
        return await self._service.send_lines(
            self._identity.agent_id,
            self._identity.token,
            self._request.request_id,
            body,
            end=end,
            error=error and error[:ERROR_CHARACTERS],
        )
