"""Log lines end to end, against a plain table of rows with a btree in the same Postgres.

    python -m benchmarks.logs [--lines 1000000] [--seconds 5]

Fifty organizations, one with 30 % of the lines, spread over ten hours.  Lines go in by
HTTP as agents send them and are searched by HTTP as people do; the table gets the same
lines by COPY and is asked the same in SQL.  Then one organization searches everything
in a loop while another goes on with its work.  Prints tables, then one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import asyncpg
import msgspec
import zstandard

from benchmarks.stack import Stack, print_figures, print_table, started_stack
from monitor.agents.store import insert_agent
from monitor.auth import provision, tokens
from monitor.logs.times import SECOND, format_ns

ORGANIZATIONS = 50
LARGE_SHARE = 0.3
HOURS = 10
BATCH_LINES = 1_000
PHASE_BATCHES = 200  # made first, then sent: making them is not measured
CONNECTIONS = 8
CONTAINERS = 20  # an organization
RARE = "xylophone"
FRAGMENT = "7e57ca5e"  # in the middle of a request's id
PLANTED = 5  # lines of the large organization that hold each
COMPACT_SECONDS = 180.0
SEARCHERS = 4  # that search everything at once

PLAIN = """
CREATE TABLE plain_lines (org_id text, time bigint, agent_id text, container text, stream text, message text);
CREATE INDEX plain_lines_newest ON plain_lines (org_id, time DESC);
"""
PLAIN_SIZE = "SELECT pg_total_relation_size('plain_lines')"
OUR_SIZE = """
SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'log_chunks'::regclass
"""

WORDS = [
    "user",
    "order",
    "payment",
    "cart",
    "session",
    "cache",
    "index",
    "queue",
    "worker",
    "shard",
    "token",
    "login",
    "search",
    "catalog",
    "invoice",
    "refund",
    "shipping",
    "stock",
    "price",
    "email",
    "handler",
    "backend",
    "replica",
    "cluster",
    "request",
    "response",
]
LEVELS = ("INFO", "INFO", "INFO", "INFO", "WARN", "ERROR", "DEBUG")


class Organization(msgspec.Struct, frozen=True):
    """An organization with one agent."""

    org_id: str
    api_key: str
    agent_id: str
    token: str


class Batch(msgspec.Struct, frozen=True):
    """A batch as it is sent, and the rows that the plain table gets."""

    organization: Organization
    body: bytes
    rows: list[tuple[str, int, str, str, str, str]]


def message(chance: random.Random) -> str:
    """Return a line as services write them, of about 90 characters."""
    word = chance.choice
    kind = chance.random()
    if kind < 0.4:
        return (
            f"{word(LEVELS)} {word(('GET', 'POST', 'PUT'))} /api/v1/{word(WORDS)}s/{chance.randrange(10**6)}"
            f" status={word((200, 200, 200, 204, 404, 500))} duration={chance.random() * 100:.2f}ms"
            f" bytes={chance.randrange(9_000)}"
        )
    if kind < 0.7:
        return (
            f'level={word(LEVELS)} component={word(WORDS)} msg="{word(WORDS)} {word(WORDS)} completed"'
            f" attempt={chance.randrange(5)} request_id={chance.getrandbits(64):016x}"
        )
    if kind < 0.9:
        return f"{word(LEVELS)} [{word(WORDS)}-{chance.randrange(8)}] {word(WORDS)} {word(WORDS)} took {chance.randrange(2_000)} ms"
    return (
        f"{word(LEVELS)} connection from 10.{chance.randrange(256)}.{chance.randrange(256)}"
        f".{chance.randrange(256)}:{chance.randrange(65_536)} closed after {chance.randrange(10**4)} bytes"
    )


def batches(organizations: list[Organization], total: int, end: int) -> Iterator[Batch]:
    """Yield the batches of all organizations, as time goes by for all of them."""
    chance = random.Random(1)
    count = max(total // BATCH_LINES, ORGANIZATIONS)
    large = round(count * LARGE_SHARE)
    order = [0] * large + [1 + number % (ORGANIZATIONS - 1) for number in range(count - large)]
    chance.shuffle(order)
    planted = {place * large // PLANTED for place in range(PLANTED)}
    window = HOURS * 3_600 * SECOND
    seen = 0
    for place, number in enumerate(order):
        organization = organizations[number]
        start = end - window + window * place // count
        step = window // count // BATCH_LINES
        rows = []
        for line in range(BATCH_LINES):
            text = message(chance)
            if number == 0 and line == BATCH_LINES // 2 and seen in planted:
                text += (
                    f" {RARE} request_id={chance.getrandbits(32):08x}{FRAGMENT}{chance.getrandbits(32):08x}"
                )
            rows.append(
                (
                    organization.org_id,
                    start + line * step + chance.randrange(step),
                    organization.agent_id,
                    f"web-{chance.randrange(CONTAINERS)}",
                    "stderr" if chance.random() < 0.1 else "stdout",
                    text,
                )
            )
        seen += number == 0
        yield Batch(organization, packed(rows), rows)


def packed(rows: list[tuple[str, int, str, str, str, str]]) -> bytes:
    """Return the body of a batch: zstd of NDJSON."""
    encode = msgspec.json.encode
    lines = [
        encode(
            {
                "time": format_ns(at),
                "stream": stream,
                "message": text,
                "container": container,
                "containerId": container.encode().hex().ljust(64, "0"),
            }
        )
        for _, at, _, container, stream, text in rows
    ]
    return zstandard.compress(b"\n".join(lines), 1)


async def make_organizations(stack: Stack) -> list[Organization]:
    """Make the organizations, the large one first."""
    made = []
    async with stack.connection() as conn, conn.transaction():
        for number in range(ORGANIZATIONS):
            org_id = await provision.create_org(conn, f"organization {number}", "enterprise")
            _, key = await provision.create_api_key(conn, org_id, "benchmark")
            agent_id, token = tokens.new_id("agent"), tokens.new_agent_token()
            await insert_agent(
                conn,
                org_id,
                agent_id=agent_id,
                name="host",
                type_="docker",
                pool="default",
                version="1.0",
                token_hash=tokens.digest(token),
            )
            made.append(Organization(org_id, key, agent_id, token))
    return made


async def send(session: aiohttp.ClientSession, waiting: list[Batch]) -> None:
    """Send batches over several connections, the order of an agent's kept by nobody."""

    async def sender() -> None:
        while waiting:
            batch = waiting.pop()
            headers = {
                "Authorization": f"Bearer {batch.organization.token}",
                "Content-Encoding": "zstd",
                "Content-Type": "application/x-ndjson",
            }
            path = f"/api/v1/agents/{batch.organization.agent_id}/logs"
            async with session.post(path, data=batch.body, headers=headers) as response:
                assert response.status == 200, await response.text()

    await asyncio.gather(*(sender() for _ in range(CONNECTIONS)))


