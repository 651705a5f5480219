import re

import pytest

from monitor.ingest.counters import Counters, aligned, counters_of
from monitor.ingest.samples import POD_PHASES, AgentRef, agent_down_line, samples_of
from monitor.tsdb.catalogue import AGENT_LABELS, BY_NAME, LABELS
from monitor.wire.push import Container, Node, NodeResources, NodeUsage, Pod, Push, Sample

AGENT = AgentRef("org_1", "agent_1", "host 1")
PHASES = set(POD_PHASES)
AT = 1_900_000_000_000
WEB = Container(
    id="c1", name="web-1", image="nginx:1", state="running", cpu_percent=12.5, memory_usage_mb=64,
    memory_limit_mb=512.5, memory_percent=12.5, net_rx_bytes=1000, net_tx_bytes=2000, blk_read_bytes=0,
    blk_write_bytes=4096, gpu_percent=1, gpu_memory_bytes=5,
)  # fmt: skip
POD = Pod(
    name="web-7d4b9c6f5d-x2x9z", namespace="shop", phase="Running", node_name="n1", ready=True, restarts=3,
    start_time="2030-01-01T00:00:00Z", cpu_cores=0.25, cpu_percent=25, memory_bytes=1024, memory_percent=5,
    gpu_percent=7, gpu_memory_bytes=9,
)  # fmt: skip
NODE = Node(
    name="n1", status="Ready",
    capacity=NodeResources(cpu="8", memory="16384Ki", pods="110", ephemeral_storage="1Gi"),
    allocatable=NodeResources(cpu="7900m", memory="8Mi", pods="100", ephemeral_storage="1G"),
    usage=NodeUsage(
        cpu_cores=3.95, memory_gib=0.00390625, ephemeral_storage_gib=2, pods=110, pods_used=12,
        cpu_system_reserved_cores=0.1, cpu_workload_reserved_cores=1.5, memory_system_reserved_gib=1,
        memory_workload_reserved_gib=2, ephemeral_storage_system_reserved_gib=3,
        ephemeral_storage_workload_reserved_gib=4, gpu_percent=50, gpu_count=2,
    ),
)  # fmt: skip


def read(lines: bytes) -> dict[tuple[str, frozenset], tuple[str, int]]:
    """Return {(name, labels): (value, timestamp)} of lines whose tags need no escaping but spaces."""
    found = {}
    assert lines == b"" or lines.endswith(b"\n")
    for line in lines.decode().split("\n")[:-1]:
        head, fields, at = re.split(r"(?<!\\) ", line)
        measurement, *tags = head.split(",")
        assert tags[0].startswith("org_id=")
        pairs = [tag.replace("\\ ", " ").split("=", 1) for tag in tags]
        labels = frozenset((name, value) for name, value in pairs if value)
        for field in fields.split(","):
            name, value = field.split("=")
            key = (f"{measurement}_{name}" if measurement else name, labels)
            assert key not in found
            found[key] = (value, int(at))
    return found


def values(lines: bytes, **labels: str) -> dict[str, float]:
    """Return {name: value} of the series that have *labels*."""
    return {
        name: float(v) for (name, of), (v, _) in read(lines).items() if labels.items() <= dict(of).items()
    }


def made(push: Push, previous: Counters | None = None, at_ms: int = AT, **labels: str) -> dict[str, float]:
    return values(samples_of(push, AGENT, previous, at_ms).lines, **labels)


def test_a_full_push_makes_every_metric_of_the_catalogue_with_exactly_its_labels():
    push = Push(containers=[WEB], pods=[POD], nodes=[NODE])
    before = counters_of([WEB], AT - 15_000)

    found = samples_of(push, AGENT, before, AT)

    series = read(found.lines)
    wanted = {name for name, metric in BY_NAME.items() if metric.resource not in {"policy", "alert"}}
    assert {name for name, _ in series} == wanted
    assert found.count == len(series)
    for (name, labels), (_, at) in series.items():
        metric = BY_NAME[name]
        assert {label for label, _ in labels} == {"org_id", *LABELS[metric.resource], *metric.labels}, name
        assert at == AT


