"""The live tail over HTTP: who may, what comes, how it goes on and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import zstandard
from aiohttp import web

from monitor.db.postgres import Pool
from monitor.errors import StorageUnavailable
from monitor.logs.tail import store
from monitor.logs.tail.lines import receive
from monitor.logs.tail.lines.feeds import FEEDS
from monitor.logs.tail.sweep import sweep
from monitor.wire.tail import TailLine
from tests.conftest import Addresses, Agent, Api, Service, settings, start_service
from tests.logs.tailing import CONTAINER, POD, TIME, Viewer, ndjson, numbered, send, sent, until, watching

UNKNOWN = "tail_" + "0" * 32
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def agent(agent: Agent) -> Agent:
    """An agent that reports a container and a pod."""
    await agent.pushed(containers=[{"id": CONTAINER, "shortId": "short", "name": "web"}], pods=[POD])
    return agent


@pytest.fixture
async def elsewhere(there: Callable[[Api], Api], agent: Agent) -> Agent:
    """The same agent, talking to the second replica."""
    return Agent(there(agent.api), agent.agent_id)


async def connected(viewer: Viewer) -> str:
    """Return the id of the request that the viewer got."""
    event = await viewer.next()
    assert event is not None
    assert event.kind == "connected"
    return str(event.body["requestId"])


async def row_of(pool: Pool, request_id: str) -> Any:
    return await pool.fetchrow("SELECT * FROM tail_requests WHERE id = $1", request_id)


async def set_back(pool: Pool, request_id: str, column: str, seconds: float) -> None:
    """Make what *column* tells lie *seconds* further back."""
    await pool.execute(
        f"UPDATE tail_requests SET {column} = clock_timestamp() - make_interval(secs => $2) WHERE id = $1",
        request_id,
        seconds,
    )


async def swept(app: Service, pool: Pool, request_id: str, rows: str = "tail_lines WHERE request_id") -> bool:
    """Sweep, as the background does meanwhile; return whether that left nothing of the request."""
    await sweep(app.app)
    return await pool.fetchval(f"SELECT count(*) FROM {rows} = $1", request_id) == 0


async def left(pool: Pool, request_id: str) -> None:
    """Wait until it is noted that nobody watches."""
    await until(lambda: pool.fetchval("SELECT left_at FROM tail_requests WHERE id = $1", request_id))


async def test_a_viewer_is_connected_waits_and_gets_the_lines(api: Api, agent: Agent):
    async with watching(api, follow=1) as viewer:
        assert viewer.response.headers["Content-Type"] == "text/event-stream"
        assert viewer.response.headers["Cache-Control"] == "no-store"
        first, second = await viewer.next(), await viewer.next()
        request_id = first.body["requestId"]
        assert (first.kind, first.body["agentId"]) == ("connected", agent.agent_id)
        assert (second.kind, list(second.body)) == ("waiting", ["message"])

        lines = [
            TailLine("2026-01-02T04:04:05.5+01:00", "stderr", "first: ü \n\r\t\0 data: x\n\nid: 5", 0),
            TailLine(TIME, "stdout", "", 1),
        ]
        assert await sent(agent, request_id, lines) == 2

        event = await viewer.next()
        assert (event.kind, event.id) == ("log", f"{request_id}:0")
        assert event.body == {
            "line": "first: ü \n\r\t\0 data: x\n\nid: 5",
            "source": "docker",
            "ts": "2026-01-02T03:04:05.500000000Z",
            "stream": "stderr",
        }
        event = await viewer.next()
        assert (event.body["line"], event.body["stream"], event.id) == ("", "stdout", f"{request_id}:1")


async def test_a_plan_without_log_streaming_is_refused_before_the_stream_opens(make_api, make_agent):
    free = await make_api(plan="free")
    agent = await make_agent(free)
    await agent.pushed(containers=[{"id": CONTAINER, "name": "web"}])

    for path in (f"containers/{CONTAINER}", "containers/unknown", "pods/shop/web-1"):
        async with free.get(f"/api/v1/logs/{path}") as response:
            assert response.status == 403
            assert await response.json() == {"error": "Log streaming is available on the Pro plan"}


@pytest.mark.parametrize(
    "path",
    [
        "containers/unknown",
        f"containers/{CONTAINER[:11]}",
        "pods/shop/web",
        "pods/other/web-1",
        "pods/shop/web-1?container=unknown",
        f"containers/{CONTAINER}?agentId=agent_unknown",
    ],
)
async def test_what_no_agent_reports_is_not_found(api: Api, agent: Agent, path: str):
    async with api.get(f"/api/v1/logs/{path}") as response:
        assert (response.status, await response.json()) == (404, {"error": "not_found"})


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("tail=-1", "tail: expected a whole number from 0 to 10000"),
        ("tail=10001", "tail: expected a whole number from 0 to 10000"),
        ("tail=x", "tail: expected a whole number from 0 to 10000"),
        ("tail=1&tail=2", "tail: given with different values"),
        ("sinceSeconds=0", "sinceSeconds: expected a whole number from 1 to 999999999"),
        ("follow=yes", "follow: expected 1 or 0"),
        ("agentId=", "agentId: must not be empty"),
        ("follow=", "follow: must not be empty"),
    ],
)
async def test_a_wrong_parameter_is_named(api: Api, agent: Agent, query: str, text: str):
    async with api.get(f"/api/v1/logs/containers/{CONTAINER}?{query}") as response:
        assert response.status == 400
        assert await response.json() == {"error": text, "field": text.partition(":")[0]}


@pytest.mark.parametrize("last_id", ["x", UNKNOWN, f"{UNKNOWN}:x", f"{UNKNOWN}:-2", f"{UNKNOWN}:" + "9" * 30])
async def test_a_last_event_id_of_another_kind_is_refused(api: Api, agent: Agent, last_id: str):
    headers = {"Last-Event-ID": last_id}
    async with api.get(f"/api/v1/logs/containers/{CONTAINER}", headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["field"] == "Last-Event-ID"


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (f"containers/{CONTAINER}", {"source": "docker", "containerId": CONTAINER}),
        ("containers/short", {"source": "docker", "containerId": CONTAINER}),
        (f"containers/{CONTAINER[:12]}", {"source": "docker", "containerId": CONTAINER}),
        ("pods/shop/web-1", {"source": "kubernetes", "namespace": "shop", "pod": "web-1"}),
        (
            "pods/shop/web-1?container=app",
            {"source": "kubernetes", "namespace": "shop", "pod": "web-1", "container": "app"},
        ),
    ],
)
async def test_the_request_reaches_the_agent_by_command_and_by_push_until_its_stream_is_open(
    api: Api, agent: Agent, path: str, asked: dict[str, Any]
):
    path, _, container = path.partition("?container=")
    options = {"container": container} if container else {}
    poll = asyncio.create_task(agent.api.json(f"{agent.path}/commands?wait=30"))
    async with watching(api, path, tail=7, sinceSeconds=60, **options) as viewer:
        request_id = await connected(viewer)
        request = {"requestId": request_id, **asked, "tail": 7, "sinceSeconds": 60, "follow": False}

        command = await poll
        pushed = await (await agent.push()).json()
        again = await (await agent.push()).json()
        await sent(agent, request_id)
        opened = await (await agent.push()).json()

        assert (command["type"], command["payload"]) == ("logs.tail", request)
        assert pushed == again == {"ok": True, "logRequests": [request]}
        assert opened == {"ok": True, "logRequests": []}
        event = await viewer.next()
        assert event.kind == "waiting"


async def test_a_request_is_offered_to_its_own_agent_alone(
    api: Api, other: Api, agent: Agent, make_agent: Callable[..., Any]
):
    neighbour, foreigner = await make_agent(api, "host-2"), await make_agent(other)
    async with watching(api) as viewer:
        await connected(viewer)

        for somebody in (neighbour, foreigner):
            assert (await (await somebody.push()).json())["logRequests"] == []
            async with somebody.api.get(f"{somebody.path}/commands?wait=0") as response:
                assert response.status == 204


async def test_an_agent_that_fell_silent_is_asked_again(api: Api, agent: Agent, app: Service, pool: Pool):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 3))
        await pool.execute("UPDATE agent_state SET tails_until = NULL WHERE agent_id = $1", agent.agent_id)
        await set_back(pool, request_id, "streamed_at", store.SILENT_SECONDS + 1)

        async def asked_again() -> Any:
            await sweep(app.app)
            return (await (await agent.push()).json())["logRequests"]

        asked = await until(asked_again)

        assert [request["requestId"] for request in asked] == [request_id]
        assert await sent(agent, request_id) == 3  # where it goes on
        await sent(agent, request_id, numbered(3, 1))
        assert await viewer.lines(4) == ["line 0", "line 1", "line 2", "line 3"]


async def test_lines_sent_to_one_replica_are_seen_on_the_other(
    api: Api, agent: Agent, elsewhere: Agent, there: Callable[[Api], Api]
):
    async with watching(api, follow=1) as here, watching(there(api), follow=1) as yonder:
        request_id = await connected(here)
        assert await connected(yonder) == request_id

        await sent(elsewhere, request_id, numbered(0, 5))
        await sent(agent, request_id, numbered(5, 5))

        expected = [f"line {seq}" for seq in range(10)]
        assert await here.lines(10) == expected
        assert await yonder.lines(10) == expected


async def test_viewers_who_ask_for_the_same_share_a_request(api: Api, agent: Agent):
    async with watching(api, follow=1, tail=3) as first:
        request_id = await connected(first)
        await sent(agent, request_id, numbered(0, 10))
        assert len(await first.lines(10)) == 10

        async with watching(api, follow=1, tail=3) as second, watching(api, follow=1, tail=4) as third:
            assert await connected(second) == request_id
            assert await second.lines(3) == ["line 7", "line 8", "line 9"]
            assert await connected(third) != request_id
            await sent(agent, request_id, numbered(10, 1))
            assert await first.lines(1) == await second.lines(1) == ["line 10"]


@pytest.mark.parametrize("options", [{}, {"follow": 1, "sinceSeconds": 60}])
async def test_a_one_shot_tail_and_one_with_since_are_their_viewers_own(
    api: Api, agent: Agent, options: dict[str, Any]
):
    async with watching(api, **options) as first, watching(api, **options) as second:
        assert await connected(first) != await connected(second)


async def test_a_one_shot_tail_closes_with_end(api: Api, agent: Agent):
    async with watching(api, tail=2) as viewer:
        request_id = await connected(viewer)

        assert await sent(agent, request_id, numbered(0, 2), params={"end": "1"}) == 2
        events = await viewer.rest()

        assert [event.kind for event in events if event.kind != "waiting"] == ["log", "log", "end"]
        assert events[-1].body == {"reason": "complete"}
        # The answer was lost: the agent tells it again.
        assert await sent(agent, request_id, numbered(0, 2), params={"end": "1"}) == 2
        assert await sent(agent, request_id, params={"end": "1"}) == 2
        assert await send(agent, request_id, numbered(2, 1)) == (410, {"error": "gone"})


async def test_what_an_agent_says_went_wrong_is_shown(api: Api, agent: Agent):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)

        await sent(agent, request_id, params={"end": "1", "error": "no such container"})

        events = await viewer.rest()
        assert (events[-1].kind, events[-1].body) == ("error", {"error": "no such container"})


async def test_a_viewer_who_comes_back_gets_what_he_missed(api: Api, agent: Agent):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 50))
        await viewer.lines(20)
    await sent(agent, request_id, numbered(50, 50))

    async with watching(api, last_id=f"{request_id}:19") as viewer:
        assert await connected(viewer) == request_id
        assert await viewer.lines(80) == [f"line {seq}" for seq in range(20, 100)]
        await sent(agent, request_id, numbered(100, 1))
        assert await viewer.lines(1) == ["line 100"]


async def test_a_viewer_cut_off_before_the_first_line_goes_on_from_the_start(api: Api, agent: Agent):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        last_id = viewer.last_id
    await sent(agent, request_id, numbered(0, 3), params={"end": "1"})

    async with watching(api, last_id=last_id) as viewer:
        events = await viewer.rest()
        assert [event.body.get("line") for event in events if event.kind == "log"] == [
            "line 0",
            "line 1",
            "line 2",
        ]
        assert events[-1].body == {"reason": "complete"}


async def test_a_request_cannot_be_continued_under_another_path(api: Api, agent: Agent):
    await agent.pushed(containers=[{"id": CONTAINER, "name": "web"}, {"id": "d" * 64, "name": "db"}])
    async with watching(api, follow=1) as viewer:
        await connected(viewer)

        for path in ("containers/" + "d" * 64, "pods/shop/web-1"):
            async with api.get(f"/api/v1/logs/{path}", headers={"Last-Event-ID": viewer.last_id}) as answer:
                assert answer.status == 404


async def test_another_organization_with_the_id_sees_and_writes_nothing(
    api: Api, other: Api, agent: Agent, pool: Pool, make_agent: Callable[..., Any]
):
    foreigner, neighbour = await make_agent(other), await make_agent(api, "host-2")
    await foreigner.pushed(containers=[{"id": CONTAINER, "name": "web"}])
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 1))
        before = await row_of(pool, request_id)

        for somebody in (foreigner, neighbour):
            for options in ({}, {"params": {"end": "1"}}, {"headers": {"Content-Encoding": "gzip"}}):
                body = ndjson(numbered(1, 1))
                body = gzip.compress(body) if "headers" in options else body
                answer = await send(somebody, request_id, body, **options)
                assert answer == (404, {"error": "not_found"})
                assert answer == await send(somebody, UNKNOWN, body, **options)
        headers = {"Last-Event-ID": f"{request_id}:-1"}
        async with other.get(f"/api/v1/logs/containers/{CONTAINER}", headers=headers) as response:
            assert (response.status, await response.json()) == (404, {"error": "not_found"})

        after = await row_of(pool, request_id)
        untouched = ("next_seq", "bytes", "streamed_at", "ended_at")
        assert [before[name] for name in untouched] == [after[name] for name in untouched]
        await sent(agent, request_id, numbered(1, 1, "ours {}"))
        assert await viewer.lines(2) == ["line 0", "ours 1"]


@pytest.mark.parametrize(
    ("sends", "shown", "next_seq"),
    [
        ([numbered(0, 3), numbered(0, 3), numbered(1, 4)], "0 1 2 3 4", 5),
        ([numbered(1, 2), numbered(3, 1)], "1 2 3", 4),
        ([numbered(0, 1), numbered(5, 1)], "0 skipped:4 5", 6),
        ([numbered(2, 1)], "skipped:2 2", 3),
        ([[TailLine(TIME, "stdout", "line 0"), TailLine(TIME, "stdout", "line 1")]], "0 1", 2),
        ([numbered(0, 2), [TailLine(TIME, "stdout", "line 2")]], "0 1 2", 3),
    ],
    ids=["repeated", "from one", "a gap", "a gap at first", "without numbers", "mixed"],
)
async def test_a_line_is_shown_once_and_gaps_are_told(
    api: Api, agent: Agent, sends: list[list[TailLine]], shown: str, next_seq: int
):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        answers = [await sent(agent, request_id, lines) for lines in sends]
        await sent(agent, request_id, params={"end": "1"})
        events = await viewer.rest()

    texts = [
        event.body["line"].removeprefix("line ") if event.kind == "log" else f"skipped:{event.body['lines']}"
        for event in events
        if event.kind in ("log", "skipped")
    ]
    assert " ".join(texts) == shown
    assert answers[-1] == next_seq


@pytest.mark.parametrize(
    ("encoding", "compressed"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda body: gzip.compress(body[:1000]) + gzip.compress(body[1000:])),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("identity", bytes),
    ],
)
@pytest.mark.parametrize("piece_bytes", [97, 1 << 20])
async def test_bodies_may_be_compressed_and_come_in_pieces(
    api: Api, agent: Agent, encoding: str, compressed: Callable[[bytes], bytes], piece_bytes: int
):
    body = compressed(ndjson(numbered(0, 400))[:-1])  # the last line is complete without its end

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), piece_bytes):
            yield body[start : start + piece_bytes]

    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        headers = {"Content-Encoding": encoding, "Content-Type": "application/x-ndjson"}
        path = f"{agent.path}/log-streams/{request_id}"
        async with agent.api.post(path, data=pieces(), headers=headers) as response:
            assert (response.status, await response.json()) == (200, {"next": 400})
        assert await viewer.lines(400) == [f"line {seq}" for seq in range(400)]


async def test_lines_of_a_long_body_are_shown_before_its_end(api: Api, agent: Agent):
    queue: asyncio.Queue[bytes] = asyncio.Queue()

    async def pieces() -> AsyncIterator[bytes]:
        while piece := await queue.get():
            yield piece

    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        path = f"{agent.path}/log-streams/{request_id}"
        posting = asyncio.ensure_future(agent.api.post(path, data=pieces(), headers=NDJSON).__aenter__())
        for seq in range(5):
            text = ndjson(numbered(seq, 1))
            queue.put_nowait(text[:20])
            queue.put_nowait(text[20:])
            assert await viewer.lines(1) == [f"line {seq}"]
        assert not posting.done()
        queue.put_nowait(b"")
        response = await posting
        assert await response.json() == {"next": 5}
        response.release()


async def test_an_idle_long_body_opens_the_stream_and_ends_when_nobody_watches(
    api: Api, agent: Agent, pool: Pool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receive, "SIGN_SECONDS", 0.1)
    monkeypatch.setattr(receive, "TURN_SECONDS", 0.1)
    never = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"\n"
        await never.wait()

    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        path = f"{agent.path}/log-streams/{request_id}"
        posting = asyncio.ensure_future(agent.api.post(path, data=pieces(), headers=NDJSON).__aenter__())
        await until(lambda: pool.fetchval("SELECT streamed_at FROM tail_requests WHERE id = $1", request_id))
    await left(pool, request_id)
    assert not posting.done()
    await set_back(pool, request_id, "watched_at", store.UNWATCHED_SECONDS + 1)

    async with asyncio.timeout(60):
        response = await posting
    assert (response.status, await response.json()) == (410, {"error": "gone"})
    response.close()


@pytest.mark.parametrize(
    ("body", "options", "status", "text"),
    [
        (b"{}\n", {}, 400, "line 1: time: required"),
        (ndjson(numbered(0, 1)) + b"\n\nnonsense\n", {}, 400, "line 4: not valid JSON"),
        (b'{"time":"now","stream":"stdout","message":""}', {}, 400, "line 1: time: "),
        (b'{"time":"%s","stream":"x","message":""}' % TIME.encode(), {}, 400, "line 1: "),
        (b'{"time":"%s","stream":"stdout","message":"","seq":-1}' % TIME.encode(), {}, 400, "line 1: seq: "),
        (b"x", {"headers": {"Content-Encoding": "gzip"}}, 400, "body: gzip data ends early"),
        (b"xyz", {"headers": {"Content-Encoding": "gzip"}}, 400, "body: not valid gzip"),
        (b"not zstd", {"headers": {"Content-Encoding": "zstd"}}, 400, "body: not valid zstd"),
        (
            gzip.compress(ndjson(numbered(0, 1)), mtime=0)[:-20],
            {"headers": {"Content-Encoding": "gzip"}},
            400,
            "body: gzip data ends early",
        ),
        (b"x", {"headers": {"Content-Encoding": "br"}}, 415, "content encoding: "),
        (b"x", {"headers": {"Content-Type": "text/csv"}}, 415, "content type: "),
        (b"x" * 600_000, {}, 413, "payload_too_large"),
        (b"", {"params": {"end": "2"}}, 400, "end: expected 1 or 0"),
        (b"", {"params": {"error": "why"}}, 400, "error: only with end=1"),
    ],
)
async def test_a_malformed_post_is_refused_and_says_why(
    api: Api, agent: Agent, body: bytes, options: dict[str, Any], status: int, text: str
):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)

        answer = await send(agent, request_id, body, **options)

        assert answer[0] == status
        assert answer[1]["error"].startswith(text)


async def test_a_message_above_64_kib_is_cut_at_a_character(api: Api, agent: Agent):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await sent(agent, request_id, [TailLine(TIME, "stdout", "ü" * 40_000, 0)])
        assert await viewer.lines(1) == ["ü" * 32_768]


async def test_a_request_that_nobody_watched_for_a_minute_is_gone(api: Api, agent: Agent, pool: Pool):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
    await left(pool, request_id)

    assert await sent(agent, request_id, numbered(0, 1)) == 1
    await set_back(pool, request_id, "watched_at", store.UNWATCHED_SECONDS - 10)
    assert await sent(agent, request_id, numbered(1, 1)) == 2
    await set_back(pool, request_id, "watched_at", store.UNWATCHED_SECONDS + 1)

    assert await send(agent, request_id, numbered(2, 1)) == (410, {"error": "gone"})
    async with watching(api, last_id=f"{request_id}:0") as viewer:  # what came can still be read
        events = await viewer.rest()
        assert [event.body["line"] for event in events if event.kind == "log"] == ["line 1"]
        assert events[-1].body == {"reason": "unwatched"}


async def test_a_viewer_keeps_its_request_alive(api: Api, agent: Agent, app: Service, pool: Pool):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await set_back(pool, request_id, "watched_at", store.UNWATCHED_SECONDS - 20)
        await app.app[FEEDS].note_watched()
        age = "SELECT clock_timestamp() - watched_at < interval '30 s' FROM tail_requests WHERE id = $1"
        assert await pool.fetchval(age, request_id)
        await sent(agent, request_id, numbered(0, 1))
        assert await viewer.lines(1) == ["line 0"]


async def test_what_has_ended_is_forgotten_bit_by_bit(api: Api, agent: Agent, app: Service, pool: Pool):
    async with watching(api) as viewer:
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 3), params={"end": "1"})
        await viewer.rest()
    count = "SELECT count(*) FROM tail_lines WHERE request_id = $1"
    await sweep(app.app)
    assert await pool.fetchval(count, request_id) == 1

    await set_back(pool, request_id, "ended_at", store.LINES_SECONDS + 1)
    await until(lambda: swept(app, pool, request_id))
    assert (await send(agent, request_id))[0] == 410
    headers = {"Last-Event-ID": f"{request_id}:0"}
    async with api.get(f"/api/v1/logs/containers/{CONTAINER}", headers=headers) as response:
        assert response.status == 404

    await set_back(pool, request_id, "ended_at", store.ENDED_SECONDS + 1)
    await until(lambda: swept(app, pool, request_id, "tail_requests WHERE id"))
    assert (await send(agent, request_id))[0] == 404


@pytest.mark.parametrize(
    ("changes", "kind", "body"),
    [
        ({"expires_at": 1}, "end", {"reason": "expired"}),
        ({"created_at": 31}, "error", {"error": "the agent did not answer within 30 s"}),
    ],
)
async def test_what_is_over_ends_and_says_why(
    api: Api, agent: Agent, pool: Pool, changes: dict[str, float], kind: str, body: Any
):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        for column, seconds in changes.items():
            await set_back(pool, request_id, column, seconds)
        events = await viewer.rest()
        assert (events[-1].kind, events[-1].body) == (kind, body)
        assert (await send(agent, request_id, numbered(0, 1)))[0] == 410


async def test_the_tail_of_an_agent_that_went_offline_ends(api: Api, agent: Agent, pool: Pool):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 1))
        long_ago = "clock_timestamp() - interval '91 s'"
        await set_back(pool, request_id, "streamed_at", 91)
        await pool.execute(
            f"UPDATE agent_state SET last_seen = {long_ago} WHERE agent_id = $1", agent.agent_id
        )

        events = await viewer.rest()

        assert (events[-1].kind, events[-1].body) == ("error", {"error": "the agent is offline"})


async def test_the_tails_of_a_suspended_organization_end(api: Api, agent: Agent, pool: Pool):
    async with watching(api, follow=1) as viewer:
        await connected(viewer)
        await pool.execute("UPDATE organizations SET suspended = true WHERE id = $1", api.org_id)
        assert (await viewer.rest())[-1].body == {"reason": "suspended"}


async def test_the_tails_of_a_deleted_agent_end(api: Api, agent: Agent):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 1))
        async with api.delete(agent.path) as response:
            assert response.status == 204
        events = await viewer.rest()
        assert events[-1].kind == "error"
        assert (await send(agent, request_id, numbered(1, 1)))[0] == 401


async def test_an_organization_watches_so_many_logs_and_no_more(api: Api, make_agent, pool: Pool):
    agent = await make_agent(api)
    ids = [f"{number:064x}" for number in range(12)]
    await agent.pushed(containers=[{"id": id_, "name": f"web-{id_[-2:]}"} for id_ in ids])
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(watching(api, f"containers/{ids[0]}", follow=1))
        request_id = await connected(first)
        for id_ in ids[1:10]:
            await stack.enter_async_context(watching(api, f"containers/{id_}", follow=1))

        async with api.get(f"/api/v1/logs/containers/{ids[10]}?follow=1") as response:
            assert response.status == 429
            assert await response.json() == {
                "error": "tails: the organization watches 10 logs already",
                "field": "tails",
            }
            assert "Retry-After" in response.headers
        # Who shares a request or comes back to his own takes nobody's place, ...
        await stack.enter_async_context(watching(api, f"containers/{ids[0]}", follow=1))
        await stack.enter_async_context(watching(api, f"containers/{ids[0]}", last_id=f"{request_id}:-1"))
        # ... and whoever leaves gives his up at once.
        await pool.execute("UPDATE tail_requests SET left_at = clock_timestamp() WHERE id = $1", request_id)
        await stack.enter_async_context(watching(api, f"containers/{ids[10]}", follow=1))


async def test_the_place_of_a_viewer_who_left_is_free(api: Api, agent: Agent, pool: Pool):
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
    await left(pool, request_id)

    async with pool.acquire() as conn:
        assert await store.count_watched(conn, api.org_id) == 0


async def test_of_several_agents_one_has_to_be_named(api: Api, agent: Agent, make_agent, pool: Pool):
    second = await make_agent(api, "host-2")
    await second.pushed(pods=[POD])

    async with api.get("/api/v1/logs/pods/shop/web-1") as response:
        assert response.status == 400
        assert await response.json() == {
            "error": "agentId: 2 agents report this pod, say which",
            "field": "agentId",
        }
    for somebody in (agent, second):
        async with watching(api, "pods/shop/web-1", agentId=somebody.agent_id) as viewer:
            assert (await viewer.next()).body["agentId"] == somebody.agent_id
    await pool.execute(
        "UPDATE agent_state SET last_seen = clock_timestamp() - interval '91 s' WHERE agent_id = $1",
        second.agent_id,
    )
    async with watching(api, "pods/shop/web-1") as viewer:  # one of them is online
        assert (await viewer.next()).body["agentId"] == agent.agent_id


async def test_a_viewer_may_watch(viewer: Api, agent: Agent):
    async with watching(viewer) as stream:
        await connected(stream)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers are asked for their rights every 50 ms."""
    monkeypatch.setattr("monitor.logs.tail.lines.show.PING_SECONDS", 0.05)


