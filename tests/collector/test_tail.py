"""Live tails against a service over real HTTP that fails in every way, with lines of the tests' own."""

import asyncio
import json
import random
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from monitor.collector import backoff, tail, tail_ring
from monitor.collector.client import Service
from monitor.collector.failure import CommandFailed, TailFailed
from monitor.collector.state import Identity
from monitor.collector.tail import Tails
from monitor.collector.tail_ring import Ring
from monitor.wire.tail import TailLine
from tests.collector.fakes import TOKEN, answer, served, until

IDENTITY = Identity("agent_1", TOKEN, "")
ASKED = {"requestId": "tail_1", "source": "docker", "containerId": "a" * 64, "tail": 100, "follow": True}
TIME = "2026-11-21T00:00:00.000000001Z"


class TailService:
    """Stores lines as the service does; `faults` go out first, one for each POST."""

    def __init__(self):
        self.url = ""
        self.lines = {}  # the stored ones of each request, by number
        self.next = {}  # of each request
        self.ends = {}  # of each request that was ended: its error, or None
        self.posts = []  # (request id, numbers) of every POST that arrived
        self.faults = []
        self.busy = self.busiest = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def app(self):
        app = web.Application()
        app.router.add_post("/api/v1/agents/{agent}/log-streams/{id}", self.take)
        return app

    async def take(self, request):
        id_ = request.match_info["id"]
        assert (request.match_info["agent"], request.content_type) == ("agent_1", "application/x-ndjson")
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await self.gate.wait()
            lines = [json.loads(line) for line in (await request.read()).splitlines()]
            self.posts.append((id_, [line["seq"] for line in lines]))
            fault = self.faults.pop(0) if self.faults else None
            if fault == "cut":
                request.transport.abort()
                return web.Response()
            if callable(fault):
                return fault()
            if id_ in self.ends:
                return web.json_response({"error": "gone"}, status=410)
            self.store(id_, lines)
            if "end" in request.query:
                self.ends[id_] = request.query.get("error")
            if fault == "lost":  # stored, and the answer never comes
                request.transport.abort()
            return web.json_response({"next": self.next[id_]})
        finally:
            self.busy -= 1

    def store(self, id_, lines):
        self.next.setdefault(id_, 0)
        for line in lines:
            if line["seq"] >= self.next[id_]:
                self.lines.setdefault(id_, {})[line["seq"]] = line["message"]
                self.next[id_] = line["seq"] + 1

    def messages(self, id_="tail_1"):
        return list(self.lines.get(id_, {}).values())


class Scripted:
    """A source of what the test puts in; None ends the log, an exception fails it."""

    def __init__(self):
        self.queue = asyncio.Queue()
        self.requests = []
        self.cancelled = 0

    async def tail(self, request, lines):
        self.requests.append(request)
        try:
            while (text := await self.queue.get()) is not None:
                if isinstance(text, Exception):
                    raise text
                await lines.ready()
                lines.add(TailLine(TIME, "stdout", text))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def put(self, *texts):
        for text in texts:
            self.queue.put_nowait(text)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(backoff, "BACKOFF_LIMIT_SECONDS", 0.02)
    monkeypatch.setattr(tail, "GATHER_SECONDS", 0.01)


@pytest.fixture
async def service():
    fake = TailService()
    async with served(fake.app()) as url:
        fake.url = url
        yield fake


@pytest.fixture
def source():
    return Scripted()


@asynccontextmanager
async def tailing(service, source):
    async with Service(service.url, "test") as client, Tails(client, {"docker": source}) as tails:
        yield tails


def numbered(first, last):
    return [f"line {number}" for number in range(first, last + 1)]


async def test_lines_are_sent_as_they_come_and_the_end_of_the_log_is_told(service, source):
    async with tailing(service, source) as tails:
        assert tails.start(IDENTITY, ASKED) == "tail started"
        for number in range(1, 6):
            source.put(f"line {number}")
            await until(lambda number=number: len(service.messages()) == number)
        source.put("line 6", None)
        await until(lambda: service.ends)

    assert service.messages() == numbered(1, 6)
    assert list(service.lines["tail_1"]) == list(range(6))
    assert service.ends == {"tail_1": None}
    assert service.busiest == 1
    assert source.requests[0].container_id == "a" * 64


async def test_the_first_post_is_empty_and_before_any_reading(service, source):
    service.gate.clear()
    source.put("line 1")
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        await until(lambda: service.busy)
        assert source.requests == []
        service.gate.set()
        await until(service.messages)

    assert service.posts == [("tail_1", []), ("tail_1", [0])]


