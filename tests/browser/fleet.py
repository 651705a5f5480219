"""A made-up fleet: Docker hosts and a cluster whose figures move like those of a small shop.

What is pushed is a pure function of the time, so any past can be pushed too, and two
runs give the same pictures.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp

MEBIBYTE = 2**20
DAY_SECONDS = 86_400

# Compose project, service, replicas, CPU in percent of a core, memory in MiB, limit in MiB, ports.
SHOP = (
    ("shop", "web", 3, 34, 310, 512, ((80, 8080),)),
    ("shop", "checkout", 2, 52, 420, 512, ((9000, None),)),
    ("shop", "search", 1, 118, 1_650, 2_048, ((9200, 9200), (9300, None))),
    ("shop", "cache", 1, 9, 240, 256, ((6379, None),)),
    ("data", "postgres", 1, 41, 1_900, 4_096, ((5432, 5432),)),
    ("data", "backup", 1, 2, 60, 0, ()),
    ("edge", "proxy", 2, 17, 95, 256, ((443, 443), (80, 80))),
    ("tools", "registry", 1, 4, 130, 0, ((5000, 5000),)),
)
WORKLOADS = (
    ("shop", "orders", 4, 0.35, 420),
    ("shop", "payments", 3, 0.2, 310),
    ("shop", "catalog", 3, 0.5, 640),
    ("monitoring", "metrics-server", 1, 0.05, 70),
    ("kube-system", "coredns", 2, 0.02, 45),
)
NODES = ("node-a", "node-b", "node-c")


def _digest(seed: str) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()


def _noise(seed: str) -> float:
    """Return a number from 0 to 1 that belongs to *seed*."""
    return int(_digest(seed)[:8], 16) / 2**32


def _load(seed: str, at: float) -> float:
    """Return a load around 1 at a unix time: a slow wave, a fast one, and noise."""
    phase = _noise(seed) * 6.28
    wave = 0.25 * math.sin(at / 1_300 + phase) + 0.12 * math.sin(at / 210 + 3 * phase)
    return max(0.05, 1 + wave + 0.06 * (_noise(f"{seed}{int(at) // 15}") - 0.5))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def host(name: str, at: float) -> dict[str, Any]:
    """Return what the Docker host *name* pushes at a unix time."""
    containers: list[dict[str, Any]] = []
    for project, service, replicas, cpu, memory, limit, ports in SHOP:
        for number in range(1, replicas + 1):
            seed = f"{name}/{project}/{service}/{number}"
            load = _load(seed, at)
            container_id = _digest(seed)
            stopped = service == "backup"
            used = 0 if stopped else memory * (0.85 + 0.15 * load)
            containers.append(
                {
                    "id": container_id,
                    "shortId": container_id[:12],
                    "name": f"{project}-{service}-{number}",
                    "image": f"registry.example.com/{project}/{service}:2.{len(service)}.1",
                    "status": "Exited (0) 3 hours ago" if stopped else "Up 6 days",
                    "state": "exited" if stopped else "running",
                    "created": _iso(at - 6 * DAY_SECONDS),
                    "cpuPercent": 0 if stopped else round(cpu * load, 2),
                    "memoryUsageMB": round(used, 1),
                    "memoryLimitMB": limit,
                    "memoryPercent": round(100 * used / limit, 1) if limit else 0,
                    "netRxBytes": 0 if stopped else int(at % DAY_SECONDS * cpu * 900),
                    "netTxBytes": 0 if stopped else int(at % DAY_SECONDS * cpu * 2_100),
                    "blkReadBytes": 0 if stopped else int(at % DAY_SECONDS * memory * 12),
                    "blkWriteBytes": 0 if stopped else int(at % DAY_SECONDS * memory * 30),
                    "ports": [
                        {"PrivatePort": private, "Type": "tcp"}
                        | ({"IP": "0.0.0.0", "PublicPort": public} if public else {})
                        for private, public in ports
                    ],
                    "labels": {
                        "com.docker.compose.project": project,
                        "com.docker.compose.service": service,
                    },
                }
            )
    return {"version": "0.1.0", "containers": containers, "collectedAt": _iso(at)}


def cluster(at: float, *, measured: bool = True) -> dict[str, Any]:
    """Return what the agent of a cluster pushes at a unix time; *measured*: with a metrics provider."""
    pods: list[dict[str, Any]] = []
    for namespace, name, replicas, cores, memory in WORKLOADS:
        for number in range(replicas):
            seed = f"{namespace}/{name}/{number}"
            tail = _digest(seed)
            load = _load(seed, at)
            waiting = name == "payments" and number == 2
            usage = {
                "cpuCores": round(cores * load, 3),
                "cpuPercent": round(60 * load, 1),
                "memoryBytes": int(memory * MEBIBYTE * (0.8 + 0.2 * load)),
                "memoryPercent": round(55 * load, 1),
            }
            pods.append(
                {
                    "name": f"{name}-7d9c5b8f6d-{tail[:5]}",
                    "namespace": namespace,
                    "phase": "Pending" if waiting else "Running",
                    "nodeName": "" if waiting else NODES[number % len(NODES)],
                    "podIP": "" if waiting else f"10.42.{number}.{len(pods) + 10}",
                    "labels": {"app": name},
                    "startTime": _iso(at - 2 * DAY_SECONDS),
                    "restarts": 3 if name == "catalog" and number == 1 else 0,
                    "ready": not waiting,
                    "workload": f"Deployment/{name}",
                    "containers": [
                        {
                            "name": name,
                            "image": f"{name}:1",
                            "ready": not waiting,
                            "restarts": 0,
                            "state": "waiting" if waiting else "running",
                        }
                    ],
                    **(usage if measured and not waiting else {}),
                }
            )
    nodes = [
        {
            "name": name,
            "status": "Ready",
            "roles": ["control-plane"] if name == "node-a" else ["worker"],
            "kubeletVersion": "v1.31.2",
            "osImage": "Debian GNU/Linux 12 (bookworm)",
            "architecture": "amd64",
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeralStorage": "200Gi"},
            "allocatable": {"cpu": "7800m", "memory": "30Gi", "pods": "110", "ephemeralStorage": "180Gi"},
            "usage": {
                "podsUsed": sum(pod["nodeName"] == name for pod in pods),
                **(
                    {"cpuCores": round(2.4 * _load(name, at), 2), "memoryGiB": round(11 * _load(name, at), 1)}
                    if measured
                    else {}
                ),
            },
            "labels": {"kubernetes.io/arch": "amd64"},
        }
        for name in NODES
    ]
    return {"version": "0.1.0", "pods": pods, "nodes": nodes, "collectedAt": _iso(at)}


def log(name: str, since: float, until: float) -> list[dict[str, Any]]:
    """Return what the containers of the host *name* write between two unix times."""
    lines: list[dict[str, Any]] = []
    containers = [each for each in host(name, until)["containers"] if each["state"] == "running"]
    for each in containers:
        seed = f"{name}/{each['name']}"
        every = 2 + 9 * _noise(seed)  # seconds between two lines
        for number in range(math.ceil(since / every), math.ceil(until / every)):
            at = number * every
            kind = _noise(f"{seed}{number}")
            took = int(4 + 300 * kind**4)
            path = ("/", "/cart", "/orders/4711", "/healthz")[int(kind * 997) % 4]
            if kind > 0.985:
                message = f"\x1b[31mERROR\x1b[0m upstream timed out after {took * 40} ms, giving up {path}"
            elif kind > 0.95:
                message = f"\x1b[33mWARN\x1b[0m slow answer: {took} ms for {path}"
            else:
                message = f"\x1b[32mINFO\x1b[0m \x1b[1mGET\x1b[0m {path} 200 {took} ms trace={_digest(f'{seed}{at}')[:16]}"
            lines.append(
                {
                    "time": _iso(at),
                    "stream": "stderr" if kind > 0.95 else "stdout",
                    "message": message,
                    "containerId": each["id"],
                    "container": each["name"],
                }
            )
    return sorted(lines, key=lambda line: line["time"])


def tail(first: int, count: int, text: str = "line {}", stream: str = "stdout") -> list[dict[str, Any]]:
    """Return *count* lines of a live tail as an agent sends them, numbered from *first*."""
    now = time.time()
    return [
        {"time": _iso(now + number / 1e6), "stream": stream, "message": text.format(number), "seq": number}
        for number in range(first, first + count)
    ]


def crowd(size: int, at: float, first: int = 0) -> dict[str, Any]:
    """Return a push of *size* containers on one host, numbered from *first*, without a time of its own."""
    containers = []
    for number in range(first, first + size):
        load = _load(f"crowd{number}", at)
        containers.append(
            {
                "id": f"{number:064x}",
                "name": f"worker-{number:05d}",
                "image": f"registry.example.com/jobs/worker:{number % 40}",
                "status": "Up 2 days",
                "state": "running" if number % 50 else "exited",
                "cpuPercent": round(20 * load, 2),
                "memoryUsageMB": round(200 * load, 1),
                "memoryLimitMB": 512,
                "memoryPercent": round(40 * load, 1),
                "netRxBytes": number * 1_000 + int(at % DAY_SECONDS),
                "netTxBytes": number * 2_000 + int(at % DAY_SECONDS),
                "labels": {"com.docker.compose.project": f"project-{number % 30}"},
            }
        )
    return {"version": "0.1.0", "containers": containers}


@dataclass
class Member:
    """A registered agent."""

    session: aiohttp.ClientSession
    agent_id: str
    token: str

    async def push(self, body: dict[str, Any]) -> None:
        """Push what must be accepted."""
        path = f"/api/v1/agents/{self.agent_id}/push"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.session.post(path, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()

    async def ship(self, lines: list[dict[str, Any]]) -> None:
        """Send log lines that must be accepted."""
        path = f"/api/v1/agents/{self.agent_id}/logs"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/x-ndjson"}
        body = "\n".join(json.dumps(line) for line in lines)
        async with self.session.post(path, data=body.encode(), headers=headers) as response:
            assert response.status == 200, await response.text()

    async def asked(self) -> dict[str, Any]:
        """Wait for a live tail that somebody opens, and return its log request."""
        headers = {"Authorization": f"Bearer {self.token}"}
        while True:
            path = f"/api/v1/agents/{self.agent_id}/commands?wait=25"
            async with self.session.get(path, headers=headers) as response:
                if response.status == 204:
                    continue
                assert response.status == 200, await response.text()
                command = await response.json()
            path = f"/api/v1/agents/{self.agent_id}/commands/{command['command_id']}/result"
            async with self.session.post(path, json={"status": "succeeded"}, headers=headers) as response:
                assert response.status == 204, await response.text()
            if command["type"] == "logs.tail":
                payload: dict[str, Any] = command["payload"]
                return payload

    async def stream(self, request_id: str, lines: list[dict[str, Any]]) -> int:
        """Send lines of a live tail, each with its ``seq``; return the next one."""
        path = f"/api/v1/agents/{self.agent_id}/log-streams/{request_id}"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/x-ndjson"}
        body = "".join(f"{json.dumps(line)}\n" for line in lines)
        async with self.session.post(path, data=body.encode(), headers=headers) as response:
            assert response.status == 200, await response.text()
            next_seq: int = (await response.json())["next"]
            return next_seq


async def join(session: aiohttp.ClientSession, api_key: str, name: str, type_: str = "docker") -> Member:
    """Register an agent; *session* has the service's address as its base."""
    body = {"name": name, "type": type_, "version": "0.1.0"}
    async with session.post("/api/v1/agents/register", json=body, headers={"X-API-Key": api_key}) as response:
        assert response.status == 200, await response.text()
        registered = await response.json()
    return Member(session, registered["agentId"], registered["token"])
