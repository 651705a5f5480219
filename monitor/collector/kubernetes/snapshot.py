"""Turn a cluster's objects into what is pushed.  Pure.

Whatever the metrics API does not tell, or if there is none, is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import UNSET, UnsetType

from monitor.collector.kubernetes.objects import (
    Condition,
    ContainerMetrics,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    Node,
    NodeMetrics,
    ObjectMeta,
    Owned,
    OwnerReference,
    Pod,
    PodMetrics,
    key_of,
)
from monitor.collector.kubernetes.resources import OVER, amount, long_running, requested, yardstick
from monitor.wire import push

BYTES_PER_GIB = 1024**3
ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
READY = "Ready"


def pods_of(
    pods: Iterable[Pod],
    nodes: Mapping[str, Node],
    replica_sets: Mapping[str, Owned],
    metrics: Iterable[PodMetrics],
) -> list[push.Pod]:
    """Return the pods as they are pushed, ordered by namespace and name.

    Args:
        pods: In any order.
        nodes: By name.
        replica_sets: By ``namespace/name``.
        metrics: Of those pods that have been measured.
    """
    usage = {key_of(one.metadata): one.containers or [] for one in metrics}
    ordered = sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
    return [_pod(pod, nodes, replica_sets, usage.get(key_of(pod.metadata))) for pod in ordered]


def nodes_of(nodes: Iterable[Node], pods: Iterable[Pod], metrics: Iterable[NodeMetrics]) -> list[push.Node]:
    """Return the nodes as they are pushed, ordered by name."""
    usage = {one.metadata.name: one.usage for one in metrics}
    placed: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in OVER:
            placed[pod.spec.node_name].append(pod)
    ordered = sorted(nodes, key=lambda node: node.metadata.name)
    return [
        _node(node, placed.get(node.metadata.name, []), usage.get(node.metadata.name)) for node in ordered
    ]


def workload_of(pod: ObjectMeta, replica_sets: Mapping[str, Owned]) -> str | UnsetType:
    """Return ``Kind/name`` of the workload that a pod belongs to, by its owner references.

    A ReplicaSet stands for the Deployment that made it.  Without an owner, or with a node
    as one (a static pod), it is left to the pod's name.
    """
    owner = controller_of(pod)
    if owner is None or owner.kind == "Node":
        return UNSET
    if owner.kind == "ReplicaSet" and (found := replica_sets.get(f"{pod.namespace}/{owner.name}")):
        owner = controller_of(found.metadata) or owner
    return f"{owner.kind}/{owner.name}"


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the owner that manages an object."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


def node_status(conditions: Iterable[Condition]) -> str:
    """Return ``Ready``, ``NotReady``, or ``Unknown`` of a node that never told."""
    ready = next((one for one in conditions if one.type == READY), None)
    if ready is None:
        return "Unknown"
    return READY if ready.status == "True" else "NotReady"


def roles_of(labels: Mapping[str, str]) -> list[str]:
    """Return the roles that a node's labels give it, sorted, as ``kubectl get nodes`` does."""
    roles = {label.removeprefix(ROLE_PREFIX) for label in labels if label.startswith(ROLE_PREFIX)}
    if ROLE_LABEL in labels:
        roles.add(labels[ROLE_LABEL])
    return sorted(role for role in roles if role)


def _pod(
    pod: Pod,
    nodes: Mapping[str, Node],
    replica_sets: Mapping[str, Owned],
    usage: list[ContainerMetrics] | None,
) -> push.Pod:
    status, spec = pod.status, pod.spec
    states = {
        one.name: one for one in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    }
    used = {one.name: one.usage for one in usage or ()}
    node = nodes.get(spec.node_name or "")
    allocatable = node.status.allocatable if node else None
    cores, memory = _sum(used.values(), "cpu"), _sum(used.values(), "memory")
    containers = [_container(one, states.get(one.name), used.get(one.name)) for one in long_running(spec)]
    return push.Pod(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        phase=status.phase,
        node_name=spec.node_name or "",
        pod_ip=status.pod_ip or "",
        labels=pod.metadata.labels or {},
        containers=containers,
        start_time=status.start_time,
        restarts=sum(container.restarts or 0 for container in containers),
        ready=any(one.type == READY and one.status == "True" for one in status.conditions or ()),
        cpu_cores=_or_unset(cores),
        cpu_percent=_percent(cores, yardstick(pod, "cpu", allocatable)),
        memory_bytes=_or_unset(memory),
        memory_percent=_percent(memory, yardstick(pod, "memory", allocatable)),
        workload=workload_of(pod.metadata, replica_sets),
    )


