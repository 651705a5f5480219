"""The catalogue's series that a push makes.  Pure.

The values are those that ``monitor.ingest.samples`` writes; a test holds both to each
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from monitor.alerts.containers import CONTAINERS, RATES, count_running, failed
from monitor.alerts.kubernetes import KUBERNETES
from monitor.alerts.table import Column, Labels, Rows, Table, Value
from monitor.tsdb.catalogue import BY_NAME, Metric, metrics_of
from monitor.wire.push import Container, Push

AGENT_UP: Final = "agent_up"
_POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")  # always written


def _single(
    reported: Callable[[Push], object], made: Callable[[Push], object]
) -> Callable[[Push], Rows | None]:
    """Return a reader of the one row: None if not *reported*, no row if not *made*."""
    return lambda push: None if reported(push) is None else [push] if made(push) else []


def _summed(metric: Metric) -> Callable[[Rows], Column]:
    read, scale = attrgetter(metric.attribute), metric.scale

    def total(containers: Sequence[Container]) -> Value:
        try:
            whole: float = sum(map(read, containers))
        except TypeError:  # None and UNSET are rare
            sent = [value for value in map(read, containers) if isinstance(value, (int, float))]
            return sum(sent) * scale if sent else None
        return whole * scale

    return lambda pushes: [total(push.containers) for push in pushes]


def _phases(push: Push) -> Rows | None:
    if push.pods is None:
        return None
    if not (push.pods or push.nodes):
        return []
    phases = Counter(dict.fromkeys(_POD_PHASES, 0))
    phases.update([pod.phase for pod in push.pods if pod.phase])
    return list(phases.items())


def _has_cluster(push: Push) -> object:
    return push.pods or push.nodes


def _unlabelled(row: object, names: Mapping[str, str]) -> Labels:
    del row, names
    return {}


def _one(rows: Rows, allowlist: Sequence[str]) -> Hashable:
    del allowlist
    return len(rows)


def _of_push(
    columns: Mapping[str, Callable[[Push], Value]],
    reported: Callable[[Push], object],
    made: Callable[[Push], object] = lambda push: True,
) -> Table:
    """Return the table of figures about the whole push."""

    def reader(read: Callable[[Push], Value]) -> Callable[[Rows], Column]:
        return lambda pushes: list(map(read, pushes))

    read = {name: reader(of) for name, of in columns.items()}
    return Table("agent", read, _single(reported, made), _one, _unlabelled)


_SUMS = {
    name: _summed(metric)
    for metric in metrics_of("container")
    if metric.attribute and (name := f"agent_containers_{metric.name.removeprefix('container_')}") in BY_NAME
}

TABLES: Final[tuple[Table, ...]] = (
    CONTAINERS,
    *KUBERNETES,
    _of_push(
        {
            "kube_cluster_nodes": lambda push: len(push.nodes or ()),
            "kube_cluster_nodes_ready": lambda push: sum([n.status == "Ready" for n in push.nodes or ()]),
        },
        attrgetter("nodes"),
        _has_cluster,
    ),
    _of_push(
        {"kube_cluster_namespaces": lambda push: len({pod.namespace for pod in push.pods or ()})},
        attrgetter("pods"),
        _has_cluster,
    ),
    Table(
        "agent",
        {"kube_cluster_pods": lambda phases: [count for _, count in phases]},
        _phases,
        lambda rows, allowed: tuple([phase for phase, _ in rows]),
        lambda row, names: {"phase": row[0]},
    ),
    _of_push({AGENT_UP: lambda push: 1}, lambda push: push),
    _of_push(
        {
            "agent_containers": lambda push: len(push.containers or ()),
            "agent_containers_running": lambda push: count_running(push.containers or ()),
        },
        attrgetter("containers"),
    ),
    Table(
        "agent",
        _SUMS,
        _single(attrgetter("containers"), lambda push: True),
        _one,
        _unlabelled,
        # A sum that lacks a container would look like idleness.
        untold=lambda pushes: [0] if failed(pushes[0].containers) else (),
    ),
    _of_push({"agent_pods": lambda push: len(push.pods or ())}, attrgetter("pods")),
    _of_push({"agent_nodes": lambda push: len(push.nodes or ())}, attrgetter("nodes")),
)
METRICS: Final = frozenset(name for table in TABLES for name in table.columns) | frozenset(RATES)