async def test_no_line_is_lost_or_repeated_whatever_fails(service, source):
    chance = random.Random(8)
    kinds = ["cut", "lost", answer(500), answer(503), answer(429), answer(402), answer(502), None]
    service.faults = [kinds[chance.randrange(len(kinds))] for _ in range(60)]
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        count = 0
        while service.faults:
            source.put(*numbered(count + 1, count + 20))
            count += 20
            await asyncio.sleep(0.01)
        source.put(None)
        await until(lambda: service.ends)

    assert service.messages() == numbered(1, count)
    assert list(service.lines["tail_1"]) == list(range(count))
    assert service.busiest == 1


async def test_lines_behind_a_partial_acknowledgement_are_sent_again(service, source):
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        source.put(*numbered(1, 5))
        await until(lambda: len(service.messages()) == 5)
        service.faults = [lambda: web.json_response({"next": 7})]
        source.put(*numbered(6, 9))
        service.store("tail_1", [{"seq": 5, "message": "line 6"}, {"seq": 6, "message": "line 7"}])
        await until(lambda: len(service.messages()) == 9)

    assert service.messages() == numbered(1, 9)


@pytest.mark.parametrize("status", [404, 410])
async def test_a_tail_that_nobody_wants_stops_reading(service, source, status):
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        source.put("line 1")
        await until(service.messages)
        service.faults = [answer(status)]
        source.put("line 2")
        await until(lambda: source.cancelled)
        await until(lambda: not tails.running)
        posts = len(service.posts)
        source.put("line 3")
        await asyncio.sleep(0.05)
        assert len(service.posts) == posts

    assert service.messages() == ["line 1"]


async def test_a_quiet_tail_gives_signs_and_learns_by_them_that_nobody_watches(service, source, monkeypatch):
    monkeypatch.setattr(tail, "SIGN_SECONDS", 0.02)
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        await until(lambda: len(service.posts) >= 5)
        service.ends["tail_1"] = None
        await until(lambda: source.cancelled)

    assert {tuple(numbers) for _, numbers in service.posts} == {()}


async def test_one_request_is_one_tail_however_often_it_is_asked_for(service, source):
    async with tailing(service, source) as tails:
        assert tails.start(IDENTITY, ASKED) == "tail started"
        tails.start_all(IDENTITY, [ASKED, ASKED])
        source.put("line 1")
        await until(service.messages)
        assert tails.start(IDENTITY, ASKED) == "known already"
        source.put(None)
        await until(lambda: not tails.running)
        assert tails.start(IDENTITY, ASKED) == "known already"

    assert len(source.requests) == 1
    assert service.messages() == ["line 1"]


async def test_what_ends_a_log_early_is_told_to_its_viewer(service, source):
    source.put("line 1", TailFailed("no such container"))
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        await until(lambda: service.ends)

    assert service.ends == {"tail_1": "no such container"}
    assert service.messages() == ["line 1"]


async def test_a_bug_in_a_source_ends_its_tail_with_an_error_and_no_other(service, source):
    source.put(KeyError("x"))
    with capture_logs() as logs:
        async with tailing(service, source) as tails:
            tails.start(IDENTITY, ASKED)
            await until(lambda: service.ends)
            tails.start(IDENTITY, ASKED | {"requestId": "tail_2"})
            source.put("line 1")
            await until(lambda: service.messages("tail_2"))

    assert service.ends == {"tail_1": "internal error: KeyError"}
    assert "log not read" in {entry["event"] for entry in logs}


async def test_the_end_is_repeated_until_the_service_has_it(service, source):
    service.faults = [None, "cut", answer(500), "lost"]
    source.put("line 1", None)
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        await until(lambda: not tails.running)

    assert service.messages() == ["line 1"]
    assert service.ends == {"tail_1": None}


async def test_refused_lines_end_the_tail_with_the_services_words(service, source):
    service.faults = [None, answer(400, "time: no time")]
    source.put("line 1")
    with capture_logs():
        async with tailing(service, source) as tails:
            tails.start(IDENTITY, ASKED)
            await until(lambda: service.ends)

    assert service.ends == {"tail_1": "the service refused the agent's lines: 400: time: no time"}


async def test_a_token_that_is_no_longer_valid_ends_the_tail(service, source):
    service.faults = [answer(401, "unauthorized")]
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        await until(lambda: not tails.running)

    assert source.requests == []


async def test_a_service_that_stays_away_is_given_up_until_it_asks_again(service, source, monkeypatch):
    monkeypatch.setattr(tail, "GIVE_UP_SECONDS", 0.05)
    service.faults = [None, *[answer(500)] * 10_000]
    source.put("line 1")
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        await until(lambda: source.cancelled)
        await until(lambda: not tails.running)

        assert service.messages() == []
        service.faults = []
        source.put("line 2")
        tails.start(IDENTITY, ASKED)
        await until(service.messages)

    assert service.messages() == ["line 2"]


async def test_a_restarted_agent_goes_on_with_new_lines_under_new_numbers(service, source):
    service.store("tail_1", [{"seq": 41, "message": "of the run before"}])
    source.put("line 1")
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        await until(lambda: len(service.messages()) == 2)

    assert service.lines["tail_1"] == {41: "of the run before", 42: "line 1"}
    assert source.requests[0].tail == 0


