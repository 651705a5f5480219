"""The counters of an agent's last snapshot, from which rates are made.

Small enough to be kept for every agent: four doubles a container and one hash.  They
are a cache: the stored snapshot makes them anew.  Pure.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from math import nan
from operator import attrgetter

from msgspec import Struct

from monitor.tsdb import catalogue
from monitor.wire.derived import stats_failed
from monitor.wire.push import Container

# Two pushes closer than this make no rates: the quotient would be noise.
SHORTEST_INTERVAL_MS = 1000

_ATTRIBUTES = tuple(
    catalogue.BY_NAME[metric.rate_of].attribute for metric in catalogue.CATALOGUE if metric.rate_of
)
_READERS = tuple(attrgetter(attribute) for attribute in _ATTRIBUTES)


class Counters(Struct, frozen=True):
    """The rated counters of a list of containers.

    Attributes:
        at_ms: When they were read.
        ids: Hash of the containers' ids in their order; it differs between processes.
        values: All containers' first counter, then all their second one, …; NaN where
            there is none, because it was not sent or the stats call failed.
    """

    at_ms: int
    ids: int
    values: array[float]

    def fits(self, containers: Sequence[Container]) -> bool:
        """Tell whether these are counters of exactly *containers*, in this order."""
        return self.ids == _hash_of(containers)


def counters_of(containers: Sequence[Container], at_ms: int) -> Counters:
    """Return the counters of *containers*, read at *at_ms*."""
    columns = [list(map(read, containers)) for read in _READERS]
    for position, container in enumerate(containers):
        if stats_failed(container):
            for column in columns:
                column[position] = nan
    flat = list(chain.from_iterable(columns))
    try:
        values = array("d", flat)
    except TypeError:  # None and UNSET are rare
        values = array("d", [v if isinstance(v, (int, float)) else nan for v in flat])
    return Counters(at_ms, _hash_of(containers), values)


def aligned(stored: Sequence[Container], at_ms: int, containers: Sequence[Container]) -> Counters:
    """Return the counters of a *stored* snapshot, read at *at_ms*, in the order of *containers*.

    For when the set of containers has changed, or nothing is cached.  A container
    that is new has none.
    """
    old = counters_of(stored, at_ms).values
    position = {container.id: index for index, container in enumerate(stored)}
    places = [position.get(container.id) for container in containers]
    starts = range(0, len(old), len(stored)) if stored else [0] * len(_READERS)
    values = [nan if place is None else old[start + place] for start in starts for place in places]
    return Counters(at_ms, _hash_of(containers), array("d", values))


def rates(previous: Counters | None, current: Counters) -> list[float | None]:
    """Return the increase per second of each of *current*'s values, None where there is none.

    A counter that fell has started anew and has no rate for this interval.
    """
    elapsed_ms = current.at_ms - previous.at_ms if previous and previous.ids == current.ids else 0
    if previous is None or elapsed_ms < SHORTEST_INTERVAL_MS:
        return [None] * len(current.values)
    seconds = elapsed_ms / 1000
    # A comparison with NaN is false: what is missing on either side has no rate.
    return [
        (new - old) / seconds if new >= old else None
        for new, old in zip(current.values, previous.values, strict=True)
    ]


def _hash_of(containers: Sequence[Container]) -> int:
    return hash(tuple([container.id for container in containers]))
