"""The short form of the agent's part of ``make chaos``, and that its counts would see a loss."""

from __future__ import annotations

import time
from collections import Counter

import aiohttp
import msgspec
import pytest

from benchmarks.busy import STEP_BYTES
from benchmarks.faults import SHORT, Outcome, lines_tally, run, samples_tally, stored_samples
from benchmarks.unreliable import EARLY, LATE
from monitor.dev.victoriametrics import VictoriaMetricsServer

STEP = float(STEP_BYTES)
COLLECTED = {1000: STEP, 2000: 2 * STEP, 3000: 3 * STEP}


async def test_an_agent_beside_a_failing_service_loses_and_doubles_nothing():
    outcome, faults = await run(SHORT, seed=1)

    assert outcome.is_clean, outcome
    assert outcome.snapshots > 5, outcome
    assert outcome.lines > 50, outcome
    assert outcome.commands - outcome.commands_expired > 0, outcome
    assert sum(faults[fault] for fault in EARLY) > 0, faults
    assert sum(faults[fault] for fault in LATE) > 0, faults


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([(1000, STEP), (2000, 2 * STEP), (3000, 3 * STEP)], (0, 0, 0)),
        ([(1000, STEP), (2000, 2 * STEP)], (0, 0, 0)),
        ([(1000, STEP), (3000, 3 * STEP)], (1, 0, 0)),
        ([(2000, 2 * STEP), (3000, 3 * STEP)], (1, 0, 0)),
        ([(1000, STEP), (2000, 2 * STEP), (2000, 2 * STEP)], (0, 1, 0)),
        ([(1000, STEP), (2000, 3 * STEP)], (1, 0, 1)),
        ([(1000, STEP), (1500, 2 * STEP)], (0, 0, 1)),
        ([], (1, 0, 0)),
    ],
    ids=["all", "not told", "a gap", "told and lost", "twice", "another value", "never pushed", "all gone"],
)
def test_every_snapshot_is_counted(stored, expected):
    assert samples_tally(COLLECTED, {1000}, stored) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (["line 1", "line 2", "line 3"], (0, 0)),
        (["line 1", "line 3"], (1, 0)),
        (["line 1", "line 2", "line 2", "line 3"], (0, 1)),
        ([], (3, 0)),
    ],
)
def test_every_line_is_counted(found, expected):
    assert lines_tally(3, Counter(found)) == expected


async def test_a_sample_of_this_very_second_is_among_the_stored(tmp_path):
    victoriametrics = VictoriaMetricsServer(tmp_path / "victoriametrics")
    await victoriametrics.start()
    try:
        url, now = victoriametrics.url, time.time()
        # Half a minute ahead: the second is not over when it is asked for, however slow the machine.
        pushed = {round((now + ahead) * 1000): float(number) for number, ahead in enumerate((-30, 0, 30))}
        body = "".join(f"memory v={value} {at}\n" for at, value in pushed.items())
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/write?precision=ms", data=body) as answer:
                answer.raise_for_status()
            async with session.get(f"{url}/internal/force_flush") as answer:
                answer.raise_for_status()
            stored = await stored_samples(session, url, "memory_v", now - 60)
    finally:
        await victoriametrics.stop()

    assert dict(stored) == pushed


def test_what_is_missing_twice_held_or_dropped_is_not_clean():
    clean = msgspec.convert(dict.fromkeys(Outcome.__struct_fields__, 0), Outcome)
    counted = {"snapshots", "lines", "commands", "commands_expired"}
    for field in Outcome.__struct_fields__:
        assert msgspec.structs.replace(clean, **{field: 1}).is_clean is (field in counted), field
