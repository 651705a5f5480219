"""Watch the dashboard in a real browser: 5,000 containers that change, and a live tail.

    python -m scripts.bench_web [--containers 5000] [--seconds 60] [--tail-seconds 15]

Pushes every container anew every ten seconds while the list is scrolled, sorted and
filtered, and prints the long tasks (the page's main thread was busy for that long at
once: a stutter) and how the heap develops.  Then follows two containers that write 500
lines a second together.  A task counts by what it computed: what else runs on the
machine is not the page's.  Exits with 1 when a task took 100 ms or more, the heap grew,
or the tail fell behind.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import time
from contextlib import suppress
from typing import Any, NamedTuple

import aiohttp
from playwright.async_api import CDPSession, Page

from tests.browser import fleet
from tests.browser.stage import log_in, missing, new_context, own_service, started_browser

HOSTS = 4  # one push makes at most 50,000 series
ROUNDS = 4
PUSH_SECONDS = 10.0  # until every container was pushed anew
LONGEST_MS = 100.0  # a task that long is felt (RAIL: answer within 100 ms)
HEAP_GROWTH = 1.25  # last third of the run against the first: noise of the collector is below that
SETTLE_SECONDS = 3.0  # of the first load, which is not watched
TAIL_LINES = 500  # a second, of two containers together
TAIL_POSTS = 10  # a second, of each
BEHIND_SECONDS = 2.0  # from the last line's post to its place on the screen
LONG_MS = 50.0  # what browsers call a long task


def rounds_of(size: int) -> list[list[dict[str, Any]]]:
    """Return rounds of pushes with other figures each, made beforehand: it would compete with the browser."""
    each = -(-size // HOSTS)
    return [
        [fleet.crowd(min(each, size - first), number * PUSH_SECONDS, first) for first in range(0, size, each)]
        for number in range(ROUNDS)
    ]


async def push_for_ever(hosts: list[fleet.Member], rounds: list[list[dict[str, Any]]]) -> None:
    """Push one round after the other, again and again."""
    for bodies in itertools.cycle(rounds):
        for host, body in zip(hosts, bodies, strict=True):
            await host.push(body)
            await asyncio.sleep(PUSH_SECONDS / len(hosts))


async def heap_bytes(devtools: CDPSession) -> int:
    """Return the size of the live heap: after a collection."""
    await devtools.send("HeapProfiler.collectGarbage")
    usage: dict[str, int] = await devtools.send("Runtime.getHeapUsage")
    return usage["usedSize"]


async def use(page: Page, number: int) -> None:
    """Do what somebody does who looks for a container."""
    for _ in range(6):
        await page.mouse.wheel(0, 2_500)
        await page.wait_for_timeout(120)
    await page.get_by_role("button", name=("CPU", "Memory", "Name")[number % 3]).click()
    await page.wait_for_timeout(250)
    field = page.get_by_role("searchbox", name="Filter containers")
    await field.press_sequentially(f"worker {number % 10}", delay=60)
    await page.wait_for_timeout(250)
    await field.fill("")
    await page.get_by_label("Group").select_option(("", "project", "agent")[number % 3])
    await page.wait_for_timeout(250)


class Task(NamedTuple):
    """What the page's main thread did at once.

    Attributes:
        wall_ms: From its begin to its end, waits for a processor among them.
        cpu_ms: What it computed.
    """

    wall_ms: float
    cpu_ms: float


def tasks_of(trace: bytes) -> list[Task]:
    """Return the long tasks of all pages' main threads in a trace of the browser."""
    events = json.loads(trace)["traceEvents"]
    main_threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    return [
        Task(event["dur"] / 1000, event["tdur"] / 1000)
        for event in events
        if event["name"] == "ThreadControllerImpl::RunTask"
        and (event["pid"], event["tid"]) in main_threads
        and event.get("dur", 0) >= LONG_MS * 1000
    ]


async def measure(page: Page, seconds: float) -> tuple[list[Task], list[int]]:
    """Use the page for *seconds*; return its long tasks, and live heap sizes in bytes."""
    browser = page.context.browser
    assert browser is not None
    devtools = await page.context.new_cdp_session(page)
    heaps = [await heap_bytes(devtools)]
    tasks: list[Task] = []
    ends = time.monotonic() + seconds
    number = 0
    while time.monotonic() < ends:
        await browser.start_tracing(page=page, categories=["toplevel"])
        await use(page, number)
        number += 1
        tasks += tasks_of(await browser.stop_tracing())
        # Outside of the trace: a collection on demand stops the page for long, and is none of its own.
        heaps.append(await heap_bytes(devtools))
    return tasks, heaps


