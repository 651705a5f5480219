"""Print containers, pods and nodes as lines of samples.

Each resource is one line with all its fields.  The columns of a kind of resource are read
as the catalogue says; what is derived stands beside.  A metric with labels beyond those
of its resource has lines of its own.  Pure; the elements have passed ``check``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import Struct, UnsetType

from monitor.tsdb import catalogue, influx
from monitor.tsdb.catalogue import GIB, Metric, Resource
from monitor.tsdb.influx import Columns, Lines, Value
from monitor.wire.derived import group_of, is_running, stats_failed, workload_of
from monitor.wire.push import Container, Node, NodeResources, NodeUsage, OptionalNumber, Pod
from monitor.wire.quantity import parse_quantity
from monitor.wire.times import parse_iso8601


def container_lines(
    containers: Sequence[Container],
    tags: str,
    at_ms: int,
    increase: Sequence[float | None],
    allowlist: Sequence[str] = (),
) -> Lines:
    """Return a line for each container; *increase* are the rates, column by column."""
    width = len(containers)
    derived: dict[str, Sequence[Value]] = {
        metric.name: increase[number * width : (number + 1) * width] for number, metric in enumerate(_RATES)
    }
    derived["container_running"] = [None if c.state is None else int(is_running(c)) for c in containers]
    failed = [number for number, container in enumerate(containers) if stats_failed(container)]
    columns = influx.escape_columns(
        [
            [c.id for c in containers],
            [c.name for c in containers],
            [c.image or "" for c in containers],
            [group_of(c) for c in containers],
        ]
    )
    labels = [
        f"{tags},container_id={i},container={name},image={image},group={group}"
        for i, name, image, group in zip(*columns, strict=True)
    ]
    labels = _with_allowed(labels, containers, allowlist)
    fields = _columns("container", containers, derived, failed)
    return influx.print_lines("container", labels, fields, at_ms)


def pod_lines(pods: Sequence[Pod], tags: str, at_ms: int, allowlist: Sequence[str] = ()) -> Lines:
    """Return a line for each pod, and one with its phase."""
    derived: Columns = {
        "kube_pod_ready": [int(pod.ready) if isinstance(pod.ready, bool) else None for pod in pods],
        "kube_pod_start_time": [_unix_seconds(pod.start_time) for pod in pods],
    }
    columns = influx.escape_columns(
        [
            [pod.namespace for pod in pods],
            [pod.name for pod in pods],
            [pod.node_name or "" for pod in pods],
            [workload_of(pod) for pod in pods],
        ]
    )
    labels = [
        f"{tags},namespace={namespace},pod={name},node={node},workload={workload}"
        for namespace, name, node, workload in zip(*columns, strict=True)
    ]
    labels = _with_allowed(labels, pods, allowlist)
    lines = influx.print_lines("kube_pod", labels, _columns("pod", pods, derived), at_ms)
    phases = [f"{of},phase={influx.escape(p.phase)}" for of, p in zip(labels, pods, strict=True) if p.phase]
    more = influx.print_lines("kube_pod", phases, {"status_phase": [1] * len(phases)}, at_ms)
    return Lines(lines.text + more.text, lines.count + more.count)


def node_lines(nodes: Sequence[Node], tags: str, at_ms: int, allowlist: Sequence[str] = ()) -> Lines:
    """Return a line for each node, and one for each of its resources."""
    usages = [node.usage or _NO_USAGE for node in nodes]
    derived: Columns = {
        "kube_node_ready": [None if node.status is None else int(node.status == "Ready") for node in nodes],
        "kube_node_cpu_usage_percent": [
            _percent(usage.cpu_cores, 1, node, "cpu") for usage, node in zip(usages, nodes, strict=True)
        ],
        "kube_node_memory_usage_percent": [
            _percent(usage.memory_gib, GIB, node, "memory") for usage, node in zip(usages, nodes, strict=True)
        ],
    }
    names = [influx.escape(node.name) for node in nodes]
    labels = _with_allowed([f"{tags},node={name}" for name in names], nodes, allowlist)
    fields = _columns("node", [_Used(usage) for usage in usages], derived)
    lines = influx.print_lines("kube_node", labels, fields, at_ms)
    rows = [(of + by, row) for of, node in zip(labels, nodes, strict=True) for by, row in _by_resource(node)]
    columns = {name: [row.get(name) for _, row in rows] for name in _BY_RESOURCE}
    more = influx.print_lines("kube_node", [of for of, _ in rows], columns, at_ms)
    return Lines(lines.text + more.text, lines.count + more.count)


def label_of(key: str) -> str:
    """Return the metric label of an allowed Docker or Kubernetes label, as kube-state-metrics names it."""
    return "label_" + "".join([c if c.isascii() and c.isalnum() else "_" for c in key])


class _Used(Struct, frozen=True):
    """What a node's attribute paths start from."""

    usage: NodeUsage


