"""Containers, pods, nodes and their summary as the API shows them.  Pure.

Every documented field is there: absent strings are ``""``, absent numbers of a
container are 0, absent usage of a pod or node is left out.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from monitor.wire import push
from monitor.wire.derived import group_of, workload_of
from monitor.wire.times import in_utc

Number = int | float
Optional = int | float | UnsetType
T = TypeVar("T")


class Container(Struct, frozen=True, rename="camel"):
    """A container with its latest metrics; api.md, Resources."""

    id: str
    short_id: str
    name: str
    image: str
    status: str
    state: str
    created: str
    source: str
    agent_id: str
    cpu_percent: Number
    memory_usage_mb: Number = field(name="memoryUsageMB")
    memory_limit_mb: Number = field(name="memoryLimitMB")
    memory_percent: Number
    net_rx_bytes: Number
    net_tx_bytes: Number
    blk_read_bytes: Number
    blk_write_bytes: Number
    ports: list[Any]
    group: str
    labels: dict[str, str]
    gpu_percent: Optional = UNSET
    gpu_memory_bytes: Optional = UNSET
    stats_ok: bool | UnsetType = UNSET


class PodContainer(Struct, frozen=True, rename="camel"):
    """A container of a pod."""

    name: str
    image: str
    ready: bool
    restarts: int
    state: str
    cpu_cores: Optional = UNSET
    memory_bytes: Optional = UNSET


class Pod(Struct, frozen=True, rename="camel"):
    """A pod; the usage fields only where the cluster has a metrics provider."""

    name: str
    namespace: str
    phase: str
    node_name: str
    pod_ip: str = field(name="podIP")
    labels: dict[str, str]
    containers: list[PodContainer]
    start_time: str
    restarts: int
    ready: bool
    workload: str
    agent_id: str
    cpu_cores: Optional = UNSET
    cpu_percent: Optional = UNSET
    memory_bytes: Optional = UNSET
    memory_percent: Optional = UNSET
    gpu_percent: Optional = UNSET
    gpu_memory_bytes: Optional = UNSET


class Resources(Struct, frozen=True, rename="camel"):
    """Kubernetes quantities as strings."""

    cpu: str = ""
    memory: str = ""
    pods: str = ""
    ephemeral_storage: str = ""


class Node(Struct, frozen=True, rename="camel"):
    """A node with capacity, allocatable and usage."""

    name: str
    status: str
    roles: list[str]
    kubelet_version: str
    os_image: str
    architecture: str
    capacity: Resources
    allocatable: Resources
    usage: push.NodeUsage
    labels: dict[str, str]
    agent_id: str


class Summary(Struct, frozen=True, rename="camel"):
    """Counts over the organization's nodes and pods; not its Docker containers."""

    total_nodes: int
    ready_nodes: int
    total_pods: int
    running_pods: int
    pending_pods: int
    failed_pods: int
    namespaces: int


def _or(value: T | UnsetType | None, default: T) -> T:
    return default if value is None or value is UNSET else value


def _sent(value: Number | UnsetType | None) -> Optional:
    return UNSET if value is None else value


def container_of(sent: push.Container, agent_id: str) -> Container:
    """Return a pushed container as it is listed."""
    # None and UNSET are false.
    return Container(
        id=sent.id,
        short_id=sent.short_id or sent.id[:12],
        name=sent.name,
        image=sent.image or "",
        status=sent.status or "",
        state=sent.state or "",
        created=in_utc(sent.created or ""),
        source=sent.source or "docker",
        agent_id=agent_id,
        cpu_percent=sent.cpu_percent or 0,
        memory_usage_mb=sent.memory_usage_mb or 0,
        memory_limit_mb=sent.memory_limit_mb or 0,
        memory_percent=sent.memory_percent or 0,
        net_rx_bytes=sent.net_rx_bytes or 0,
        net_tx_bytes=sent.net_tx_bytes or 0,
        blk_read_bytes=sent.blk_read_bytes or 0,
        blk_write_bytes=sent.blk_write_bytes or 0,
        ports=sent.ports or [],
        group=group_of(sent),
        labels=sent.labels or {},
        gpu_percent=_sent(sent.gpu_percent),
        gpu_memory_bytes=_sent(sent.gpu_memory_bytes),
        stats_ok=False if sent.stats_ok is False else UNSET,
    )


def pod_of(sent: push.Pod, agent_id: str) -> Pod:
    """Return a pushed pod as it is listed."""
    return Pod(
        name=sent.name,
        namespace=sent.namespace,
        phase=sent.phase or "",
        node_name=sent.node_name or "",
        pod_ip=sent.pod_ip or "",
        labels=sent.labels or {},
        containers=[_pod_container(container) for container in sent.containers or []],
        start_time=in_utc(sent.start_time or ""),
        restarts=_or(sent.restarts, 0),
        ready=_or(sent.ready, False),
        workload=workload_of(sent),
        agent_id=agent_id,
        cpu_cores=_sent(sent.cpu_cores),
        cpu_percent=_sent(sent.cpu_percent),
        memory_bytes=_sent(sent.memory_bytes),
        memory_percent=_sent(sent.memory_percent),
        gpu_percent=_sent(sent.gpu_percent),
        gpu_memory_bytes=_sent(sent.gpu_memory_bytes),
    )


def _pod_container(sent: push.PodContainer) -> PodContainer:
    return PodContainer(
        name=sent.name,
        image=sent.image or "",
        ready=sent.ready or False,
        restarts=sent.restarts or 0,
        state=sent.state or "",
        cpu_cores=_sent(sent.cpu_cores),
        memory_bytes=_sent(sent.memory_bytes),
    )


def node_of(sent: push.Node, agent_id: str) -> Node:
    """Return a pushed node as it is listed."""
    return Node(
        name=sent.name,
        status=sent.status or "",
        roles=sent.roles or [],
        kubelet_version=sent.kubelet_version or "",
        os_image=sent.os_image or "",
        architecture=sent.architecture or "",
        capacity=_resources(sent.capacity),
        allocatable=_resources(sent.allocatable),
        usage=sent.usage or push.NodeUsage(),
        labels=sent.labels or {},
        agent_id=agent_id,
    )


def _resources(sent: push.NodeResources | None) -> Resources:
    if sent is None:
        return Resources()
    return Resources(
        cpu=sent.cpu or "",
        memory=sent.memory or "",
        pods=sent.pods or "",
        ephemeral_storage=sent.ephemeral_storage or "",
    )


def summary_of(pods: list[push.Pod], nodes: list[push.Node]) -> Summary:
    """Return the counts of all pods and nodes; a node is ready when its status is ``Ready``."""
    phases = [pod.phase for pod in pods]
    return Summary(
        total_nodes=len(nodes),
        ready_nodes=sum(node.status == "Ready" for node in nodes),
        total_pods=len(pods),
        running_pods=phases.count("Running"),
        pending_pods=phases.count("Pending"),
        failed_pods=phases.count("Failed"),
        namespaces=len({pod.namespace for pod in pods}),
    )
