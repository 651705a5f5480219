"""A cluster read over real HTTP: pages, watches and their restarts, metrics in each version and in none."""

import msgspec
import pytest

from monitor.collector.failure import EngineAway
from monitor.collector.kubernetes import source
from monitor.collector.kubernetes.source import Cluster
from tests.collector.fakes import until
from tests.collector.kubernetes.conftest import access_to
from tests.collector.kubernetes.fake_api import status
from tests.collector.kubernetes.shapes import node, node_metrics, pod, pod_metrics, replica_set

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
REPLICA_SETS = "/apis/apps/v1/replicasets"


def names(snapshot):
    return [one.name for one in snapshot.pods]


async def until_listed(cluster, wanted):
    """Wait until a snapshot holds exactly these pods."""
    await until(lambda: sorted(one.metadata.name for one in cluster.pods.items.values()) == sorted(wanted))
    assert names(await cluster.snapshot()) == sorted(wanted)


async def test_a_snapshot_has_pods_and_nodes_and_no_containers(kube, cluster):
    kube.add(PODS, pod())
    kube.add(NODES, node())
    kube.add(REPLICA_SETS, replica_set())

    snapshot = await cluster.snapshot()

    [only] = snapshot.pods
    assert (only.namespace, only.name, only.workload) == ("shop", "web-7d4b9c6f5d-x2x7q", "Deployment/web")
    assert [one.name for one in snapshot.nodes] == ["node-1"]
    assert snapshot.containers is None


async def test_an_empty_cluster_is_pushed_as_empty_and_not_left_out(cluster):
    snapshot = await cluster.snapshot()

    assert (snapshot.pods, snapshot.nodes) == ([], [])


async def test_lists_are_read_in_pages_to_their_end(kube, cluster):
    kube.page_items = 7
    kube.add(PODS, *(pod(f"p-{number:03}") for number in range(30)))

    snapshot = await cluster.snapshot()

    assert names(snapshot) == [f"p-{number:03}" for number in range(30)]
    assert kube.requests[f"GET {PODS}"] == 5


async def test_a_list_whose_rest_is_gone_is_begun_again(kube, cluster):
    kube.page_items = 2
    kube.expire_continues = 2
    kube.add(PODS, *(pod(f"p-{number}") for number in range(5)))

    await until_listed(cluster, [f"p-{number}" for number in range(5)])


async def test_changes_come_by_the_watch_without_another_list(kube, cluster):
    kube.add(PODS, pod("a"), pod("b"))
    await until_listed(cluster, ["a", "b"])

    await kube.put(PODS, pod("c"))
    await kube.delete(PODS, pod("a"))
    await kube.put(PODS, pod("b", phase="Failed"))

    await until_listed(cluster, ["b", "c"])
    await until(lambda: cluster.pods.items["shop/b"].status.phase == "Failed")
    assert kube.requests[f"GET {PODS}"] == 1


async def test_a_watch_that_is_cut_goes_on_where_it_stood(kube, cluster):
    kube.add(PODS, pod("a"))
    await until_listed(cluster, ["a"])
    kube.cut_watches = 3

    for name in "bcd":
        await kube.put(PODS, pod(name))

    await until_listed(cluster, ["a", "b", "c", "d"])
    assert kube.requests[f"GET {PODS}"] == 1
    assert kube.requests[f"watch GET {PODS}"] >= 4


async def test_a_watch_that_is_too_far_behind_lists_again(kube, cluster):
    kube.add(PODS, pod("a"), pod("b"))
    await until_listed(cluster, ["a", "b"])
    lists = kube.requests[f"GET {PODS}"]

    del kube.objects[PODS][("shop", "a")]  # while the watch does not see it
    await kube.forget()

    await until_listed(cluster, ["b"])
    assert kube.requests[f"GET {PODS}"] > lists


async def test_an_answer_of_410_to_the_watch_itself_lists_again(kube, cluster):
    kube.add(PODS, pod("a"))
    await until_listed(cluster, ["a"])
    kube.refuse[PODS] = status(410, "Expired", "too old resource version")
    await kube.forget()
    await until(lambda: cluster.pods.error is not None)
    del kube.refuse[PODS]

    await kube.put(PODS, pod("b"))

    await until_listed(cluster, ["a", "b"])


