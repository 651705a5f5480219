"""What the search process does with a question, without the pipes around it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import Any

import msgspec
import pytest

from monitor.db.postgres import Pool
from monitor.logs.engine import Engine
from monitor.logs.find import all_lines
from monitor.logs.messages import Answer, Ask, Cancel, Count, Find
from monitor.logs.models import Search
from monitor.logs.times import LATEST
from tests.conftest import Agent, Api
from tests.logs.corpus import Corpus


class Pipe:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def write(self, frame: bytes) -> None:
        self.answers.append(msgspec.msgpack.decode(frame[4:], type=Answer))


def everything(org_id: str) -> Search:
    return msgspec.structs.replace(all_lines(org_id, 0), end=LATEST, limit=1000)


async def settled(engine: Engine) -> None:
    async with asyncio.timeout(30):
        while engine._tasks:
            await asyncio.sleep(0.01)


async def test_a_question_that_is_taken_back_is_given_up(pool: Pool, api: Api):
    pipe = Pipe()
    engine = Engine(pool, pipe)  # type: ignore[arg-type]

    for number in range(3):
        engine.hear(Ask(number, 10.0, Find(everything(api.org_id))))
    engine.hear(Cancel(1))
    engine.hear(Cancel(99))  # answered long ago
    await settled(engine)

    assert sorted(answer.number for answer in pipe.answers) == [0, 2]
    await engine.close()


async def test_a_question_given_up_in_the_middle_leaves_its_connection_usable(
    pool: Pool, api: Api, agent: Agent
):
    corpus = Corpus(3, time.time_ns())
    for _ in range(20):
        await corpus.send(agent, 50)
    pipe = Pipe()
    engine = Engine(pool, pipe)  # type: ignore[arg-type]

    for number in range(20):
        engine.hear(Ask(number, 10.0, Find(everything(api.org_id))))
        await asyncio.sleep(0.001 * number)
        engine.hear(Cancel(number))
    engine.hear(Ask(100, 10.0, Find(everything(api.org_id))))
    await settled(engine)

    last = pipe.answers[-1]
    assert (last.number, last.outcome) == (100, "found")
    lines: list[Any] = msgspec.json.decode(last.body)
    assert len(lines) == 1000
    assert {answer.outcome for answer in pipe.answers} == {"found"}
    await engine.close()


async def test_an_answer_in_time_or_none(pool: Pool, api: Api):
    pipe = Pipe()
    engine = Engine(pool, pipe)  # type: ignore[arg-type]

    engine.hear(Ask(1, 0.0, Find(everything(api.org_id))))
    await settled(engine)

    assert [(answer.number, answer.outcome) for answer in pipe.answers] == [(1, "too_slow")]
    await engine.close()


async def test_what_takes_more_reading_than_allowed_is_given_up(pool: Pool, api: Api, agent: Agent):
    corpus = Corpus(3, time.time_ns())
    await corpus.send(agent, 50)
    pipe = Pipe()
    engine = Engine(pool, pipe, most_bytes=1000)  # type: ignore[arg-type]

    engine.hear(Ask(1, 10.0, Find(everything(api.org_id))))
    engine.hear(Ask(2, 10.0, Count(everything(api.org_id), 10**9, 0)))
    engine.hear(Ask(3, 10.0, Find(msgspec.structs.replace(everything(api.org_id), end=0))))
    await settled(engine)

    assert sorted((it.number, it.outcome) for it in pipe.answers) == [
        (1, "too_deep"),
        (2, "too_deep"),
        (3, "found"),
    ]
    await engine.close()


STAND_BACK = """
import os
from monitor.logs import engine
before, nice = os.sched_getaffinity(0), os.nice(0)
{change}
engine._stand_back()
print(os.sched_getscheduler(0) == os.SCHED_IDLE, os.nice(0) - nice, len(before) - len(os.sched_getaffinity(0)))
"""
FORBIDDEN = """
def forbidden(*_):
    raise PermissionError
os.sched_setscheduler = forbidden
"""


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "forbidden"])
def test_deep_searches_stand_back_as_far_as_they_may(allowed: bool):
    code = STAND_BACK.format(change="" if allowed else FORBIDDEN)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    *logged, printed = run.stdout.splitlines()

    processors = len(os.sched_getaffinity(0))
    assert printed == (f"True 0 {processors // 2}" if allowed else "False 10 0")
    assert ("deep searches cannot stand back" in "".join(logged)) is not allowed
