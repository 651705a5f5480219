"""From objects to what is pushed: a table for each rule, and every quantity."""

import string
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.collector.kubernetes import objects
from monitor.collector.kubernetes.resources import requested
from monitor.collector.kubernetes.snapshot import nodes_of, pods_of, workload_of
from tests.collector.kubernetes import shapes

FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def decoded(kind, shape):
    return msgspec.convert(shape, kind)


def pushed_pod(shape, *, node=None, sets=(), metrics=()):
    nodes = {} if node is None else {node["metadata"]["name"]: decoded(objects.Node, node)}
    replica_sets = {f"shop/{one['metadata']['name']}": decoded(objects.Owned, one) for one in sets}
    usage = [decoded(objects.PodMetrics, one) for one in metrics]
    [one] = pods_of([decoded(objects.Pod, shape)], nodes, replica_sets, usage)
    return msgspec.to_builtins(one)


def pushed_node(shape, *, pods=(), metrics=()):
    usage = [decoded(objects.NodeMetrics, one) for one in metrics]
    [one] = nodes_of([decoded(objects.Node, shape)], [decoded(objects.Pod, pod) for pod in pods], usage)
    return msgspec.to_builtins(one)


def test_a_pod_is_pushed_with_every_field():
    pushed = pushed_pod(
        shapes.pod(containers=("app", "proxy"), restarts=3),
        node=shapes.node(),
        sets=[shapes.replica_set()],
        metrics=[shapes.pod_metrics(app=("250m", "128Mi"), proxy=("0", "0"))],
    )

    container = {
        "image": "registry.example/app:1",
        "ready": True,
        "restarts": 3,
        "state": "running",
    }
    assert pushed == {
        "name": "web-7d4b9c6f5d-x2x7q",
        "namespace": "shop",
        "phase": "Running",
        "nodeName": "node-1",
        "podIP": "10.42.0.7",
        "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d"},
        "startTime": shapes.STARTED,
        "restarts": 6,
        "ready": True,
        "workload": "Deployment/web",
        "cpuCores": 0.25,
        "cpuPercent": 50.0,  # of twice 250m
        "memoryBytes": 128 * 2**20,
        "memoryPercent": 25.0,  # of twice 256Mi
        "containers": [
            container | {"name": "app", "cpuCores": 0.25, "memoryBytes": 128 * 2**20},
            container
            | {"name": "proxy", "image": "registry.example/proxy:1", "cpuCores": 0.0, "memoryBytes": 0.0},
        ],
    }


def test_a_pod_that_waits_for_a_node_is_pushed_as_it_is():
    pushed = pushed_pod(shapes.pod(node=None, phase="Pending", ready=False, owner=None, labels={}))

    assert pushed == {
        "name": "web-7d4b9c6f5d-x2x7q",
        "namespace": "shop",
        "phase": "Pending",
        "nodeName": "",
        "podIP": "",
        "labels": {},
        "startTime": None,
        "restarts": 0,
        "ready": False,
        "containers": [
            {
                "name": "app",
                "image": "registry.example/app:1",
                "ready": False,
                "restarts": 0,
                "state": "waiting",
            }
        ],
    }


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({"running": {"startedAt": shapes.STARTED}}, "running"),
        ({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, "CrashLoopBackOff"),
        ({"waiting": {}}, "waiting"),
        ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "OOMKilled"),
        ({"terminated": {"exitCode": 1}}, "terminated"),
        ({}, "waiting"),
    ],
)
def test_a_containers_state_is_what_kubectl_shows(state, shown):
    assert pushed_pod(shapes.pod(states={"app": state}))["containers"][0]["state"] == shown


