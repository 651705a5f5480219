"""Searches of one web process: asked of its two search processes.

A client that leaves takes its search with it.  A search process that died, or gives
no answer, is replaced with the next search; nothing but the present ones is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator

from aiohttp import web
from prometheus_client import Counter as Metric
from prometheus_client import Histogram

from monitor.config import CONFIG, Config
from monitor.errors import NotFound, ServiceError, StorageUnavailable, TooManyRequests
from monitor.logs.messages import Answer, Question
from monitor.logs.process import SearchProcess

SEARCH_SECONDS = 10.0  # a search that takes longer is told to ask for less
WAITING_PER_ORG = 32  # searches of an organization at once; the next one gets 429

SEARCHES = Metric("monitor_log_searches_total", "Log searches by outcome.", ["outcome"])
DEEP = Metric("monitor_log_searches_deep_total", "Log searches that took more than a little reading.")
SECONDS = Histogram(
    "monitor_log_search_seconds",
    "Time of a log search.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


class Searches:
    """The searches of this process.

    Attributes:
        seconds: What a search may take.
        shallow: Is asked first, and answers what takes little reading.
        deep: Is asked the rest, and takes what processor time is left.
    """

    def __init__(self, config: Config) -> None:
        self.seconds = SEARCH_SECONDS
        self.shallow = SearchProcess(config, deep=False)
        self.deep = SearchProcess(config, deep=True)
        self._waiting: Counter[str] = Counter()

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
        def left() -> bool:
            return request.transport is None or request.transport.is_closing()

        started = time.monotonic()
        answer = await self.shallow.ask(question, self.seconds, left)
        if answer.outcome == "too_deep":
            DEEP.inc()
            answer = await self.deep.ask(question, self.seconds - (time.monotonic() - started), left)
        return answer

    async def close(self) -> None:
        """End the search processes."""
        await asyncio.gather(self.shallow.close(), self.deep.close())


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
    """Keep the searches of this process; end its search processes with it."""
    searches = app[LOG_SEARCHES] = Searches(app[CONFIG].config)
    yield
    await searches.close()
