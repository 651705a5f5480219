"""A proxy in front of a service that fails by its seed, in every way in which a network and a server can.

A request is refused without having arrived, or arrives and its answer is lost,
replaced by an error or cut in the midst; or nothing happens for a long while.
What was pushed, and which of it was acknowledged to the agent, is remembered.
"""

from __future__ import annotations

import asyncio
import gzip
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

FAULT_SHARE = 0.35  # of the requests
RETRY_AFTER_SECONDS = 1
UPSTREAM_SECONDS = 120.0  # more than any answer of the service takes
# Before the service learns of the request, and after it has answered.
EARLY = ("500", "503", "429", "cut", "hang")
LATE = ("500 late", "503 late", "cut late", "half", "hang late")
BODY_LIMIT = 32 * 1024 * 1024
HOP_HEADERS = frozenset(
    {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
)


class Unreliable:
    """The proxy.

    Args:
        target: Base address of the service.
        seed: Of the faults' order.
        hang_seconds: How long a request hangs before it is cut.
        loses_polls: Whether a command may get lost on its way to the agent, which the service
            finds out 30 s later.

    Attributes:
        faults: How often each was made; "none" counts the others.
        is_failing: Until it is set to false.
        collected: By the time of each snapshot that was pushed, in milliseconds, its containers.
        acknowledged: Those of which the agent was told so.
    """

    def __init__(self, target: str, seed: int, *, hang_seconds: float, loses_polls: bool) -> None:
        self._target = target
        self._random = random.Random(seed)
        self._hang_seconds = hang_seconds
        self._loses_polls = loses_polls
        self.faults: Counter[str] = Counter()
        self.is_failing = True
        self.collected: dict[int, list[dict[str, Any]]] = {}
        self.acknowledged: set[int] = set()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Relay for a block; gives the address."""
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._relay)
        async with aiohttp.ClientSession(
            auto_decompress=False, timeout=aiohttp.ClientTimeout(total=UPSTREAM_SECONDS)
        ) as self._session:
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, auto_decompress=False)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            try:
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        is_poll = request.path.endswith("/commands")
        fault = self._draw(EARLY if is_poll and not self._loses_polls else EARLY + LATE)
        if fault in EARLY:
            return await self._fail(request, fault)
        at = self._noted(body) if request.path.endswith("/push") else None
        sent = {key: text for key, text in request.headers.items() if key.lower() not in HOP_HEADERS}
        try:
            async with self._session.request(
                request.method, self._target + request.path_qs, data=body or None, headers=sent
            ) as upstream:
                status, payload = upstream.status, await upstream.read()
                headers = {k: text for k, text in upstream.headers.items() if k.lower() not in HOP_HEADERS}
        except (aiohttp.ClientError, TimeoutError):
            return await self._fail(request, "cut")
        if fault == "half":
            return await self._half(request, status, headers, payload)
        if fault is not None:
            return await self._fail(request, fault.removesuffix(" late"))
        if at is not None and status == 200:
            self.acknowledged.add(at)
        return web.Response(status=status, headers=headers, body=payload)

    def _draw(self, faults: tuple[str, ...]) -> str | None:
        fails = self.is_failing and self._random.random() < FAULT_SHARE
        fault = self._random.choice(faults) if fails else None
        self.faults[fault or "none"] += 1
        return fault

    async def _fail(self, request: web.Request, fault: str) -> web.Response:
        if fault.isdecimal():
            headers = {} if fault == "500" else {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return web.json_response({"error": "made up"}, status=int(fault), headers=headers)
        if fault == "hang":
            await asyncio.sleep(self._hang_seconds)
        _cut(request)
        return web.Response()

    async def _half(
        self, request: web.Request, status: int, headers: dict[str, str], payload: bytes
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = len(payload) + 1
        await response.prepare(request)
        await response.write(payload[: len(payload) // 2])
        _cut(request)
        return response

    def _noted(self, body: bytes) -> int:
        push = msgspec.json.decode(gzip.decompress(body))
        at = round(datetime.fromisoformat(push["collectedAt"]).timestamp() * 1000)
        self.collected[at] = push["containers"]
        return at


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