@pytest.mark.parametrize(
    ("requests", "limits", "cpu_percent", "memory_percent"),
    [
        ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}, 20.0, 12.5),
        ({}, {"cpu": "1", "memory": "512Mi"}, 10.0, 25.0),
        ({"cpu": "500m"}, {}, 20.0, pytest.approx(128 / (15 * 1024) * 100)),
        ({}, {}, pytest.approx(0.1 / 3.8 * 100), pytest.approx(128 / (15 * 1024) * 100)),
    ],
)
def test_percents_are_of_the_requests_else_the_limits_else_the_node(
    requests, limits, cpu_percent, memory_percent
):
    pushed = pushed_pod(
        shapes.pod(requests=requests, limits=limits),
        node=shapes.node(),
        metrics=[shapes.pod_metrics(app=("100m", "128Mi"))],
    )

    assert (pushed["cpuPercent"], pushed["memoryPercent"]) == (cpu_percent, memory_percent)


def test_a_percentage_of_nothing_is_left_out():
    pushed = pushed_pod(
        shapes.pod(requests={}, limits={}), metrics=[shapes.pod_metrics(app=("100m", "128Mi"))]
    )

    assert pushed["cpuCores"] == 0.1
    assert "cpuPercent" not in pushed
    assert "memoryPercent" not in pushed


@pytest.mark.parametrize(
    ("owner", "workload"),
    [
        (("ReplicaSet", "web-7d4b9c6f5d"), "Deployment/web"),
        (("ReplicaSet", "bare"), "ReplicaSet/bare"),
        (("ReplicaSet", "not-listed-yet"), "ReplicaSet/not-listed-yet"),
        (("StatefulSet", "db"), "StatefulSet/db"),
        (("DaemonSet", "proxy"), "DaemonSet/proxy"),
        (("Job", "backup-28900"), "Job/backup-28900"),
        (("Node", "node-1"), msgspec.UNSET),
        (None, msgspec.UNSET),
    ],
)
def test_the_workload_is_read_from_the_owner_references(owner, workload):
    sets = [shapes.replica_set(), shapes.replica_set("bare", deployment=None)]
    known = {f"shop/{one['metadata']['name']}": decoded(objects.Owned, one) for one in sets}

    assert workload_of(decoded(objects.Pod, shapes.pod(owner=owner)).metadata, known) == workload


def test_an_owner_that_is_no_controller_is_no_workload():
    shape = shapes.pod()
    shape["metadata"]["ownerReferences"][0]["controller"] = False

    assert workload_of(decoded(objects.Pod, shape).metadata, {}) is msgspec.UNSET


