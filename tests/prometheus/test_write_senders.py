"""A real vmagent and a real Prometheus scrape a page and write it here, under a foreign organization's name."""

import asyncio
import json
import re
import shutil
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from monitor.tsdb.client import TSDB
from tests.metrics.samples import eventually

WRITE = "/prometheus/api/v1/write"
FIRST = "the first page"
LATER = "later pages, without the metric that vanishes: its stale marker is sent"


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def program(name, package):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"the program {name} is not installed here (Debian: apt-get install {package})")
    return found


@asynccontextmanager
async def running(*command, log):
    """Run a program for a block."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@asynccontextmanager
async def exporter(name, org_id):
    """Serve a page to scrape; yields its port and the list of what was served."""
    served = []

    async def page(request):
        lines = [
            f"# HELP {name} Said to be another's.\n# TYPE {name} gauge",
            f'{name}{{org_id="{org_id}",agent_id="agt_x",path="C:\\\\a b,c=d",word="ü"}} 42.5',
            f"# TYPE {name}_seconds histogram",
            f'{name}_seconds_bucket{{le="0.5"}} 1\n{name}_seconds_bucket{{le="+Inf"}} 2',
            f"{name}_seconds_sum 1.25\n{name}_seconds_count 2",
            f"{name}_nan NaN\n{name}_inf +Inf",
        ]
        if not served:
            lines.append(f"{name}_vanishes 1")
        served.append(FIRST if not served else LATER)
        return web.Response(text="\n".join(lines) + "\n")

    scraped = web.Application()
    scraped.router.add_get("/metrics", page)
    runner = web.AppRunner(scraped, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1], served
    finally:
        await runner.cleanup()


async def own_metrics(port):
    """Return the sums, by name, of what a sender says of itself; nothing while it does not answer."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/metrics") as response,
        ):
            text = await response.text()
    except aiohttp.ClientError:
        return {}
    sums = {}
    for name, value in re.findall(r"^(\w+)(?:\{.*\})? (\S+)$", text, re.MULTILINE):
        sums[name] = sums.get(name, 0.0) + float(value)
    return sums


async def seen(app, api, name):
    """Return labels and value of what an organization sees of the page."""
    await app.app[TSDB].force_flush()
    answer = await api.json("/api/v1/metrics/instant", params={"selector": f'{{__name__=~"{name}.*"}}'})
    return {
        (one["metric"]["__name__"], one["metric"].get("le")): (one["metric"], one["value"])
        for one in answer["series"]
    }


def assert_seen(found, name, more):
    """Assert that all numbers of the page are there, with the labels that scraping gave."""
    assert set(found) == {
        (name, None),
        (f"{name}_vanishes", None),
        (f"{name}_seconds_bucket", "0.5"),
        (f"{name}_seconds_bucket", "+Inf"),
        (f"{name}_seconds_sum", None),
        (f"{name}_seconds_count", None),
    }
    metric, value = found[name, None]
    assert value == 42.5
    assert metric == {"__name__": name, "path": "C:\\a b,c=d", "word": "ü", **more}


@pytest.mark.parametrize("credential", ["the API key as Basic password", "the agent's token as Bearer"])
async def test_vmagent_writes_through(app, api, other, agent, tmp_path, credential):
    vmagent = program("vmagent", "victoria-metrics")
    name, port = f"vma_{api.org_id.lower()}", free_port()
    by_agent = "Bearer" in credential
    basic = ("basicAuth.username=any", f"basicAuth.password={api.secret}")
    flags = (f"bearerToken={agent.api.secret}",) if by_agent else basic
    async with exporter(name, other.org_id) as (target, served):
        job = {
            "job_name": "page",
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
        }
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
        (tmp_path / "scrape.yml").write_text(json.dumps(config))
        async with running(
            vmagent,
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-promscrape.config={tmp_path / 'scrape.yml'}",
            f"-remoteWrite.url={app.base_url}{WRITE}",
            f"-remoteWrite.tmpDataPath={tmp_path / 'queue'}",
            *[f"-remoteWrite.{flag}" for flag in flags],
            "-remoteWrite.flushInterval=200ms",
            f"-remoteWrite.label=org_id={other.org_id}",
            log=tmp_path / "vmagent.log",
        ):
            await eventually(lambda: own_metrics(port), lambda _: len(served) >= 3)
            await asyncio.sleep(0.5)  # what was scraped last is sent after 0.2 s
            sums = await own_metrics(port)
            found, foreign = await seen(app, api, name), await seen(app, other, name)

    assert (
        sums["vmagent_remotewrite_packets_dropped_total"]
        == sums["vmagent_remotewrite_retries_count_total"]
        == 0
    )
    more = {"job": "page", "instance": f"127.0.0.1:{target}"}
    if by_agent:
        more |= {"agent_id": agent.agent_id, "agent": "host-1"}
    assert_seen(found, name, more)
    assert foreign == {}


async def test_prometheus_writes_through(app, api, other, tmp_path):
    prometheus = program("prometheus", "prometheus")
    name, port = f"prom_{api.org_id.lower()}", free_port()
    async with exporter(name, other.org_id) as (target, served):
        job = {
            "job_name": "page",
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
        }
        receiver = {
            "url": f"{app.base_url}{WRITE}",
            "authorization": {"credentials": api.secret},
            "queue_config": {"batch_send_deadline": "200ms"},
            "metadata_config": {"send_interval": "1s"},
            "send_exemplars": True,
            "send_native_histograms": True,
        }
        config = {
            "global": {"scrape_interval": "1s", "external_labels": {"org_id": other.org_id, "site": "here"}},
            "scrape_configs": [job],
            "remote_write": [receiver],
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))
        async with running(
            prometheus,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            log=tmp_path / "prometheus.log",
        ):
            sums = await eventually(
                lambda: own_metrics(port),
                lambda sums: len(served) >= 3 and sums.get("prometheus_remote_storage_metadata_total", 0) > 0,
            )
            await asyncio.sleep(0.5)  # what was scraped last is sent after 0.2 s
            sums = await own_metrics(port)
            found, foreign = await seen(app, api, name), await seen(app, other, name)

    assert sums["prometheus_remote_storage_samples_total"] > 0
    for failed in ("samples_failed", "samples_retried", "metadata_failed", "metadata_retried"):
        assert sums[f"prometheus_remote_storage_{failed}_total"] == 0, failed
    assert_seen(found, name, {"job": "page", "instance": f"127.0.0.1:{target}", "site": "here"})
    assert foreign == {}
