"""The agent against a real API server, with the rights of the shipped manifests and no others."""

from __future__ import annotations

import json
import re
import time

import pytest
import yaml

from monitor.collector.install import installation
from monitor.collector.kubernetes.access import in_cluster
from monitor.collector.kubernetes.source import Cluster
from monitor.collector.kubernetes.tail import PodLines
from monitor.collector.logs.records import time_of
from monitor.collector.tail_ring import Ring
from monitor.wire.tail import LogRequest
from tests.collector.fakes import until
from tests.collector.kubernetes.shapes import STARTED

pytestmark = pytest.mark.xdist_group("kubernetes")

SECONDS = 90.0  # for controllers and agent together, on a slow machine


def deployment(namespace, name="web", replicas=2, **spec):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [
                        {
                            "name": "app",
                            "image": "registry.example/app:1",
                            "resources": {
                                "requests": {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "1Gi"}
                            },
                        },
                        {"name": "proxy", "image": "registry.example/proxy:2"},
                    ]
                },
            },
        }
        | spec,
    }


def make_node(cluster, name, port, ready="True", **labels):
    """Make a node with the status that a kubelet would give it."""
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    cluster.write_status(
        f"/api/v1/nodes/{name}",
        {
            "capacity": {"cpu": "4", "memory": "16384Ki", "pods": "110", "ephemeral-storage": "100Gi"},
            "allocatable": {"cpu": "3800m", "memory": "12288Ki", "pods": "100", "ephemeral-storage": "90Gi"},
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "nodeInfo": {
                "kubeletVersion": "v1.20.5",
                "osImage": "Debian GNU/Linux 12 (bookworm)",
                "architecture": "arm64",
                **dict.fromkeys(
                    ("machineID", "systemUUID", "bootID", "kernelVersion", "containerRuntimeVersion"), "x"
                ),
                **dict.fromkeys(("kubeProxyVersion", "operatingSystem"), "x"),
            },
        },
    )


def run_pod(cluster, namespace, name, restarts=0, run=1):
    """Give a pod the status of one that runs."""
    cluster.write_status(
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "startTime": STARTED,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": container,
                    "image": f"registry.example/{container}",
                    "imageID": "x",
                    "ready": True,
                    "restartCount": restarts,
                    "containerID": f"containerd://{container}-{run}",
                    "state": {"running": {"startedAt": STARTED}},
                }
                for container in ("app", "proxy")
            ],
        },
    )


@pytest.fixture
def nodes(cluster, kubelet):
    """Two nodes, one of which is ready."""
    make_node(cluster, "node-1", kubelet.port, **{"node-role.kubernetes.io/worker": "", "zone": "a"})
    make_node(cluster, "node-2", kubelet.port, ready="False")
    yield
    cluster.kubectl("delete", "node", "node-1", "node-2")


@pytest.fixture
async def placed(cluster, namespace, nodes):
    """The names of the two pods of a deployment: one runs on node-1, one waits for a node."""
    cluster.apply(deployment(namespace))
    pods = await found(lambda: names(cluster, namespace, 2))
    cluster.bind(namespace, pods[0], "node-1")
    run_pod(cluster, namespace, pods[0], restarts=2)
    return pods


async def found(look):
    """Return the first true answer of *look*, which asks the cluster."""
    answers = []

    def looked():
        answers.append(look())
        return answers[-1]

    await until(looked, SECONDS)
    return answers[-1]


def names(cluster, namespace, count):
    """Return the names of a namespace's pods once there are *count*."""
    pods = cluster.get("pods", "-n", namespace)["items"]
    return sorted(pod["metadata"]["name"] for pod in pods) if len(pods) == count else None


def newest(scaling, namespace):
    """Return the newest push's nodes by name, and its pods of a namespace by name."""
    body = scaling.pushes[-1][1] if scaling.pushes else {"pods": [], "nodes": []}
    pods = {pod["name"]: pod for pod in body["pods"] if pod["namespace"] == namespace}
    return {node["name"]: node for node in body["nodes"]}, pods


