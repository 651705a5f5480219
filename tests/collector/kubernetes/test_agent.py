"""The agent of a cluster, whole: the program against an API server and a service over real HTTP."""

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from monitor.collector.kubernetes import apply, logs, podlog
from monitor.collector.logs import batch
from monitor.collector.logs.records import time_of
from monitor.collector.logs.ship import LogSettings
from monitor.collector.run import Settings, run
from monitor.collector.source import Watched
from monitor.wire.push import Push
from tests.collector.fakes import API_KEY, served, until
from tests.collector.kubernetes.fake_api import TOKEN
from tests.collector.kubernetes.scaling_service import ScalingService
from tests.collector.kubernetes.shapes import node, node_metrics, pod, pod_metrics, replica_set
from tests.collector.kubernetes.test_access import kubeconfig

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
REPLICA_SETS = "/apis/apps/v1/replicasets"
POD_COUNT = 1_000
MEMORY_LIMIT_MIB = 120.0  # contract 10, issue 10
INTERVAL_LIMIT_SECONDS = 15.0  # the default interval


@pytest.fixture
async def scaling():
    fake = ScalingService()
    async with served(fake.app()) as url:
        fake.url = url
        yield fake


@pytest.fixture
def settings(kube, scaling, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "BATCH_SECONDS", 0.02)
    monkeypatch.setattr(logs, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(podlog, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(podlog, "LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(apply, "ROUND_SECONDS", 0.05)
    path = kubeconfig(tmp_path / "k.yaml", {"token": TOKEN}, {"server": kube.url})
    return Settings(
        url=scaling.url,
        api_key=API_KEY,
        name="cluster-1",
        pool=None,
        interval_seconds=0.05,
        state_dir=tmp_path / "state",
        watched=Watched("kubernetes", kubeconfig=path),
        logs=LogSettings(since_seconds=60.0),
    )


@asynccontextmanager
async def running(settings):
    stop = asyncio.Event()
    task = asyncio.create_task(run(settings, stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def test_it_registers_as_a_cluster_pushes_ships_logs_and_scales(kube, scaling, settings):
    kube.add(PODS, pod("web"))
    kube.add(NODES, node())
    kube.add(REPLICA_SETS, replica_set())
    kube.pod_metrics = [pod_metrics("web", app=("100m", "64Mi"))]
    kube.logs[("shop", "web", "app", False)] = [(time_of(time.time_ns()), b"hello\n")]
    kube.workloads[("shop", "deployments", "web")] = {"replicas": 1, "owners": []}
    scaling.wants(4)

    async with running(settings):
        await until(lambda: scaling.pushes and scaling.lines and scaling.reports)
        await kube.put(PODS, pod("web-2"))
        await until(lambda: len(scaling.pushes[-1][1]["pods"]) == 2)

    [(_, registration)] = scaling.registrations
    assert (registration["name"], registration["type"]) == ("cluster-1", "kubernetes")
    body = scaling.pushes[0][1]
    assert set(body) == {"version", "pods", "nodes", "collectedAt", "seq"}
    push = msgspec.convert(body, Push)  # the service takes it
    assert push.pods[0].workload == "Deployment/web"
    assert [line["message"] for line in scaling.lines] == ["hello"]
    assert kube.workloads[("shop", "deployments", "web")]["replicas"] == 4
    assert scaling.told["scp_1"][0] == "applied"


async def test_while_the_cluster_is_away_nothing_is_pushed(kube, scaling, settings):
    kube.token = "another"
    async with running(settings):
        await until(lambda: scaling.registrations and kube.requests[f"GET {PODS}"] >= 2)
        assert scaling.pushes == []
        kube.token = TOKEN
        await until(lambda: scaling.pushes)


def padded(number):
    """A pod of about 8 KB, as those of real clusters are."""
    shape = pod(f"web-{number:04}-x2x7q", containers=("app", "proxy"), node=f"node-{number % 20}")
    shape["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "x" * 2_500
    for container in shape["spec"]["containers"]:
        container["env"] = [{"name": f"VARIABLE_{index}", "value": "v" * 40} for index in range(20)]
    return shape


async def test_a_thousand_pods_are_pushed_within_an_interval_in_little_memory(kube, scaling, tmp_path):
    shapes = [padded(number) for number in range(POD_COUNT)]
    kube.add(PODS, *shapes)
    kube.add(NODES, *(node(f"node-{number}") for number in range(20)))
    kube.add(REPLICA_SETS, *(replica_set(f"web-{number}") for number in range(POD_COUNT)))
    kube.pod_metrics = [
        pod_metrics(shape["metadata"]["name"], app=("100m", "64Mi"), proxy=("10m", "8Mi")) for shape in shapes
    ]
    kube.node_metrics = [node_metrics(f"node-{number}") for number in range(20)]
    now = time.time_ns()
    for shape in shapes:
        for container in ("app", "proxy"):
            key = ("shop", shape["metadata"]["name"], container, False)
            kube.logs[key] = [(time_of(now + number), b"a line of a log " * 8 + b"\n") for number in range(5)]
    late = []

    async def push(request):
        late.append(time.time())
        return await ScalingService.push(scaling, request)

    scaling.push = push
    async with served(scaling.app()) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "monitor", "agent", "--type", "kubernetes", "--interval", "2s"),
            *("--kubeconfig", kubeconfig(tmp_path / "k.yaml", {"token": TOKEN}, {"server": kube.url})),
            *("--state-dir", str(tmp_path / "state"), "--url", url, "--logs-since", "1h"),
            env={"PATH": os.environ["PATH"], "MONITOR_API_KEY": API_KEY},
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            # Every log is read once, of which most of the memory could come, and several snapshots made.
            await until(lambda: len(scaling.pushes) >= 5 and len(scaling.lines) >= 10 * POD_COUNT, 240)
            peak = peak_mib(process.pid)
        finally:
            process.terminate()
            await process.wait()

    assert {len(body["pods"]) for _, body in scaling.pushes} == {POD_COUNT}
    assert len(scaling.lines) == 10 * POD_COUNT
    behind = [
        received - datetime.fromisoformat(body["collectedAt"]).timestamp()
        for received, (_, body) in zip(late, scaling.pushes, strict=False)
    ]
    print(
        f"\n{POD_COUNT} pods, {2 * POD_COUNT} logs: peak {peak:.1f} MiB (limit {MEMORY_LIMIT_MIB:g}), "
        f"a push after {max(behind):.2f} s at most"
    )
    assert peak < MEMORY_LIMIT_MIB
    assert max(behind) < INTERVAL_LIMIT_SECONDS


def peak_mib(pid):
    """Return the most memory that a process has had resident, in MiB."""
    [line] = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
