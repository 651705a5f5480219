"""One real cluster for all tests here, skipped with the reason where there can be none."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from monitor.collector.kubernetes import access, apply, logs, podlog
from monitor.collector.logs import batch
from monitor.collector.logs.ship import LogSettings
from monitor.collector.run import Settings, run
from monitor.collector.source import Watched
from tests.collector.fakes import API_KEY, served
from tests.collector.kubernetes.scaling_service import ScalingService
from tests.kubernetes.cluster import ClusterError, KubernetesCluster
from tests.kubernetes.kubelet import GROUP_VERSION, Kubelet, kubelet_at_work

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
ACCOUNT = ("monitor", "monitor-agent")


@pytest.fixture(scope="session")
def cluster() -> Iterator[KubernetesCluster]:
    """A cluster with the agent's manifest applied, as shipped."""
    with tempfile.TemporaryDirectory(prefix="monitor-kubernetes-") as folder:
        try:
            made = KubernetesCluster(Path(folder))
        except ClusterError as error:
            pytest.skip(str(error))
        try:
            made.start()
            made.kubectl("apply", "-f", str(MANIFESTS / "agent.yaml"))
            yield made
        except ClusterError as error:
            pytest.skip(str(error))
        finally:
            made.stop()


@pytest.fixture
def scaling_right(cluster: KubernetesCluster) -> Iterator[None]:
    """The right to scale, as shipped."""
    cluster.kubectl("apply", "-f", str(MANIFESTS / "scaling.yaml"))
    yield
    cluster.kubectl("delete", "-f", str(MANIFESTS / "scaling.yaml"))


@pytest.fixture(scope="session")
def shop(cluster: KubernetesCluster) -> str:
    """A namespace that no test deletes: without kubelets that takes a minute."""
    cluster.kubectl("create", "namespace", "shop")
    return "shop"


@pytest.fixture
def namespace(cluster: KubernetesCluster, shop: str) -> Iterator[str]:
    """A namespace that is empty but for the test's own."""
    yield shop
    cluster.kubectl("delete", "deployments,replicasets", "--all", "-n", shop)
    deadline = time.monotonic() + 60.0
    while cluster.get("pods", "-n", shop)["items"] and time.monotonic() < deadline:
        cluster.kubectl("delete", "pods", "--all", "-n", shop, "--force", "--grace-period=0", check=False)


@pytest.fixture
async def kubelet(cluster: KubernetesCluster) -> AsyncIterator[Kubelet]:
    """A kubelet for the nodes of the test, and a metrics provider that the cluster knows."""
    async with kubelet_at_work(cluster.certificates) as working:
        version = GROUP_VERSION.partition("/")[2]
        service = {"name": "metrics", "namespace": "kube-system"}
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": service,
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": f"{version}.metrics.k8s.io"},
                "spec": {
                    "group": "metrics.k8s.io",
                    "version": version,
                    "service": service | {"port": working.port},
                    "insecureSkipTLSVerify": True,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                },
            },
        )
        yield working
        cluster.kubectl("delete", "apiservice", f"{version}.metrics.k8s.io")
        cluster.kubectl("delete", "service", "metrics", "-n", "kube-system")


@pytest.fixture
async def scaling() -> AsyncIterator[ScalingService]:
    """The service."""
    fake = ScalingService()
    async with served(fake.app()) as url:
        fake.url = url
        yield fake


@pytest.fixture
def agent(
    cluster: KubernetesCluster, scaling: ScalingService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AbstractAsyncContextManager[None]]:
    """Run the agent as its pod would: with the token of its service account, and nothing else.

    Fields of its settings may be given; by default it talks to ``scaling``.
    """
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(cluster.account_token(*ACCOUNT))
    (account / "ca.crt").write_text(cluster.ca.read_text())
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", account)
    host, _, port = cluster.server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(batch, "BATCH_SECONDS", 0.1)
    monkeypatch.setattr(logs, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(podlog, "LONGEST_PAUSE_SECONDS", 1.0)
    monkeypatch.setattr(apply, "ROUND_SECONDS", 0.3)
    settings = Settings(
        url=scaling.url,
        api_key=API_KEY,
        name="cluster",
        pool=None,
        interval_seconds=0.5,
        state_dir=tmp_path / "state",
        watched=Watched("kubernetes"),
        logs=LogSettings(since_seconds=3600.0),
    )

    @asynccontextmanager
    async def at_work(**changes: Any) -> AsyncIterator[None]:
        stop = asyncio.Event()
        task = asyncio.create_task(run(replace(settings, **changes), stop))
        try:
            yield
        finally:
            stop.set()
            await task

    return at_work