def table(text):
    """Return kubectl's table as rows by their first column."""
    header, *lines = text.splitlines()
    columns = [(found.group().strip(), found.start()) for found in re.finditer(r"\S+( \S+)*\s*", header)]
    ends = [start for _, start in columns[1:]] + [None]
    rows = [
        {column: line[start:end].strip() for (column, start), end in zip(columns, ends, strict=True)}
        for line in lines
    ]
    return {row["NAME"]: row for row in rows}


async def test_nodes_and_pods_appear_with_every_field_as_kubectl_prints_it(
    cluster, namespace, kubelet, placed, scaling, agent
):
    first, second = placed
    kubelet.pods = [
        {
            "metadata": {"name": first, "namespace": namespace},
            "timestamp": STARTED,
            "window": "15s",
            "containers": [
                {"name": "app", "usage": {"cpu": "125000000n", "memory": "128Mi"}},
                {"name": "proxy", "usage": {"cpu": "1500u", "memory": "1024Ki"}},
            ],
        }
    ]
    kubelet.nodes = [
        {
            "metadata": {"name": "node-1"},
            "timestamp": STARTED,
            "window": "15s",
            "usage": {"cpu": "1900m", "memory": "6144Ki"},
        }
    ]

    async with agent():
        await until(lambda: "cpuCores" in newest(scaling, namespace)[1].get(first, {}), SECONDS)

    pushed_nodes, pods = newest(scaling, namespace)
    printed = table(cluster.kubectl("get", "nodes", "-o", "wide"))
    objects = {item["metadata"]["name"]: item for item in cluster.get("nodes")["items"]}
    assert set(pushed_nodes) == set(printed) == {"node-1", "node-2"}
    for name, node in pushed_nodes.items():
        row, status = printed[name], objects[name]["status"]
        assert node["status"] == row["STATUS"]
        assert ",".join(node["roles"]) or row["ROLES"] == "<none>"
        assert (node["kubeletVersion"], node["osImage"]) == (row["VERSION"], row["OS-IMAGE"])
        assert node["architecture"] == status["nodeInfo"]["architecture"]
        assert node["labels"] == objects[name]["metadata"].get("labels", {})
        for kind in ("capacity", "allocatable"):
            told = status[kind]
            assert node[kind] == {
                "cpu": told["cpu"],
                "memory": told["memory"],
                "pods": told["pods"],
                "ephemeralStorage": told["ephemeral-storage"],
            }
    assert (printed["node-1"]["STATUS"], printed["node-2"]["STATUS"]) == ("Ready", "NotReady")
    described = cluster.kubectl("describe", "node", "node-1")
    usage = pushed_nodes["node-1"]["usage"]
    assert re.search(r"cpu\s+250m", described)
    assert re.search(r"memory\s+256Mi", described)
    assert usage["cpuWorkloadReservedCores"] == 0.25
    assert usage["memoryWorkloadReservedGiB"] == 0.25
    assert usage["ephemeralStorageWorkloadReservedGiB"] == 1.0
    assert usage["cpuSystemReservedCores"] == pytest.approx(0.2)
    assert usage["memorySystemReservedGiB"] == pytest.approx(4096 / 2**20)
    assert usage["ephemeralStorageSystemReservedGiB"] == 10.0
    assert (usage["pods"], usage["podsUsed"]) == (110, 1)
    assert (usage["cpuCores"], usage["memoryGiB"]) == (1.9, pytest.approx(6144 / 2**20))

    printed = table(cluster.kubectl("get", "pods", "-n", namespace, "-o", "wide", "--show-labels"))
    assert set(pods) == set(printed) == {first, second}
    for name, pod in pods.items():
        row = printed[name]
        ready = sum(container["ready"] for container in pod["containers"])
        assert f"{ready}/{len(pod['containers'])}" == row["READY"]
        assert (pod["phase"], str(pod["restarts"])) == (row["STATUS"], row["RESTARTS"])
        assert (pod["podIP"] or "<none>", pod["nodeName"] or "<none>") == (row["IP"], row["NODE"])
        assert ",".join(f"{key}={value}" for key, value in sorted(pod["labels"].items())) == row["LABELS"]
        assert pod["workload"] == "Deployment/web"
    running, waiting = pods[first], pods[second]
    assert (running["startTime"], running["ready"]) == (STARTED, True)
    assert (running["cpuCores"], running["memoryBytes"]) == (pytest.approx(0.1265), 129 * 2**20)
    assert running["cpuPercent"] == pytest.approx(100 * 0.1265 / 3.8)  # the proxy has no request
    assert [(one["name"], one["image"], one["state"]) for one in running["containers"]] == [
        ("app", "registry.example/app:1", "running"),
        ("proxy", "registry.example/proxy:2", "running"),
    ]
    assert (waiting["ready"], waiting["startTime"]) == (False, None)
    assert "cpuCores" not in waiting


