"""The loop against a service and an engine over real HTTP."""

import asyncio
import gzip
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from monitor.collector import backoff
from monitor.collector import run as agent_run
from monitor.collector.backoff import backoff_seconds
from monitor.collector.failure import AgentStopped
from monitor.collector.run import Settings, next_seq, next_tick, run, run_once
from monitor.collector.source import Watched
from monitor.collector.spool import Spool
from monitor.wire.push import Push
from tests.collector.fakes import API_KEY, TOKEN, FakeService, answer, served, until
from tests.collector.shapes import cgroup_v1


@pytest.fixture
def settings(service, engine, tmp_path, monkeypatch):
    monkeypatch.setattr(backoff, "BACKOFF_LIMIT_SECONDS", 0.05)
    return Settings(
        url=service.url,
        api_key=API_KEY,
        name="host-1",
        pool="edge",
        interval_seconds=0.05,
        state_dir=tmp_path / "state",
        watched=Watched("docker", engine.host),
    )


@asynccontextmanager
async def running(settings):
    """An agent at work; it is stopped, and must end without error, at the end of the block."""
    stop = asyncio.Event()
    task = asyncio.create_task(run(settings, stop))
    try:
        yield task
    finally:
        stop.set()
        async with asyncio.timeout(30.0):
            await task


def held(settings):
    return sorted((settings.state_dir / "spool").glob("*.json.gz"))


async def test_an_agent_registers_once_and_pushes_on_every_tick(service, settings):
    async with running(settings):
        await until(lambda: len(service.pushes) >= 3)

    [(headers, registration)] = service.registrations
    assert headers["X-API-Key"] == API_KEY
    assert registration == {
        "name": "host-1",
        "type": "docker",
        "version": agent_run.VERSION,
        "pool": "edge",
    }
    headers, body = service.pushes[0]
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Content-Encoding"] == "gzip"
    assert set(body) == {"version", "containers", "collectedAt", "seq"}
    push = msgspec.convert(body, Push)
    assert [container.name for container in push.containers] == ["web"]
    assert service.seqs == sorted(set(service.seqs))
    times = [body["collectedAt"] for _, body in service.pushes]
    assert times == sorted(set(times))
    assert times[0].endswith("Z")


async def test_a_restarted_agent_keeps_its_identity_and_needs_no_key(service, settings):
    await run_once(settings)
    await run_once(msgspec.structs.replace(settings, api_key=None))

    assert len(service.registrations) == 1
    assert len(service.pushes) == 2
    assert service.seqs[0] < service.seqs[1]


async def test_without_identity_and_key_it_ends_as_bad_input(service, settings):
    with pytest.raises(AgentStopped, match="no API key") as stopped:
        await run_once(msgspec.structs.replace(settings, api_key=None))

    assert stopped.value.exit_code == 2


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (answer(401, "unauthorized"), "API key is not valid"),
        (answer(400, "name: too long"), "400: name: too long"),
    ],
)
async def test_a_refused_registration_ends_the_agent_and_says_why(service, settings, refusal, text):
    service.register_answers = [refusal]

    with pytest.raises(AgentStopped, match=text):
        await run(settings, asyncio.Event())

    assert not (settings.state_dir / "agent.json").exists()


async def test_a_registration_waits_for_the_service_and_snapshots_wait_for_it(service, settings):
    service.register_answers = [answer(503), answer(402, "org_suspended"), answer(429)]

    async with running(settings):
        await until(lambda: service.pushes)

    assert len(service.registrations) == 4


async def test_a_revoked_token_ends_the_agent_without_registering_again(service, settings):
    await run_once(settings)
    service.push_answer = answer(401, "unauthorized")

    with pytest.raises(
        AgentStopped, match=r"no longer valid; remove .*agent\.json to register again"
    ) as stopped:
        await run(settings, asyncio.Event())

    assert stopped.value.exit_code == 3
    assert len(service.registrations) == 1
    assert TOKEN not in str(stopped.value)


@pytest.mark.parametrize(
    "trouble",
    [answer(503, "storage_unavailable"), answer(500), answer(429), answer(402, "org_suspended"), answer(404)],
)
async def test_while_the_service_is_away_snapshots_are_held_and_later_pushed_oldest_first(
    service, settings, trouble
):
    service.push_answer = trouble

    async with running(settings):
        await until(lambda: len(held(settings)) >= 4 and service.attempts >= 2)
        waiting = [int(path.name.split(".")[0]) for path in held(settings)]
        assert service.pushes == []
        service.push_answer = None
        await until(lambda: len(service.pushes) >= 5)

    assert service.seqs[:4] == waiting[:4]
    assert service.seqs == sorted(set(service.seqs))


async def test_held_snapshots_survive_a_restart(service, settings):
    service.push_answer = answer(503)
    async with running(settings):
        await until(lambda: len(held(settings)) >= 3)
    waiting = [int(path.name.split(".")[0]) for path in held(settings)]
    service.push_answer = None

    await run_once(settings)

    assert service.seqs[:-1] == waiting
    assert service.seqs[-1] > waiting[-1]
    assert held(settings) == []


