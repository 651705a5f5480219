"""A host that is never idle, for the agent to watch, and commands that change it.

Each snapshot finds more memory in use, and each log line has its number, so every
one of them can be told from every other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from benchmarks.stack import Stack
from monitor.collector.logs.records import time_of
from monitor.commands.store import enqueue
from tests.collector.fakes import FakeEngine
from tests.collector.shapes import cgroup_v1, listed

STEADY, REPLICA = "5" * 64, "e" * 64  # the containers
STEP_BYTES = 4096  # each snapshot finds so much more memory in use
LINE_SECONDS = 0.05


class Host(FakeEngine):
    """An engine with a container that is busy and a group that can be scaled.

    Attributes:
        snapshots: How often the busy container was measured.
        lines: How many lines it has written.
        changes: How many containers were created and removed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.containers = [listed(STEADY, "steady"), listed(REPLICA, "web-1")]
        self.stats = {STEADY: self._measure, REPLICA: cgroup_v1()}
        self.logs = {STEADY: [], REPLICA: []}
        self.snapshots = self.lines = self.changes = 0

    def app(self) -> web.Application:
        """Return its API, with what scaling needs."""
        app = super().app()
        app.router.add_post("/v{api}/containers/create", self._create)
        app.router.add_post("/v{api}/containers/{id}/start", self._start)
        app.router.add_post("/v{api}/containers/{id}/stop", self._stop)
        app.router.add_delete("/v{api}/containers/{id}", self._remove)
        return app

    async def write_forever(self) -> None:
        """Write numbered lines."""
        while True:
            self.lines += 1
            self.logs[STEADY].append((1, time_of(time.time_ns()), b"line %d\n" % self.lines))
            await asyncio.sleep(LINE_SECONDS)

    async def inspect(self, request: web.Request) -> web.Response:
        """Return what a clone needs to know."""
        one = self._one(request)
        return web.json_response(
            {
                "Id": one["Id"],
                "Name": one["Names"][0],
                "Image": "sha256:1",
                "State": {"Running": one["State"] == "running", "StartedAt": "2026-11-21T00:00:00.5Z"},
                "Config": {"Tty": False, "Image": "sha256:1", "Labels": one["Labels"]},
                "HostConfig": {"NetworkMode": "none"},
                "NetworkSettings": {"Networks": {}},
            }
        )

    async def _measure(self) -> web.Response:
        self.snapshots += 1
        stats = cgroup_v1()
        stats["memory_stats"] = {"usage": self.snapshots * STEP_BYTES, "limit": 2**40, "stats": {}}
        return web.json_response(stats)

    async def _create(self, request: web.Request) -> web.Response:
        self.changes += 1
        id_ = f"{self.changes:064x}"
        made = listed(id_, request.query["name"], state="created", labels=(await request.json())["Labels"])
        self.stats[id_] = cgroup_v1()
        self.logs[id_] = []
        self.containers.append(made | {"Created": 2_000_000_000 + self.changes})
        return web.json_response({"Id": id_}, status=201)

    async def _start(self, request: web.Request) -> web.Response:
        self._one(request)["State"] = "running"
        return web.Response(status=204)

    async def _stop(self, request: web.Request) -> web.Response:
        self._one(request)["State"] = "exited"
        return web.Response(status=204)

    async def _remove(self, request: web.Request) -> web.Response:
        self.changes += 1
        self.containers.remove(self._one(request))
        return web.Response(status=204)

    def _one(self, request: web.Request) -> dict[str, Any]:
        for one in self.containers:
            if one["Id"] == request.match_info["id"]:
                return one
        raise web.HTTPNotFound


class Commander:
    """Scales the group up and down again, one command after the other.

    Attributes:
        count: Commands enqueued.
        expired: Those that did not get through within their two minutes.
        failed: What became of those that were reported as failed.
        beyond: Containers made or removed that no command had asked for.
    """

    def __init__(self, stack: Stack, agent_id: str, host: Host) -> None:
        self._stack = stack
        self._agent_id = agent_id
        self._host = host
        self.count = self.expired = self.beyond = 0
        self.failed: list[str] = []
        self.is_to_end = False

    async def run(self, pause: float) -> None:
        """Enqueue commands until told to end."""
        while not self.is_to_end:
            for replicas in (2, 1):
                before, running = self._host.changes, len(self._host.containers) - 1
                done = await self._command({"group": "web", "replicas": replicas})
                changes = self._host.changes - before
                wanted = abs(replicas - running)
                self.beyond += abs(changes - wanted) if done else max(0, changes - wanted)
            await asyncio.sleep(pause)

    async def _command(self, payload: Mapping[str, Any]) -> bool:
        """Return whether a command succeeded."""
        async with self._stack.connection() as conn:
            command_id = await enqueue(conn, self._stack.org_id, self._agent_id, "docker.scale", payload)
            self.count += 1
            row = None
            while row is None:
                await asyncio.sleep(0.1)
                row = await conn.fetchrow(
                    "SELECT status, message FROM commands WHERE id = $1"
                    " AND (status IS NOT NULL OR expires_at < now())",
                    command_id,
                )
        if row["status"] == "failed":
            self.failed.append(f"{command_id}: {row['message']}")
        self.expired += row["status"] is None
        return row["status"] == "succeeded"
