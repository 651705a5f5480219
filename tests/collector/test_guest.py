"""The agent as a guest: what it costs, how it reaches the service, and how others see its health."""

from __future__ import annotations

import gzip
import ssl
import time

import msgspec
import pytest
from aiohttp import web

from benchmarks.guest import CONTAINERS, MEMORY_LIMIT_MIB, cost_of, idle_engine
from monitor.collector.connection import trusting
from monitor.collector.failure import AgentStopped
from monitor.collector.health import Health, note_push, read_health, verdict
from monitor.collector.logs.spool import LogSpool
from monitor.collector.spool import Spool
from tests.collector.fakes import API_KEY, FakeService, answer, served, until
from tests.collector.kubernetes.certificates import make_certificates
from tests.collector.test_command import ended, options, start
from tests.collector.test_run import running, settings

__all__ = ["settings"]

HEALTHY = Health(1000.0, 0, 0, 0, 0)


async def test_beside_fifty_containers_it_stays_small():
    service = FakeService()
    async with served(idle_engine().app()) as host:
        cost = await cost_of(host, service, seconds=4.0, interval=1.0)

    print(cost)
    assert len(service.pushes[-1][1]["containers"]) == CONTAINERS
    assert cost.peak_mib < MEMORY_LIMIT_MIB, cost


async def test_all_its_requests_share_a_few_kept_connections(service, settings):
    connections = set()

    @web.middleware
    async def remember(request, handler):
        connections.add(request.transport)
        return await handler(request)

    app = service.app()
    app.middlewares.append(remember)
    async with served(app) as url:
        service.url = url
        async with running(msgspec.structs.replace(settings, url=url)):
            await until(lambda: len(service.pushes) >= 10 and service.polls >= 2)

    # One for the waiting poll, one for pushes, one for logs.
    assert len(connections) <= 3


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"), "IP:127.0.0.1")


