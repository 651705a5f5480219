"""Batches and positions: both are there, or neither; what was sent keeps its id."""

import asyncio
import gzip
import json

import pytest
from structlog.testing import capture_logs

from monitor.collector.failure import AgentStopped
from monitor.collector.logs import batch as batch_module
from monitor.collector.logs.batch import BATCH_BYTES, OpenBatch
from monitor.collector.logs.position import Mark, Position
from monitor.collector.logs.spool import LogSpool
from monitor.wire.logs import LogLine

MEBIBYTE = 1024 * 1024
TIME = "2026-11-21T01:20:51.226641525Z"


def at(count):
    return Position(stdout=Mark(TIME, count))


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "logs"


def opened(directory, *, start_ns=1, max_bytes=MEBIBYTE):
    return LogSpool(directory, start_ns=start_ns, max_bytes=max_bytes)


def line(message, container_id="c1"):
    return LogLine(TIME, "stdout", message, container_id, "web")


def test_what_was_not_acknowledged_is_found_with_its_id_and_positions_after_a_kill(directory):
    spool = opened(directory)
    spool.add(b"one", 1, {"c1": at(1)})
    spool.add(b"two", 2, {"c1": at(3), "c2": at(1)})
    first = spool.oldest()

    again = opened(directory, start_ns=99)

    assert again.start_ns == 1
    assert again.positions == {"c1": at(3), "c2": at(1)}
    assert again.oldest() == first
    again.remove(first.seq)
    second = again.oldest()
    assert (second.body, second.lines) == (b"two", 2)
    epoch, number = second.batch_id.split(":")
    assert (first.batch_id, number) == (f"{epoch}:1", "2")


def test_positions_outlive_their_batches(directory):
    spool = opened(directory)
    spool.add(b"one", 1, {"c1": at(1)})
    spool.remove(spool.oldest().seq)

    again = opened(directory)

    assert again.oldest() is None
    assert again.positions == {"c1": at(1)}


def test_no_number_of_an_epoch_is_used_again_by_a_later_start(directory):
    ids = set()
    for _ in range(3):
        spool = opened(directory)
        spool.add(b"x", 1, {})
        ids.add(spool.oldest().batch_id)
        spool.remove(spool.oldest().seq)

    assert len(ids) == 3


def test_above_the_bound_the_oldest_lines_are_dropped_and_counted(directory):
    spool = opened(directory, max_bytes=1_000)
    with capture_logs() as logs:
        for number in range(5):
            spool.add(b"x" * 300, 10, {"c1": at(number + 1)})

    assert spool.dropped_lines == 30
    assert len(spool) == 2
    assert [entry["lines"] for entry in logs if "spool is full" in entry["event"]] == [10, 20, 30]
    assert opened(directory).positions == {"c1": at(5)}


def test_an_acknowledgement_for_a_dropped_batch_removes_no_other(directory):
    spool = opened(directory, max_bytes=500)
    spool.add(b"x" * 300, 1, {})
    sent = spool.oldest()
    spool.add(b"y" * 300, 1, {})

    spool.remove(sent.seq)

    assert spool.oldest().body == b"y" * 300


@pytest.mark.parametrize(
    "damage", [lambda content: b"", lambda content: content[:-1], lambda content: b"\0" * 9]
)
def test_a_batch_that_a_power_loss_damaged_is_told_and_costs_no_other(directory, damage):
    spool = opened(directory)
    for number in range(1, 4):
        spool.add(b"body", 1, {f"c{number}": at(number)})
    path = sorted(directory.glob("*.batch"))[1]
    path.write_bytes(damage(path.read_bytes()))

    again = opened(directory)

    assert again.positions == {"c1": at(1), "c3": at(3)}
    assert len(again) == 2


def test_damaged_positions_begin_anew_from_now(directory):
    opened(directory).add(b"x", 1, {"c1": at(1)})
    (directory / "positions.json").write_text('{"startNs"')
    with capture_logs() as logs:
        again = opened(directory, start_ns=7)

    assert again.start_ns == 7
    assert again.positions == {"c1": at(1)}
    assert "going on from now" in logs[0]["event"]


def test_positions_of_removed_containers_are_forgotten(directory):
    spool = opened(directory)
    spool.add(b"x", 1, {"c1": at(1), "c2": at(1)})

    spool.keep_only({"c2"})
    spool.remove(spool.oldest().seq)

    assert json.loads((directory / "positions.json").read_text())["positions"].keys() == {"c2"}


def test_a_directory_that_cannot_be_used_ends_the_start(tmp_path):
    (tmp_path / "logs").write_text("a file")

    with pytest.raises(AgentStopped, match="cannot be used"):
        opened(tmp_path / "logs")


async def test_a_batch_is_closed_by_size_with_the_positions_of_its_lines(directory):
    spool = opened(directory)
    batch = OpenBatch(spool)
    text = "x" * 1000
    count = 0
    while not len(spool):
        count += 1
        batch.add(line(text), "c1", at(count))
        assert batch.position("c1") == at(count)

    held = spool.oldest()
    content = gzip.decompress(held.body)
    assert BATCH_BYTES <= len(content) < BATCH_BYTES + 2_000
    assert [json.loads(one)["message"] for one in content.splitlines()] == [text] * count
    assert (held.lines, spool.positions) == (count, {"c1": at(count)})


async def test_a_batch_is_closed_by_time(directory, monkeypatch):
    monkeypatch.setattr(batch_module, "BATCH_SECONDS", 0.02)
    spool = opened(directory)
    batch = OpenBatch(spool)
    task = asyncio.create_task(batch.close_forever())
    batch.add(line("<b>\0\x1b[1m\udc80".encode(errors="replace").decode()), "c1", at(1))

    async with asyncio.timeout(30):
        await batch.spooled.wait()

    task.cancel()
    assert len(spool) == 1


async def test_while_the_disk_is_full_lines_wait_and_none_is_lost(directory, monkeypatch):
    monkeypatch.setattr(batch_module, "BATCH_SECONDS", 0.01)
    monkeypatch.setattr(batch_module, "FULL_RETRY_SECONDS", 0.01)
    spool = opened(directory)
    batch = OpenBatch(spool)
    add, full = spool.add, True

    def refuse_while_full(*arguments):
        if full:
            raise OSError(28, "No space left on device")
        add(*arguments)

    monkeypatch.setattr(spool, "add", refuse_while_full)
    closing = asyncio.create_task(batch.close_forever())
    batch.add(line("one"), "c1", at(1))
    with capture_logs() as logs:
        batch.close()
        waiting = asyncio.create_task(batch.ready())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert spool.positions == {}
        full = False
        async with asyncio.timeout(30):
            await waiting

    closing.cancel()
    assert [entry["error"] for entry in logs if "wait for the disk" in entry["event"]] == [
        "No space left on device"
    ]
    assert spool.positions == {"c1": at(1)}
    assert spool.oldest().lines == 1
