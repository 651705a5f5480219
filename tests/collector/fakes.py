"""Stand-ins over real HTTP for what the agent talks to: the service and an engine."""

import asyncio
import json
from contextlib import asynccontextmanager

from aiohttp import web

from monitor.collector.logs.records import time_of
from tests.collector.shapes import cgroup_v1, listed

TOKEN = "at_" + "t" * 32
API_KEY = "mk_" + "k" * 32
POLL_SECONDS = 0.2


@asynccontextmanager
async def served(app, port=0, tls=None):
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def until(condition, seconds=30.0):
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
        self.commands = asyncio.Queue()  # each is handed out once; put it again for another attempt
        self.polls = 0
        self.results = []  # (command_id, body) of every report that was answered 204
        self.result_answers = []
        self.batches = []  # (batch_id, lines) of every batch that arrived whole
        self.lines = []  # of every batch that was new
        self.log_answers = []  # instead of storing
        self.cut_answers = 0  # so many batches are stored, and their connection is cut
        self._marks = {}

    def app(self):
        app = web.Application()
        app.router.add_post("/api/v1/agents/register", self.register)
        app.router.add_post("/api/v1/agents/{agent_id}/push", self.push)
        app.router.add_get("/api/v1/agents/{agent_id}/commands", self.next_command)
        app.router.add_post("/api/v1/agents/{agent_id}/commands/{command_id}/result", self.result)
        app.router.add_post("/api/v1/agents/{agent_id}/logs", self.logs)
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

    async def next_command(self, request):
        self.polls += 1
        assert request.query == {"wait": "25"}
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        try:
            async with asyncio.timeout(POLL_SECONDS):
                return web.json_response(await self.commands.get())
        except TimeoutError:
            return web.Response(status=204)

    async def result(self, request):
        if self.result_answers:
            return self.result_answers.pop(0)()
        self.results.append((request.match_info["command_id"], await request.json()))
        return web.Response(status=204)

    async def logs(self, request):
        body = await request.read()  # aiohttp has undone the gzip
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        assert request.content_type == "application/x-ndjson"
        if self.log_answers:
            return self.log_answers.pop(0)()
        lines = [json.loads(line) for line in body.splitlines()]
        batch_id = request.headers["X-Batch-Id"]
        epoch, number = batch_id.split(":")
        self.batches.append((batch_id, lines))
        if int(number) > self._marks.get(epoch, 0):
            self._marks[epoch] = int(number)
            self.lines += lines
        if self.cut_answers:
            self.cut_answers -= 1
            request.transport.abort()
        return web.json_response({"accepted": len(lines)})

    def messages(self, container):
        return [line["message"] for line in self.lines if line["container"] == container]

    @property
    def seqs(self):
        return [body["seq"] for _, body in self.pushes]


def answer(status, error="", headers=None):
    return lambda: web.json_response({"error": error}, status=status, headers=headers)


class FakeEngine:
    """Lists `containers` and answers with the `stats` of each; a callable makes its answer itself.

    `logs` holds the stored records (kind, time, text) of each container; what is written to them
    comes on live streams too, unless these are `mute`.
    """

    def __init__(self):
        self.host = ""
        self.api = "1.41"
        self.containers = [listed("a" * 64, "web")]
        self.stats = {"a" * 64: cgroup_v1()}
        self.requests = []
        self.busy = self.busiest = 0
        self.logs = {}
        self.mute = False
        self.log_answers = []  # for reads of stored logs, before any is answered from `logs`
        self.log_reads = []  # their queries
        self.cut_reads = 0  # so many of them are cut in the midst
        self.events = asyncio.Queue()

    def app(self):
        app = web.Application()
        app.router.add_get("/_ping", self.ping)
        app.router.add_get("/v{api}/events", self.stream_events)
        app.router.add_get("/v{api}/containers/{id}/json", self.inspect)
        app.router.add_get("/v{api}/containers/{id}/logs", self.container_logs)
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

    async def stream_events(self, request):
        response = web.StreamResponse()
        await response.prepare(request)
        while event := await self.events.get():
            await response.write(json.dumps(event).encode() + b"\n")
        return response

    async def inspect(self, request):
        found = [one for one in self.containers if one["Id"] == request.match_info["id"]]
        if not found:
            return web.json_response({"message": "No such container"}, status=404)
        running = found[0]["State"] == "running"
        state = {"Running": running, "StartedAt": "2026-11-21T00:00:00.5Z"}
        devices = [{"Driver": "nvidia"}] if found[0].get("Gpu") else None
        host = {"DeviceRequests": devices}
        return web.json_response({"State": state, "Config": {"Tty": False}, "HostConfig": host})

    async def container_logs(self, request):
        id_ = request.match_info["id"]
        if request.query.get("follow"):
            return await self.live_logs(request, id_)
        self.log_reads.append(dict(request.query))
        if self.log_answers:
            return self.log_answers.pop(0)()
        if self.cut_reads:
            self.cut_reads -= 1
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(frame(*self.logs[id_][0]) + b"\1\0\0")
            request.transport.close()
            return response
        if id_ not in self.logs:
            return web.json_response({"message": "No such container"}, status=404)
        seconds, _, fraction = request.query["since"].partition(".")
        since = time_of(int(seconds) * 10**9 + int(fraction))
        records = self.logs[id_]
        if "tail" in request.query:
            records = records[-int(request.query["tail"]) :]
        return web.Response(body=b"".join(frame(*one) for one in records if one[1] >= since))

    async def live_logs(self, request, id_):
        response = web.StreamResponse()
        await response.prepare(request)
        sent = max(0, len(self.logs[id_]) - int(request.query["tail"]))
        records = self.logs[id_]
        while any(one["Id"] == id_ and one["State"] == "running" for one in self.containers):
            if not self.mute and sent < len(records):
                await response.write(frame(*records[sent]))
                sent += 1
            else:
                await asyncio.sleep(0.01)
        for record in records[sent:]:
            await response.write(frame(*record))
        return response


def frame(kind, time, text):
    """A record as the engine sends it; kind 1 is stdout, 2 is stderr."""
    payload = time.encode() + b" " + text
    return bytes((kind, 0, 0, 0)) + len(payload).to_bytes(4, "big") + payload
