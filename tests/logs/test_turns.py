"""The thread that reads blocks goes round the organizations."""

from __future__ import annotations

import asyncio
import threading

import pytest

from monitor.logs.turns import Turns


async def test_an_organization_waits_behind_the_others_after_each_turn():
    turns = Turns()
    order: list[str] = []
    begin = threading.Event()
    first = turns.submit("busy", begin.wait)

    waiting = [
        turns.submit("busy", lambda number=number: order.append(f"busy {number}")) for number in range(3)
    ]
    waiting += [turns.submit(name, lambda name=name: order.append(name)) for name in ("one", "two")]
    begin.set()
    await asyncio.gather(first, *waiting)
    turns.close()

    assert order == ["busy 0", "one", "two", "busy 1", "busy 2"]


async def test_work_that_nobody_waits_for_is_left_out():
    turns = Turns()
    order: list[int] = []
    begin = threading.Event()
    first = turns.submit("org", begin.wait)
    given_up, kept = (turns.submit("org", lambda number=number: order.append(number)) for number in range(2))

    given_up.cancel()
    begin.set()
    await asyncio.gather(first, kept)
    turns.close()

    assert order == [1]


async def test_a_failure_reaches_whoever_waits_and_nobody_else():
    turns = Turns()

    failing, working = turns.submit("org", lambda: 1 // 0), turns.submit("org", lambda: 7)

    with pytest.raises(ZeroDivisionError):
        await failing
    assert await working == 7
    turns.close()