async def ingest(
    stack: Stack, session: aiohttp.ClientSession, organizations: list[Organization], total: int, end: int
) -> dict[str, Any]:
    """Send all lines and copy them into the plain table; return what each took."""
    sent = raw = 0
    ours = plain = ours_cpu = plain_cpu = 0.0
    stream = batches(organizations, total, end)
    async with stack.connection() as conn:
        await conn.execute(PLAIN)
        while phase := [batch for _, batch in zip(range(PHASE_BATCHES), stream, strict=False)]:
            rows = [row for batch in phase for row in batch.rows]
            sent += len(rows)
            raw += sum(len(row[5]) for row in rows)
            before, started = stack.cpu_seconds(), time.perf_counter()
            await send(session, phase)
            ours += time.perf_counter() - started
            between, started = stack.cpu_seconds(), time.perf_counter()
            await conn.copy_records_to_table("plain_lines", records=rows)
            plain += time.perf_counter() - started
            after = stack.cpu_seconds()
            ours_cpu += sum(between[part] - before[part] for part in ("web", "postgres", "background"))
            plain_cpu += after["postgres"] - between["postgres"]
        started, before = time.perf_counter(), stack.cpu_seconds()
        await compacted(conn)
        waited, after = time.perf_counter() - started, stack.cpu_seconds()
        ours_cpu += sum(after[part] - before[part] for part in ("web", "postgres", "background"))
        await conn.execute("VACUUM ANALYZE")
        our_bytes, plain_bytes = int(await conn.fetchval(OUR_SIZE)), int(await conn.fetchval(PLAIN_SIZE))
    return {
        "lines": sent,
        "message_bytes": round(raw / sent, 1),
        "lines_per_second": round(sent / ours),
        "lines_per_cpu_second": round(sent / ours_cpu),
        "compaction_wait_seconds": round(waited, 1),
        "bytes_per_line": round(our_bytes / sent, 1),
        "plain_lines_per_second": round(sent / plain),
        "plain_lines_per_cpu_second": round(sent / plain_cpu),
        "plain_bytes_per_line": round(plain_bytes / sent, 1),
        "bytes_of_plain": round(our_bytes / plain_bytes, 3),
    }


async def compacted(conn: asyncpg.Connection[asyncpg.Record]) -> None:
    """Wait until no hot row is left."""
    async with asyncio.timeout(COMPACT_SECONDS):
        while await conn.fetchval("SELECT EXISTS (SELECT 1 FROM log_batches)"):
            await asyncio.sleep(0.5)


async def timed(work: Callable[[], Awaitable[int]], rounds: int) -> tuple[float, float, int]:
    """Return p50 and the longest time of *work* in ms, and how many lines it found."""
    times = []
    found = 0
    for _ in range(rounds):
        started = time.perf_counter()
        found = await work()
        times.append((time.perf_counter() - started) * 1_000)
    return statistics.median(times), max(times), found