@pytest.fixture
async def tls_url(service, certificates):
    """The service behind a certificate of an authority that only the test knows."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    runner = web.AppRunner(service.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_a_certificate_of_ones_own_authority_is_trusted_by_its_file(
    service, engine, tmp_path, certificates, tls_url
):
    arguments = ("--once", "--url", tls_url, "--docker-host", engine.host, "--state-dir", str(tmp_path / "s"))

    code, _, err = await ended(*arguments, MONITOR_API_KEY=API_KEY)
    assert (code, service.pushes) == (1, [])
    assert "certificate verify failed" in err.lower()

    code, _, err = await ended(*arguments, "--ca-file", str(certificates.ca), MONITOR_API_KEY=API_KEY)
    assert code == 0, err
    assert len(service.pushes) == 2  # what was held, and what is new


def test_the_systems_authorities_stay_trusted(certificates):
    system = len(ssl.create_default_context().get_ca_certs())

    assert len(trusting(certificates.ca).get_ca_certs()) == system + 1


@pytest.mark.parametrize(("content", "text"), [(None, "No such file"), ("no certificate", "cannot be used")])
def test_a_file_without_certificates_is_named(tmp_path, content, text):
    file = tmp_path / "ca.pem"
    if content:
        file.write_text(content)

    with pytest.raises(AgentStopped, match=text) as stopped:
        trusting(file)

    assert str(file) in str(stopped.value)
    assert stopped.value.exit_code == 2


async def test_the_proxy_of_the_environment_is_used_and_no_proxy_is_heard(service, engine, tmp_path):
    asked = []

    async def relay(request):
        asked.append(request.raw_path)
        if request.path.endswith("/register"):
            return await service.register(request)
        return await service.push(request)

    app = web.Application()
    app.router.add_route("POST", "/api/v1/agents/{agent_id}/push", relay)
    app.router.add_route("POST", "/api/v1/agents/register", relay)
    behind = "http://monitor.invalid"
    async with served(app) as proxy:
        arguments = (
            "--once",
            "--url",
            behind,
            "--docker-host",
            engine.host,
            "--state-dir",
            str(tmp_path / "s"),
        )
        environment = {"HTTP_PROXY": proxy, "http_proxy": proxy, "MONITOR_API_KEY": API_KEY}
        environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

        code, _, err = await ended(*arguments, **environment)
        assert code == 0, err
        assert asked == [f"{behind}/api/v1/agents/register", f"{behind}/api/v1/agents/agent_1/push"]
        assert len(service.pushes) == 1

        direct = options(service, engine, tmp_path / "direct")
        code, _, err = await ended("--once", *direct, **environment)
        assert code == 0, err
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("health", "age", "is_healthy", "text"),
    [
        (HEALTHY, 4.0, True, "healthy: last push accepted 4 s ago; held back: 0 snapshots, 0 batches of log lines; dropped: 0 snapshots, 0 log lines"),
        (HEALTHY, 90.0, True, "healthy: last push accepted 90 s ago"),
        (HEALTHY, 91.0, False, "unhealthy: last push accepted 91 s ago"),
        (HEALTHY, -5.0, True, "healthy: last push accepted 0 s ago"),
        (Health(None, 3, 2, 1, 40), 0.0, False, "unhealthy: no push accepted yet; held back: 3 snapshots, 2 batches of log lines; dropped: 1 snapshots, 40 log lines"),
    ],
)  # fmt: skip
def test_health_is_a_push_within_the_last_seconds(health, age, is_healthy, text):
    found, line = verdict(health, 1000.0 + age, 90.0)

    assert found is is_healthy
    assert line.startswith(text)


def test_the_state_directory_tells_what_is_held_and_what_was_dropped(tmp_path):
    snapshots = Spool(tmp_path / "spool", max_count=2)
    for seq in range(1, 6):
        snapshots.add(seq, b"{}")
    snapshots.drop(5)
    lines = LogSpool(tmp_path / "logs", start_ns=0, max_bytes=1)
    for number in range(1, 4):
        lines.add(gzip.compress(b"x"), 10 * number, {})
    before = time.time()
    note_push(tmp_path)

    found = read_health(tmp_path)

    assert found.pushed_at >= before - 1.0
    assert (found.held_snapshots, found.dropped_snapshots) == (1, 4)
    assert (found.held_batches, found.dropped_lines) == (1, 30)
    lines.drop(lines.oldest().seq)
    assert read_health(tmp_path).dropped_lines == 60
    assert LogSpool(tmp_path / "logs", start_ns=0, max_bytes=1).dropped_lines == 60


async def test_the_health_of_an_agent_is_that_of_its_pushes(service, engine, tmp_path):
    state = ("--state-dir", str(tmp_path / "state"))
    code, out, _ = await ended("health", *state)
    assert (code, out.startswith("unhealthy: no push accepted yet")) == (1, True)

    service.push_answer = answer(503)
    process = await start(*options(service, engine, tmp_path), MONITOR_API_KEY=API_KEY)
    try:
        await until(lambda: service.attempts >= 2)
        code, out, _ = await ended("health", *state)
        assert code == 1
        assert "held back: 0 snapshots" not in out
        service.push_answer = None
        await until(lambda: service.pushes)
        code, out, err = await ended("health", *state)
        assert code == 0, (out, err)
        assert out.startswith("healthy: last push accepted ")
    finally:
        process.terminate()
        await process.communicate()
    code, out, _ = await ended("health", *state, "--max-age", "0")
    assert (code, out.startswith("unhealthy: last push accepted ")) == (1, True)


async def test_a_refused_snapshot_is_counted_as_dropped(service, settings):
    service.answers = [answer(400, "collectedAt: too old"), answer(413)]

    async with running(settings):
        await until(lambda: service.pushes)

    assert read_health(settings.state_dir).dropped_snapshots == 2


@pytest.mark.parametrize("arguments", [["--max-age", "soon"], ["--state-dir", ""]])
async def test_bad_input_of_a_health_check_exits_with_2(arguments):
    code, out, err = await ended("health", *arguments)

    assert (code, out) == (2, "")
    assert arguments[0] in err