_NO_USAGE = NodeUsage()
_NO_RESOURCES = NodeResources()
# Fields whose lines have labels for the resource and its unit.
_BY_RESOURCE = ("status_capacity", "status_allocatable", "reserved")
_UNITS = (("cpu", "core"), ("memory", "byte"), ("pods", "integer"), ("ephemeral_storage", "byte"))
# Attribute of the usage, scale to the base unit, tags.
_RESERVED = tuple(
    (f"{name}_{kind}_reserved_{suffix}", scale, f",resource={name},unit={unit},kind={kind}")
    for name, unit, suffix, scale in (
        ("cpu", "core", "cores", 1),
        ("memory", "byte", "gib", GIB),
        ("ephemeral_storage", "byte", "gib", GIB),
    )
    for kind in ("system", "workload")
)
_RATES = tuple(metric for metric in catalogue.CATALOGUE if metric.rate_of)
_COUNTERS = frozenset(metric.rate_of for metric in _RATES)
# Metrics of a line of their own have more labels than their resource.
_METRICS: dict[Resource, tuple[Metric, ...]] = {
    resource: tuple(metric for metric in catalogue.metrics_of(resource) if not metric.labels)
    for resource in catalogue.LABELS
}
_READERS = {m.name: attrgetter(m.attribute) for m in catalogue.CATALOGUE if m.attribute}


def _columns(
    resource: Resource, elements: Sequence[Struct], derived: Columns, failed: Sequence[int] = ()
) -> Columns:
    """Return the fields of *elements* as the catalogue has them; those *failed* have no counters."""
    columns: dict[str, Sequence[Value]] = {}
    for metric in _METRICS[resource]:
        if not metric.attribute:
            columns[metric.field] = derived[metric.name]
            continue
        column = list(map(_READERS[metric.name], elements))
        if metric.scale != 1:
            column = [value and value * metric.scale for value in column]  # None and UNSET are false
        if metric.name in _COUNTERS:
            for number in failed:
                column[number] = None
        columns[metric.field] = column
    return columns


def _with_allowed(
    labels: list[str], elements: Sequence[Container | Pod | Node], allowlist: Sequence[str]
) -> list[str]:
    """Return the tags of each element with those of its own labels that are allowed."""
    if not allowlist:
        return labels
    names = {key: label_of(key) for key in allowlist}
    return [
        of
        + "".join(
            [
                f",{name}={influx.escape(value)}"
                for key, name in names.items()
                if element.labels and (value := element.labels.get(key))
            ]
        )
        for of, element in zip(labels, elements, strict=True)
    ]


def _by_resource(node: Node) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield the further tags and the fields of each resource of a node."""
    capacity, allocatable = node.capacity or _NO_RESOURCES, node.allocatable or _NO_RESOURCES
    for resource, unit in _UNITS:
        amounts = (_quantity(capacity, resource), _quantity(allocatable, resource))
        yield f",resource={resource},unit={unit}", dict(zip(_BY_RESOURCE, amounts, strict=False))
    usage = node.usage or _NO_USAGE
    for attribute, scale, tags in _RESERVED:
        yield tags, {"reserved": _scaled(getattr(usage, attribute), scale)}


def _quantity(resources: NodeResources, resource: str) -> float | None:
    text: str | None = getattr(resources, resource)
    return parse_quantity(text) if text else None


def _scaled(value: OptionalNumber, scale: int) -> float | None:
    return None if value is None or isinstance(value, UnsetType) else value * scale


def _percent(used: OptionalNumber, scale: int, node: Node, resource: str) -> float | None:
    """Return usage as a percentage of what *node* lets pods use, None if either is unknown."""
    allocatable = _quantity(node.allocatable or _NO_RESOURCES, resource)
    amount = _scaled(used, scale)
    return 100 * amount / allocatable if allocatable and amount is not None else None


def _unix_seconds(text: str | None) -> float | None:
    return parse_iso8601(text).timestamp() if text else None
