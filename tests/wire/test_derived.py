import pytest

from monitor.wire.derived import group_of, stats_failed, workload_of
from monitor.wire.push import Container, Pod

GROUPS = [
    ("web", None, "web"),
    ("web-1", None, "web"),
    ("shop_web_12", None, "shop_web"),
    ("web-1-2", None, "web-1"),
    ("web2", None, "web2"),
    ("web-", None, "web-"),
    ("-1", None, "-1"),
    ("7", None, "7"),
    ("shop-web-1", {"com.docker.compose.service": "web"}, "web"),
    ("shop-web-1", {"com.docker.compose.service": ""}, "shop-web"),
    ("shop-web-1", {"com.docker.compose.project": "shop"}, "shop-web"),
]


@pytest.mark.parametrize(("name", "labels", "group"), GROUPS)
def test_the_group_is_the_compose_service_or_the_name_without_its_number(name, labels, group):
    assert group_of(Container(id="c", name=name, labels=labels)) == group


WORKLOADS = [
    ("web-7d4b9c6f5d-x2x9z", "Deployment/web"),
    ("my-web-abc123-xyz12", "Deployment/my-web"),
    ("web-bcdfghjklm-xxxxx", "Deployment/web"),
    ("db-0", "StatefulSet/db"),
    ("my-db-12", "StatefulSet/my-db"),
    ("kube-proxy-x7k2p", ""),
    ("fluentd-x7k2p", ""),
    ("single", ""),
]


@pytest.mark.parametrize(("name", "workload"), WORKLOADS)
def test_the_workload_is_read_from_the_name(name, workload):
    assert workload_of(Pod(name=name, namespace="n")) == workload
    assert workload_of(Pod(name=name, namespace="n", workload="")) == workload
    assert workload_of(Pod(name=name, namespace="n", workload="Job/sent")) == "Job/sent"


ZEROS = {"cpu_percent": 0, "memory_usage_mb": 0.0, "net_rx_bytes": 0, "net_tx_bytes": 0}
STATS = [
    ("running", {**ZEROS}, True),
    ("running", {}, True),
    ("running", {**ZEROS, "blk_read_bytes": 9}, True),
    ("running", {**ZEROS, "cpu_percent": 0.01}, False),
    ("running", {**ZEROS, "memory_usage_mb": 1}, False),
    ("running", {**ZEROS, "net_tx_bytes": 1}, False),
    ("running", {**ZEROS, "memory_usage_mb": 1, "stats_ok": False}, True),
    ("running", {**ZEROS, "stats_ok": True}, True),
    ("exited", {**ZEROS}, False),
    ("exited", {**ZEROS, "stats_ok": False}, True),
    (None, {**ZEROS}, False),
]


@pytest.mark.parametrize(("state", "fields", "failed"), STATS)
def test_zeros_of_a_running_container_are_no_measurement(state, fields, failed):
    assert stats_failed(Container(id="c", name="n", state=state, **fields)) is failed
