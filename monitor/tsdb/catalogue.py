"""The catalogue: every metric that the service makes, once.

From this table samples are made (``monitor.ingest.samples``), ``/prometheus/api/v1/metadata``
is answered, rules find the field that they watch, and ``docs/metrics.md`` is written by
``python -m monitor.tsdb.catalogue > docs/metrics.md``.

Names follow Prometheus: snake_case, base units, ``_total`` on counters only, and the name
that cAdvisor or kube-state-metrics has for exactly this quantity.  ``_percent`` is 0-100.
Pure.
"""

from __future__ import annotations

import sys
from typing import Final, Literal

from msgspec import Struct

MetricType = Literal["gauge", "counter"]
Resource = Literal["container", "pod", "node", "cluster", "agent", "policy", "alert"]

MIB: Final = 2**20
GIB: Final = 2**30

MAX_LABELS: Final = 20  # per series, ours included; VictoriaMetrics 1.79 cuts at 30, the last ones first
# Labels of a resource that the configuration may allow: MAX_LABELS less the most that we give (pods: 8).
ALLOWLIST_MAX: Final = 12
MAX_NAME_BYTES: Final = 256  # of a label name; VictoriaMetrics cuts longer ones, and two could become one
MAX_TEXT_BYTES: Final = 1024  # of a label value, as UTF-8
AGENT_LABELS: Final = ("org_id", "agent_id", "agent")  # org_id first: never to be cut

# The labels of each resource's series, beside org_id.
LABELS: Final[dict[Resource, tuple[str, ...]]] = {
    "container": ("agent_id", "agent", "container_id", "container", "image", "group"),
    "pod": ("agent_id", "agent", "namespace", "pod", "node", "workload"),
    "node": ("agent_id", "agent", "node"),
    "cluster": ("agent_id", "agent"),
    "agent": ("agent_id", "agent"),
    "policy": ("policy_id", "policy", "target_ref", "runtime"),
    "alert": (),
}
# A metric of a resource is called measurement, "_", field.
MEASUREMENTS: Final[dict[Resource, str]] = {
    "container": "container",
    "pod": "kube_pod",
    "node": "kube_node",
    "cluster": "kube_cluster",
    "agent": "agent",
    "policy": "scaling_policy",
    "alert": "alerts",
}


class Metric(Struct, frozen=True):
    """A metric.

    Attributes:
        source: Where it comes from, in the words of the API document.
        labels: Labels beyond those of its resource.
        attribute: Path of the struct attribute that is sent as it is, times *scale*;
            "" where the value is derived.
        scale: Factor from the field's unit to the metric's.
        rate_of: The counter whose increase per second this is, or "".
    """

    name: str
    type: MetricType
    unit: str
    resource: Resource
    source: str
    help: str
    labels: tuple[str, ...] = ()
    attribute: str = ""
    scale: int = 1
    rate_of: str = ""

    @property
    def field(self) -> str:
        """The name without its measurement."""
        return self.name.removeprefix(MEASUREMENTS[self.resource] + "_")


