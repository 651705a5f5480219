"""A stand-in for the agent of a made-up host: whoever follows its containers gets what they write."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.browser import fleet

PAST_SECONDS = 60.0  # shown before what is new
PRESENT_SECONDS = 30.0  # of new lines: longer than a picture takes


async def answer_tails(host: fleet.Member, name: str) -> None:
    """Stream what containers of the host *name* write to whoever follows them, as the host's agent does."""
    async with asyncio.TaskGroup() as tails:
        while True:
            tails.create_task(write(host, name, await host.asked()))


async def write(host: fleet.Member, name: str, request: dict[str, Any]) -> None:
    """Answer one log request: some past, then some seconds of the present."""
    since = time.time() - PAST_SECONDS
    ends = time.time() + PRESENT_SECONDS
    sent = 0
    while since < ends:
        until = time.time()
        lines = [
            {"time": line["time"], "stream": line["stream"], "message": line["message"], "seq": sent + number}
            for number, line in enumerate(
                line
                for line in fleet.log(name, since, until)
                if line["containerId"] == request["containerId"]
            )
        ]
        sent = await host.stream(request["requestId"], lines)
        since = until
        await asyncio.sleep(0.2)
