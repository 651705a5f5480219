"""What a live tail shows of a container's log, against an engine over real HTTP."""

import asyncio
import time
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
from aiohttp import web

from monitor.collector import backoff
from monitor.collector.docker import Engine
from monitor.collector.failure import TailFailed
from monitor.collector.logs import reader
from monitor.collector.logs import tail as docker_tail
from monitor.collector.logs.records import time_of
from monitor.collector.logs.tail import DockerLines
from monitor.wire.tail import LogRequest
from tests.collector.fakes import until
from tests.collector.shapes import listed

WEB = "a" * 64
ASKED = LogRequest("tail_1", "docker", tail=100, follow=True, container_id=WEB)


class Lines:
    """What a tail brings; it takes lines only while it is `open`."""

    def __init__(self):
        self.lines = []
        self.open = asyncio.Event()
        self.open.set()

    async def ready(self):
        await self.open.wait()

    def add(self, line):
        self.lines.append(line)

    @property
    def messages(self):
        return [line.message for line in self.lines]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(backoff, "BACKOFF_LIMIT_SECONDS", 0.02)
    monkeypatch.setattr(docker_tail, "READ_SECONDS", 0.02)
    monkeypatch.setattr(reader, "REOPEN_SECONDS", 0.02)
    monkeypatch.setattr(reader, "END_SECONDS", 0.05)


@pytest.fixture
def log(engine):
    """Write to the container's log; each record has a later time, or that of the record before."""
    engine.logs = {WEB: []}
    start = time.time_ns() - 3600 * 10**9
    count = 0

    def write(text, *, kind=1, newline=True, same_time=False):
        nonlocal count
        count += not same_time
        record = (kind, time_of(start + count * 1_000_000), text.encode() + (b"\n" if newline else b""))
        engine.logs[WEB].append(record)

    return write


async def shown(engine, **changes):
    """Return the messages of a tail that ends by itself."""
    lines = Lines()
    async with Engine(engine.host) as source, asyncio.timeout(30.0):
        await DockerLines(source).tail(msgspec.structs.replace(ASKED, **changes), lines)
    return lines.messages


@asynccontextmanager
async def following(engine, lines, **changes):
    async with Engine(engine.host) as source:
        work = DockerLines(source).tail(msgspec.structs.replace(ASKED, **changes), lines)
        task = asyncio.create_task(work)
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, TailFailed):
                await task


def numbered(first, last):
    return [f"line {number}" for number in range(first, last + 1)]


@pytest.mark.parametrize(("tail", "first"), [(0, 21), (1, 20), (7, 14), (20, 1), (10_000, 1)])
async def test_a_one_shot_shows_the_newest_lines_and_ends(engine, log, tail, first):
    for number in range(1, 21):
        log(f"line {number}", kind=1 + number % 2)

    assert await shown(engine, follow=False, tail=tail) == numbered(first, 20)


async def test_streams_are_told_apart_and_times_are_those_of_the_engine(engine, log):
    log("out")
    log("err", kind=2)
    lines = Lines()

    async with Engine(engine.host) as source:
        await DockerLines(source).tail(msgspec.structs.replace(ASKED, follow=False), lines)

    assert [(line.stream, line.message) for line in lines.lines] == [("stdout", "out"), ("stderr", "err")]
    assert [line.time for line in lines.lines] == [time for _, time, _ in engine.logs[WEB]]


async def test_long_lines_count_as_one_and_what_has_no_newline_yet_is_shown_by_a_one_shot(engine, log):
    for number in range(1, 6):
        log(f"{number}" * 16_384, newline=False)
        log("x" * 16_384, newline=False, same_time=True)
        log("end", same_time=True)
    log("Password: ", newline=False)

    found = await shown(engine, follow=False, tail=4)

    assert [text[0] for text in found] == ["3", "4", "5", "P"]
    assert {len(text) for text in found[:3]} == {2 * 16_384 + 3}


async def test_history_that_is_too_large_begins_later(engine, log, monkeypatch):
    monkeypatch.setattr(docker_tail, "HISTORY_BYTES", 1_000)
    for number in range(1, 51):
        log(f"{number:02}" + "x" * 98)

    assert [text[:2] for text in await shown(engine, follow=False, tail=50)] == [
        str(n) for n in range(41, 51)
    ]


async def test_only_lines_since_then_are_shown(engine, log):
    log("an hour ago")
    engine.logs[WEB] += [
        (1, time_of(time.time_ns() - seconds * 10**9), b"%d\n" % seconds) for seconds in (90, 30)
    ]

    assert await shown(engine, follow=False, since_seconds=60) == ["30"]
    assert await shown(engine, follow=False, since_seconds=120) == ["90", "30"]


@pytest.mark.parametrize("tail", [0, 5, 100])
async def test_new_lines_follow_the_history_without_loss_or_repeat(engine, log, tail):
    for number in range(1, 11):
        log(f"line {number}", kind=1 + number % 2)
    lines = Lines()
    first = max(1, 11 - tail)
    async with following(engine, lines, tail=tail):
        await until(lambda: lines.messages == numbered(first, 10) and engine.log_reads)
        await until(lambda: len(engine.log_reads) >= 2)  # the history, and the reader behind it
        for number in range(11, 61):
            log(f"line {number}", kind=1 + number % 2)
            if number % 7 == 0:
                await asyncio.sleep(0.01)
        await until(lambda: len(lines.messages) >= 61 - first)

    assert lines.messages == numbered(first, 60)


