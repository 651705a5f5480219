"""Delete an agent while four connections push for it, and look again for a minute and a restart.

Part of ``make chaos``: it takes a minute and a half, because it waits as long as the
service itself does before its last look.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

from monitor.config import Log
from monitor.web.log import set_up_logging
from tests.conftest import Addresses, Agent, Api
from tests.servers import start_servers
from tests.stack import Stack, own_stack

LOOKS_SECONDS = (0.0, 5.0, 60.0)  # after the answer to DELETE
PUSHERS = 4


async def series_of(stack: Stack, api: Api, agent_id: str) -> int:
    """Return in how many places of all answers the agent's id still occurs."""
    query = {"match[]": '{__name__!=""}'}
    answers = [
        await api.json("/api/v1/metrics/instant", params={"metric": '{__name__!=""}'}),
        await api.json("/api/v1/metrics/range", params={"metric": '{__name__!=""}', "step": "1m"}),
        await api.json("/prometheus/api/v1/series", params=query),
        await api.json("/prometheus/api/v1/label/agent_id/values"),
        await api.json("/api/v1/containers"),
        await api.json("/api/v1/agents"),
    ]
    return json.dumps(answers).count(agent_id)


async def push_until_refused(agent: Agent, statuses: list[int]) -> None:
    """Push as fast as one connection can until the agent is gone."""
    while True:
        reply = await agent.push(
            samples=[{"metric": "pushed", "value": 1}], containers=[{"id": "1", "name": "c", "cpuPercent": 1}]
        )
        statuses.append(reply.status)
        if reply.status == 401:
            return


async def measure(stack: Stack) -> dict[str, object]:
    """Delete under load; return what was found when."""
    api = await stack.api()
    agent, kept = await stack.agent(api, "deleted"), await stack.agent(api, "kept")
    for value in range(20):
        await kept.pushed(samples=[{"metric": "whole", "value": value}])
    statuses: list[int] = []
    pushing = [asyncio.create_task(push_until_refused(agent, statuses)) for _ in range(PUSHERS)]
    await asyncio.sleep(3)
    async with api.delete(agent.path) as response:
        status = response.status
    deleted = time.monotonic()
    await asyncio.gather(*pushing)
    found: dict[str, int] = {}
    for seconds in LOOKS_SECONDS:
        await asyncio.sleep(max(0.0, deleted + seconds - time.monotonic()))
        found[f"+{seconds:.0f}s"] = await series_of(stack, api, agent.agent_id)
    await asyncio.sleep(10)
    stored = len(await stack.samples(f'{{agent_id="{agent.agent_id}"}}'))
    await stack.kill_victoriametrics()
    await stack.victoriametrics.start()
    found["after a restart"] = await series_of(stack, api, agent.agent_id)
    await asyncio.sleep(10)
    found["10 s after the restart"] = await series_of(stack, api, agent.agent_id)
    whole = await stack.samples("whole")
    [receipt] = await api.json("/api/v1/settings/deletions")
    return {
        "status": status,
        "pushes_before": statuses.count(200),
        "found": found,
        "samples_left_in_victoriametrics": stored,
        "whole_samples_of_the_other_agent": len(whole),
        "receipt": receipt,
    }


async def run(addresses: Addresses, folder: Path) -> dict[str, object]:
    """Start a stack and measure in it."""
    async with own_stack(addresses, folder) as stack:
        return await measure(stack)


def main() -> None:
    """Print what was found; fail if it was anything."""
    set_up_logging(Log(level="error", format="console"))
    with tempfile.TemporaryDirectory(prefix="monitor-deletion-") as name:
        root = Path(name)
        root.chmod(0o755)
        servers = start_servers(root)
        try:
            addresses = Addresses(servers.owner_dsn, servers.app_dsn, servers.superuser_dsn, servers.vm_url)
            result = asyncio.run(run(addresses, root / "own"))
        finally:
            servers.stop()
    print(json.dumps(result))
    found = result["found"]
    assert isinstance(found, dict)
    if any(found.values()) or result["samples_left_in_victoriametrics"]:
        raise SystemExit("something of the deleted agent was found")
    if result["whole_samples_of_the_other_agent"] != 20:
        raise SystemExit("the other agent's samples are not whole")


if __name__ == "__main__":
    main()