async def test_what_changes_is_pushed(cluster, namespace, placed, scaling, agent):
    _, second = placed
    async with agent():
        await until(lambda: set(newest(scaling, namespace)[1]) == set(placed), SECONDS)
        cluster.bind(namespace, second, "node-2")
        run_pod(cluster, namespace, second)
        await until(lambda: newest(scaling, namespace)[1][second]["phase"] == "Running", SECONDS)
        cluster.apply(deployment(namespace, replicas=0))
        cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")

        await until(lambda: not newest(scaling, namespace)[1], SECONDS)


async def test_logs_come_through_the_api_server_with_those_of_the_run_before(
    cluster, namespace, kubelet, placed, scaling, agent
):
    first, _ = placed
    start = time.time_ns()
    stamps = iter(range(start, start + 10**9, 10**6))

    def lines(*texts):
        return [(time_of(next(stamps)), text) for text in texts]

    key = (namespace, first, "app")
    kubelet.logs[(*key, False)] = lines("one", "two")
    kubelet.logs[(namespace, first, "proxy", False)] = lines("of the proxy")

    def shipped(container):
        found = [line for line in scaling.lines if (line["pod"], line["container"]) == (first, container)]
        assert {(line["namespace"], line["stream"]) for line in found} <= {(namespace, "stdout")}
        return [line["message"] for line in found]

    async with agent():
        await until(
            lambda: shipped("app") == ["one", "two"] and shipped("proxy") == ["of the proxy"], SECONDS
        )
        kubelet.logs[(*key, False)] += lines("three")
        await until(lambda: shipped("app") == ["one", "two", "three"], SECONDS)
        kubelet.logs[(*key, True)] = kubelet.logs.pop((*key, False)) + lines("last words")
        kubelet.logs[(*key, False)] = lines("again")
        run_pod(cluster, namespace, first, restarts=3, run=2)
        await until(lambda: shipped("app") == ["one", "two", "three", "last words", "again"], SECONDS)


async def test_a_tail_comes_through_the_api_server(cluster, namespace, kubelet, placed, agent):
    first, _ = placed
    now = time.time_ns()
    kubelet.logs[(namespace, first, "app", False)] = [
        (time_of(now + number), f"line {number}") for number in range(1, 11)
    ]
    request = LogRequest(
        "r1", "kubernetes", 3, follow=False, namespace=namespace, pod=first, since_seconds=60
    )
    ring = Ring()

    async with Cluster(in_cluster(), "test") as opened:
        await PodLines(opened).tail(request, ring)

    lines = [json.loads(line)["message"] for line in ring._lines]
    assert lines == ["line 8", "line 9", "line 10"]


async def test_a_manifest_is_applied_and_the_replica_set_follows(
    cluster, namespace, scaling, scaling_right, agent
):
    # Made by server-side apply without replicas: nobody owns them.
    document = deployment(namespace, replicas=None)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(document))
    scaling.wants(4)

    async with agent():
        await until(lambda: scaling.told.get("scp_1", ("",))[0] == "applied", SECONDS)

    assert scaling.told["scp_1"] == ("applied", "4 replicas", 4)
    [replica_set] = cluster.get("replicasets", "-n", namespace)["items"]
    assert replica_set["spec"]["replicas"] == 4
    assert names(cluster, namespace, 4)
    owners = {
        entry["manager"]: entry["operation"]
        for entry in cluster.request("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/web")[
            "metadata"
        ]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    }
    assert owners == {"monitor": "Apply"}


