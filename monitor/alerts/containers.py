"""The series of containers.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from operator import attrgetter
from typing import Final

from monitor.alerts.table import Column, Labels, Table, allowed, own_labels, sent_columns
from monitor.tsdb.catalogue import BY_NAME, CATALOGUE
from monitor.wire.derived import COMPOSE_SERVICE, group_of, is_running, stats_failed
from monitor.wire.push import Container

_CONTAINER = attrgetter("id", "name", "image")
_MEMORY, _STATS_OK, _STATE = attrgetter("memory_usage_mb"), attrgetter("stats_ok"), attrgetter("state")


def failed(containers: Sequence[Container]) -> Sequence[int]:
    """Return the numbers of the containers whose stats call failed."""
    # Nearly always all containers use memory, and that is all there is to look at.
    if all(map(_MEMORY, containers)) and False not in map(_STATS_OK, containers):
        return ()
    return [number for number, container in enumerate(containers) if stats_failed(container)]


def count_running(containers: Sequence[Container]) -> int:
    """Return how many containers run; quicker than to ask ``is_running`` of each."""
    return list(map(_STATE, containers)).count("running")


def _running(containers: Sequence[Container]) -> Column:
    if count_running(containers) == len(containers):
        return [1] * len(containers)
    return [None if c.state is None else int(is_running(c)) for c in containers]


def _container_labels(container: Container, names: Mapping[str, str]) -> Labels:
    return {
        "container_id": container.id,
        "container": container.name,
        "image": container.image or "",
        "group": group_of(container),
        **allowed(container, names),
    }


# The rates come with the push's counters, from whoever has those of the push before.
RATES: Final = tuple(metric.name for metric in CATALOGUE if metric.rate_of)
_COUNTERS = {m.name: attrgetter(BY_NAME[m.rate_of].attribute) for m in CATALOGUE if m.rate_of}


def rate_column(name: str, containers: Sequence[Container], rates: Sequence[float | None] | None) -> Column:
    """Return the column of a rate; NaN where the counter came and has no rate this time.

    Args:
        name: One of RATES.
        containers: The rows.
        rates: All containers' first rate, then all their second one, …; None if unknown.
    """
    width, start = len(containers), RATES.index(name) * len(containers)
    column = rates[start : start + width] if rates is not None else [None] * width
    if None not in column:
        return column
    counters = map(_COUNTERS[name], containers)
    return [
        nan if rate is None and isinstance(counter, (int, float)) else rate
        for rate, counter in zip(column, counters, strict=True)
    ]


CONTAINERS: Final = Table(
    "container",
    {**sent_columns("container"), "container_running": _running},
    attrgetter("containers"),
    lambda rows, allowlist: (tuple(map(_CONTAINER, rows)), own_labels(rows, (COMPOSE_SERVICE, *allowlist))),
    _container_labels,
    attrgetter("id", "name"),
    failed,
    frozenset(("container_running",)),
)