async def test_an_older_line_of_a_stream_without_history_is_not_taken_for_a_new_one(engine, log):
    log("old", kind=2)
    for number in range(1, 51):
        log(f"line {number}")
    lines = Lines()
    async with following(engine, lines, tail=2):
        await until(lambda: len(engine.log_reads) >= 2)
        log("new", kind=2)
        await until(lambda: lines.messages[-1:] == ["new"])

    assert lines.messages == ["line 49", "line 50", "new"]


async def test_the_first_line_of_an_empty_log_is_shown(engine, log):
    lines = Lines()
    async with following(engine, lines):
        await until(lambda: len(engine.log_reads) >= 2)
        log("line 1")
        await until(lambda: lines.messages)

    assert lines.messages == ["line 1"]


async def test_a_line_whose_newline_comes_later_is_shown_once_and_whole(engine, log):
    log("line 1")
    log("half", newline=False)
    lines = Lines()
    async with following(engine, lines):
        await until(lambda: len(engine.log_reads) >= 2)
        log(" and half", same_time=True)
        await until(lambda: len(lines.messages) == 2)

    assert lines.messages == ["line 1", "half and half"]


async def test_the_tail_ends_with_its_container(engine, log):
    log("line 1")
    lines = Lines()
    async with following(engine, lines) as task:
        await until(lambda: len(engine.log_reads) >= 2)
        log("line 2")
        log("no newline", newline=False)
        engine.containers = [listed(WEB, "web", state="exited")]
        async with asyncio.timeout(30.0):
            await task

    assert lines.messages == ["line 1", "line 2", "no newline"]


async def test_a_stopped_container_shows_its_last_lines_and_the_tail_ends(engine, log):
    engine.containers = [listed(WEB, "web", state="exited")]
    for number in range(1, 11):
        log(f"line {number}")

    assert await shown(engine, tail=3) == numbered(8, 10)


async def test_a_container_that_is_removed_ends_the_tail_with_its_last_words(engine, log, monkeypatch):
    log("line 1")
    lines = Lines()
    async with following(engine, lines) as task:
        await until(lambda: len(engine.log_reads) >= 2)
        monkeypatch.setattr(docker_tail, "READ_SECONDS", 0.3)
        engine.containers = []
        engine.logs[WEB].append((1, time_of(time.time_ns()), b"last\n"))
        del engine.logs[WEB]
        async with asyncio.timeout(30.0):
            await task

    assert lines.messages == ["line 1", "last"]


async def test_reads_that_fail_in_between_cost_no_line(engine, log):
    log("line 1")
    lines = Lines()
    async with following(engine, lines):
        await until(lambda: len(engine.log_reads) >= 2)
        for number in range(2, 42):
            log(f"line {number}")
            if number % 10 == 0:
                engine.cut_reads = 1
            elif number % 15 == 0:
                engine.log_answers = [lambda: web.Response(status=500, text="busy")]
            await asyncio.sleep(0.01)
        await until(lambda: len(lines.messages) >= 41)

    assert lines.messages == numbered(1, 41)


async def test_an_engine_that_stays_away_ends_the_tail_with_its_words(engine, log):
    log("line 1")
    lines = Lines()
    async with following(engine, lines) as task:
        await until(lambda: len(engine.log_reads) >= 2)
        engine.log_answers = [lambda: web.Response(status=500, text="disk on fire")] * 100
        log("line 2")
        with pytest.raises(TailFailed, match="cannot be read on: the engine answered 500: disk on fire"):
            async with asyncio.timeout(30.0):
                await task


@pytest.mark.parametrize(
    ("container_id", "text"),
    [
        ("f" * 64, "no such container: ffffffffffff"),
        ("../../images", "names no container"),
        ("", "names no container"),
        (None, "names no container"),
    ],
)
async def test_a_container_that_is_not_there_is_named(engine, log, container_id, text):
    with pytest.raises(TailFailed, match=text):
        await shown(engine, container_id=container_id)


async def test_a_log_that_cannot_be_read_is_told_in_the_engines_words(engine, log):
    engine.log_answers = [
        lambda: web.Response(status=501, text="configured logging driver does not support reading")
    ]

    with pytest.raises(TailFailed, match="501: configured logging driver does not support reading"):
        await shown(engine)


async def test_a_tail_that_may_not_add_waits_and_loses_nothing(engine, log):
    for number in range(1, 11):
        log(f"line {number}")
    lines = Lines()
    lines.open.clear()
    async with following(engine, lines):
        await until(lambda: engine.log_reads)
        log("line 11")
        await asyncio.sleep(0.05)
        assert lines.lines == []
        lines.open.set()
        await until(lambda: len(lines.messages) >= 11)

    assert lines.messages == numbered(1, 11)
