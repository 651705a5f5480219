"""Live tails as part of the running agent: asked for by command and by push replies."""

import asyncio
import time

import pytest
from aiohttp import web

from monitor.collector import tail
from monitor.collector.logs import tail as docker_tail
from monitor.collector.logs.records import time_of
from monitor.collector.run import run_once
from tests.collector.fakes import FakeService, served, until
from tests.collector.test_executor import command
from tests.collector.test_run import running, settings
from tests.collector.test_tail import TailService

__all__ = ["settings"]

WEB = "a" * 64


def asked(request_id, **changes):
    return {
        "requestId": request_id,
        "source": "docker",
        "containerId": WEB,
        "tail": 10,
        "follow": True,
        **changes,
    }


class Both(FakeService):
    """The service with live tails; `log_requests` stand in the reply to every push."""

    def __init__(self):
        super().__init__()
        self.tails = TailService()
        self.log_requests = []
        self.push_answer = self.with_requests

    def app(self):
        app = super().app()
        app.router.add_post("/api/v1/agents/{agent}/log-streams/{id}", self.tails.take)
        return app

    def with_requests(self):
        return web.json_response({"ok": True, "logRequests": self.log_requests})


@pytest.fixture
async def service(monkeypatch):
    monkeypatch.setattr(tail, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(docker_tail, "READ_SECONDS", 0.02)
    fake = Both()
    async with served(fake.app()) as url:
        fake.url = url
        yield fake


@pytest.fixture
def log(engine):
    engine.logs = {WEB: []}

    def write(text):
        engine.logs[WEB].append((1, time_of(time.time_ns()), text.encode() + b"\n"))

    return write


async def test_a_command_starts_a_tail_and_is_reported_at_once(service, settings, log):
    log("line 1")
    async with running(settings):
        await service.commands.put(command("cmd_1", "logs.tail", asked("tail_1")))
        await until(lambda: service.tails.messages() == ["line 1"])
        await until(lambda: service.results)
        log("line 2")
        await until(lambda: service.tails.messages() == ["line 1", "line 2"])

    assert service.results == [("cmd_1", {"status": "succeeded", "message": "tail started"})]
    assert service.tails.ends == {}


async def test_a_push_reply_starts_a_tail_and_the_command_for_it_is_the_same_one(service, settings, log):
    log("line 1")
    service.log_requests = [asked("tail_1"), {"source": "unheard of"}, asked("tail_2", follow=False)]
    async with running(settings):
        await until(lambda: service.tails.messages("tail_1") and service.tails.ends)
        await service.commands.put(command("cmd_1", "logs.tail", asked("tail_1")))
        await until(lambda: service.results)
        pushes = service.attempts
        await until(lambda: service.attempts > pushes + 3)

    assert service.results == [("cmd_1", {"status": "succeeded", "message": "known already"})]
    assert service.tails.messages("tail_1") == service.tails.messages("tail_2") == ["line 1"]
    assert service.tails.ends == {"tail_2": None}


async def test_shipping_and_tails_of_a_container_do_not_disturb_each_other(service, engine, settings, log):
    async with running(settings):
        await until(lambda: service.polls)
        await service.commands.put(command("cmd_1", "logs.tail", asked("tail_1")))
        await service.commands.put(command("cmd_2", "logs.tail", asked("tail_2", tail=0)))
        # The history of either: so many records are asked for.
        await until(lambda: {"20", "10"} <= {query.get("tail") for query in engine.log_reads})
        service.tails.faults = ["cut", "lost"] * 5
        expected = [f"line {number}" for number in range(1, 301)]
        for text in expected:
            log(text)
            await asyncio.sleep(0.001)
        await until(lambda: service.messages("web")[-1:] == expected[-1:])
        await until(lambda: service.tails.messages("tail_1")[-1:] == expected[-1:])
        await until(lambda: service.tails.messages("tail_2")[-1:] == expected[-1:])

    assert service.messages("web") == expected
    assert service.tails.messages("tail_1") == expected
    assert service.tails.messages("tail_2") == expected


async def test_a_command_that_is_no_log_request_is_reported_with_the_reason(service, settings):
    async with running(settings):
        await service.commands.put(command("cmd_1", "logs.tail", {"requestId": "tail_1"}))
        await until(lambda: service.results)

    [(_, body)] = service.results
    assert body["status"] == "failed"
    assert body["message"].startswith("not a log request: Object missing required field `source`")


async def test_an_agent_that_pushes_once_starts_no_tails(service, settings, log):
    service.log_requests = [asked("tail_1")]

    await run_once(settings)

    assert service.attempts == 1
    assert service.tails.posts == []