@pytest.mark.parametrize(
    ("offered", "asked"), [(["v1beta1"], "v1beta1"), (["v1"], "v1"), (["v1beta1", "v1"], "v1")]
)
async def test_usage_is_read_in_the_version_that_the_cluster_offers(kube, cluster, offered, asked):
    kube.metrics_versions = offered
    kube.add(PODS, pod(containers=("app", "proxy")))
    kube.add(NODES, node())
    kube.pod_metrics = [pod_metrics(app=("125m", "64Mi"), proxy=("250n", "1500Ki"))]
    kube.node_metrics = [node_metrics()]

    snapshot = await cluster.snapshot()

    [only] = snapshot.pods
    assert only.cpu_cores == pytest.approx(0.12500025)
    assert only.memory_bytes == 64 * 2**20 + 1500 * 2**10
    assert [one.cpu_cores for one in only.containers] == [0.125, pytest.approx(2.5e-7)]
    assert (snapshot.nodes[0].usage.cpu_cores, snapshot.nodes[0].usage.memory_gib) == (1.9, 8.0)
    assert kube.requests[f"GET /apis/metrics.k8s.io/{asked}/pods"] == 1


async def test_without_a_metrics_provider_the_usage_fields_are_left_out(kube, cluster):
    kube.metrics_versions = []
    kube.add(PODS, pod())
    kube.add(NODES, node())

    snapshot = await cluster.snapshot()

    [only] = snapshot.pods
    told = set(as_json(only))
    assert told.isdisjoint({"cpuCores", "cpuPercent", "memoryBytes", "memoryPercent"})
    assert "cpuCores" not in as_json(only)["containers"][0]
    usage = as_json(snapshot.nodes[0])["usage"]
    assert "cpuCores" not in usage
    assert usage["cpuWorkloadReservedCores"] == 0.25


async def test_a_metrics_provider_that_comes_later_is_found(kube, cluster):
    kube.metrics_versions = []
    kube.add(PODS, pod())
    await cluster.snapshot()
    kube.metrics_versions = ["v1beta1"]
    kube.pod_metrics = [pod_metrics(app=("1", "1Gi"))]

    assert (await cluster.snapshot()).pods[0].cpu_cores == 1.0


async def test_a_metrics_provider_that_fails_costs_the_usage_alone(kube, cluster):
    kube.add(PODS, pod())
    kube.pod_metrics = [pod_metrics(app=("1", "1Gi"))]
    kube.refuse["/apis/metrics.k8s.io/v1beta1/pods"] = status(503, "ServiceUnavailable", "no endpoints")

    [only] = (await cluster.snapshot()).pods

    assert "cpuCores" not in as_json(only)


async def test_refused_credentials_are_no_empty_cluster(kube, monkeypatch):
    monkeypatch.setattr(source, "SYNC_SECONDS", 0.05)
    kube.add(PODS, pod())

    async with Cluster(access_to(kube.url, "wrong"), "test") as cluster:
        await until(lambda: cluster.pods.error)
        with pytest.raises(EngineAway, match="401: Unauthorized"):
            await cluster.snapshot()


async def test_missing_rights_are_told_in_the_api_servers_words(kube, monkeypatch):
    monkeypatch.setattr(source, "SYNC_SECONDS", 0.05)
    told = 'nodes is forbidden: User "system:serviceaccount:monitor:agent" cannot list resource "nodes"'
    kube.refuse[NODES] = status(403, "Forbidden", told)

    async with Cluster(access_to(kube.url), "test") as cluster:
        await until(lambda: cluster.pods.synced.is_set() and cluster._nodes.error)
        with pytest.raises(EngineAway, match=told):
            await cluster.snapshot()


async def test_an_api_server_that_goes_away_gives_no_snapshot_and_comes_back(kube, cluster):
    kube.add(PODS, pod("a"))
    await until_listed(cluster, ["a"])
    kube.refuse["/apis/metrics.k8s.io"] = status(500, "InternalError", "etcd is gone")
    with pytest.raises(EngineAway, match="500: etcd is gone"):
        await cluster.snapshot()
    kube.refuse.clear()

    assert names(await cluster.snapshot()) == ["a"]


async def test_a_watch_that_stays_broken_gives_no_snapshot(kube, cluster, monkeypatch):
    monkeypatch.setattr(source, "STALE_SECONDS", 0.05)
    kube.add(PODS, pod("a"))
    await until_listed(cluster, ["a"])
    kube.refuse[NODES] = status(403, "Forbidden", "the right was taken away")
    await kube.forget()
    await until(lambda: any(one.failing_seconds > 0.1 for one in cluster._reflectors))

    with pytest.raises(EngineAway, match="the right was taken away"):
        await cluster.snapshot()


def as_json(struct):
    return msgspec.to_builtins(struct)