def test_a_node_is_pushed_with_every_field():
    pushed = pushed_node(
        shapes.node(),
        pods=[
            shapes.pod("a", requests={"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "2Gi"}),
            shapes.pod("b", requests={"cpu": "1", "memory": "512Mi"}),
            shapes.pod("done", phase="Succeeded", requests={"cpu": "3"}),
            shapes.pod("crashed", phase="Failed", requests={"cpu": "3"}),
            shapes.pod("elsewhere", node="node-2", requests={"cpu": "3"}),
        ],
        metrics=[shapes.node_metrics(cpu="1900m", memory="8Gi")],
    )

    assert pushed == {
        "name": "node-1",
        "status": "Ready",
        "roles": ["control-plane", "master"],
        "kubeletVersion": "v1.33.1",
        "osImage": "Debian GNU/Linux 12 (bookworm)",
        "architecture": "amd64",
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeralStorage": "100Gi"},
        "allocatable": {"cpu": "3800m", "memory": "15Gi", "pods": "110", "ephemeralStorage": "92Gi"},
        "usage": {
            "cpuCores": 1.9,
            "cpuSystemReservedCores": pytest.approx(0.2),
            "cpuWorkloadReservedCores": 1.5,
            "memoryGiB": 8.0,
            "memorySystemReservedGiB": 1.0,
            "memoryWorkloadReservedGiB": 1.5,
            "ephemeralStorageSystemReservedGiB": 8.0,
            "ephemeralStorageWorkloadReservedGiB": 2.0,
            "pods": 110.0,
            "podsUsed": 2,
        },
        "labels": {
            "kubernetes.io/hostname": "node-1",
            "node-role.kubernetes.io/control-plane": "",
            "node-role.kubernetes.io/master": "",
        },
    }


@pytest.mark.parametrize(
    ("ready", "status"), [("True", "Ready"), ("False", "NotReady"), ("Unknown", "NotReady")]
)
def test_a_nodes_status_is_its_ready_condition(ready, status):
    assert pushed_node(shapes.node(ready=ready))["status"] == status


def test_a_node_that_never_told_is_unknown():
    shape = shapes.node()
    shape["status"]["conditions"] = None

    assert pushed_node(shape)["status"] == "Unknown"


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        ({}, []),
        ({"kubernetes.io/role": "worker"}, ["worker"]),
        ({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/etcd": "true"}, ["etcd", "worker"]),
        ({"node-role.kubernetes.io/": ""}, []),
    ],
)
def test_roles_are_read_from_the_labels_as_kubectl_does(labels, roles):
    assert pushed_node(shapes.node(labels=labels))["roles"] == roles


def test_graphics_cards_are_counted():
    capacity = {"cpu": "4", "nvidia.com/gpu": "2", "amd.com/gpu": "1"}

    assert pushed_node(shapes.node(capacity=capacity))["usage"]["gpuCount"] == 3


@pytest.mark.parametrize(
    ("containers", "init", "overhead", "cores"),
    [
        (["1", "500m"], [], None, 1.5),
        (["1"], [("3", None)], None, 3.0),  # the largest of what runs before
        (["2"], [("1500m", None), ("500m", None)], None, 2.0),
        (["1"], [("200m", "Always")], None, 1.2),  # a sidecar runs beside
        (["1"], [("200m", "Always"), ("2", None)], None, 2.2),  # and beside what comes after it
        (["1"], [("2", None), ("200m", "Always")], None, 2.0),
        (["1"], [], {"cpu": "250m"}, 1.25),
    ],
)
def test_what_a_pod_reserves_is_what_the_scheduler_reckons(containers, init, overhead, cores):
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}} for cpu in containers],
        "initContainers": [
            {"name": "i", "resources": {"requests": {"cpu": cpu}}, "restartPolicy": policy}
            for cpu, policy in init
        ],
        "overhead": overhead,
    }

    pod = decoded(objects.Pod, {"metadata": {"name": "p", "namespace": "n"}, "spec": spec})

    assert requested(pod, "cpu") == pytest.approx(cores)


def test_a_sidecar_is_a_container_of_the_pod():
    sidecar = {"name": "proxy", "image": "registry.example/proxy:2", "restartPolicy": "Always"}
    setup = {"name": "setup", "image": "registry.example/setup:1"}
    shape = shapes.pod(init=[setup, sidecar])
    shape["status"]["initContainerStatuses"] = [
        {"name": "setup", "restartCount": 7, "ready": True},
        {"name": "proxy", "restartCount": 2, "ready": True, "state": {"running": {}}},
    ]

    pushed = pushed_pod(shape)

    assert [one["name"] for one in pushed["containers"]] == ["app", "proxy"]
    assert pushed["restarts"] == 2


@given(
    digits=st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,6})?", fullmatch=True),
    suffix=st.sampled_from(sorted(FACTORS)),
)
def test_usage_is_read_in_every_suffix_of_a_quantity(digits, suffix):
    text = digits + suffix
    exact = float(Decimal(digits) * FACTORS[suffix])

    pushed = pushed_pod(shapes.pod(), metrics=[shapes.pod_metrics(app=(text, text))])
    node = pushed_node(shapes.node(), metrics=[shapes.node_metrics(cpu=text, memory=text)])

    assert pushed["cpuCores"] == pushed["memoryBytes"] == pytest.approx(exact, rel=1e-12)
    assert node["usage"]["cpuCores"] == pytest.approx(exact, rel=1e-12)
    assert node["usage"]["memoryGiB"] == pytest.approx(exact / 2**30, rel=1e-12)


@given(text=st.text(string.ascii_letters + string.digits + ".+-", max_size=8))
def test_what_is_no_quantity_is_left_out_and_breaks_nothing(text):
    pushed = pushed_pod(shapes.pod(), metrics=[shapes.pod_metrics(app=(text, "1Mi"))])

    assert pushed["memoryBytes"] == 2**20
    assert isinstance(pushed.get("cpuCores", 0.0), float)