async def test_a_revoked_key_ends_its_tails_alone(soon: None, api: Api, agent: Agent, admin: Api, make_api):
    kept = await make_api(org_id=api.org_id)
    async with watching(api, follow=1) as viewer, watching(kept, follow=1) as bystander:
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 2))
        assert await viewer.lines(2) == ["line 0", "line 1"]
        keys = await admin.json("/api/v1/settings/api-keys")
        [mine] = [key["id"] for key in keys if api.secret.startswith(key["prefix"])]
        async with admin.delete(f"/api/v1/settings/api-keys/{mine}") as response:
            assert response.status == 204

        last = (await viewer.rest())[-1]

        await sent(agent, request_id, numbered(2, 1))
        assert await bystander.lines(3) == ["line 0", "line 1", "line 2"]
    assert (last.kind, last.body) == ("error", {"error": "unauthorized"})


async def test_a_smaller_plan_ends_the_tails(soon: None, api: Api, agent: Agent, pool: Pool):
    async with watching(api, follow=1) as viewer:
        await connected(viewer)
        await pool.execute("UPDATE organizations SET plan = 'free' WHERE id = $1", api.org_id)
        assert (await viewer.rest())[-1].body == {"error": "Log streaming is available on the Pro plan"}


async def test_a_user_who_is_deleted_sees_no_more_lines(soon: None, viewer: Api, agent: Agent, admin: Api):
    async with watching(viewer, follow=1) as stream:
        await connected(stream)
        me = (await viewer.json("/api/v1/me"))["id"]
        async with admin.delete(f"/api/v1/settings/users/{me}") as response:
            assert response.status == 204
        assert (await stream.rest())[-1].body == {"error": "unauthorized"}


