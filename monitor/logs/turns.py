"""One thread that reads blocks, by turns: each organization one block's worth at a time.

An organization that searches everything waits behind the others after every turn, so
theirs are delayed by a few milliseconds however much it asks for.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Turns:
    """The work of all organizations that waits for the thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="logs.turns")
        self._waiting: OrderedDict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]] = OrderedDict()
        self._is_busy = False

    def submit(self, org_id: str, work: Callable[[], T]) -> asyncio.Future[T]:
        """Return what *work* will return when the turn of *org_id* has come."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(org_id, deque()).append((work, done))
        self._next()
        return done

    def _next(self) -> None:
        while self._waiting and not self._is_busy:
            org_id, queue = self._waiting.popitem(last=False)
            work, done = queue.popleft()
            if queue:
                self._waiting[org_id] = queue
            if done.cancelled():
                continue
            self._is_busy = True
            running = asyncio.get_running_loop().run_in_executor(self._thread, work)
            running.add_done_callback(lambda ended, done=done: self._ended(ended, done))  # type: ignore[misc]

    def _ended(self, ended: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        self._is_busy = False
        self._next()
        error = ended.exception()
        if done.cancelled():
            return
        if error is None:
            done.set_result(ended.result())
        else:
            done.set_exception(error)

    def close(self) -> None:
        """End the thread after its turn."""
        self._thread.shutdown(wait=False, cancel_futures=True)
