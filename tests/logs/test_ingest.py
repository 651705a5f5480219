"""Batches of lines: all or nothing, acknowledged when durable, stored once."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import zstandard

from monitor.db.postgres import Pool
from monitor.logs.ingest.store import BATCH_IDS
from monitor.logs.times import format_ns
from tests.conftest import Agent, Api
from tests.logs.corpus import search, send

Shown = tuple[int, Any]


def line(message: str = "hello", **changes: Any) -> dict[str, Any]:
    return {
        "time": format_ns(time.time_ns()),
        "stream": "stdout",
        "message": message,
        "containerId": "c" * 64,
        "container": "web",
        **changes,
    }


async def post(agent: Agent, body: bytes | list[dict[str, Any]], **headers: str) -> Shown:
    data = body if isinstance(body, bytes) else "\n".join(map(json.dumps, body)).encode()
    sent = {"Content-Type": "application/x-ndjson", **{k.replace("_", "-"): v for k, v in headers.items()}}
    async with agent.api.post(f"{agent.path}/logs", data=data, headers=sent) as response:
        return response.status, await response.json()


async def messages(api: Api, **params: str) -> list[str]:
    found, _ = await search(api, params)
    return [it["message"] for it in found]


async def test_a_line_is_found_as_it_was_sent(api: Api, agent: Agent):
    at = time.time_ns()
    await send(agent, [line("hello <b>World</b> \x1b[1m\x00", time=format_ns(at), stream="stderr")])

    found, cursor = await search(api, {})

    assert cursor is None
    (one,) = found
    assert one.pop("id")
    assert one == {
        "time": format_ns(at),
        "source": "docker",
        "agentId": agent.agent_id,
        "namespace": "",
        "pod": "",
        "container": "web",
        "containerId": "c" * 64,
        "stream": "stderr",
        "message": "hello <b>World</b> \x1b[1m\x00",
        "truncated": False,
    }


async def test_a_line_of_a_pod_is_of_kubernetes(api: Api, agent: Agent):
    sent = line(namespace="default", pod="web-1", containerId=None)
    await send(agent, [sent])

    ((one,), _) = await search(api, {"namespace": "default", "pod": "web-1", "container": "web"})

    assert (one["source"], one["namespace"], one["pod"], one["container"]) == (
        "kubernetes", "default", "web-1", "web",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("zstd", zstandard.compress), ("identity", bytes)],
)
async def test_a_body_may_be_compressed(
    api: Api, agent: Agent, encoding: str, pack: Callable[[bytes], bytes]
):
    body = pack(json.dumps(line("packed")).encode() + b"\n\n")

    assert await post(agent, body, Content_Encoding=encoding) == (200, {"accepted": 1})
    assert await messages(api) == ["packed"]


async def test_an_empty_batch_is_accepted(agent: Agent):
    assert await post(agent, b"\n \n") == (200, {"accepted": 0})


GOOD = json.dumps(line()).encode()


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "expected object"),
        (b'"x"', "expected object"),
        (b"\xff", "not valid"),
        (json.dumps(line(time="yesterday")).encode(), "time: expected an RFC 3339 time"),
        (json.dumps(line(time="0001-01-01T00:00:00Z")).encode(), "time: the time is outside"),
        (json.dumps(line(time=1)).encode(), "time: expected string"),
        (json.dumps(line(stream="out")).encode(), "stream: "),
        (json.dumps({**line(), "message": None}).encode(), "message: expected string"),
        (b'{"time":"2026-01-01T00:00:00Z","stream":"stdout","containerId":"c"}', "message: required"),
        (json.dumps(line(containerId=None)).encode(), "containerId: required"),
        (json.dumps(line(containerId="")).encode(), "containerId: required"),
        (json.dumps(line(namespace="default")).encode(), "pod: required"),
        (json.dumps(line(pod="web")).encode(), "namespace: required"),
        (json.dumps(line(container="x" * 1025)).encode(), "container: longer than 1,024 bytes"),
        (json.dumps(line(containerId="a\0b")).encode(), "containerId: must not contain NUL"),
        (b'{"time":"2026-01-01T00:00:00Z","stream":"stdout","message":"\\ud800","containerId":"c"}', ""),
    ],
)
async def test_a_malformed_line_refuses_the_batch_by_its_number(api: Api, agent: Agent, bad: bytes, why: str):
    status, answer = await post(agent, GOOD + b"\n\n" + bad + b"\n" + GOOD)

    assert status == 400
    assert answer["error"].startswith(f"line 3: {why}"), answer
    assert await messages(api) == []


async def test_a_body_that_is_something_else_is_415(agent: Agent):
    status, _ = await post(agent, GOOD, Content_Type="text/html")
    assert status == 415
    status, _ = await post(agent, GOOD, Content_Encoding="br")
    assert status == 415


async def test_a_body_above_16_mib_is_413(agent: Agent):
    status, _ = await post(agent, gzip.compress(b"\n" * (16 * 2**20 + 1)), Content_Encoding="gzip")

    assert status == 413


@pytest.mark.parametrize(("character", "kept"), [("x", 65_536), ("é", 32_768), ("日", 21_845)])
async def test_a_message_above_64_kib_is_cut_at_a_character(
    api: Api, agent: Agent, character: str, kept: int
):
    await send(agent, [line(character * 70_000), line("x" * 65_536)])

    found, _ = await search(api, {})

    told = {(it["message"][:1], len(it["message"]), it["truncated"]) for it in found}
    assert told == {(character, kept, True), ("x", 65_536, False)}


async def test_a_repeated_batch_is_acknowledged_and_stored_once(api: Api, agent: Agent):
    for batch_id in ("epoch-1:7", "any other text"):
        for _ in range(3):
            await send(agent, [line(batch_id)], batch_id)

    assert sorted(await messages(api)) == ["any other text", "epoch-1:7"]


async def test_repeated_batches_at_the_same_time_are_stored_once(
    api: Api, agent: Agent, there: Callable[[Api], Api]
):
    elsewhere = Agent(there(agent.api), agent.agent_id)
    for batch_id in ("e:1", "text"):
        await asyncio.gather(*(send(it, [line(batch_id)], batch_id) for it in [agent, elsewhere] * 5))

    assert sorted(await messages(api)) == ["e:1", "text"]


async def test_numbers_grow_by_epoch(api: Api, agent: Agent, make_agent: Callable[..., Awaitable[Agent]]):
    second = await make_agent(api, name="host-2")
    for sender, batch_id in [
        (agent, "a:2"),
        (agent, "a:1"),  # older than the newest of its epoch: stored already
        (agent, "b:1"),
        (agent, "a:10"),
        (second, "a:1"),
    ]:
        await send(sender, [line(f"{sender.agent_id} {batch_id}")], batch_id)

    stored = {it.split()[1] for it in await messages(api) if it.startswith(agent.agent_id)}
    assert stored == {"a:2", "b:1", "a:10"}
    assert len(await messages(api)) == 4


async def test_the_last_1000_other_ids_of_an_agent_are_kept(api: Api, agent: Agent, pool: Pool):
    await send(agent, [line("first")], "first")
    await pool.execute(
        "INSERT INTO log_batch_ids (org_id, agent_id, batch_id)"
        " SELECT $1, $2, 'x' || n FROM generate_series(1, $3::int) AS n",
        api.org_id,
        agent.agent_id,
        BATCH_IDS - 1,
    )
    await send(agent, [line("first")], "first")
    assert await messages(api) == ["first"]

    await send(agent, [line("another")], "another")
    kept = await pool.fetchval("SELECT count(*) FROM log_batch_ids WHERE agent_id = $1", agent.agent_id)
    assert kept == BATCH_IDS
    await send(agent, [line("first")], "first")
    assert sorted(await messages(api)) == ["another", "first", "first"]


@pytest.mark.parametrize("batch_id", ["", "x" * 201, "ü"])
async def test_a_batch_id_that_is_no_text_is_refused(agent: Agent, batch_id: str):
    status, answer = await post(agent, [line()], X_Batch_Id=batch_id)

    assert status == 400
    assert answer["field"] == "X-Batch-Id"


async def test_a_large_batch_is_stored_whole(api: Api, agent: Agent, pool: Pool):
    await send(agent, [line("x" * 1000 + str(number)) for number in range(3_000)], "e:1")

    rows = await pool.fetch("SELECT line_count FROM log_batches WHERE org_id = $1", api.org_id)
    assert len(rows) > 5
    assert sum(row["line_count"] for row in rows) == 3_000
    async with api.get("/api/v1/logs/histogram") as response:
        assert (await response.json())["count"] == 3_000


async def test_lines_of_a_deleted_agent_stay_and_no_more_come(api: Api, agent: Agent):
    await send(agent, [line("before")])
    async with api.delete(agent.path) as response:
        assert response.status == 204

    status, answer = await post(agent, [line("after")])

    assert (status, answer) == (401, {"error": "unauthorized"})
    assert await messages(api) == ["before"]


async def test_another_organization_finds_nothing(agent: Agent, other: Api):
    await send(agent, [line("secret")])

    assert await messages(other) == []
