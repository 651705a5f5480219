"""Stand-ins over real HTTP for what the agent talks to: the service and an engine."""

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web

from tests.collector.shapes import cgroup_v1, listed

TOKEN = "at_" + "t" * 32
API_KEY = "mk_" + "k" * 32


@asynccontextmanager
async def served(app, port=0):
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def until(condition, seconds=10.0):
    """Wait until *condition()* is true; fail when that takes too long."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


class FakeService:
    """Registers and takes pushes; `answers` go out first, one for each push."""

    def __init__(self):
        self.url = ""
        self.registrations = []  # (headers, body)
        self.pushes = []  # (headers, body) of every push that was answered 200
        self.attempts = 0
        self.answers = []
        self.push_answer = None  # for every push, once the answers are used up
        self.register_answers = []

    def app(self):
        app = web.Application()
        app.router.add_post("/api/v1/agents/register", self.register)
        app.router.add_post("/api/v1/agents/{agent_id}/push", self.push)
        return app

    async def register(self, request):
        self.registrations.append((request.headers, await request.json()))
        if self.register_answers:
            return self.register_answers.pop(0)()
        return web.json_response({"agentId": f"agent_{len(self.registrations)}", "token": TOKEN})

    async def push(self, request):
        self.attempts += 1
        body = json.loads(await request.read())  # aiohttp has undone the gzip
        if self.answers or self.push_answer:
            return (self.answers.pop(0) if self.answers else self.push_answer)()
        assert request.match_info["agent_id"].startswith("agent_")
        self.pushes.append((request.headers, body))
        return web.json_response({"ok": True, "logRequests": []})

    @property
    def seqs(self):
        return [body["seq"] for _, body in self.pushes]


def answer(status, error="", headers=None):
    return lambda: web.json_response({"error": error}, status=status, headers=headers)


class FakeEngine:
    """Lists `containers` and answers with the `stats` of each; a callable makes its answer itself."""

    def __init__(self):
        self.host = ""
        self.api = "1.41"
        self.containers = [listed("a" * 64, "web")]
        self.stats = {"a" * 64: cgroup_v1()}
        self.requests = []
        self.busy = self.busiest = 0

    def app(self):
        app = web.Application()
        app.router.add_get("/_ping", self.ping)
        app.router.add_get("/v{api}/containers/json", self.list_containers)
        app.router.add_get("/v{api}/containers/{id}/stats", self.container_stats)
        return app

    async def ping(self, request):
        return web.Response(text="OK", headers={"Api-Version": self.api} if self.api else {})

    async def list_containers(self, request):
        self.requests.append(request.path_qs)
        return self.containers() if callable(self.containers) else web.json_response(self.containers)

    async def container_stats(self, request):
        self.requests.append(request.path_qs)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            stats = self.stats.get(request.match_info["id"])
            if callable(stats):
                return await stats()
            if stats is None:
                return web.json_response({"message": "No such container"}, status=404)
            return web.json_response(stats)
        finally:
            self.busy -= 1
