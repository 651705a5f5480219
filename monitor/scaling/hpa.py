"""How many replicas usage asks for: the proportional rule of the Kubernetes autoscaler.

``ceil(current * usage / target)``, nothing within a tenth of the target, and with missing
figures the careful answer of both.  Pure.
https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from monitor.scaling.spec import Inputs, Metric, PolicySpec, Replica

TOLERANCE = 0.1  # of the target, up and down; the autoscaler's default
# 0.1 and 1.1 have no exact floats: a tenth above the target must not count as more, and
# 3.0000000000000004 replicas are 3.
ROUNDING = 1e-9


class Recommendation(Struct, frozen=True):
    """What one target asks for.

    Attributes:
        value: Mean percent of those that told it.
        threshold: The target in percent.
        replicas: Wanted, out of those on online hosts.
        missing: How many told nothing.
    """

    metric: Metric
    value: float
    threshold: float
    replicas: int
    missing: int


def recommend(current: int, values: Sequence[float | None], target: float) -> int | None:
    """Return the replicas that bring usage to its target, None if no value is known.

    A value that is missing counts as 100 % of the target where the known ones ask for fewer
    replicas, and as 0 where they ask for more; if that turns the answer around, nothing changes.

    Args:
        current: Replicas now.
        values: Percent of each replica (or node), None where it is missing.
        target: Wanted mean percent, above 0.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    total = math.fsum(known)
    usage = total / len(known)
    missing = len(values) - len(known)
    if missing and usage < target:
        usage = min((total + missing * target) / len(values), target)
    elif missing and usage > target:
        usage = max(total / len(values), target)
    if abs(usage - target) <= target * (TOLERANCE + ROUNDING):
        return current
    return math.ceil(current * usage / target - ROUNDING)


def recommendations(policy: PolicySpec, inputs: Inputs) -> tuple[list[Recommendation], list[Metric]]:
    """Return what each target of *policy* asks for, and the metrics of targets without any value.

    Replicas on offline hosts are not asked: what the others bear decides.
    """
    found: list[Recommendation] = []
    untold: list[Metric] = []
    for metric, target, values in _targets(policy, inputs):
        replicas = recommend(len(inputs.replicas), values, target)
        mean = mean_of(values)
        if replicas is None or mean is None:
            untold.append(metric)
        else:
            found.append(Recommendation(metric, mean, target, replicas, values.count(None)))
    return found, untold


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known *values*, None if there is none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _targets(policy: PolicySpec, inputs: Inputs) -> list[tuple[Metric, float, Sequence[float | None]]]:
    found: list[tuple[Metric, float, Sequence[float | None]]] = []
    if policy.cpu_target_percent is not None:
        found.append(("cpu", policy.cpu_target_percent, [_ready(it, it.cpu) for it in inputs.replicas]))
    if policy.memory_target_percent is not None:
        memory = [_ready(it, it.memory) for it in inputs.replicas]
        found.append(("memory", policy.memory_target_percent, memory))
    if policy.node_pressure_target_percent is not None:
        found.append(("node_pressure", policy.node_pressure_target_percent, inputs.node_pressure))
    return found


def _ready(replica: Replica, value: float | None) -> float | None:
    """Return *value* of a replica that does its work: one that starts burns cpu of another kind."""
    return value if replica.ready else None
