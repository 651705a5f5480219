"""One search process of a web process: started when it is needed, replaced when it has died."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import structlog

from monitor.config import Config
from monitor.errors import StorageUnavailable
from monitor.logs.messages import Answer, Ask, Cancel, Question, Start, framed, read_frame

if TYPE_CHECKING:
    from asyncio.subprocess import Process

SILENCE_SECONDS = 5.0  # beyond what a search may take: without any answer the process is hung
LOOK_SECONDS = 0.25  # how soon it is noticed that a client has left
END_SECONDS = 2.0  # for the process to end by itself

log = structlog.get_logger()


class SearchProcess:
    """A child that runs ``monitor.logs.engine``.

    Attributes:
        child: The running one, or the last.
    """

    def __init__(self, config: Config, *, deep: bool) -> None:
        self.child: Process | None = None
        self._start = Start(config.postgres.dsn, deep, config.log.level, config.log.format)
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._starting = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, question: Question, seconds: float, left: Callable[[], bool]) -> Answer:
        """Return the answer to *question*, which may take *seconds*.

        Raises:
            StorageUnavailable: The process has hung, and is replaced.
            ConnectionResetError: *left* said that nobody waits for the answer.
        """
        child = await self._started()
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            _send(child, framed(Ask(number, seconds, question)))
            async with asyncio.timeout(seconds + SILENCE_SECONDS):
                while not (await asyncio.wait((answer,), timeout=LOOK_SECONDS))[0]:
                    if left():
                        _send(child, framed(Cancel(number)))
                        raise ConnectionResetError
        except TimeoutError:
            log.error("the search process gives no answer and is replaced", pid=child.pid)
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            raise StorageUnavailable from None
        finally:
            del self._answers[number]
        answered: Answer = answer.result()
        return answered

    async def _started(self) -> Process:
        async with self._starting:
            if self.child is not None and self.child.returncode is not None and self._reading is not None:
                await asyncio.shield(self._reading)  # it fails what the dead one was asked, and nothing newer
            if self.child is None or self._reading is None:
                self.child = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "monitor.logs.engine",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                )
                _send(self.child, framed(self._start))
                self._reading = asyncio.create_task(self._read(self.child), name="logs.searches")
            return self.child

    async def _read(self, child: Process) -> None:
        """Hand out answers until the process ends; then fail what is left."""
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
        """End the process."""
        child, reading = self.child, self._reading
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