async def searches(
    stack: Stack, session: aiohttp.ClientSession, large: Organization, end: int
) -> list[dict[str, Any]]:
    """Return a row for each kind of search: ours and the plain table's."""
    rows = []
    cases = (
        ("newest 200 of 1 h", "", 1, 40, 40),
        ("rare word in 10 h", RARE, HOURS, 15, 2),
        ("substring in 10 h", FRAGMENT, HOURS, 7, 2),
        ("absent number in 10 h", "012345678901", HOURS, 7, 2),
        ("frequent word in 10 h", "error", HOURS, 15, 5),
    )
    async with stack.connection() as conn:
        for name, q, hours, rounds, plain_rounds in cases:
            start = end - hours * 3_600 * SECOND
            params = {"start": format_ns(start), "end": format_ns(end), **({"q": q} if q else {})}

            async def ours(params: dict[str, str] = params) -> int:
                return len(await searched(session, large, params))

            async def plain(start: int = start, q: str = q) -> int:
                return len(
                    await conn.fetch(
                        "SELECT * FROM plain_lines WHERE org_id = $1 AND time BETWEEN $2 AND $3"
                        " AND ($4 = '' OR message ILIKE '%' || $4 || '%') ORDER BY time DESC LIMIT 200",
                        large.org_id,
                        start,
                        end,
                        q,
                    )
                )

            await ours()
            p50, longest, found = await timed(ours, rounds)
            plain_p50, _, plain_found = await timed(plain, plain_rounds)
            assert found == plain_found, (name, found, plain_found)
            rows.append(
                {
                    "search": name,
                    "found": found,
                    "p50_ms": round(p50, 1),
                    "max_ms": round(longest, 1),
                    "plain_p50_ms": round(plain_p50, 1),
                    "p50_of_plain": round(p50 / plain_p50, 4),
                }
            )
    return rows


async def searched(
    session: aiohttp.ClientSession, organization: Organization, params: dict[str, str]
) -> list[Any]:
    """Return what a search finds."""
    headers = {"X-API-Key": organization.api_key}
    async with session.get("/api/v1/logs/search", params=params, headers=headers) as response:
        assert response.status == 200, await response.text()
        found: list[Any] = await response.json()
        return found


async def fairness(
    session: aiohttp.ClientSession, large: Organization, small: Organization, end: int, seconds: float
) -> dict[str, Any]:
    """Return p99 of one organization's searches and pushes, alone and while another searches everything."""
    everything = {
        "start": format_ns(end - HOURS * 3_600 * SECOND),
        "end": format_ns(end),
        "q": "0123456789ab",
    }
    window = {"start": format_ns(end - 3_600 * SECOND), "end": format_ns(end)}
    stop = asyncio.Event()

    async def widest() -> None:
        headers = {"X-API-Key": large.api_key}
        async with session.get("/api/v1/logs/search", params=everything, headers=headers) as response:
            assert response.status in (200, 503), await response.text()  # 503: too much for 10 s

    async def again_and_again() -> None:
        while not stop.is_set():
            await widest()

    async def push() -> None:
        path = f"/api/v1/agents/{small.agent_id}/push"
        headers = {"Authorization": f"Bearer {small.token}"}
        body = {"containers": [{"id": f"c{number}", "name": f"web-{number}"} for number in range(20)]}
        async with session.post(path, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()

    async def sample() -> dict[str, list[float]]:
        times: dict[str, list[float]] = {"search": [], "push": []}
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            started = time.perf_counter()
            await searched(session, small, window)
            between = time.perf_counter()
            await push()
            times["search"].append((between - started) * 1_000)
            times["push"].append((time.perf_counter() - between) * 1_000)
            await asyncio.sleep(0.005)
        return times

    await asyncio.gather(*(widest() for _ in range(SEARCHERS)))  # the processes that do it run then
    await sample()
    alone = await sample()
    searchers = [
        asyncio.create_task(again_and_again(), name=f"widest-{number}") for number in range(SEARCHERS)
    ]
    beside = await sample()
    stop.set()
    await asyncio.gather(*searchers)
    figures: dict[str, Any] = {"searchers": SEARCHERS}
    for name in ("search", "push"):
        for where, times in (("alone", alone[name]), ("beside", beside[name])):
            cuts = statistics.quantiles(times, n=100)
            figures[f"{name}_{where}_p50_ms"] = round(cuts[49], 2)
            figures[f"{name}_{where}_p99_ms"] = round(cuts[98], 2)
        ratio = figures[f"{name}_beside_p99_ms"] / figures[f"{name}_alone_p99_ms"]
        figures[f"{name}_p99_ratio"] = round(ratio, 2)
    return figures


async def run(lines: int, seconds: float) -> None:
    """Start everything, measure, print."""
    async with started_stack() as stack:
        organizations = await make_organizations(stack)
        end = time.time_ns()
        base_url = f"http://127.0.0.1:{stack.service.port}"
        async with aiohttp.ClientSession(base_url, json_serialize=json.dumps) as session:
            stored = await ingest(stack, session, organizations, lines, end)
            print_table(list(stored), [stored])
            found = await searches(stack, session, organizations[0], end)
            print_table(list(found[0]), found)
            shared = await fairness(session, organizations[0], organizations[1], end, seconds)
            print_table(list(shared), [shared])
    print_figures({"benchmark": "logs", "ingest": stored, "searches": found, "fairness": shared})


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=1_000_000, help="lines of all organizations")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each round of the last part")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.lines, arguments.seconds))


if __name__ == "__main__":
    main()
