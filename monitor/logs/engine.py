"""A search process: a child of a web process that does its searches, and nothing else.

Reading blocks keeps an interpreter busy for milliseconds at a time, so no request waits
behind it here.  There are two of them.  The one that is asked first answers what takes
little reading, as most searches do, and gives up the others; the deep one answers those,
in the processor time that nothing else wants.  Both end when their parent's pipe does,
and hold nothing that matters.  Run as ``python -m monitor.logs.engine``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import defaultdict

import msgspec
import structlog

from monitor.config import Log
from monitor.db.postgres import Pool, create_pool, translated
from monitor.errors import StorageUnavailable
from monitor.logs.find import Reads, TooDeep, all_lines, around, count, find
from monitor.logs.messages import (
    Answer,
    Around,
    Ask,
    Cancel,
    Count,
    Find,
    Message,
    Question,
    Start,
    framed,
    read_frame,
)
from monitor.logs.models import Bucket, Histogram
from monitor.logs.position import print_cursor
from monitor.logs.times import SECOND, format_ns
from monitor.logs.turns import Turns
from monitor.web.log import set_up_logging

SHALLOW_BYTES = 2 * 1024 * 1024  # that a search may read, uncompressed, before it is a deep one
NICENESS = 10  # requests, pushes and the background come first
SWITCH_SECONDS = 0.0005  # a search waits for the thread that reads at each of its steps
CONNECTIONS = 4
SEARCHES_PER_ORG = 1  # at once: others find a connection and the thread

log = structlog.get_logger()


class Engine:
    """The questions under way."""

    def __init__(self, pool: Pool, writer: asyncio.StreamWriter, most_bytes: int | None = None) -> None:
        self._pool = pool
        self._most_bytes = most_bytes
        self._writer = writer
        self._turns = Turns()
        self._gates: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(SEARCHES_PER_ORG))
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def hear(self, message: Message) -> None:
        """Begin to answer a question, or give one up."""
        if isinstance(message, Cancel):
            task = self._tasks.get(message.number)
            if task is not None:
                task.cancel()
        elif isinstance(message, Ask):
            task = asyncio.create_task(self._answer(message), name=f"logs.search.{message.number}")
            self._tasks[message.number] = task
            task.add_done_callback(lambda _: self._tasks.pop(message.number))

    async def _answer(self, ask: Ask) -> None:
        try:
            async with asyncio.timeout(ask.seconds):
                answer = await self._found(ask.number, ask.question)
        except TooDeep:
            answer = Answer(ask.number, "too_deep")
        except TimeoutError:
            answer = Answer(ask.number, "too_slow")
        except StorageUnavailable as error:
            log.warning("search failed", cause=repr(error.__cause__))
            answer = Answer(ask.number, "storage_unavailable")
        except Exception:
            log.exception("bug in a search")
            answer = Answer(ask.number, "bug")
        self._writer.write(framed(answer))

    async def close(self) -> None:
        """Give up what is under way: nobody is left to be answered."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._turns.close()

    async def _found(self, number: int, question: Question) -> Answer:
        org_id = question.org_id if isinstance(question, Around) else question.search.org_id
        async with self._gates[org_id]:
            with translated():
                async with (
                    self._pool.acquire() as conn,
                    conn.transaction(isolation="repeatable_read", readonly=True),
                ):
                    return await _look(Reads(conn, self._turns, self._most_bytes), number, question)


async def _look(reads: Reads, number: int, question: Question) -> Answer:
    if isinstance(question, Around):
        everything = all_lines(question.org_id, question.arrived_since)
        context = await around(reads, everything, question.position, question.before, question.after)
        if context is None:
            return Answer(number, "not_found")
        return Answer(number, "found", msgspec.json.encode(context))
    search = question.search
    if isinstance(question, Find):
        hits = await find(reads, search)
        is_full = len(hits) == search.limit
        cursor = print_cursor(hits[-1][0], search.start, search.end) if is_full else None
        return Answer(number, "found", msgspec.json.encode([line for _, line in hits]), cursor)
    counts = await count(reads, search, question.step)
    return Answer(number, "found", msgspec.json.encode(histogram(counts, question)))


def histogram(counts: dict[int, list[int]], question: Count) -> Histogram:
    """Return the intervals from the window's start to the later of *until* and the last line."""
    step = question.step
    last = max([question.until // step, *counts])
    buckets = [
        Bucket(format_ns(number * step), *counts.get(number, (0, 0)))
        for number in range(question.search.start // step, last + 1)
    ]
    return Histogram(step / SECOND, buckets, sum(map(sum, counts.values())))


async def answer_until_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer what comes from *reader* until it ends; the first message says how to begin."""
    decoder = msgspec.msgpack.Decoder(Message)
    start = decoder.decode(await read_frame(reader))
    assert isinstance(start, Start)
    set_up_logging(Log(level=start.log_level, format=start.log_format))
    if start.deep:
        _stand_back()
    most_bytes = None if start.deep else SHALLOW_BYTES
    async with await create_pool(start.dsn, size=CONNECTIONS, min_size=0) as pool:
        engine = Engine(pool, writer, most_bytes)
        while frame := await read_frame(reader):
            engine.hear(decoder.decode(frame))
        await engine.close()


def _stand_back() -> None:
    """Take only processor time that nothing else wants, and that of half of the processors."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, mine[len(mine) // 2 :])
    except OSError as error:  # a sandbox may forbid it; the answers are the same
        log.warning("deep searches cannot stand back", cause=repr(error))
        os.nice(NICENESS)


async def _main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout.buffer)
    await answer_until_the_end(reader, asyncio.StreamWriter(transport, protocol, None, loop))


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides, and closes the pipe
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.run(_main())