async def write(host: fleet.Member, seconds: float) -> str:
    """Answer one log request with its share of the lines; return the text of the last."""
    request = (await host.asked())["requestId"]
    ends = time.monotonic() + seconds
    count = TAIL_LINES // 2 // TAIL_POSTS
    sent = 0
    due = time.monotonic()
    while due < ends:
        text = f"\x1b[32mINFO\x1b[0m GET /orders/{{}} 200 4 ms trace={sent:032x} {request[-6:]}"
        await host.stream(request, fleet.tail(sent, count, text))
        sent += count
        due += 1 / TAIL_POSTS
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    return f"/orders/{sent - 1} "


class Tail(NamedTuple):
    """How the live tail went: its long tasks, and how long the last line took to the screen."""

    tasks: list[Task]
    behind_seconds: float


async def measure_tail(page: Page, base_url: str, host: fleet.Member, seconds: float) -> Tail:
    """Follow two containers for *seconds*."""
    browser = page.context.browser
    assert browser is not None
    targets = ",".join(f"c/{host.agent_id}/{number:064x}" for number in (1, 2))
    await page.goto(f"{base_url}/tail?on={targets}&tail=0")
    await page.get_by_role("heading", name="Live tail").wait_for()
    await browser.start_tracing(page=page, categories=["toplevel"])
    texts = await asyncio.gather(*(write(host, seconds) for _ in range(2)))
    ended = time.monotonic()
    for text in texts:
        await page.get_by_text(text).last.wait_for()
    behind = time.monotonic() - ended
    return Tail(tasks_of(await browser.stop_tracing()), behind)


async def main(containers: int, seconds: float, tail_seconds: float) -> int:
    """Run service, browser and pushes; print what was seen; return the exit status."""
    if reason := missing():
        raise SystemExit(reason)
    async with (
        own_service() as running,
        started_browser() as browser,
        aiohttp.ClientSession(running["baseUrl"]) as session,
    ):
        hosts = [await fleet.join(session, running["apiKey"], f"host-{number}") for number in range(HOSTS)]
        rounds = rounds_of(containers)
        for host, body in zip(hosts, rounds[0], strict=True):
            await host.push(body)
        page = await (await new_context(browser)).new_page()
        await log_in(page, running["baseUrl"], running["email"], running["password"])
        await page.goto(f"{running['baseUrl']}/containers")
        await page.get_by_text(f"{containers:,} of {containers:,}").wait_for()
        await asyncio.sleep(SETTLE_SECONDS)
        rows = await page.locator("table.data tbody tr").count()
        pushing = asyncio.create_task(push_for_ever(hosts, rounds), name="pushes")
        try:
            tasks, heaps = await measure(page, seconds)
        finally:
            pushing.cancel()
            with suppress(asyncio.CancelledError):
                await pushing
        tail = await measure_tail(page, running["baseUrl"], hosts[0], tail_seconds)
    return told(containers, rows, tasks, heaps) | told_of_tail(tail, tail_seconds)


def longest_of(tasks: list[Task]) -> str:
    """Return the longest of *tasks* in words."""
    computed = max((task.cpu_ms for task in tasks), default=0.0)
    waited = max((task.wall_ms for task in tasks), default=0.0)
    return f"{computed:.0f} ms of computing, {waited:.0f} ms with waits for a processor"


def told_of_tail(tail: Tail, seconds: float) -> int:
    """Print how the live tail went; return 1 if it is not what is promised."""
    print(f"{'lines of the live tail':30} {TAIL_LINES} a second for {seconds:g} s")
    print(f"{'long tasks meanwhile':30} {len(tail.tasks)}")
    print(f"{'longest task':30} {longest_of(tail.tasks)}")
    print(f"{'last line shown after':30} {tail.behind_seconds:.2f} s")
    longest = max((task.cpu_ms for task in tail.tasks), default=0.0)
    return int(longest >= LONGEST_MS or tail.behind_seconds > BEHIND_SECONDS)


def told(containers: int, rows: int, tasks: list[Task], heaps: list[int]) -> int:
    """Print the figures; return 1 if they are not what is promised."""
    third = max(1, len(heaps) // 3)
    first, last = statistics.median(heaps[:third]), statistics.median(heaps[-third:])
    longest = max((task.cpu_ms for task in tasks), default=0.0)
    figures: dict[str, Any] = {
        "containers": f"{containers:,}",
        "rows in the page": rows,
        "rounds of use": len(heaps) - 1,
        "long tasks (50 ms and more)": len(tasks),
        "longest task": longest_of(tasks),
        "live heap, first third": f"{first / fleet.MEBIBYTE:.1f} MiB",
        "live heap, last third": f"{last / fleet.MEBIBYTE:.1f} MiB",
    }
    for name, figure in figures.items():
        print(f"{name:30} {figure}")
    return int(longest >= LONGEST_MS or last > first * HEAP_GROWTH)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--containers", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is used (default 60)")
    parser.add_argument(
        "--tail-seconds", type=float, default=15.0, help="how long logs are followed (default 15)"
    )
    given = parser.parse_args()
    raise SystemExit(asyncio.run(main(given.containers, given.seconds, given.tail_seconds)))
