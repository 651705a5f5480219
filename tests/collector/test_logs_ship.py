"""Reading and shipping against an engine and a service over real HTTP that fail in turn."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from monitor.collector import backoff
from monitor.collector.client import Service
from monitor.collector.docker import Engine
from monitor.collector.failure import AgentStopped
from monitor.collector.logs import batch, reader, ship
from monitor.collector.logs.records import PIECE_BYTES, time_of
from monitor.collector.logs.ship import LogSettings, Shipper
from monitor.collector.state import Identity
from tests.collector.fakes import TOKEN, answer, frame, until
from tests.collector.shapes import listed

WEB = "a" * 64
DB = "b" * 64
IDENTITY = Identity("agent_1", TOKEN, "")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(backoff, "BACKOFF_LIMIT_SECONDS", 0.02)
    monkeypatch.setattr(batch, "BATCH_SECONDS", 0.02)
    monkeypatch.setattr(batch, "BEHIND_SECONDS", 0.02)
    monkeypatch.setattr(reader, "READ_SECONDS", 0.02)
    monkeypatch.setattr(reader, "REOPEN_SECONDS", 0.02)


@pytest.fixture
def log(engine):
    """Write to the log of a container; each line has a later time."""
    engine.logs = {WEB: [], DB: []}
    start = time.time_ns()
    count = 0

    def write(text, *, container=WEB, kind=1):
        nonlocal count
        count += 1
        engine.logs[container].append((kind, time_of(start + count * 1_000_000), text.encode() + b"\n"))

    return write


@asynccontextmanager
async def shipping(engine, service, state, settings=LogSettings(since_seconds=3600.0), own=None):  # noqa: B008 (frozen)
    async with Engine(engine.host) as source, Service(service.url, "test") as client:
        shipper = Shipper(source, state, settings, own=lambda: own)

        async def deliver():
            await shipper.deliver(client, IDENTITY)

        tasks = [
            asyncio.create_task(shipper.read_forever()),
            asyncio.create_task(backoff.keep_trying(deliver, "logs")),
        ]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def numbered(first, last):
    return [f"line {number}" for number in range(first, last + 1)]


async def test_new_lines_are_shipped_as_they_come(engine, service, log, tmp_path):
    log("before")
    async with shipping(engine, service, tmp_path):
        await until(lambda: service.messages("web") == ["before"])
        for number in range(1, 6):
            log(f"line {number}", kind=1 + number % 2)
            await until(lambda number=number: service.messages("web")[-1] == f"line {number}")

    assert service.messages("web") == ["before", *numbered(1, 5)]
    assert [line["stream"] for line in service.lines[1:]] == [
        "stderr",
        "stdout",
        "stderr",
        "stdout",
        "stderr",
    ]
    assert {line["containerId"] for line in service.lines} == {WEB}


@pytest.mark.parametrize(
    "trouble", [answer(500), answer(503), answer(429), answer(402, "org_suspended"), answer(404)]
)
async def test_while_the_service_is_away_batches_wait_and_arrive_in_order(
    engine, service, log, tmp_path, trouble
):
    service.log_answers = [trouble] * 5
    async with shipping(engine, service, tmp_path):
        for number in range(1, 21):
            log(f"line {number}")
            await asyncio.sleep(0.01)
        await until(lambda: len(service.messages("web")) == 20)

    assert service.messages("web") == numbered(1, 20)


async def test_a_batch_whose_acknowledgement_was_lost_is_repeated_under_its_id(
    engine, service, log, tmp_path
):
    service.cut_answers = 3
    async with shipping(engine, service, tmp_path):
        log("line 1")
        await until(lambda: len(service.batches) == 4)
        log("line 2")
        await until(lambda: len(service.messages("web")) == 2)

    assert service.messages("web") == numbered(1, 2)
    assert len({batch_id for batch_id, _ in service.batches}) == 2


async def test_a_batch_that_the_service_refuses_is_dropped_with_its_words(engine, service, log, tmp_path):
    service.log_answers = [answer(400, "line 1: time: expected RFC 3339")]
    with capture_logs() as logs:
        async with shipping(engine, service, tmp_path):
            log("refused")
            await until(lambda: not service.log_answers)
            log("taken")
            await until(lambda: service.messages("web"))

    assert service.messages("web") == ["taken"]
    [refused] = [entry for entry in logs if entry["log_level"] == "error"]
    assert (refused["lines"], refused["error"]) == (1, "400: line 1: time: expected RFC 3339")


async def test_a_token_that_is_no_longer_valid_ends_the_delivery(engine, service, log, tmp_path):
    service.log_answers = [answer(401, "unauthorized")]
    log("line 1")
    async with shipping(engine, service, tmp_path) as (_, delivering):
        async with asyncio.timeout(30):
            with pytest.raises(AgentStopped, match="no longer valid"):
                await delivering


async def test_a_live_stream_that_stopped_silently_costs_time_and_no_line(
    engine, service, log, tmp_path, monkeypatch
):
    monkeypatch.setattr(reader, "LOOK_SECONDS", 0.1)
    engine.mute = True
    async with shipping(engine, service, tmp_path):
        for number in range(1, 4):
            log(f"line {number}")
            await until(lambda number=number: len(service.messages("web")) == number)

    assert service.messages("web") == numbered(1, 3)


@pytest.mark.parametrize(
    "trouble",
    [
        answer(500),
        answer(501),
        lambda: web.Response(body=b"<html>"),
        lambda: web.Response(body=b"\3\0\0\0\0\0\0\4oops"),
    ],
)
async def test_an_engine_that_fails_in_a_read_is_read_again(engine, service, log, tmp_path, trouble):
    for number in range(1, 4):
        log(f"line {number}")
    engine.log_answers = [trouble] * 4
    async with shipping(engine, service, tmp_path):
        await until(lambda: len(service.messages("web")) == 3)
        log("line 4")
        await until(lambda: len(service.messages("web")) == 4)

    assert service.messages("web") == numbered(1, 4)


@pytest.mark.parametrize("first_tail", [10, 1_000_000])
async def test_a_read_that_is_cut_in_the_midst_costs_and_repeats_nothing(
    engine, service, log, tmp_path, monkeypatch, first_tail
):
    monkeypatch.setattr(reader, "FIRST_TAIL", first_tail)  # the larger one reads everything at once
    for number in range(1, 4):
        log(f"line {number}")
    engine.cut_reads = 3
    async with shipping(engine, service, tmp_path):
        await until(lambda: len(service.messages("web")) == 3)

    assert service.messages("web") == numbered(1, 3)
    assert engine.cut_reads == 0


async def test_more_new_lines_than_were_asked_for_are_asked_for_again(
    engine, service, log, tmp_path, monkeypatch
):
    monkeypatch.setattr(reader, "FIRST_TAIL", 10)
    for number in range(1, 101):
        log(f"line {number}")
    async with shipping(engine, service, tmp_path):
        await until(lambda: len(service.messages("web")) == 100)

    assert service.messages("web") == numbered(1, 100)
    assert [query["tail"] for query in engine.log_reads[:3]] == ["10", "80", "640"]


@pytest.mark.parametrize(("name", "limit"), [("TAIL_LIMIT", 50), ("READ_BYTES", 2_000)])
async def test_a_large_backlog_is_read_from_the_start_of_the_log(
    engine, service, log, tmp_path, monkeypatch, name, limit
):
    monkeypatch.setattr(reader, "FIRST_TAIL", 10)
    monkeypatch.setattr(reader, name, limit)
    for number in range(1, 101):
        log(f"line {number}")
    async with shipping(engine, service, tmp_path):
        await until(lambda: len(service.messages("web")) == 100)
        log("line 101")
        await until(lambda: len(service.messages("web")) == 101)

    assert service.messages("web") == numbered(1, 101)
    assert any("tail" not in query for query in engine.log_reads)


async def test_a_container_that_was_removed_gives_its_last_words(engine, service, log, tmp_path, monkeypatch):
    async with shipping(engine, service, tmp_path):
        log("line 1")
        await until(lambda: service.messages("web"))
        monkeypatch.setattr(reader, "READ_SECONDS", 0.3)  # the removal comes before the next read
        log("line 2")
        await until(lambda: len(service.messages("web")) == 2)
        log("line 3")
        await asyncio.sleep(0.1)
        engine.containers = []
        del engine.logs[WEB]
        await until(lambda: len(service.messages("web")) == 3)

    assert service.messages("web") == numbered(1, 3)


async def test_a_stopped_container_is_read_once_and_again_when_it_was_started(engine, service, log, tmp_path):
    engine.containers = [listed(WEB, "web", state="exited")]
    log("line 1")
    async with shipping(engine, service, tmp_path):
        await until(lambda: service.messages("web") == ["line 1"])
        reads = len(engine.log_reads)
        log("line 2")
        await engine.events.put({"Type": "container", "Action": "start", "Actor": {"ID": DB}})
        await asyncio.sleep(0.2)
        assert len(engine.log_reads) == reads
        await engine.events.put({"Type": "container", "Action": "start", "Actor": {"ID": WEB}})
        await until(lambda: len(service.messages("web")) == 2)


async def test_containers_are_found_without_events_too(engine, service, log, tmp_path, monkeypatch):
    monkeypatch.setattr(ship, "RELIST_SECONDS", 0.05)
    async with shipping(engine, service, tmp_path):
        log("line 1")
        await until(lambda: service.messages("web"))
        log("other", container=DB)
        engine.containers = [*engine.containers, listed(DB, "db")]
        await until(lambda: service.messages("db") == ["other"])


async def test_events_that_end_or_make_no_sense_are_asked_for_again(engine, service, log, tmp_path):
    async with shipping(engine, service, tmp_path):
        await engine.events.put("nonsense")
        await engine.events.put(None)
        log("other", container=DB)
        await asyncio.sleep(0.1)
        engine.containers = [*engine.containers, listed(DB, "db")]
        await engine.events.put({"Type": "container", "Action": "start", "Actor": {"ID": DB}})
        await until(lambda: service.messages("db") == ["other"])


async def test_a_renamed_container_ships_under_its_new_name(engine, service, log, tmp_path):
    async with shipping(engine, service, tmp_path):
        log("line 1")
        await until(lambda: service.messages("web"))
        engine.containers = [listed(WEB, "shop")]
        await engine.events.put({"Type": "container", "Action": "rename", "Actor": {"ID": WEB}})
        await asyncio.sleep(0.1)
        log("line 2")
        await until(lambda: service.messages("shop") == ["line 2"])


async def test_our_own_container_and_excluded_ones_are_not_read(engine, service, log, tmp_path):
    engine.containers = [
        listed(WEB, "agent"),
        listed(DB, "noisy-1"),
        listed("c" * 64, "labelled", labels={"monitor.logs": "false"}),
        listed("d" * 64, "seen"),
        listed("e" * 64, "made", state="created"),
    ]
    engine.logs = {container["Id"]: [] for container in engine.containers}
    for container in engine.logs:
        log("x", container=container)
    settings = LogSettings(exclude=("noisy-*",), since_seconds=3600.0)
    async with shipping(engine, service, tmp_path, settings, own=WEB[:12]):
        await until(lambda: service.lines)
        await asyncio.sleep(0.2)

    assert [line["container"] for line in service.lines] == ["seen"]


async def test_a_restart_goes_on_after_the_last_line_that_was_taken(engine, service, log, tmp_path):
    for first in (1, 11, 21):
        for number in range(first, first + 10):
            log(f"line {number}")
        async with shipping(engine, service, tmp_path):
            await until(lambda last=first + 9: len(service.messages("web")) >= last)

    assert service.messages("web") == numbered(1, 30)


async def test_what_was_read_when_the_agent_ends_is_kept(engine, service, log, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "BATCH_SECONDS", 3600.0)
    log("line 1")
    async with shipping(engine, service, tmp_path):
        await until(lambda: len(engine.log_reads) >= 2)
    del engine.logs[WEB]
    engine.containers = []
    async with shipping(engine, service, tmp_path):
        await until(lambda: service.messages("web") == ["line 1"])


async def test_a_live_stream_that_does_not_end_with_its_container_keeps_no_last_words(
    engine, service, log, tmp_path
):
    engine.mute = True
    ended = asyncio.Event()
    engine.live_logs = lambda request, id_: hang(request, ended)
    async with shipping(engine, service, tmp_path):
        log("line 1")
        await until(lambda: service.messages("web"))
        engine.logs[WEB].append((1, time_of(time.time_ns() + 10**9), b"unfinished"))
        engine.containers = [listed(WEB, "web", state="exited")]
        await engine.events.put({"Type": "container", "Action": "die", "Actor": {"ID": WEB}})
        await until(lambda: service.messages("web") == ["line 1", "unfinished"])
    ended.set()


async def test_a_container_that_ends_during_a_read_is_looked_at_at_once(
    engine, service, log, tmp_path, monkeypatch
):
    monkeypatch.setattr(reader, "LOOK_SECONDS", 300.0)
    stirred, ended = asyncio.Event(), asyncio.Event()
    stir = reader.ContainerLog.stir
    monkeypatch.setattr(reader.ContainerLog, "stir", lambda self: (stir(self), stirred.set()))

    async def nothing_before_the_end():
        await stirred.wait()
        yield b""

    engine.log_answers = [lambda: web.Response(body=nothing_before_the_end())]
    engine.live_logs = lambda request, id_: hang(request, ended)
    async with shipping(engine, service, tmp_path):
        await until(lambda: not engine.log_answers)
        log("line 1")
        engine.containers = [listed(WEB, "web", state="exited")]
        await engine.events.put({"Type": "container", "Action": "die", "Actor": {"ID": WEB}})
        await until(lambda: service.messages("web") == ["line 1"])
    ended.set()


PIECES = [b"x" * PIECE_BYTES, b"x" * PIECE_BYTES, b"end\n"]
WHOLE = 2 * PIECE_BYTES + len("end")
BEFORE_ITS_START = "2026-11-21T00:00:00.499000000Z"  # by the stand-in's clock
ALL = LogSettings(since_seconds=20 * 365 * 86400.0)


@pytest.fixture
def looking(monkeypatch):
    """Readers look again and again, whatever the live stream brings."""
    monkeypatch.setattr(reader, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(reader, "END_SECONDS", 0.02)


async def read_piece_by_piece(engine, pieces, time_):
    """Let a container write the pieces of a line; each was read, and done with, before the next."""
    for piece in pieces:
        engine.logs[WEB].append((1, time_, piece))
        reads = len(engine.log_reads)
        # A container's reads come one after the other: the first of these is over.
        await until(lambda reads=reads: len(engine.log_reads) >= reads + 2)


async def test_a_first_line_that_is_older_than_the_noted_start_comes_whole(
    engine, service, log, tmp_path, looking
):
    async with shipping(engine, service, tmp_path, ALL):
        await read_piece_by_piece(engine, PIECES, BEFORE_ITS_START)
        await until(lambda: service.messages("web"))

    assert [len(message) for message in service.messages("web")] == [WHOLE]


async def test_a_first_line_that_begins_in_the_read_of_a_stopped_container_comes_whole(
    engine, service, log, tmp_path, looking
):
    now = time_of(time.time_ns())

    def start_and_answer():
        engine.logs[WEB].append((1, now, PIECES[0]))
        engine.containers = [listed(WEB, "web")]
        engine.events.put_nowait({"Type": "container", "Action": "start", "Actor": {"ID": WEB}})
        return web.Response(body=frame(1, now, PIECES[0]))

    engine.containers = [listed(WEB, "web", state="exited")]
    engine.log_answers = [start_and_answer]
    async with shipping(engine, service, tmp_path):
        await until(lambda: not engine.log_answers)
        await read_piece_by_piece(engine, PIECES[1:], now)
        await until(lambda: service.messages("web"))

    assert [len(message) for message in service.messages("web")] == [WHOLE]


@pytest.mark.parametrize("is_removed", [False, True])
async def test_full_pieces_of_a_container_that_stays_stopped_are_a_line(
    engine, service, log, tmp_path, is_removed
):
    now = time_of(time.time_ns())

    def remove_and_answer():
        engine.containers = []
        return web.Response(body=frame(1, now, PIECES[0]))

    engine.containers = [listed(WEB, "web", state="exited")]
    engine.logs[WEB].append((1, now, PIECES[0]))
    engine.log_answers = [remove_and_answer] if is_removed else []
    async with shipping(engine, service, tmp_path):
        await until(lambda: service.messages("web"))

    assert [len(message) for message in service.messages("web")] == [PIECE_BYTES]


async def hang(request, ended):
    response = web.StreamResponse()
    await response.prepare(request)
    await ended.wait()
    return response
