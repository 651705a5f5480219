"""What pods ask for, by the scheduler's arithmetic, and quantities as numbers.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from monitor.collector.kubernetes.objects import ContainerSpec, Pod, PodSpec
from monitor.wire.quantity import parse_quantity

Kind = Literal["requests", "limits"]

SIDECAR = "Always"  # as the restart policy of an init container
OVER = frozenset({"Succeeded", "Failed"})  # phases that hold no resources any more


def amount(quantities: Mapping[str, str] | None, resource: str) -> float | None:
    """Return a quantity in its base unit; None where it is not told, or is none."""
    text = (quantities or {}).get(resource)
    if text is None:
        return None
    try:
        return float(parse_quantity(text))
    except ValueError:
        return None


def requested(pod: Pod, resource: str) -> float:
    """Return what a pod keeps reserved on its node, as ``kubectl describe node`` adds it up.

    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    spec = pod.spec
    beside = 0.0  # sidecars that were started so far
    largest = 0.0  # of any moment before the containers start
    for container in spec.init_containers or ():
        own = _of(container, "requests", resource) or 0.0
        if container.restart_policy == SIDECAR:
            beside += own
            largest = max(largest, beside)
        else:
            largest = max(largest, beside + own)
    running = beside + sum(_of(container, "requests", resource) or 0.0 for container in spec.containers)
    return max(running, largest) + (amount(spec.overhead, resource) or 0.0)


def yardstick(pod: Pod, resource: str, allocatable: Mapping[str, str] | None) -> float | None:
    """Return what a pod's usage is a percentage of; None if nothing is known.

    Its requests, where every container has one (what a HorizontalPodAutoscaler takes),
    else its limits, where every container has one, else what its node can give.
    """
    return (
        _of_all(pod.spec, "requests", resource)
        or _of_all(pod.spec, "limits", resource)
        or amount(allocatable, resource)
    )


def long_running(spec: PodSpec) -> Iterable[ContainerSpec]:
    """Return the containers that run as long as the pod: its own, and its sidecars."""
    return [*spec.containers, *(one for one in spec.init_containers or () if one.restart_policy == SIDECAR)]


def _of_all(spec: PodSpec, kind: Kind, resource: str) -> float | None:
    told = [_of(container, kind, resource) for container in long_running(spec)]
    return None if None in told else sum(one for one in told if one is not None)


def _of(container: ContainerSpec, kind: Kind, resource: str) -> float | None:
    return amount(getattr(container.resources, kind, None), resource)
