"""The short form of ``make chaos``, and that its count would see a loss."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.chaos import FULL, SHORT, Tally, order, run, tally
from benchmarks.patient import MARK

ACKNOWLEDGED = {1000: 1, 1100: 2}
CPU = {"__name__": "container_cpu_usage_percent"}


async def test_kills_under_load_lose_and_double_no_acknowledged_sample():
    outcome = await run(SHORT, seed=1, verbose=False)

    assert outcome.is_clean, outcome
    assert outcome.pushes > 500, outcome
    assert outcome.tally.acknowledged >= 20 * outcome.pushes, outcome


@pytest.mark.parametrize(
    ("exported", "expected"),
    [
        ([({"__name__": MARK}, [1000, 1100], [1.0, 2.0])], Tally(acknowledged=2)),
        ([({"__name__": MARK}, [1000], [1.0])], Tally(acknowledged=2, lost=1)),
        ([({"__name__": MARK}, [1000, 1100, 1100], [1.0, 2.0, 2.0])], Tally(acknowledged=2, duplicated=1)),
        ([({"__name__": MARK}, [1000, 1100], [1.0, 7.0])], Tally(acknowledged=2, wrong=1)),
        (
            [({"__name__": MARK}, [1000, 1100, 1200], [1.0, 2.0, 3.0])],
            Tally(acknowledged=2, unacknowledged=1),
        ),
        (
            [({"__name__": MARK}, [1000, 1100], [1.0, 2.0]), (CPU, [1100], [12.5])],
            Tally(acknowledged=4, lost=1),
        ),
        ([(CPU, [1000, 1100], [12.5, 12.5])], Tally(acknowledged=4, lost=2)),
        ([], Tally(acknowledged=2, lost=2)),
    ],
    ids=["all", "lost", "doubled", "changed", "never told", "lost in one series", "series gone", "all gone"],
)
def test_every_acknowledged_sample_is_counted(exported, expected):
    assert tally(ACKNOWLEDGED, exported) == expected


def test_a_seed_fixes_the_order_of_all_kills():
    assert order(FULL, 7) == order(FULL, 7) != order(FULL, 8)
    assert Counter(event for event, _ in order(FULL, 7)) == FULL.kills
