import time

import aiohttp
import pytest

from monitor.dev.files import PortTaken, kept_port
from monitor.dev.servers import ServerFailed, running
from monitor.dev.victoriametrics import VictoriaMetricsServer
from tests.dev.started import started


async def test_victoriametrics_keeps_its_samples_and_its_port(tmp_path):
    ts = int(time.time()) - 10  # the newest moment is hidden for the latency offset

    async def ask(server, path, **parameters):
        async with (
            aiohttp.ClientSession() as session,
            session.get(server.url + path, params=parameters) as response,
        ):
            assert response.status == 200
            return await response.json()

    async with (
        started(VictoriaMetricsServer(tmp_path)) as first,
        aiohttp.ClientSession() as session,
        session.post(f"{first.url}/api/v1/import/prometheus", data=f"up 1 {ts}000\n") as response,
    ):
        assert response.status == 204
    assert running(first.program.name, tmp_path) == []

    async with started(VictoriaMetricsServer(tmp_path)) as second:
        answer = await ask(second, "/api/v1/query", query="up", time=str(ts + 5))

    assert second.url == first.url
    assert [series["value"] for series in answer["data"]["result"]] == [[ts + 5, "1"]]


async def test_victoriametrics_runs_with_what_the_service_relies_on(tmp_path):
    async with (
        started(VictoriaMetricsServer(tmp_path)) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}/metrics") as response,
    ):
        metrics = await response.text()

    for flag, value in {
        "dedup.minScrapeInterval": "1ms",
        "search.latencyOffset": "1ms",
        "search.maxPointsPerTimeseries": "50000",
        "httpListenAddr": f"127.0.0.1:{server.port}",
    }.items():
        assert f'flag{{name="{flag}", value="{value}"' in metrics


async def test_a_wanted_port_is_taken_or_refused(tmp_path):
    wanted = kept_port(tmp_path / "port")
    async with started(VictoriaMetricsServer(tmp_path / "one", wanted)) as server:
        assert server.url == f"http://127.0.0.1:{wanted}"
        with pytest.raises(PortTaken, match=f"port {wanted} on 127.0.0.1 is in use"):
            await VictoriaMetricsServer(tmp_path / "two", wanted).start()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("VICTORIA_METRICS", "/nowhere/vm", "VICTORIA_METRICS: /nowhere/vm is no program"),
        ("PATH", "/nowhere", "apt-get install victoria-metrics"),
    ],
)
async def test_a_missing_victoriametrics_is_said_with_the_remedy(
    tmp_path, monkeypatch, variable, value, message
):
    monkeypatch.delenv("VICTORIA_METRICS", raising=False)
    monkeypatch.setenv(variable, value)

    with pytest.raises(ServerFailed, match=message):
        await VictoriaMetricsServer(tmp_path).start()