def _container(
    spec: ContainerSpec, status: ContainerStatus | None, usage: dict[str, str] | None
) -> push.PodContainer:
    return push.PodContainer(
        name=spec.name,
        image=spec.image,
        ready=status.ready if status else False,
        restarts=status.restart_count if status else 0,
        state=_state(status.state if status else None),
        cpu_cores=_or_unset(amount(usage, "cpu")),
        memory_bytes=_or_unset(amount(usage, "memory")),
    )


def _state(state: ContainerState | None) -> str:
    """Return ``running``, or why it does not run, as ``kubectl get pods`` shows it."""
    if state is None:
        return "waiting"
    if state.running:
        return "running"
    if state.terminated:
        return state.terminated.reason or "terminated"
    return (state.waiting.reason if state.waiting else "") or "waiting"


def _node(node: Node, pods: list[Pod], usage: dict[str, str] | None) -> push.Node:
    status = node.status
    info = status.node_info
    labels = node.metadata.labels or {}
    return push.Node(
        name=node.metadata.name,
        status=node_status(status.conditions or ()),
        roles=roles_of(labels),
        kubelet_version=info.kubelet_version if info else "",
        os_image=info.os_image if info else "",
        architecture=info.architecture if info else "",
        capacity=_resources(status.capacity),
        allocatable=_resources(status.allocatable),
        usage=_node_usage(node, pods, usage),
        labels=labels,
    )


def _resources(quantities: dict[str, str] | None) -> push.NodeResources:
    told = quantities or {}
    return push.NodeResources(
        told.get("cpu"), told.get("memory"), told.get("pods"), told.get("ephemeral-storage")
    )


def _node_usage(node: Node, pods: list[Pod], usage: dict[str, str] | None) -> push.NodeUsage:
    """Return a node's figures.

    What the system has reserved is capacity without what is allocatable; what workloads have
    reserved is the sum of the requests of the pods that are placed there.
    """
    status = node.status
    gpus = [amount(status.capacity, resource) for resource in GPU_RESOURCES]
    gpu_count = sum(one for one in gpus if one is not None)
    return push.NodeUsage(
        cpu_cores=_or_unset(amount(usage, "cpu")),
        cpu_system_reserved_cores=_or_unset(_system_reserved(node, "cpu")),
        cpu_workload_reserved_cores=sum(requested(pod, "cpu") for pod in pods),
        memory_gib=_gib(amount(usage, "memory")),
        memory_system_reserved_gib=_gib(_system_reserved(node, "memory")),
        memory_workload_reserved_gib=_gib(sum(requested(pod, "memory") for pod in pods)),
        ephemeral_storage_system_reserved_gib=_gib(_system_reserved(node, "ephemeral-storage")),
        ephemeral_storage_workload_reserved_gib=_gib(
            sum(requested(pod, "ephemeral-storage") for pod in pods)
        ),
        pods=_or_unset(amount(status.capacity, "pods")),
        pods_used=len(pods),
        gpu_count=_or_unset(gpu_count or None),
    )


def _system_reserved(node: Node, resource: str) -> float | None:
    capacity = amount(node.status.capacity, resource)
    allocatable = amount(node.status.allocatable, resource)
    return None if capacity is None or allocatable is None else max(0.0, capacity - allocatable)


def _sum(usages: Iterable[dict[str, str]], resource: str) -> float | None:
    told = [one for one in (amount(usage, resource) for usage in usages) if one is not None]
    return sum(told) if told else None


def _percent(used: float | None, of: float | None) -> float | UnsetType:
    return UNSET if used is None or not of else 100 * used / of


def _gib(count: float | None) -> float | UnsetType:
    return UNSET if count is None else count / BYTES_PER_GIB


def _or_unset(number: float | None) -> float | UnsetType:
    return UNSET if number is None else number