async def test_a_service_that_is_not_there_yet_is_waited_for(settings, unused_tcp_port):
    fake = FakeService()
    late = msgspec.structs.replace(settings, url=f"http://127.0.0.1:{unused_tcp_port}")

    async with running(late):
        await until(lambda: len(held(late)) >= 2)
        async with served(fake.app(), unused_tcp_port):
            await until(lambda: len(fake.pushes) >= 3)


async def test_a_refused_snapshot_is_dropped_with_the_services_words_and_blocks_nothing(service, settings):
    service.answers = [answer(400, "containers[0].name: expected string")]

    with capture_logs() as logs:
        async with running(settings):
            await until(lambda: len(service.pushes) >= 2)

    [refused] = [entry for entry in logs if entry["log_level"] == "error"]
    assert "containers[0].name: expected string" in refused["error"]
    assert refused["seq"] not in service.seqs


async def test_retry_after_is_waited_for(service, settings):
    service.answers = [answer(503, headers={"Retry-After": "1"})]
    loop = asyncio.get_running_loop()

    async with running(settings):
        await until(lambda: service.attempts == 1)
        first = loop.time()
        await until(lambda: service.attempts >= 2)

    assert loop.time() - first >= 0.95


def page():
    return web.Response(text="<html>Please log in</html>", content_type="text/html")


def redirect():
    return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"})


@pytest.mark.parametrize(
    ("reply", "text"), [(page, "not an answer of the service"), (redirect, "redirected")]
)
async def test_an_answer_of_something_else_takes_no_snapshot(service, settings, reply, text):
    service.answers = [reply]

    with pytest.raises(AgentStopped, match=text):
        await run_once(settings)

    assert len(held(settings)) == 1


async def test_a_slow_service_delays_no_snapshot(service, settings):
    blocked = asyncio.Event()

    async def hang(request):
        await blocked.wait()
        return web.json_response({"ok": True, "logRequests": []})

    service.push = hang
    app = service.app()
    async with served(app) as url, running(msgspec.structs.replace(settings, url=url)):
        await until(lambda: len(held(settings)) >= 5)
        blocked.set()
        await until(lambda: len(held(settings)) <= 1)


async def test_an_engine_that_is_away_costs_its_rounds_and_nothing_else(service, engine, settings):
    engine.containers, present = (
        (lambda: web.json_response({"message": "starting"}, status=503)),
        engine.containers,
    )

    async with running(settings):
        await until(lambda: len(engine.requests) >= 3)
        assert service.pushes == []
        engine.containers = present
        await until(lambda: service.pushes)


async def test_log_requests_of_the_reply_are_no_obstacle(service, settings):
    request = {"requestId": "r1", "source": "docker", "containerId": "a" * 64, "tail": 10, "follow": True}
    service.answers = [lambda: web.json_response({"ok": True, "logRequests": [request], "new": 1})]

    await run_once(settings)

    assert held(settings) == []


async def test_what_is_logged_holds_neither_token_nor_key(service, settings):
    service.answers = [answer(503), answer(400, "bad")]

    with capture_logs() as logs:
        async with running(settings):
            await until(lambda: service.pushes)

    text = json.dumps(logs, default=repr)
    assert "registered" in text
    assert TOKEN not in text
    assert API_KEY not in text


async def test_cpu_is_there_from_the_second_push_on(service, engine, settings):
    async with running(settings):
        await until(lambda: service.pushes)
        engine.stats["a" * 64] = cgroup_v1(total=1_551_707_019, system=1_471_400_000_000)
        await until(lambda: any(body["containers"][0]["cpuPercent"] == 50.0 for _, body in service.pushes))


async def test_what_an_earlier_run_held_gives_the_next_seq(service, settings):
    future = 99_999_999_999_999
    settings.state_dir.mkdir()
    spool = Spool(settings.state_dir / "spool")
    spool.add(future, gzip.compress(b"{}"))
    service.answers = [answer(400, "version: expected string")]

    await run_once(settings)

    assert service.seqs == [future + 1]


@pytest.mark.parametrize(
    ("now", "tick"), [(100.0, 115.0), (100.1, 115.0), (114.9, 115.0), (115.0, 130.0), (147.0, 160.0)]
)
def test_ticks_do_not_drift_and_missed_ones_are_skipped(now, tick):
    assert next_tick(100.0, 15.0, now) == tick


@pytest.mark.parametrize(
    ("failures", "retry_after", "fraction", "seconds"),
    [
        (0, 0.0, 1.0, 1.0),
        (3, 0.0, 0.5, 4.0),
        (6, 0.0, 1.0, 60.0),
        (5000, 0.0, 1.0, 60.0),
        (0, 30.0, 0.5, 30.5),
    ],
)
def test_backoff_doubles_up_to_a_minute_on_top_of_what_was_asked(failures, retry_after, fraction, seconds):
    assert backoff_seconds(failures, retry_after, fraction) == seconds


def test_seq_grows_even_when_the_clock_does_not():
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert next_seq(0, moment) == 1_767_225_600_000
    assert next_seq(1_767_225_600_000, moment) == 1_767_225_600_001