async def test_a_tail_goes_on_while_nobody_can_say_whose_it_is(
    soon: None, api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    asked = 0

    async def away(request: web.Request) -> None:
        nonlocal asked
        asked += 1
        raise StorageUnavailable

    monkeypatch.setattr("monitor.logs.tail.lines.show.admit_again", away)
    async with watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        await until(lambda: asked >= 3)
        await sent(agent, request_id, numbered(0, 1))
        assert await viewer.lines(1) == ["line 0"]


async def test_an_old_client_of_http_1_0_gets_the_events_bare(api: Api, agent: Agent, app: Service):
    host, port = app.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = f"GET /api/v1/logs/containers/{CONTAINER} HTTP/1.0\r\nX-API-Key: {api.secret}\r\n\r\n"
    writer.write(request.encode())
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        text = await reader.readuntil(b"\n\n")
        match = re.search(rb'"requestId":"(\w+)"', text)
        assert match is not None
        await sent(agent, match[1].decode(), numbered(0, 1), params={"end": "1"})
        rest = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert head.startswith(b"HTTP/1.0 200")
    assert b"chunked" not in head
    assert text.startswith(b"id: ")
    assert rest.startswith(b"event: waiting\n")
    assert rest.endswith(b'event: end\ndata: {"reason":"complete"}\n\n')


async def test_a_comment_comes_when_nothing_else_does(api: Api, agent: Agent, monkeypatch):
    monkeypatch.setattr("monitor.logs.tail.lines.show.PING_SECONDS", 0.05)
    async with watching(api) as viewer:
        await connected(viewer)
        async with asyncio.timeout(60):
            while b":\n\n" not in await viewer.response.content.readany():
                pass


async def test_a_body_that_never_gets_to_a_line_is_refused_where_nobody_asked(agent: Agent):
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    path = f"{agent.path}/log-streams/{UNKNOWN}"
    async with agent.api.post(path, data=pieces(), headers=NDJSON) as response:
        assert response.status == 404
        response.close()


async def test_an_idle_long_body_is_answered_at_shutdown(
    servers: Addresses, tmp_path: Path, api: Api, agent: Agent, pool: Pool
):
    async def pieces() -> AsyncIterator[bytes]:
        yield ndjson(numbered(0, 3))
        await asyncio.Event().wait()

    doomed = await start_service(tmp_path / "monitor.yaml", settings(servers), "web")
    async with aiohttp.ClientSession(doomed.base_url) as session, watching(api, follow=1) as viewer:
        request_id = await connected(viewer)
        path = f"{agent.path}/log-streams/{request_id}"
        headers = {**agent.api.headers, **NDJSON}
        posting = asyncio.ensure_future(session.post(path, data=pieces(), headers=headers).__aenter__())
        assert len(await viewer.lines(3)) == 3
        stopping = asyncio.ensure_future(doomed.stop())
        async with asyncio.timeout(60):
            response = await posting
        assert (response.status, await response.json()) == (200, {"next": 3})
        assert response.headers["Connection"] == "close"
        response.close()
        await stopping


async def test_streams_end_at_shutdown_and_go_on_elsewhere(
    servers: Addresses, tmp_path: Path, api: Api, agent: Agent
):
    doomed = await start_service(tmp_path / "monitor.yaml", settings(servers), "web")
    async with (
        aiohttp.ClientSession(doomed.base_url) as session,
        watching(Api(session, api.org_id, api.secret, api.headers), follow=1) as viewer,
    ):
        request_id = await connected(viewer)
        await sent(agent, request_id, numbered(0, 2))
        assert await viewer.lines(2) == ["line 0", "line 1"]
        stopping = asyncio.ensure_future(doomed.stop())
        events = await viewer.rest()
        assert (events[-1].kind, events[-1].body) == ("end", {"reason": "shutdown"})
        await stopping

    await sent(agent, request_id, numbered(2, 1))
    async with watching(api, last_id=viewer.last_id) as again:
        assert await connected(again) == request_id
        assert await again.lines(1) == ["line 2"]


async def test_a_push_without_a_tail_asks_for_no_log_requests(agent: Agent, monkeypatch: pytest.MonkeyPatch):
    async def asked(*_: Any) -> None:
        raise AssertionError("a push of an agent that nobody tails must not cost a query")

    monkeypatch.setattr("monitor.ingest.batch.waiting_requests", asked)

    assert await (await agent.push()).json() == {"ok": True, "logRequests": []}