def test_container_fields_are_in_base_units():
    found = made(Push(containers=[WEB]), container_id="c1")

    assert found == {
        "container_cpu_usage_percent": 12.5,
        "container_memory_working_set_bytes": 64 * 1048576,
        "container_spec_memory_limit_bytes": 512.5 * 1048576,
        "container_memory_usage_percent": 12.5,
        "container_network_receive_bytes_total": 1000,
        "container_network_transmit_bytes_total": 2000,
        "container_fs_reads_bytes_total": 0,
        "container_fs_writes_bytes_total": 4096,
        "container_running": 1,
        "container_gpu_usage_percent": 1,
        "container_gpu_memory_bytes": 5,
    }


def test_container_labels_are_those_of_the_document():
    lines = samples_of(Push(containers=[WEB]), AGENT, None, AT).lines

    assert {
        ("org_id", "org_1"), ("agent_id", "agent_1"), ("agent", "host 1"), ("container_id", "c1"),
        ("container", "web-1"), ("image", "nginx:1"), ("group", "web"),
    } in {labels for _, labels in read(lines)}  # fmt: skip


def test_a_field_that_was_not_sent_gives_no_sample():
    bare = Container(id="c1", name="web", cpu_percent=None)

    assert made(Push(containers=[bare]), container_id="c1") == {}
    assert made(Push(pods=[Pod(name="p", namespace="n")]), pod="p") == {}
    assert made(Push(nodes=[Node(name="n")]), node="n") == {}
    assert made(Push()) == {"agent_up": 1}


def test_a_stopped_container_is_not_running_and_keeps_its_gauges():
    stopped = Container(id="c1", name="web", state="exited", cpu_percent=0, net_rx_bytes=0)

    found = made(Push(containers=[stopped]), container_id="c1")

    assert found == {
        "container_cpu_usage_percent": 0,
        "container_network_receive_bytes_total": 0,
        "container_running": 0,
    }


FAILED = {
    "the agent says so": {"cpu_percent": 3, "memory_usage_mb": 0, "net_rx_bytes": 7, "stats_ok": False},
    "running and all zero": {
        "cpu_percent": 0,
        "memory_usage_mb": 0.0,
        "net_rx_bytes": 0,
        "net_tx_bytes": 0,
        "blk_read_bytes": 5,
    },
}


@pytest.mark.parametrize("fields", FAILED.values(), ids=FAILED)
def test_failed_stats_make_gauges_but_no_counters_and_no_rates(fields):
    good = Container(id="c2", name="b", state="running", cpu_percent=1, net_rx_bytes=30)
    before = counters_of([WEB, good], AT - 10_000)
    failed = Container(id="c1", name="web", state="running", **fields)
    push = Push(containers=[failed, good])

    result = samples_of(push, AGENT, before, AT)

    found = values(result.lines, container_id="c1")
    assert found.keys() == {
        "container_cpu_usage_percent",
        "container_memory_working_set_bytes",
        "container_running",
    }
    assert values(result.lines, container_id="c2")["container_network_receive_bytes_per_second"] == 0
    after = samples_of(Push(containers=[WEB, good]), AGENT, result.counters, AT + 10_000)
    assert "container_network_receive_bytes_total" in values(after.lines, container_id="c1")
    assert "container_network_receive_bytes_per_second" not in values(after.lines, container_id="c1")


def with_rx(rx: float, container_id: str = "c1") -> Container:
    return Container(id=container_id, name="web", state="running", cpu_percent=1, net_rx_bytes=rx)


