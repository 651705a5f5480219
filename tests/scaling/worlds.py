"""Scripted pushes of a few agents, one row for each 15 seconds: what the loop knows of them, and a simulation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import zstandard

from monitor.scaling.models import Settings
from monitor.scaling.observe import Observation, Snapshot

STEP = 15
ONLINE = 90  # seconds since the last push
AGE = 8  # seconds that each push is old when the loop looks; VictoriaMetrics shows a sample for 22.5
VISIBLE_SECONDS = 60.0  # until VictoriaMetrics shows what was pushed, at the latest
UNSEEN_SECONDS = 3.0  # a new series asked for earlier stays hidden for some 10 s
Script = dict[str, list[dict[str, Any] | None]]  # bodies by the agent's name; None where it is silent


def pod(name: str, cpu: float | None, **fields: Any) -> dict[str, Any]:
    """Return a pod of the Deployment ``web``."""
    told = {} if cpu is None else {"cpuPercent": cpu, "memoryPercent": 10}
    of = {"namespace": "shop", "phase": "Running", "ready": True, "workload": "Deployment/web"}
    return {"name": f"web-{name}", "nodeName": "n1", **of, **told, **fields}


def node(name: str, cpu: float) -> dict[str, Any]:
    """Return a node that uses *cpu* percent of its two cores."""
    usage = {"cpuCores": cpu / 50, "memoryGiB": 0.25}
    return {"name": name, "status": "Ready", "allocatable": {"cpu": "2", "memory": "1Gi"}, "usage": usage}


def pods(*cpu: float | None, nodes: Any = (), **fields: Any) -> dict[str, Any]:
    """Return a push with a pod for each cpu percent."""
    return {
        "pods": [pod(f"{number}", value, **fields) for number, value in enumerate(cpu)],
        "nodes": list(nodes),
    }


def container(name: str, cpu: float, **fields: Any) -> dict[str, Any]:
    """Return a running container."""
    told = {"cpuPercent": cpu, "memoryPercent": 10, "memoryUsageMB": 64, "netRxBytes": 1}
    return {"id": f"id-{name}", "name": name, "state": "running", **told, **fields}


def containers(*cpu: float, prefix: str = "web", **fields: Any) -> dict[str, Any]:
    """Return a push with a container of the group for each cpu percent."""
    return {"containers": [container(f"{prefix}-{at}", value, **fields) for at, value in enumerate(cpu, 1)]}


def observations(
    script: Script, ids: dict[str, str], start: float, settings: Settings
) -> Iterator[tuple[float, Observation]]:
    """Yield what the loop sees at each step from *start* on.

    Args:
        script: What was pushed.
        ids: Ids of the agents, by name.
        start: Unix seconds of the first row.
        settings: Of the policy whose workload is looked for.
    """
    stored: dict[str, dict[str, bytes]] = {name: {} for name in script}
    seen: dict[str, float] = {}
    for number in range(max(map(len, script.values()))):
        now = start + STEP * number
        for name, bodies in script.items():
            body = bodies[number] if number < len(bodies) else None
            if body is not None:
                seen[name] = now - AGE
                packed = {
                    kind: zstandard.compress(json.dumps(array).encode()) for kind, array in body.items()
                }
                stored[name].update(packed)
        snapshots = [
            Snapshot(
                ids[name],
                name,
                "default",
                now - seen.get(name, float("-inf")) < ONLINE,
                *(arrays.get(kind) for kind in ("containers", "pods", "nodes")),
            )
            for name, arrays in stored.items()
        ]
        yield now, Observation(snapshots, [(settings.runtime, settings.target_ref)])


async def simulate(api: Any, body: dict[str, Any]) -> Any:
    async with api.post("/api/v1/scaling/simulate", json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json()
