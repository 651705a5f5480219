"""Parameters of searches, histogram and context; the search process and its failures."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from monitor.db.postgres import Pool
from monitor.logs.searches import DEEP, LOG_SEARCHES, WAITING_PER_ORG, Searches
from monitor.logs.times import EARLIEST, LATEST, SECOND, format_ns
from tests.conftest import Agent, Api, Service
from tests.logs.corpus import search, send

MINUTE = 60 * SECOND


def lines(start: int, count: int, step: int = SECOND, **changes: Any) -> list[dict[str, Any]]:
    return [
        {
            "time": format_ns(start + number * step),
            "stream": "stderr" if number % 4 == 0 else "stdout",
            "message": f"line {number}",
            "containerId": "c" * 64,
            "container": "web",
            **changes,
        }
        for number in range(count)
    ]


async def refused(api: Api, path: str, params: Any) -> dict[str, Any]:
    async with api.get(f"/api/v1/logs/{path}", params=params) as response:
        assert response.status == 400, await response.text()
        return await response.json()


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "1.5"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"start": "yesterday"}, "start"),
        ({"start": "1700000000"}, "start"),
        ({"end": "2026-01-01"}, "end"),
        ({"end": ""}, "end"),
        ({"start": "2026-01-01T00:00:01Z", "end": "2026-01-01T00:00:00Z"}, "start"),
        ({"source": "syslog"}, "source"),
        ({"source": ""}, "source"),
        ({"stream": "STDOUT"}, "stream"),
        ({"agentId": ""}, "agentId"),
        ({"cursor": "x"}, "cursor"),
        ({"q": "x" * 4097}, "q"),
        ([("stream", "stdout"), ("stream", "stderr")], "stream"),
    ],
)
async def test_a_wrong_parameter_is_named(api: Api, params: Any, field: str):
    answer = await refused(api, "search", params)

    assert answer["field"] == field
    assert answer["error"].startswith(f"{field}: ")


async def test_without_a_window_the_last_hour_is_searched(api: Api, agent: Agent):
    now = time.time_ns()
    for message, at in (("now", now), ("59 minutes", now - 59 * MINUTE), ("61 minutes", now - 61 * MINUTE)):
        await send(agent, lines(at, 1, message=message))

    found, _ = await search(api, {})
    before, _ = await search(api, {"end": format_ns(now - 60 * MINUTE)})

    assert [line["message"] for line in found] == ["now", "59 minutes"]
    assert [line["message"] for line in before] == ["61 minutes"]


async def test_both_ends_of_a_window_belong_to_it(api: Api, agent: Agent):
    now = time.time_ns()
    await send(agent, lines(now, 3, step=1))

    found, _ = await search(api, {"start": format_ns(now), "end": format_ns(now + 1)})

    assert [line["message"] for line in found] == ["line 1", "line 0"]


async def test_the_default_limit_is_200_and_a_cursor_goes_on(api: Api, agent: Agent):
    await send(agent, lines(time.time_ns() - MINUTE, 450, step=1000))

    first, cursor = await search(api, {})
    second, cursor = await search(api, {"cursor": cursor or ""})
    third, cursor = await search(api, {"cursor": cursor or ""})

    assert [len(first), len(second), len(third)] == [200, 200, 50]
    assert [it["message"] for it in first + second + third] == [f"line {n}" for n in reversed(range(450))]
    assert cursor is None


@pytest.mark.parametrize("compacted", [False, True], ids=["hot rows", "chunks"])
async def test_a_histogram_counts_by_interval_and_stream(
    api: Api, agent: Agent, compact_all: Callable[[str], Awaitable[int]], compacted: bool
):
    start = time.time_ns() // MINUTE * MINUTE - 30 * MINUTE
    await send(agent, lines(start, 100))
    if compacted:
        await compact_all(api.org_id)
    window = {"start": format_ns(start), "end": format_ns(start + 3 * MINUTE - 1), "interval": "1m"}

    async with api.get("/api/v1/logs/histogram", params=window) as response:
        whole = await response.json()
    async with api.get("/api/v1/logs/histogram", params={**window, "q": '"line 1" -"line 13"'}) as response:
        some = await response.json()

    def buckets(*numbers: tuple[int, int]) -> list[dict[str, Any]]:
        return [
            {"time": format_ns(start + place * MINUTE), "stdout": stdout, "stderr": stderr}
            for place, (stdout, stderr) in enumerate(numbers)
        ]

    assert whole == {"intervalSeconds": 60, "buckets": buckets((45, 15), (30, 10), (0, 0)), "count": 100}
    assert some["count"] == 10
    assert sum(it["stdout"] + it["stderr"] for it in some["buckets"]) == 10


async def test_a_histogram_picks_an_interval_that_people_read(api: Api):
    async with api.get("/api/v1/logs/histogram") as response:
        hour = await response.json()
    year = {"start": "2025-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}
    async with api.get("/api/v1/logs/histogram", params=year) as response:
        long = await response.json()

    assert hour["intervalSeconds"] == 60
    assert 60 <= len(hour["buckets"]) <= 62
    assert long["intervalSeconds"] == 7 * 86_400
    assert len(long["buckets"]) <= 61


@pytest.mark.parametrize("interval", ["0s", "x", "", "-1m", "1ms"])
async def test_a_wrong_interval_is_refused(api: Api, interval: str):
    assert (await refused(api, "histogram", {"interval": interval}))["field"] == "interval"


@pytest.mark.parametrize("compacted", [False, True], ids=["hot rows", "chunks"])
async def test_a_context_is_the_lines_around_one_of_its_container(
    api: Api, agent: Agent, compact_all: Callable[[str], Awaitable[int]], compacted: bool
):
    start = time.time_ns() - 5 * MINUTE
    await send(agent, lines(start, 20, step=0))  # all at one time: their order is that of the batch
    await send(agent, lines(start, 20, step=0, containerId="d" * 64, message="other"))
    await send(agent, lines(start, 5, namespace="n", pod="p", containerId=None, container="web"))
    if compacted:
        await compact_all(api.org_id)
    found, _ = await search(api, {"q": '"line 7"', "containerName": "web", "containerId": "c" * 12})

    params = {"id": found[0]["id"], "before": "3", "after": "2"}
    context = await api.json("/api/v1/logs/context", params=params)

    assert context["line"] == found[0]
    assert [it["message"] for it in context["before"]] == ["line 4", "line 5", "line 6"]
    assert [it["message"] for it in context["after"]] == ["line 8", "line 9"]
    nothing = await api.json("/api/v1/logs/context", params={**params, "before": "0", "after": "0"})
    assert (nothing["before"], nothing["after"]) == ([], [])


@pytest.mark.parametrize("at", [EARLIEST, LATEST], ids=["the first time", "the last time"])
async def test_a_line_of_any_time_is_found_with_its_context(api: Api, agent: Agent, at: int):
    await send(agent, lines(at, 3, step=0))
    window = {"start": format_ns(at), "end": format_ns(at)}

    found, _ = await search(api, {**window, "limit": "2"})
    context = await api.json("/api/v1/logs/context", params={"id": found[1]["id"]})

    assert [it["message"] for it in found] == ["line 2", "line 1"]
    assert [[it["message"] for it in context[side]] for side in ("before", "after")] == [
        ["line 0"],
        ["line 2"],
    ]


async def test_a_context_of_another_organization_is_not_found(api: Api, agent: Agent, other: Api):
    await send(agent, lines(time.time_ns(), 1))
    ((line,), _) = await search(api, {})

    async with other.get("/api/v1/logs/context", params={"id": line["id"]}) as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "id"),
        ({"id": "x"}, "id"),
        ({"id": "A" * 27, "before": "501"}, "before"),
        ({"id": "A" * 27, "after": "-1"}, "after"),
    ],
)
async def test_a_wrong_context_is_named(api: Api, params: dict[str, str], field: str):
    assert (await refused(api, "context", params))["field"] == field


def search_process(app: Service) -> Any:
    child = app.app[LOG_SEARCHES].shallow.child
    assert child is not None
    return child


async def test_a_killed_search_process_is_replaced(app: Service, api: Api, agent: Agent):
    await send(agent, lines(time.time_ns(), 1))
    await search(api, {})
    first = search_process(app)

    os.kill(first.pid, signal.SIGKILL)
    await first.wait()
    async with asyncio.timeout(30):
        while True:  # a search that was under way may fail, the next one does not
            async with api.get("/api/v1/logs/search") as response:
                if response.status == 200:
                    assert len(await response.json()) == 1
                    break
                assert response.status == 503
    assert search_process(app).pid != first.pid


async def test_a_search_under_way_when_the_process_is_killed_is_503(app: Service, api: Api):
    await search(api, {})
    child = search_process(app)
    os.kill(child.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(api.get("/api/v1/logs/search").__aenter__())
    await asyncio.sleep(0.1)

    os.kill(child.pid, signal.SIGKILL)
    response = await waiting

    assert response.status == 503
    assert await response.json() == {"error": "storage_unavailable"}
    assert "Retry-After" in response.headers
    response.release()


async def test_a_search_that_takes_too_long_is_told_so(
    app: Service, api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(app.app[LOG_SEARCHES], "seconds", 0.0)

    async with api.get("/api/v1/logs/search") as response:
        assert response.status == 503
        assert (await response.json())["error"].startswith("search_too_slow: ")
        assert "Retry-After" in response.headers


async def test_a_search_process_that_hangs_is_replaced(
    app: Service, api: Api, monkeypatch: pytest.MonkeyPatch
):
    await search(api, {})
    child = search_process(app)
    monkeypatch.setattr(app.app[LOG_SEARCHES], "seconds", -4.5)
    os.kill(child.pid, signal.SIGSTOP)

    async with api.get("/api/v1/logs/search") as response:
        assert response.status == 503
    monkeypatch.undo()
    await child.wait()
    async with asyncio.timeout(30):
        assert (await search(api, {}))[0] == []


async def test_a_client_that_leaves_takes_its_search_with_it(app: Service, api: Api, agent: Agent):
    await search(api, {})
    child = search_process(app)
    searches: Searches = app.app[LOG_SEARCHES]
    os.kill(child.pid, signal.SIGSTOP)
    try:
        with pytest.raises(asyncio.TimeoutError):
            async with api.get("/api/v1/logs/search", timeout=aiohttp.ClientTimeout(total=0.1)):
                pass
        async with asyncio.timeout(30):
            while searches.shallow._answers:
                await asyncio.sleep(0.02)
    finally:
        os.kill(child.pid, signal.SIGCONT)
    assert (await search(api, {}))[0] == []


async def test_an_organization_has_only_so_many_searches_at_once(app: Service, api: Api, other: Api):
    await search(api, {})
    child = search_process(app)
    os.kill(child.pid, signal.SIGSTOP)
    try:
        waiting = [asyncio.create_task(search(api, {})) for _ in range(WAITING_PER_ORG)]
        while app.app[LOG_SEARCHES]._waiting[api.org_id] < WAITING_PER_ORG:
            await asyncio.sleep(0.01)
        async with api.get("/api/v1/logs/search") as response:
            assert response.status == 429
            assert response.headers["Retry-After"] == "1"
        elsewhere = asyncio.create_task(search(other, {}))
        await asyncio.sleep(0.05)
    finally:
        os.kill(child.pid, signal.SIGCONT)
    assert await elsewhere == ([], None)
    assert await asyncio.gather(*waiting) == [([], None)] * WAITING_PER_ORG


async def test_the_search_process_ends_with_the_service(replica: Service, api: Api, there: Any, pool: Pool):
    await search(there(api), {})
    child = search_process(replica)

    await replica.app[LOG_SEARCHES].close()

    assert child.returncode == 0
    assert (await search(there(api), {}))[0] == []


async def send_deep(agent: Agent, start: int) -> None:
    """Send more than a shallow search reads, with 4711, which is no word, in the oldest lines."""
    text = "x" * 60_000
    for batch in range(8):
        message = {0: f"4711 {text}"}.get(batch, text)
        await send(agent, lines(start + batch * MINUTE, 6, message=message))


@pytest.mark.parametrize("compacted", [False, True], ids=["hot rows", "chunks"])
async def test_what_takes_much_reading_is_answered_by_the_deep_process(
    app: Service, api: Api, agent: Agent, compact_all: Callable[[str], Awaitable[int]], compacted: bool
):
    start = time.time_ns() - 30 * MINUTE
    await send_deep(agent, start)
    if compacted:
        await compact_all(api.org_id)
    deep_before = DEEP._value.get()

    newest, _ = await search(api, {"limit": "2"})
    assert len(newest) == 2
    assert DEEP._value.get() == deep_before

    found, _ = await search(api, {"q": "4711"})
    histogram = await api.json("/api/v1/logs/histogram", params={"q": "xxx"})
    context = await api.json("/api/v1/logs/context", params={"id": found[-1]["id"], "after": "47"})

    assert DEEP._value.get() == deep_before + 3
    assert [line["time"] for line in found] == [
        format_ns(start + place * SECOND) for place in range(5, -1, -1)
    ]
    assert histogram["count"] == 48
    assert len(context["after"]) == 47


async def test_a_killed_deep_process_is_replaced_and_the_other_goes_on(app: Service, api: Api, agent: Agent):
    await send_deep(agent, time.time_ns() - 30 * MINUTE)
    absent = {"q": "0123"}  # not a word: everything is read for it
    await search(api, absent)
    searches: Searches = app.app[LOG_SEARCHES]
    shallow, deep = searches.shallow.child, searches.deep.child
    assert deep is not None

    os.kill(deep.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(api.get("/api/v1/logs/search", params=absent).__aenter__())
    async with asyncio.timeout(30):
        while not searches.deep._answers:
            await asyncio.sleep(0.01)
    assert len((await search(api, {"limit": "1"}))[0]) == 1
    os.kill(deep.pid, signal.SIGKILL)
    response = await waiting
    response.release()

    assert response.status == 503
    assert (await search(api, absent))[0] == []
    assert searches.shallow.child is shallow
    assert searches.deep.child is not deep