RX_RATE = "container_network_receive_bytes_per_second"
RATES = [
    ("15 s apart", 1000, 2500, 15_000, 100),
    ("one second apart", 0, 7, 1000, 7),
    ("unmoved", 5, 5, 15_000, 0),
    ("a fraction", 0, 1, 3000, 1 / 3),
    ("too close", 0, 1000, 999, None),
    ("the same time", 0, 1000, 0, None),
    ("from the future", 0, 1000, -15_000, None),
    ("fell", 1000, 999, 15_000, None),
    ("overflows", -1e308, 1e308, 15_000, None),
]


@pytest.mark.parametrize(
    ("old", "new", "ms", "rate"), [case[1:] for case in RATES], ids=[case[0] for case in RATES]
)
def test_a_rate_is_the_increase_per_second_of_a_counter_that_did_not_fall(old, new, ms, rate):
    before = counters_of([with_rx(old)], AT - ms)

    found = made(Push(containers=[with_rx(new)]), before, container_id="c1")

    assert found.get(RX_RATE) == (rate if rate is None else pytest.approx(rate))


def test_each_counter_has_its_own_rate():
    later = Container(
        id="c1", name="web-1", state="running", cpu_percent=1, net_rx_bytes=1010, net_tx_bytes=2020,
        blk_read_bytes=30, blk_write_bytes=4136,
    )  # fmt: skip
    found = made(Push(containers=[later]), counters_of([WEB], AT - 10_000), container_id="c1")

    assert {name: value for name, value in found.items() if name.endswith("_per_second")} == {
        "container_network_receive_bytes_per_second": 1,
        "container_network_transmit_bytes_per_second": 2,
        "container_fs_reads_bytes_per_second": 3,
        "container_fs_writes_bytes_per_second": 4,
    }


def test_without_previous_counters_there_is_no_rate():
    assert RX_RATE not in made(Push(containers=[WEB]))


def test_the_counters_of_a_push_are_those_of_its_containers():
    result = samples_of(Push(containers=[WEB, with_rx(1, "c2")]), AGENT, None, AT)

    assert result.counters is not None
    assert result.counters.fits([with_rx(9), with_rx(9, "c2")])
    assert not result.counters.fits([with_rx(9, "c2"), with_rx(9)])
    assert not result.counters.fits([])
    assert samples_of(Push(pods=[]), AGENT, None, AT).counters is None


def test_counters_of_other_containers_make_no_rates():
    before = counters_of([with_rx(0, "c2"), with_rx(0, "c1")], AT - 10_000)

    assert RX_RATE not in made(Push(containers=[with_rx(10, "c1"), with_rx(10, "c2")]), before)


def test_rates_survive_a_changed_set_of_containers_when_aligned_with_the_stored_snapshot():
    stored = [with_rx(100, "gone"), with_rx(200, "b"), with_rx(300, "a")]
    now = [with_rx(310, "a"), with_rx(5, "new"), with_rx(220, "b")]

    before = aligned(stored, AT - 10_000, now)
    lines = samples_of(Push(containers=now), AGENT, before, AT).lines

    assert before.fits(now)
    assert values(lines, container_id="a")[RX_RATE] == 1
    assert values(lines, container_id="b")[RX_RATE] == 2
    assert RX_RATE not in values(lines, container_id="new")


@pytest.mark.parametrize(("stored", "now"), [([], [WEB]), ([WEB], []), ([], [])])
def test_aligning_with_nothing_gives_no_rates(stored, now):
    before = aligned(stored, AT - 10_000, now)

    assert before.fits(now)
    assert RX_RATE not in made(Push(containers=now), before)


def test_pod_fields():
    assert made(Push(pods=[POD]), pod=POD.name) == {
        "kube_pod_cpu_usage_cores": 0.25, "kube_pod_cpu_usage_percent": 25,
        "kube_pod_memory_working_set_bytes": 1024, "kube_pod_memory_usage_percent": 5,
        "kube_pod_restarts_total": 3, "kube_pod_ready": 1, "kube_pod_start_time": 1893456000,
        "kube_pod_status_phase": 1, "kube_pod_gpu_usage_percent": 7, "kube_pod_gpu_memory_bytes": 9,
    }  # fmt: skip
    assert made(Push(pods=[POD]), phase="Running", workload="Deployment/web")["kube_pod_status_phase"] == 1


