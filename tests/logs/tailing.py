"""A viewer of a live tail and the sending side of an agent, as tests need them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from monitor.wire.tail import TailLine
from tests.conftest import Agent, Api

CONTAINER = "c" * 64
POD = {"name": "web-1", "namespace": "shop", "containers": [{"name": "app"}, {"name": "proxy"}]}
TIME = "2026-01-02T03:04:05.678901234Z"
SECONDS = 60.0  # nothing here takes so long, however busy the machine is


class Event(msgspec.Struct):
    """A server-sent event; *body* is its JSON."""

    kind: str
    body: Any
    id: str | None = None


class Viewer:
    """A stream of events, read one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.last_id: str | None = None
        self._text = b""

    async def next(self) -> Event | None:
        """Return the next event, None at the end; comments are left out."""
        async with asyncio.timeout(SECONDS):
            while True:
                while b"\n\n" in self._text:
                    text, self._text = self._text.split(b"\n\n", 1)
                    fields = dict(line.split(": ", 1) for line in text.decode().split("\n") if ": " in line)
                    if "event" in fields:
                        self.last_id = fields.get("id", self.last_id)
                        return Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
                piece = await self.response.content.readany()
                if not piece:
                    return None
                self._text += piece

    async def until(self, kind: str) -> Event:
        """Return the next event of a kind; others before it are left out."""
        while True:
            event = await self.next()
            assert event is not None, f"the stream ended without {kind}"
            if event.kind == kind:
                return event

    async def lines(self, count: int) -> list[str]:
        """Return the texts of the next *count* lines; nothing may be skipped."""
        texts: list[str] = []
        while len(texts) < count:
            event = await self.next()
            assert event is not None, f"the stream ended after {len(texts)} of {count} lines"
            assert event.kind in ("connected", "waiting", "log"), event
            if event.kind == "log":
                texts.append(event.body["line"])
        return texts

    async def rest(self) -> list[Event]:
        """Return all events to the end."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@asynccontextmanager
async def watching(
    api: Api, path: str = f"containers/{CONTAINER}", last_id: str | None = None, **params: Any
) -> AsyncIterator[Viewer]:
    """Watch what *path* names; the connection is cut at the end of the block."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    asked = {name: str(value) for name, value in params.items()}
    timeout = aiohttp.ClientTimeout(total=None)
    async with api.get(f"/api/v1/logs/{path}", params=asked, headers=headers, timeout=timeout) as response:
        assert response.status == 200, await response.text()
        try:
            yield Viewer(response)
        finally:
            response.close()


def ndjson(lines: list[TailLine]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def numbered(first: int, count: int, text: str = "line {}") -> list[TailLine]:
    """Return lines with the numbers from *first* on, which stand in their texts too."""
    return [TailLine(TIME, "stdout", text.format(seq), seq) for seq in range(first, first + count)]


async def send(
    agent: Agent, request_id: str, lines: list[TailLine] | bytes = b"", **options: Any
) -> tuple[int, Any]:
    """POST lines of a request; return status and JSON."""
    body = lines if isinstance(lines, bytes) else ndjson(lines)
    headers = {"Content-Type": "application/x-ndjson", **options.pop("headers", {})}
    path = f"{agent.path}/log-streams/{request_id}"
    async with agent.api.post(path, data=body, headers=headers, **options) as response:
        return response.status, await response.json()


async def sent(agent: Agent, request_id: str, lines: list[TailLine] | bytes = b"", **options: Any) -> int:
    """POST lines that must be taken; return the number of the next."""
    status, answer = await send(agent, request_id, lines, **options)
    assert status == 200, answer
    return int(answer["next"])


async def until(condition: Any) -> Any:
    """Wait until *condition*, which may be awaitable, gives something true, and return that."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)
