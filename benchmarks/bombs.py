"""Gzip bombs against the service: how long others wait meanwhile.

Eight at a time send 1 MB that would unpack to 1 GB, as nobody and then as agents,
while others list the agents on connections to every worker.  The delay is what
their requests took beyond the median of a quiet time just before.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import time
import zlib
from typing import Any

from benchmarks.stack import Agent, Stack, print_figures, print_table, started_stack
from monitor.dev.files import LOOPBACK

BOMBS = 8
UNPACKED_BYTES = 1 << 30
PIECE_BYTES = 1 << 20
OTHERS = 4  # connections that only read: both workers have some, but for 1 in 8 times
PAUSE_SECONDS = 0.002  # between two of their requests
SALVO_PAUSE_SECONDS = 0.1  # from the last answer to the next eight
ANSWER_SECONDS = 30.0
WANTED_MS = 50.0


def bomb() -> bytes:
    """Return a gzip member of 1 GB of zeros: about 1 MB."""
    piece = bytes(PIECE_BYTES)
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(piece) for _ in range(UNPACKED_BYTES // PIECE_BYTES)]
    return b"".join((*parts, packer.flush()))


async def answered(source: asyncio.StreamReader) -> int:
    """Read one answer; return its status."""
    async with asyncio.timeout(ANSWER_SECONDS):
        head = (await source.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await source.readexactly(length)
    return int(head[9:12])


async def throw(stack: Stack, agent: Agent, body: bytes, *, authenticated: bool) -> int:
    """Send one bomb on a connection of its own; return the status of the answer."""
    source, sink = await asyncio.open_connection(LOOPBACK, stack.service.port)
    token = agent.token if authenticated else "at_" + "x" * 43
    sink.write(
        (
            f"POST /api/v1/agents/{agent.agent_id}/push HTTP/1.1\r\nHost: bench\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()
    )
    try:
        for at in range(0, len(body), 65_536):
            sink.write(body[at : at + 65_536])
            await sink.drain()
        return await answered(source)
    except ConnectionError:  # refused before all was sent
        return 0
    finally:
        sink.transport.abort()


async def reading(stack: Stack, ended: asyncio.Event, taken: list[float]) -> None:
    """List the agents again and again; note the milliseconds of each."""
    source, sink = await asyncio.open_connection(LOOPBACK, stack.service.port)
    request = f"GET /api/v1/agents HTTP/1.1\r\nHost: bench\r\nX-API-Key: {stack.api_key}\r\n\r\n".encode()
    while not ended.is_set():
        began = time.perf_counter()
        sink.write(request)
        status = await answered(source)
        assert status == 200, status
        taken.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    sink.close()


async def quiet(seconds: float) -> None:
    """Let the others read alone."""
    await asyncio.sleep(seconds)


async def salvo(
    stack: Stack, agents: list[Agent], body: bytes, seconds: float, *, authenticated: bool
) -> list[int]:
    """Throw eight bombs at once, again and again for some time; return the statuses."""
    statuses: list[int] = []
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        thrown = (throw(stack, agent, body, authenticated=authenticated) for agent in agents)
        statuses += await asyncio.gather(*thrown)
        await asyncio.sleep(SALVO_PAUSE_SECONDS)
    return statuses


async def latencies(stack: Stack, meanwhile: Any) -> tuple[list[float], Any]:
    """Return what the others' requests took while *meanwhile* ran, and its result."""
    ended, taken = asyncio.Event(), list[float]()
    others = [asyncio.create_task(reading(stack, ended, taken)) for _ in range(OTHERS)]
    result = await meanwhile
    ended.set()
    await asyncio.gather(*others)
    return sorted(taken), result


def row_of(name: str, quiet_ms: list[float], taken: list[float], statuses: list[int]) -> dict[str, Any]:
    """Return a line of the table."""
    median = statistics.median(quiet_ms)
    return {
        "bombs": name,
        "thrown": len(statuses),
        "statuses": "/".join(map(str, sorted(set(statuses)))),
        "requests": len(taken),
        "quiet_p50_ms": median,
        "quiet_max_ms": quiet_ms[-1],
        "p50_ms": statistics.median(taken),
        "p99_ms": taken[math.ceil(len(taken) * 0.99) - 1],
        "max_ms": taken[-1],
        "p99_delay_ms": taken[math.ceil(len(taken) * 0.99) - 1] - median,
        "max_delay_ms": taken[-1] - median,
    }


async def run(seconds: float) -> dict[str, Any]:
    """Measure both; print the table and return the figures."""
    body = bomb()
    async with started_stack() as stack:
        agents = await stack.register(BOMBS)
        rows = []
        for name, authenticated in (("unauthenticated", False), ("of agents", True)):
            quiet_ms, _ = await latencies(stack, quiet(seconds))
            attack = salvo(stack, agents, body, seconds, authenticated=authenticated)
            taken, statuses = await latencies(stack, attack)
            rows.append(row_of(name, quiet_ms, taken, statuses))
    print(f"{BOMBS} bombs of {len(body)} bytes at once, each of {UNPACKED_BYTES >> 20} MiB")
    print_table(tuple(rows[0]), rows)
    return {"benchmark": "bombs", "bomb_bytes": len(body), "wanted_delay_ms": WANTED_MS, "rows": rows}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two seconds of each")
    options = parser.parse_args()
    print_figures(asyncio.run(run(2.0 if options.quick else 5.0)))


if __name__ == "__main__":
    main()