def test_a_pod_without_node_and_workload_has_no_such_labels():
    lines = samples_of(Push(pods=[Pod(name="p", namespace="n", ready=False)]), AGENT, None, AT).lines

    labels = next(of for name, of in read(lines) if name == "kube_pod_ready")
    assert {label for label, _ in labels} == {*AGENT_LABELS, "namespace", "pod"}


def test_node_fields_are_in_base_units():
    push = Push(nodes=[NODE])

    plain = made(push, node="n1")
    assert plain["kube_node_ready"] == 1
    assert plain["kube_node_cpu_usage_cores"] == 3.95
    assert plain["kube_node_memory_usage_bytes"] == 4 * 2**20
    assert plain["kube_node_ephemeral_storage_usage_bytes"] == 2 * 2**30
    assert plain["kube_node_pods_used"] == 12
    assert plain["kube_node_pods_capacity"] == 110
    assert plain["kube_node_cpu_usage_percent"] == pytest.approx(50)
    assert plain["kube_node_memory_usage_percent"] == pytest.approx(50)
    amounts = {
        ("cpu", "core"): (8, 7.9),
        ("memory", "byte"): (16384 * 1024, 8 * 2**20),
        ("pods", "integer"): (110, 100),
        ("ephemeral_storage", "byte"): (2**30, 1e9),
    }
    for (resource, unit), (capacity, allocatable) in amounts.items():
        found = made(push, node="n1", resource=resource, unit=unit)
        assert found["kube_node_status_capacity"] == capacity
        assert found["kube_node_status_allocatable"] == allocatable
    reserved = {
        ("cpu", "system"): 0.1,
        ("memory", "workload"): 2 * 2**30,
        ("ephemeral_storage", "system"): 3 * 2**30,
    }
    for (resource, kind), amount in reserved.items():
        assert made(push, resource=resource, kind=kind) == {"kube_node_reserved": amount}


@pytest.mark.parametrize("allocatable", [None, NodeResources(), NodeResources(cpu="0", memory="")])
def test_usage_of_an_unknown_or_empty_allocatable_has_no_percent(allocatable):
    node = Node(name="n", usage=NodeUsage(cpu_cores=1, memory_gib=1), allocatable=allocatable)

    assert not {name for name in made(Push(nodes=[node]), node="n") if name.endswith("_percent")}


def test_the_agent_and_its_cluster_are_summed_up():
    pods = [
        Pod(name="a", namespace="x", phase="Running"),
        Pod(name="b", namespace="x", phase="Pending"),
        Pod(name="c", namespace="y", phase="Odd"),
    ]
    stopped = Container(id="c2", name="b", state="exited", cpu_percent=0.5)
    push = Push(containers=[WEB, stopped], pods=pods, nodes=[NODE, Node(name="n2", status="NotReady")])

    series = read(samples_of(push, AGENT, None, AT).lines)
    found = {name: float(v) for (name, of), (v, _) in series.items() if len(of) == 3}

    assert found == {
        "agent_up": 1, "agent_containers": 2, "agent_containers_running": 1, "agent_pods": 3, "agent_nodes": 2,
        "agent_containers_cpu_usage_percent": 13,
        "agent_containers_memory_working_set_bytes": 64 * 1048576,
        "kube_cluster_nodes": 2, "kube_cluster_nodes_ready": 1, "kube_cluster_namespaces": 2,
    }  # fmt: skip
    phases = {
        dict(of)["phase"]: float(v) for (name, of), (v, _) in series.items() if name == "kube_cluster_pods"
    }
    assert phases == {"Pending": 1, "Running": 1, "Succeeded": 0, "Failed": 0, "Unknown": 0, "Odd": 1}


