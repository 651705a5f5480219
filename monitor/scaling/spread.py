"""Which host of a group gets how many replicas.  Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping


def spread(running: Mapping[str, int], total: int, per_host: int | None) -> dict[str, int]:
    """Return how many replicas each host should run so that together there are *total*.

    A new replica goes to the host that has fewest, the one to go is taken from the host
    that has most; equal hosts in the order of their ids.  A host above *per_host* keeps
    what it has until replicas are taken away.

    Args:
        running: Replicas on each online host that has the group.
        total: Wanted on these hosts; what they have no room for is left out.
        per_host: Most replicas of a host, None for any number.
    """
    wanted = dict(running)
    missing = total - sum(wanted.values())
    step = 1 if missing > 0 else -1
    heap = [(step * count, host) for host, count in wanted.items() if _has_room(count, step, per_host)]
    heapq.heapify(heap)
    for _ in range(abs(missing)):
        if not heap:
            break
        _, host = heapq.heappop(heap)
        wanted[host] += step
        if _has_room(wanted[host], step, per_host):
            heapq.heappush(heap, (step * wanted[host], host))
    return wanted


def _has_room(count: int, step: int, per_host: int | None) -> bool:
    if step < 0:
        return count > 0
    return per_host is None or count < per_host
