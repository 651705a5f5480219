"""Every filter and every form of q, against a plain filter over the same lines.

Before, during and after compaction, on either of two replicas.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from monitor.db.postgres import Pool
from monitor.logs import compact
from monitor.logs.times import format_ns
from tests.conftest import Agent, Api, Service
from tests.logs.corpus import SECOND, Asked, Corpus, expected, questions, search_all, told

SEED = 20  # any: every run asks the same
QUESTIONS = 60


async def check(api: Api, corpus: Corpus, asked: Asked) -> None:
    start, end = corpus.start, corpus.start + 60 * SECOND
    params = {**asked.query(), "limit": "1000", **window(corpus)}

    found = await search_all(api, params)

    assert told(found) == expected(corpus, asked, start, end), params
    assert len({line["id"] for line in found}) == len(found)


def window(corpus: Corpus) -> dict[str, str]:
    return {"start": format_ns(corpus.start), "end": format_ns(corpus.start + 60 * SECOND)}


async def test_a_search_finds_what_a_plain_filter_finds_before_during_and_after_compaction(
    app: Service,
    api: Api,
    pool: Pool,
    make_agent: Callable[..., Awaitable[Agent]],
    there: Callable[[Api], Api],
    alone: Callable[[str], Awaitable[None]],
    compact_all: Callable[[str], Awaitable[int]],
):
    await alone(api.org_id)
    agents = [await make_agent(api, name=name) for name in ("host-1", "host-2")]
    corpus = Corpus(SEED, time.time_ns() // SECOND * SECOND - 600 * SECOND)
    for number in range(30):
        await corpus.send(agents[number % 2], 20)
    asked = questions(corpus, [agent.agent_id for agent in agents], QUESTIONS)
    replicas = (api, there(api))
    answers = [expected(corpus, it, corpus.start, corpus.start + 60 * SECOND) for it in asked]
    assert sum(0 < len(answer) < len(corpus.lines) for answer in answers) > len(asked) / 2

    for number, question in enumerate(asked):
        await check(replicas[number % 2], corpus, question)

    # Half of the rows become a chunk; more lines come.
    day = await pool.fetchval("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")
    most, compact.MOST_ROWS = compact.MOST_ROWS, 7
    try:
        for _ in range(2):
            assert await compact.write_chunk(app.app, api.org_id, day) == 7
        await corpus.send(agents[0], 40)
        for number, question in enumerate(asked):
            await check(replicas[number % 2], corpus, question)

        # Searches while chunks are written.
        async def keep_compacting() -> None:
            while await compact.write_chunk(app.app, api.org_id, day):
                await asyncio.sleep(0.01)

        compacting = asyncio.create_task(keep_compacting())
        for number, question in enumerate(asked):
            await check(replicas[number % 2], corpus, question)
        await compacting
    finally:
        compact.MOST_ROWS = most

    assert await compact_all(api.org_id) >= 1
    for number, question in enumerate(asked):
        await check(replicas[number % 2], corpus, question)


async def test_pages_are_stable_while_lines_come_and_chunks_are_written(
    app: Service, api: Api, agent: Agent, compact_all: Callable[[str], Awaitable[int]]
):
    corpus = Corpus(SEED + 1, time.time_ns() // SECOND * SECOND - 600 * SECOND)
    for _ in range(10):
        await corpus.send(agent, 30)
    before = expected(corpus, Asked((), {}), corpus.start, corpus.start + 60 * SECOND)
    params = {"limit": "17", **window(corpus)}
    found = []
    cursor = None
    later = Corpus(SEED + 2, corpus.start + 100 * SECOND)

    for page in range(100):
        query = {**params, **({"cursor": cursor} if cursor else {})}
        async with api.get("/api/v1/logs/search", params=query) as response:
            found += await response.json()
            cursor = response.headers.get("X-Next-Cursor")
        if not cursor:
            break
        if page % 5 == 0:
            await later.send(agent, 5)
            await compact_all(api.org_id)

    assert told(found) == before
