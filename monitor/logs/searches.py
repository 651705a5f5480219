"""Searches of one web process: asked of its search process, which is started when it is needed.

A client that leaves takes its search with it.  A search process that died, or gives
no answer, is replaced with the next search; nothing but the present ones is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import structlog
from aiohttp import web
from prometheus_client import Counter as Metric
from prometheus_client import Histogram

from monitor.config import CONFIG
from monitor.errors import NotFound, ServiceError, StorageUnavailable, TooManyRequests
from monitor.logs.messages import Answer, Ask, Cancel, Question, Start, framed, read_frame

if TYPE_CHECKING:
    from asyncio.subprocess import Process

SEARCH_SECONDS = 10.0  # a search that takes longer is told to ask for less
SILENCE_SECONDS = 5.0  # beyond that: without any answer the search process is hung
LOOK_SECONDS = 0.25  # how soon it is noticed that a client has left
WAITING_PER_ORG = 32  # searches of an organization at once; the next one gets 429
END_SECONDS = 2.0  # for the search process to end by itself

SEARCHES = Metric("monitor_log_searches_total", "Log searches by outcome.", ["outcome"])
SECONDS = Histogram(
    "monitor_log_search_seconds",
    "Time of a log search.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

log = structlog.get_logger()


class Searches:
    """The searches of this process.

    Attributes:
        seconds: What a search may take.
    """

    def __init__(self, app: web.Application) -> None:
        self.seconds = SEARCH_SECONDS
        self._app = app
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._waiting: Counter[str] = Counter()
        self._starting = asyncio.Lock()
        self._child: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, request: web.Request, org_id: str, question: Question) -> Answer:
        """Return the answer to *question*, asked for *org_id* by the client of *request*.

        Raises:
            NotFound: There is no such line.
            TooManyRequests: Too many searches of this organization wait.
            StorageUnavailable: It took too long, or Postgres or the search process is away.
            ConnectionResetError: The client has left.
        """
        if self._waiting[org_id] >= WAITING_PER_ORG:
            raise TooManyRequests(
                f"concurrent searches: {WAITING_PER_ORG} log searches are allowed at once",
                retry_after_seconds=1,
            )
        self._waiting[org_id] += 1
        try:
            with SECONDS.time():
                answer = await self._answer(request, question)
        finally:
            self._waiting[org_id] -= 1
            if not self._waiting[org_id]:
                del self._waiting[org_id]
        SEARCHES.labels(answer.outcome).inc()
        return _checked(answer, self.seconds)

    async def _answer(self, request: web.Request, question: Question) -> Answer:
        child = await self._started()
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            _send(child, framed(Ask(number, self.seconds, question)))
            async with asyncio.timeout(self.seconds + SILENCE_SECONDS):
                while not (await asyncio.wait((answer,), timeout=LOOK_SECONDS))[0]:
                    if request.transport is None or request.transport.is_closing():
                        _send(child, framed(Cancel(number)))
                        raise ConnectionResetError
        except TimeoutError:
            log.error("the search process gives no answer and is replaced")
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            raise StorageUnavailable from None
        finally:
            del self._answers[number]
        answered: Answer = answer.result()
        return answered

    async def _started(self) -> Process:
        async with self._starting:
            if self._child is None or self._child.returncode is not None or self._reading is None:
                config = self._app[CONFIG].config
                self._child = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "monitor.logs.engine",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                )
                start = Start(config.postgres.dsn, config.log.level, config.log.format)
                _send(self._child, framed(start))
                self._reading = asyncio.create_task(self._read(self._child), name="logs.searches")
            return self._child

    async def _read(self, child: Process) -> None:
        """Hand out answers until the search process ends; then fail what is left."""
        assert child.stdout is not None
        decoder = msgspec.msgpack.Decoder(Answer)
        while frame := await read_frame(child.stdout):
            answer = decoder.decode(frame)
            waiting = self._answers.get(answer.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        status = await child.wait()
        self._reading = None
        log.info("search process ended", status=status)
        for number, waiting in self._answers.items():
            if not waiting.done():
                waiting.set_result(Answer(number, "storage_unavailable"))

    async def close(self) -> None:
        """End the search process."""
        child, reading = self._child, self._reading
        if child is None or reading is None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await asyncio.shield(reading)
        except TimeoutError:
            child.kill()
            await reading


def _send(child: Process, frame: bytes) -> None:
    assert child.stdin is not None
    if child.stdin.is_closing():
        raise StorageUnavailable
    child.stdin.write(frame)


def _checked(answer: Answer, seconds: float) -> Answer:
    """Return *answer* if it is one.

    Raises:
        ServiceError: It is none; its class says why.
    """
    if answer.outcome == "not_found":
        raise NotFound
    if answer.outcome == "too_slow":
        raise StorageUnavailable(
            f"search_too_slow: not finished within {seconds:g} s;"
            " ask for a shorter time, or with more filters or words"
        )
    if answer.outcome == "storage_unavailable":
        raise StorageUnavailable
    if answer.outcome == "bug":
        raise ServiceError
    return answer


LOG_SEARCHES: web.AppKey[Searches] = web.AppKey("LOG_SEARCHES", Searches)


async def searches_context(app: web.Application) -> AsyncIterator[None]:
    """Keep the searches of this process; end its search process with it."""
    searches = app[LOG_SEARCHES] = Searches(app)
    yield
    await searches.close()