async def test_another_owner_keeps_its_field_and_is_named_until_it_is_handed_over(
    cluster, namespace, scaling, scaling_right, agent
):
    cluster.apply(deployment(namespace, replicas=2))
    scaling.wants(4)

    async with agent():
        await until(lambda: "scp_1" in scaling.told, SECONDS)
        status, message, _ = scaling.told["scp_1"]
        assert status == "failed"
        assert 'owned by "kubectl-client-side-apply"' in message
        assert cluster.get("deployment", "web", "-n", namespace)["spec"]["replicas"] == 2

        cluster.kubectl("annotate", "deployment", "web", "-n", namespace, "monitor.scaling=force")

        await until(lambda: scaling.told["scp_1"] == ("applied", "4 replicas", 4), SECONDS)


async def test_an_autoscaler_keeps_the_field_even_then(cluster, namespace, scaling, scaling_right, agent):
    document = deployment(namespace, replicas=None)
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(document))
    cluster.kubectl("annotate", "deployment", "web", "-n", namespace, "monitor.scaling=force")
    cluster.request(
        "PATCH",
        f"/apis/apps/v1/namespaces/{namespace}/deployments/web?fieldManager=kube-controller-manager",
        {"spec": {"replicas": 3}},
        content_type="application/merge-patch+json",
    )
    scaling.wants(4)

    async with agent():
        await until(lambda: "scp_1" in scaling.told, SECONDS)

    status, message, _ = scaling.told["scp_1"]
    assert (status, "hands it over" in message) == ("failed", False)
    assert 'owned by "kube-controller-manager"' in message
    assert cluster.get("deployment", "web", "-n", namespace)["spec"]["replicas"] == 3


async def test_a_missing_workload_is_told(namespace, scaling, scaling_right, agent):
    scaling.wants(4, name="gone")
    async with agent():
        await until(lambda: "scp_1" in scaling.told, SECONDS)

    assert scaling.told["scp_1"] == ("failed", "Deployment shop/gone does not exist", None)


async def test_without_the_right_to_scale_that_is_told(cluster, namespace, scaling, agent):
    cluster.apply(deployment(namespace))
    scaling.wants(4)
    async with agent():
        await until(lambda: "scp_1" in scaling.told, SECONDS)

    status, message, _ = scaling.told["scp_1"]
    assert status == "failed"
    assert "deploy/kubernetes/scaling.yaml gives the right" in message
    assert cluster.get("deployment", "web", "-n", namespace)["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("list pods", "yes"),
        ("watch nodes", "yes"),
        ("get pods/log", "yes"),
        ("get pods", "no"),
        ("delete pods", "no"),
        ("create pods/exec", "no"),
        ("list secrets", "no"),
        ("list configmaps", "no"),
        ("get nodes/proxy", "no"),
        ("patch deployments.apps", "no"),
        ("get deployments.apps", "no"),
    ],
)
async def test_the_shipped_manifest_gives_the_least_rights(cluster, question, answer):
    verb, resource = question.split()
    account = "system:serviceaccount:monitor:monitor-agent"
    resource, _, part = resource.partition("/")
    parts = ["--subresource", part] if part else []

    said = cluster.kubectl("auth", "can-i", verb, resource, *parts, "--as", account, "-A", check=False)

    assert said.strip().splitlines()[-1] == answer


async def test_what_install_prints_is_taken_as_it_is(cluster):
    printed = installation("kubernetes", "https://monitor.example.com", "mk_key", "cluster-1", scaling=True)

    said = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=printed)

    kinds = {line.partition("/")[0] for line in said.splitlines()}
    assert kinds == {
        "namespace",
        "secret",
        "serviceaccount",
        "clusterrole.rbac.authorization.k8s.io",
        "clusterrolebinding.rbac.authorization.k8s.io",
        "persistentvolumeclaim",
        "deployment.apps",
    }