async def test_history_that_a_restart_cut_short_is_not_called_complete(service, source):
    service.store("tail_1", [{"seq": 41, "message": "of the run before"}])
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED | {"follow": False})
        await until(lambda: service.ends)

    assert service.ends == {"tail_1": "the agent was restarted meanwhile; ask again"}
    assert source.requests == []


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "not a log request: Object missing required field `requestId`"),
        (ASKED | {"requestId": "../../push"}, "requestId: expected letters"),
        (ASKED | {"tail": "all"}, r"\$\.tail"),
        (ASKED | {"source": "podman"}, r"\$\.source"),
    ],
)
async def test_a_bad_request_is_named_and_nothing_is_sent(service, source, asked, text):
    async with tailing(service, source) as tails:
        with pytest.raises(CommandFailed, match=text):
            tails.start(IDENTITY, asked)
        with capture_logs() as logs:
            tails.start_all(IDENTITY, [asked, ASKED])
        source.put("line 1")
        await until(service.messages)

    assert logs[0]["event"] == "log request refused"
    assert {id_ for id_, _ in service.posts} == {"tail_1"}


async def test_a_source_that_this_agent_does_not_read_is_told_to_the_viewer(service, source):
    asked = {"requestId": "tail_1", "source": "kubernetes", "tail": 1, "follow": True, "pod": "web-1"}
    async with tailing(service, source) as tails:
        with pytest.raises(CommandFailed, match="reads no logs of kubernetes"):
            tails.start(IDENTITY, asked)
        await until(lambda: service.ends)

    assert service.ends == {"tail_1": "this agent reads no logs of kubernetes"}


async def test_tails_at_once_are_bounded_and_who_comes_too_late_is_told(service, source, monkeypatch):
    monkeypatch.setattr(tail, "MAX_TAILS", 3)
    async with tailing(service, source) as tails:
        for number in range(3):
            tails.start(IDENTITY, ASKED | {"requestId": f"tail_{number}"})
        with pytest.raises(CommandFailed, match="tails 3 logs already"):
            tails.start(IDENTITY, ASKED | {"requestId": "tail_3"})
        await until(lambda: service.ends)
        source.put(None)
        await until(lambda: len(service.ends) == 2 and tails.running == 2)
        tails.start(IDENTITY, ASKED | {"requestId": "tail_4"})
        await until(lambda: len(source.requests) == 4)

    assert service.ends["tail_3"] == "this agent tails 3 logs already"


async def test_the_end_of_the_agent_stops_every_tail_and_ends_none(service, source):
    async with tailing(service, source) as tails:
        for number in range(3):
            tails.start(IDENTITY, ASKED | {"requestId": f"tail_{number}"})
        await until(lambda: len(source.requests) == 3)

    assert source.cancelled == 3
    assert service.ends == {}
    posts = len(service.posts)
    await asyncio.sleep(0.05)
    assert len(service.posts) == posts


async def test_a_full_ring_makes_its_source_wait_while_the_service_takes_lines(service, source, monkeypatch):
    monkeypatch.setattr(tail, "BODY_BYTES", 5_000)
    monkeypatch.setattr(tail, "Ring", lambda: Ring(10_000))
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        source.put(*numbered(1, 2_000), None)
        await until(lambda: service.ends)

    assert service.messages() == numbered(1, 2_000)


async def test_while_the_service_is_away_the_oldest_lines_are_dropped_and_counted_by_their_numbers(
    service, source, monkeypatch
):
    monkeypatch.setattr(tail_ring, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(tail, "Ring", lambda: Ring(10_000))
    async with tailing(service, source) as tails:
        tails.start(IDENTITY, ASKED)
        source.put("line 1")
        await until(service.messages)
        service.faults = [answer(503)] * 1_000_000
        source.put(*numbered(2, 1_000))
        await until(source.queue.empty)
        await asyncio.sleep(0.05)
        with capture_logs() as logs:
            service.faults = []
            source.put(None)
            await until(lambda: service.ends)
            await until(lambda: not tails.running)

    kept = service.messages()[1:]
    assert kept == numbered(1_001 - len(kept), 1_000)
    assert 50 < len(kept) < 150
    assert list(service.lines["tail_1"]) == [0, *range(1_000 - len(kept), 1_000)]
    assert [entry["dropped"] for entry in logs if entry["event"] == "tail ended"] == [999 - len(kept)]


async def test_a_ring_waits_for_its_service_only_so_long(monkeypatch):
    monkeypatch.setattr(tail_ring, "PATIENCE_SECONDS", 0.05)
    ring = Ring(100)
    ring.add(TailLine(TIME, "stdout", "x" * 100))

    await ring.ready()
    ring.add(TailLine(TIME, "stdout", "y"))

    assert (ring.dropped, ring.next_seq) == (1, 2)