# One metric: name, type, unit, resource, source; then the help text and the rest.
# fmt: off
CATALOGUE: Final[tuple[Metric, ...]] = (
    Metric("container_cpu_usage_percent", "gauge", "percent", "container", "Container.cpuPercent",
           "CPU usage; 100 is one core.", attribute="cpu_percent"),
    Metric("container_memory_working_set_bytes", "gauge", "bytes", "container",
           "Container.memoryUsageMB × 1048576",
           "Memory in use without the inactive page cache, as docker stats shows it.",
           attribute="memory_usage_mb", scale=MIB),
    Metric("container_spec_memory_limit_bytes", "gauge", "bytes", "container",
           "Container.memoryLimitMB × 1048576",
           "Memory limit; the host's memory where none is set.", attribute="memory_limit_mb", scale=MIB),
    Metric("container_memory_usage_percent", "gauge", "percent", "container", "Container.memoryPercent",
           "Memory in use of the limit.", attribute="memory_percent"),
    Metric("container_network_receive_bytes_total", "counter", "bytes", "container", "Container.netRxBytes",
           "Bytes received over the network since the container's start.", attribute="net_rx_bytes"),
    Metric("container_network_transmit_bytes_total", "counter", "bytes", "container", "Container.netTxBytes",
           "Bytes sent over the network since the container's start.", attribute="net_tx_bytes"),
    Metric("container_fs_reads_bytes_total", "counter", "bytes", "container", "Container.blkReadBytes",
           "Bytes read from block devices since the container's start.", attribute="blk_read_bytes"),
    Metric("container_fs_writes_bytes_total", "counter", "bytes", "container", "Container.blkWriteBytes",
           "Bytes written to block devices since the container's start.", attribute="blk_write_bytes"),
    Metric("container_network_receive_bytes_per_second", "gauge", "bytes per second", "container",
           "increase of Container.netRxBytes",
           "Bytes received over the network per second, since the push before.",
           rate_of="container_network_receive_bytes_total"),
    Metric("container_network_transmit_bytes_per_second", "gauge", "bytes per second", "container",
           "increase of Container.netTxBytes",
           "Bytes sent over the network per second, since the push before.",
           rate_of="container_network_transmit_bytes_total"),
    Metric("container_fs_reads_bytes_per_second", "gauge", "bytes per second", "container",
           "increase of Container.blkReadBytes",
           "Bytes read from block devices per second, since the push before.",
           rate_of="container_fs_reads_bytes_total"),
    Metric("container_fs_writes_bytes_per_second", "gauge", "bytes per second", "container",
           "increase of Container.blkWriteBytes",
           "Bytes written to block devices per second, since the push before.",
           rate_of="container_fs_writes_bytes_total"),
    Metric("container_running", "gauge", "0 or 1", "container", "Container.state == running",
           "Whether the container runs."),
    Metric("container_gpu_usage_percent", "gauge", "percent", "container", "Container.gpuPercent",
           "GPU usage; 100 is one GPU.", attribute="gpu_percent"),
    Metric("container_gpu_memory_bytes", "gauge", "bytes", "container", "Container.gpuMemoryBytes",
           "GPU memory in use.", attribute="gpu_memory_bytes"),
    Metric("kube_pod_cpu_usage_cores", "gauge", "cores", "pod", "Pod.cpuCores",
           "CPU usage.", attribute="cpu_cores"),
    Metric("kube_pod_cpu_usage_percent", "gauge", "percent", "pod", "Pod.cpuPercent",
           "CPU usage as the agent's percent.", attribute="cpu_percent"),
    Metric("kube_pod_memory_working_set_bytes", "gauge", "bytes", "pod", "Pod.memoryBytes",
           "Memory in use.", attribute="memory_bytes"),
    Metric("kube_pod_memory_usage_percent", "gauge", "percent", "pod", "Pod.memoryPercent",
           "Memory as the agent's percent.", attribute="memory_percent"),
    Metric("kube_pod_restarts_total", "counter", "1", "pod", "Pod.restarts",
           "Restarts of the pod's containers.", attribute="restarts"),
    Metric("kube_pod_gpu_usage_percent", "gauge", "percent", "pod", "Pod.gpuPercent",
           "GPU usage; 100 is one GPU.", attribute="gpu_percent"),
    Metric("kube_pod_gpu_memory_bytes", "gauge", "bytes", "pod", "Pod.gpuMemoryBytes",
           "GPU memory in use.", attribute="gpu_memory_bytes"),
    Metric("kube_pod_ready", "gauge", "0 or 1", "pod", "Pod.ready",
           "Whether the pod is ready."),
    Metric("kube_pod_start_time", "gauge", "unix seconds", "pod", "Pod.startTime",
           "When the pod started."),
    Metric("kube_pod_status_phase", "gauge", "1", "pod", "Pod.phase",
           "1 for the present phase; no others.", labels=("phase",)),
    Metric("kube_node_cpu_usage_cores", "gauge", "cores", "node", "Node.usage.cpuCores",
           "CPU usage.", attribute="usage.cpu_cores"),
    Metric("kube_node_memory_usage_bytes", "gauge", "bytes", "node", "Node.usage.memoryGiB × 2^30",
           "Memory in use.", attribute="usage.memory_gib", scale=GIB),
    Metric("kube_node_ephemeral_storage_usage_bytes", "gauge", "bytes", "node",
           "Node.usage.ephemeralStorageGiB × 2^30",
           "Ephemeral storage in use.", attribute="usage.ephemeral_storage_gib", scale=GIB),
    Metric("kube_node_pods_used", "gauge", "1", "node", "Node.usage.podsUsed",
           "Pods on the node.", attribute="usage.pods_used"),
    Metric("kube_node_pods_capacity", "gauge", "1", "node", "Node.usage.pods",
           "Pods that the node can hold.", attribute="usage.pods"),
    Metric("kube_node_gpu_usage_percent", "gauge", "percent", "node", "Node.usage.gpuPercent",
           "Mean GPU usage.", attribute="usage.gpu_percent"),
    Metric("kube_node_gpus", "gauge", "1", "node", "Node.usage.gpuCount",
           "GPUs of the node.", attribute="usage.gpu_count"),
    Metric("kube_node_ready", "gauge", "0 or 1", "node", "Node.status == Ready",
           "Whether the node is ready."),
    Metric("kube_node_cpu_usage_percent", "gauge", "percent", "node", "Node.usage.cpuCores ÷ allocatable.cpu",
           "CPU usage of the allocatable."),
    Metric("kube_node_memory_usage_percent", "gauge", "percent", "node",
           "Node.usage.memoryGiB ÷ allocatable.memory",
           "Memory in use of the allocatable."),
    Metric("kube_node_status_capacity", "gauge", "by unit: core, byte, integer", "node", "Node.capacity",
           "What the node has.", labels=("resource", "unit")),
    Metric("kube_node_status_allocatable", "gauge", "by unit: core, byte, integer", "node",
           "Node.allocatable",
           "What pods may use.", labels=("resource", "unit")),
    Metric("kube_node_reserved", "gauge", "by unit: core, byte, integer", "node",
           "Node.usage.…SystemReserved…, usage.…WorkloadReserved…",
           "What is reserved for the system or for workloads.", labels=("resource", "unit", "kind")),
    Metric("kube_cluster_nodes", "gauge", "1", "cluster", "nodes",
           "Nodes that the agent reports."),
    Metric("kube_cluster_nodes_ready", "gauge", "1", "cluster", "nodes",
           "Nodes whose status is Ready."),
    Metric("kube_cluster_pods", "gauge", "1", "cluster", "pods",
           "Pods by phase; the five phases of Kubernetes are always there.", labels=("phase",)),
    Metric("kube_cluster_namespaces", "gauge", "1", "cluster", "pods",
           "Distinct namespaces of the pods."),
    Metric("agent_up", "gauge", "0 or 1", "agent", "agent",
           "1 on each push, 0 every 15 s while the agent is offline."),
    Metric("agent_containers", "gauge", "1", "agent", "containers",
           "Containers that the agent reports."),
    Metric("agent_containers_running", "gauge", "1", "agent", "containers",
           "Containers that run."),
    Metric("agent_pods", "gauge", "1", "agent", "pods",
           "Pods that the agent reports."),
    Metric("agent_nodes", "gauge", "1", "agent", "nodes",
           "Nodes that the agent reports."),
    Metric("agent_containers_cpu_usage_percent", "gauge", "percent", "agent", "containers",
           "Sum over the containers."),
    Metric("agent_containers_memory_working_set_bytes", "gauge", "bytes", "agent", "containers",
           "Sum over the containers."),
    Metric("scaling_policy_current_replicas", "gauge", "1", "policy", "policy",
           "Replicas that were observed."),
    Metric("scaling_policy_desired_replicas", "gauge", "1", "policy", "policy",
           "Replicas that are wanted."),
    Metric("alerts_firing", "gauge", "1", "alert", "alerts",
           "Alerts that fire.", labels=("severity",)),
)
# fmt: on
BY_NAME: Final[dict[str, Metric]] = {metric.name: metric for metric in CATALOGUE}


