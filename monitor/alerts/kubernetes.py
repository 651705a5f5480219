"""The series of pods and nodes.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import isfinite
from operator import attrgetter
from typing import Final

from msgspec import Struct, UnsetType

from monitor.alerts.table import Column, Labels, Rows, Table, allowed, own_labels, sent_columns
from monitor.tsdb.catalogue import GIB, metrics_of
from monitor.wire.derived import workload_of
from monitor.wire.push import Node, NodeResources, NodeUsage, OptionalNumber, Pod, Push
from monitor.wire.quantity import parse_quantity
from monitor.wire.times import parse_iso8601

_UNITS = (("cpu", "core"), ("memory", "byte"), ("pods", "integer"), ("ephemeral_storage", "byte"))
_NO_RESOURCES = NodeResources()
_NO_USAGE = NodeUsage()


def _pod_labels(pod: Pod, names: Mapping[str, str]) -> Labels:
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "node": pod.node_name or "",
        "workload": workload_of(pod),
        **allowed(pod, names),
    }


def _start_time(text: str | None) -> float | None:
    return parse_iso8601(text).timestamp() if text else None


_POD = attrgetter("namespace", "name", "node_name", "workload")
_POD_PHASE = attrgetter("namespace", "name", "node_name", "workload", "phase")


def _pod_resource(pod: Pod) -> tuple[str, str]:
    return f"{pod.namespace}/{pod.name}", pod.name


def _quantity(resources: NodeResources | None, resource: str) -> float | None:
    text: str | None = getattr(resources or _NO_RESOURCES, resource)
    return parse_quantity(text) if text else None


def _scaled(value: OptionalNumber, scale: int) -> float | None:
    return None if value is None or isinstance(value, UnsetType) else value * scale


def _percent(used: OptionalNumber, scale: int, node: Node, resource: str) -> float | None:
    allocatable, amount = _quantity(node.allocatable, resource), _scaled(used, scale)
    percent = 100 * amount / allocatable if allocatable and amount is not None else None
    return percent if percent is not None and isfinite(percent) else None


_USAGE = {
    metric.name: (attrgetter(metric.attribute.removeprefix("usage.")), metric.scale)
    for metric in metrics_of("node")
    if metric.attribute
}


def _usage_reader(name: str) -> Callable[[Rows], Column]:
    read, scale = _USAGE[name]
    return lambda nodes: [_scaled(read(node.usage or _NO_USAGE), scale) for node in nodes]


class _Part(Struct, frozen=True):
    """A resource of a node, as it has lines of its own."""

    node: Node
    labels: Labels
    attribute: str
    scale: int = 1


def _amounts(push: Push) -> Rows | None:
    return push.nodes and [
        _Part(node, {"resource": name, "unit": unit}, name) for node in push.nodes for name, unit in _UNITS
    ]


_RESERVED = tuple(
    ({"resource": name, "unit": unit, "kind": kind}, f"{name}_{kind}_reserved_{suffix}", scale)
    for name, unit, suffix, scale in (
        ("cpu", "core", "cores", 1),
        ("memory", "byte", "gib", GIB),
        ("ephemeral_storage", "byte", "gib", GIB),
    )
    for kind in ("system", "workload")
)


def _reserved(push: Push) -> Rows | None:
    return push.nodes and [_Part(node, *reserved) for node in push.nodes for reserved in _RESERVED]


def _node_identity(nodes: Rows, allowlist: Sequence[str]) -> Hashable:
    return tuple([node.name for node in nodes]), own_labels(nodes, allowlist)


def _node_labels(node: Node, names: Mapping[str, str]) -> Labels:
    return {"node": node.name, **allowed(node, names)}


def _part_identity(parts: Rows, allowlist: Sequence[str]) -> Hashable:
    return _node_identity([part.node for part in parts], allowlist)


def _part_labels(part: _Part, names: Mapping[str, str]) -> Labels:
    return {**_node_labels(part.node, names), **part.labels}


KUBERNETES: Final = (
    Table(
        "pod",
        {
            **sent_columns("pod"),
            "kube_pod_ready": lambda pods: [
                int(p.ready) if isinstance(p.ready, bool) else None for p in pods
            ],
            "kube_pod_start_time": lambda pods: [_start_time(pod.start_time) for pod in pods],
        },
        attrgetter("pods"),
        lambda rows, allowlist: (tuple(map(_POD, rows)), own_labels(rows, allowlist)),
        _pod_labels,
        _pod_resource,
    ),
    Table(
        "pod",
        {"kube_pod_status_phase": lambda pods: [1] * len(pods)},
        lambda push: push.pods and [pod for pod in push.pods if pod.phase],
        lambda rows, allowlist: (tuple(map(_POD_PHASE, rows)), own_labels(rows, allowlist)),
        lambda pod, names: {**_pod_labels(pod, names), "phase": pod.phase},
        _pod_resource,
    ),
    Table(
        "node",
        {
            **{name: _usage_reader(name) for name in _USAGE},
            "kube_node_ready": lambda nodes: [
                None if node.status is None else int(node.status == "Ready") for node in nodes
            ],
            "kube_node_cpu_usage_percent": lambda nodes: [
                _percent((node.usage or _NO_USAGE).cpu_cores, 1, node, "cpu") for node in nodes
            ],
            "kube_node_memory_usage_percent": lambda nodes: [
                _percent((node.usage or _NO_USAGE).memory_gib, GIB, node, "memory") for node in nodes
            ],
        },
        attrgetter("nodes"),
        _node_identity,
        _node_labels,
        attrgetter("name", "name"),
    ),
    Table(
        "node",
        {
            "kube_node_status_capacity": lambda parts: [
                _quantity(part.node.capacity, part.attribute) for part in parts
            ],
            "kube_node_status_allocatable": lambda parts: [
                _quantity(part.node.allocatable, part.attribute) for part in parts
            ],
        },
        _amounts,
        _part_identity,
        _part_labels,
        attrgetter("node.name", "node.name"),
    ),
    Table(
        "node",
        {
            "kube_node_reserved": lambda parts: [
                _scaled(getattr(part.node.usage or _NO_USAGE, part.attribute), part.scale) for part in parts
            ]
        },
        _reserved,
        _part_identity,
        _part_labels,
        attrgetter("node.name", "node.name"),
    ),
)