def test_an_agent_that_reports_neither_pods_nor_nodes_has_no_cluster():
    found = made(Push(containers=[], pods=[], nodes=[]))

    assert found == {
        "agent_up": 1, "agent_containers": 0, "agent_containers_running": 0, "agent_pods": 0, "agent_nodes": 0,
        "agent_containers_cpu_usage_percent": 0, "agent_containers_memory_working_set_bytes": 0,
    }  # fmt: skip


def test_own_samples_keep_their_names_labels_and_times():
    samples = [
        Sample(metric="up", value=1, labels={"job": "a b", "empty": ""}),
        Sample(metric="queue:depth_", value=-0.5, timestamp=1_899_999_999.5),
        Sample(metric="x", value=2, timestamp="2030-01-01T00:00:00.250+01:00"),
    ]
    series = read(samples_of(Push(samples=samples), AGENT, None, AT).lines)

    agent = {("org_id", "org_1"), ("agent_id", "agent_1"), ("agent", "host 1")}
    assert series[("up", frozenset(agent | {("job", "a b")}))] == ("1", AT)
    assert series[("queue:depth_", frozenset(agent))] == ("-0.5", 1_899_999_999_500)
    assert series[("x", frozenset(agent))] == ("2", 1_893_452_400_250)


def test_labels_that_say_whose_a_sample_is_are_overwritten():
    forged = Sample(metric="x", value=1, labels={"org_id": "org_2", "agent_id": "agent_2", "agent": "other"})

    lines = samples_of(Push(samples=[forged]), AGENT, None, AT).lines

    assert lines.endswith(b",org_id=org_1,agent_id=agent_1,agent=host\\ 1 x=1 1900000000000\n")
    assert b"org_2" not in lines
    assert b"other" not in lines


def test_allowed_labels_become_metric_labels():
    labelled = Container(id="c1", name="web", state="running", labels={"com.acme/tier": "a,b", "secret": "s"})
    plain = Container(id="c2", name="db", state="running")
    push = Push(
        containers=[labelled, plain],
        pods=[Pod(name="p", namespace="n", phase="Running", labels={"app": "x"})],
    )

    lines = samples_of(push, AGENT, None, AT, ("com.acme/tier", "app")).lines.decode()

    assert ",group=web,label_com_acme_tier=a\\,b running=1" in lines
    assert ",group=db running=1" in lines
    assert ",label_app=x,phase=Running status_phase=1" in lines
    assert "secret" not in lines


def test_hostile_texts_stay_inside_their_label():
    evil = "x,org_id=org_2 up=1\nagent,org_id=org_2 up=0\\"
    push = Push(
        containers=[Container(id=evil, name=evil, image=evil, state="running")],
        pods=[Pod(name=evil, namespace=evil, phase=evil)],
        nodes=[Node(name=evil, status="Ready")],
        samples=[Sample(metric="m", value=1, labels={"l": evil})],
    )
    lines = samples_of(push, AgentRef("org_1", "agent_1", evil), None, AT).lines.decode()

    clean = evil.replace("\n", "\ufffd")
    for line in lines.split("\n")[:-1]:
        head, _, at = re.findall(r"(?:\\.|[^\\ ])+", line)
        assert at == str(AT)
        pairs = [re.findall(r"(?:\\.|[^\\=])+", tag) for tag in re.findall(r"(?:\\.|[^\\,])+", head)]
        tags = [pair for pair in pairs if len(pair) > 1]  # not the measurement, nor an empty value
        assert [name for name, _ in tags].count("org_id") == 1
        assert tags[0] == ["org_id", "org_1"]
        assert {re.sub(r"\\(.)", r"\1", value) for name, value in tags} <= {
            "org_1",
            "agent_1",
            clean,
        } | PHASES


def test_an_offline_agent_is_down():
    assert (
        agent_down_line(AGENT, AT)
        == b"agent,org_id=org_1,agent_id=agent_1,agent=host\\ 1 up=0 1900000000000\n"
    )