def metrics_of(resource: Resource) -> tuple[Metric, ...]:
    """Return the metrics of *resource* in the catalogue's order."""
    return tuple(metric for metric in CATALOGUE if metric.resource == resource)


def metadata() -> dict[str, list[dict[str, str]]]:
    """Return the ``data`` of Prometheus' /api/v1/metadata: name to [{type, help, unit}].

    ``unit`` stays empty as Prometheus leaves it; ours stands in the help text.
    """
    return {
        metric.name: [{"type": metric.type, "help": f"{metric.help} Unit: {metric.unit}.", "unit": ""}]
        for metric in CATALOGUE
    }


def reference() -> str:
    """Return the text of docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Written by `python -m monitor.tsdb.catalogue > docs/metrics.md`; a test holds it to the code.",
        "",
        "Every series belongs to one organization. A field that an agent does not send gives no sample.",
        "A container whose stats call failed (`statsOk: false`, or running with cpu, memory and network all",
        "exactly zero) has its gauges, and neither counters nor rates. A counter that fell starts anew: no rate",
        "for that interval, and none between pushes less than 1 s apart. An agent that reports neither pods nor",
        "nodes has no `kube_cluster_*`. Docker and Kubernetes labels become metric labels only where the",
        "configuration allows them: `com.acme/tier` is then `label_com_acme_tier`.",
    ]
    for resource, labels in LABELS.items():
        named = f" Labels: {', '.join(f'`{label}`' for label in labels)}." if labels else ""
        lines += [
            "",
            f"## {resource.capitalize()}",
            "",
            f"Measurement `{MEASUREMENTS[resource]}`.{named}",
            "",
        ]
        lines += ["| metric | type | unit | source | meaning |", "|---|---|---|---|---|"]
        lines += [_row(metric) for metric in metrics_of(resource)]
    return "\n".join(lines) + "\n"


def _row(metric: Metric) -> str:
    more = f" More labels: {', '.join(f'`{label}`' for label in metric.labels)}." if metric.labels else ""
    return f"| `{metric.name}` | {metric.type} | {metric.unit} | {metric.source} | {metric.help}{more} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
