"""A push: what it stores, what it shows, what it refuses."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any

import pytest
import zstandard

CONTAINER = {
    "id": "c1" * 32,
    "shortId": "c1c1c1c1c1c1",
    "name": "web-1",
    "image": "nginx:1.25",
    "status": "Up 3 hours",
    "state": "running",
    "source": "docker",
    "cpuPercent": 12.5,
    "memoryUsageMB": 100.25,
    "memoryLimitMB": 512,
    "memoryPercent": 19.58,
    "netRxBytes": 1000,
    "netTxBytes": 2000,
    "blkReadBytes": 3000,
    "blkWriteBytes": 4000,
    "ports": [{"PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}],
}


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {**CONTAINER, "id": name.encode().hex().ljust(64, "0"), "name": name, **fields}


async def test_a_pushed_container_is_listed_with_every_documented_field(api, agent):
    await agent.pushed(containers=[CONTAINER], version="1.1")

    [listed] = await api.json("/api/v1/containers")

    assert {key: listed[key] for key in CONTAINER} == CONTAINER
    assert listed["agentId"] == agent.agent_id
    assert listed["created"] == ""
