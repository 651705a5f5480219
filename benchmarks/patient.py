"""Agents that repeat each push until it is acknowledged, and remember what was.

Each push has a time of its own and a number that grows, so that every sample can
be told from every other.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import aiohttp
import msgspec

from benchmarks.stack import Agent

PUSH_SECONDS = 0.1  # each agent's: 200 pushes a second of 20 agents
RETRY_SECONDS = 0.05  # an agent repeats at once: it looks for gaps
REQUEST_SECONDS = 20.0  # longer than the service itself lets a push wait
MARK = "chaos_push_number"


class Load:
    """Agents that push until they are told to end."""

    def __init__(self, url: str, agents: list[Agent]) -> None:
        self.acknowledged: dict[str, dict[int, int]] = {agent.agent_id: {} for agent in agents}
        self.statuses: Counter[int] = Counter()
        self.longest_seconds = 0.0
        self.ended = asyncio.Event()
        self._url = url
        self._agents = agents

    async def run(self) -> None:
        """Push from all agents; return when the last has ended."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(self._url, timeout=timeout, connector=connector) as session:
            await asyncio.gather(*(self._pushes(session, agent) for agent in self._agents))

    async def _pushes(self, session: aiohttp.ClientSession, agent: Agent) -> None:
        number, at_ms, due = 0, 0, time.monotonic() + random.uniform(0, PUSH_SECONDS)
        while not self.ended.is_set():
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            begun = time.monotonic()
            due = max(due + PUSH_SECONDS, begun)
            number, at_ms = number + 1, max(at_ms + 1, time.time_ns() // 1_000_000)
            if await self._acknowledged(session, agent, body_of(number, at_ms)):
                self.acknowledged[agent.agent_id][at_ms] = number
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - begun)

    async def _acknowledged(self, session: aiohttp.ClientSession, agent: Agent, body: bytes) -> bool:
        """Push until it is acknowledged, or the load ends."""
        headers = {"Authorization": f"Bearer {agent.token}", "Content-Type": "application/json"}
        while not self.ended.is_set():
            try:
                async with session.post(
                    f"/api/v1/agents/{agent.agent_id}/push", data=body, headers=headers
                ) as response:
                    await response.read()
                    self.statuses[response.status] += 1
                    if response.status == 200:
                        return True
            except (aiohttp.ClientError, TimeoutError):
                self.statuses[0] += 1
            await asyncio.sleep(RETRY_SECONDS)
        return False


def body_of(number: int, at_ms: int) -> bytes:
    """Return an agent's push *number*, collected at *at_ms*: two containers and its number."""
    seconds, ms = divmod(at_ms, 1000)
    collected_at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z"
    containers = [
        {
            "id": str(which) * 64,
            "name": f"web-{which}",
            "image": "nginx:1.25",
            "state": "running",
            "cpuPercent": 12.5,
            "memoryUsageMB": 100,
            "memoryLimitMB": 512,
            "memoryPercent": 19.5,
            "netRxBytes": number * 1000,
            "netTxBytes": number * 500,
            "blkReadBytes": number,
            "blkWriteBytes": number,
        }
        for which in (1, 2)
    ]
    samples = [{"metric": MARK, "value": number}]
    push = {"seq": number, "collectedAt": collected_at, "containers": containers, "samples": samples}
    return msgspec.json.encode(push)
