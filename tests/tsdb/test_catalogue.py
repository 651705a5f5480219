import re
from pathlib import Path

import pytest

from monitor.tsdb import catalogue
from monitor.tsdb.catalogue import BY_NAME, CATALOGUE, LABELS, Metric
from monitor.wire.push import Container, Node, NodeUsage, Pod

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
STRUCTS = {"container": Container, "pod": Pod, "node": Node}


def test_every_metric_has_one_row_of_its_own():
    assert len(BY_NAME) == len(CATALOGUE)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_prometheus(metric: Metric):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.type == "counter")
    assert metric.name == f"{catalogue.MEASUREMENTS[metric.resource]}_{metric.field}"


@pytest.mark.parametrize("metric", [m for m in CATALOGUE if m.attribute], ids=lambda metric: metric.name)
def test_an_attribute_is_one_of_the_struct_and_its_source_names_the_document_field(metric: Metric):
    struct, attribute = STRUCTS[metric.resource], metric.attribute
    if attribute.startswith("usage."):
        struct, attribute = NodeUsage, attribute.removeprefix("usage.")
    encoded = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))

    assert metric.source.split(".")[-1].split(" ")[0] == encoded[attribute]


@pytest.mark.parametrize("metric", [m for m in CATALOGUE if m.rate_of], ids=lambda metric: metric.name)
def test_a_rate_names_a_counter_of_the_catalogue(metric: Metric):
    assert BY_NAME[metric.rate_of].type == "counter"
    assert metric.name == metric.rate_of.removesuffix("_total") + "_per_second"


def test_no_series_has_too_many_labels_even_with_all_that_may_be_allowed():
    most = max(1 + len(LABELS[metric.resource]) + len(metric.labels) for metric in CATALOGUE)

    assert most + catalogue.ALLOWLIST_MAX <= catalogue.MAX_LABELS


def test_metadata_has_the_form_of_prometheus():
    assert catalogue.metadata()["container_running"] == [
        {"type": "gauge", "help": "Whether the container runs. Unit: 0 or 1.", "unit": ""}
    ]
    assert catalogue.metadata().keys() == BY_NAME.keys()


def test_the_reference_in_docs_is_current():
    assert DOCS.read_text() == catalogue.reference(), (
        "run: python -m monitor.tsdb.catalogue > docs/metrics.md"
    )


SPECIFIED = """
    container_cpu_usage_percent container_memory_working_set_bytes container_spec_memory_limit_bytes
    container_memory_usage_percent container_network_receive_bytes_total container_network_transmit_bytes_total
    container_fs_reads_bytes_total container_fs_writes_bytes_total container_network_receive_bytes_per_second
    container_network_transmit_bytes_per_second container_fs_reads_bytes_per_second
    container_fs_writes_bytes_per_second container_running kube_pod_cpu_usage_cores kube_pod_cpu_usage_percent
    kube_pod_memory_working_set_bytes kube_pod_memory_usage_percent kube_pod_restarts_total kube_pod_ready
    kube_pod_status_phase kube_pod_start_time kube_node_ready kube_node_status_capacity
    kube_node_status_allocatable kube_node_cpu_usage_cores kube_node_memory_usage_bytes
    kube_node_ephemeral_storage_usage_bytes kube_node_pods_used kube_node_reserved kube_node_pods_capacity
    kube_node_cpu_usage_percent kube_node_memory_usage_percent kube_cluster_nodes kube_cluster_nodes_ready
    kube_cluster_pods kube_cluster_namespaces agent_up agent_containers agent_containers_running agent_pods
    agent_nodes agent_containers_cpu_usage_percent agent_containers_memory_working_set_bytes
    container_gpu_usage_percent container_gpu_memory_bytes kube_pod_gpu_usage_percent kube_pod_gpu_memory_bytes
    kube_node_gpu_usage_percent kube_node_gpus scaling_policy_current_replicas scaling_policy_desired_replicas
    alerts_firing
"""


@pytest.mark.parametrize("name", SPECIFIED.split())
def test_the_specified_metrics_are_there(name: str):
    assert name in BY_NAME
