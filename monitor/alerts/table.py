"""Series as tables: rows of labels, columns of values.  Pure.

Columns are read only where a rule watches them.  In a column None or UNSET is a series
without a sample, and NaN a sample that tells nothing, because the stats call failed: it
is stored, and must neither fire nor resolve.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct, UnsetType

from monitor.alerts.models import ResourceType
from monitor.tsdb.catalogue import Metric, Resource, metrics_of
from monitor.wire.push import Container, Node, Pod, Push

Value = float | UnsetType | None
Column = Sequence[Value]
Rows = Sequence[Any]
Labels = dict[str, str]

# Control characters are no part of a label's value: they are stored as U+FFFD.
_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "\ufffd")


class Table(Struct, frozen=True):
    """The series of one kind of resource that have the same labels.

    Attributes:
        columns: Metric name to the function that reads its column off the rows.
        rows: The rows of a push; None if the push does not report them.
        identity: What is equal only if all rows have the same labels as before.
        labels: Labels of a row beside the agent's, by the allowed labels of resources.
        resource: Id and name of a row's resource; None where it is the agent.
        untold: Numbers of the rows whose stats call failed; their columns but for
            those in *told* become NaN.
    """

    resource_type: ResourceType
    columns: Mapping[str, Callable[[Rows], Column]]
    rows: Callable[[Push], Rows | None]
    identity: Callable[[Rows, Sequence[str]], Hashable]
    labels: Callable[[Any, Mapping[str, str]], Labels]
    resource: Callable[[Any], tuple[str, str]] | None = None
    untold: Callable[[Rows], Sequence[int]] | None = None
    told: frozenset[str] = frozenset()


def label_names(allowlist: Sequence[str]) -> dict[str, str]:
    """Return the metric label of each allowed label of containers, pods and nodes."""
    return {
        key: "label_" + "".join([c if c.isascii() and c.isalnum() else "_" for c in key]) for key in allowlist
    }


def cleaned(labels: Mapping[str, str]) -> Labels:
    """Return *labels* as they are stored: without empty ones, without control characters."""
    return {
        name: value if value.isprintable() else value.translate(_CONTROLS)
        for name, value in labels.items()
        if value
    }


def _sent_column(metric: Metric) -> Callable[[Rows], Column]:
    """Return the function that reads a metric which is sent as it is, but for its scale."""
    read, scale = attrgetter(metric.attribute), metric.scale
    if scale == 1:
        return lambda rows: list(map(read, rows))
    return lambda rows: [value and value * scale for value in map(read, rows)]  # None and UNSET are false


def sent_columns(resource: Resource) -> dict[str, Callable[[Rows], Column]]:
    """Return the columns of the metrics of *resource* that are sent as they are."""
    return {metric.name: _sent_column(metric) for metric in metrics_of(resource) if metric.attribute}


def allowed(element: Container | Pod | Node, names: Mapping[str, str]) -> Labels:
    """Return the labels of a resource's own that become labels of its series; some may be empty."""
    if not names or not element.labels:
        return {}
    return {name: element.labels.get(key, "") for key, name in names.items()}


def own_labels(rows: Rows, keys: Sequence[str]) -> Hashable:
    """Return what the rows' own labels say under *keys*."""
    held = [row.labels for row in rows]
    if not keys or not any(held):
        return ()
    return tuple([tuple(map(labels.get, keys)) if labels else () for labels in held])
