"""The GPU-aware policies: sleep when idle, and two that only recommend.

``scale_to_zero_on_idle`` is an ordinary policy until every GPU has been idle for a
while; then it goes to zero at once, until something wakes it.  ``rightsize`` says how
many replicas the 95th percentile of GPU usage needs.  ``spot_shift`` says how many
replicas could stand on spot nodes.  Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from monitor.scaling.conclude import Wish, conclude
from monitor.scaling.hpa import mean_of, recommend
from monitor.scaling.limits import Limited, bounded, least
from monitor.scaling.spec import Decision, Evidence, Memory, PolicySpec, Stay

SLOTS = 60  # of a window: enough for a 95th percentile, few to store
PERCENTILE = 0.95


def woken(policy: PolicySpec) -> int:
    """Return the replicas that a sleeping policy wakes to."""
    return least(policy)


def watched(evidence: Evidence) -> Memory:
    """Return the memory with since when every GPU has been idle."""
    policy, inputs, memory = evidence.policy, evidence.inputs, evidence.memory
    told = [replica.gpu for replica in inputs.replicas]
    idle = bool(told) and not inputs.offline_replicas
    for value in told:
        idle = idle and value is not None and value <= policy.idle_gpu_percent
    since = memory.idle_since if memory.idle_since is not None else evidence.now
    return replace(memory, idle_since=since if idle else None)


def sleep(evidence: Evidence, memory: Memory) -> Decision | Stay | None:
    """Return the step into sleep, the sleep, or its end; None if the policy is awake.

    Args:
        evidence: What is known.
        memory: As ``watched`` made it.
    """
    policy, inputs, now = evidence.policy, evidence.inputs, evidence.now
    awake = woken(policy)
    wanted = inputs.wake is not None and inputs.wake > 0
    if inputs.current == 0:
        wish = Wish(
            current=0,
            wanted=awake if wanted else 0,
            limited=Limited(awake if wanted else 0),
            trigger="gpu",
            value=inputs.wake or 0.0,
            threshold=0.0,
            words=f"wakeMetric is {inputs.wake:.4g}." if wanted else "it sleeps until it is woken.",
            values={},
        )
        return conclude(evidence, memory, wish)
    since = memory.idle_since
    if since is None or now - since < policy.idle_minutes * 60 or wanted:
        return None
    last, cooldown = memory.scaled_down_at, policy.cooldown_scale_down_seconds
    if last is not None and now - last < cooldown:
        return None
    busiest = max(replica.gpu or 0.0 for replica in inputs.replicas)
    words = (
        f"no GPU was above {policy.idle_gpu_percent:.4g} % for {(now - since) / 60:.0f} min,"
        f" the busiest is at {busiest:.4g} %."
    )
    wish = Wish(
        inputs.current, 0, Limited(0), "gpu", busiest, policy.idle_gpu_percent, words, {"gpu": busiest}
    )
    return conclude(evidence, memory, wish)


def rightsize(evidence: Evidence) -> Decision | Stay:
    """Return the number of replicas that the 95th percentile of the window needs, as a recommendation."""
    policy, inputs, now = evidence.policy, evidence.inputs, evidence.now
    current, target = inputs.current, policy.gpu_target_percent
    mean = mean_of([replica.gpu for replica in inputs.replicas])
    memory = replace(evidence.memory, gpu_window=_slots(policy, evidence.memory.gpu_window, mean, now))
    if mean is None:
        return Stay(current, f"Stays at {current}: no replica tells its GPU usage.", (), {}, memory)
    values = {"gpu": mean}
    first = memory.gpu_window[0][0]
    if now - first < policy.window_minutes * 60 - slot_seconds(policy):
        words = f"watched for {(now - first) / 60:.0f} of {policy.window_minutes:.4g} min."
        return Stay(current, f"Stays at {current}: {words}", (), values, memory)
    high = percentile([value for _, value in memory.gpu_window])
    fitting = recommend(len(inputs.replicas), [high], target) or 0
    wanted = fitting + inputs.offline_replicas
    words = (
        f"95 % of the last {policy.window_minutes:.4g} min GPU usage was at most {high:.4g} %,"
        f" the target is {target:.4g} %."
    )
    limited = bounded(policy, inputs, Limited(wanted))
    wish = Wish(current, wanted, limited, "gpu", high, target, words, values, recommends=True)
    return conclude(evidence, memory, wish)


def spot_shift(evidence: Evidence) -> Decision | Stay:
    """Return how many replicas to have on spot nodes, as a recommendation."""
    policy, replicas, memory = evidence.policy, evidence.inputs.replicas, evidence.memory
    total = len(replicas)
    untold = sum(replica.spot is None for replica in replicas)
    if not total or untold:
        words = f"the nodes of {untold} replicas are not known." if untold else "it has no replicas."
        return Stay(total, f"Stays as it is: {words}", (), {}, memory)
    there = sum(replica.spot is True for replica in replicas)
    most = policy.max_spot_percent
    wanted = math.floor(total * most / 100 + 1e-9)  # 29 % of 100 is 29, not 28.999…
    share = there * 100 / total
    words = (
        f"{there} of {total} replicas are on nodes with {policy.spot_node_label},"
        f" at most {most:.4g} % may be: {wanted}."
    )
    wish = Wish(there, wanted, Limited(wanted), "gpu", share, most, words, {"spot": share}, recommends=True)
    return conclude(evidence, memory, wish)


def slot_seconds(policy: PolicySpec) -> float:
    """Return the length of a slot of the window of *policy*."""
    return policy.window_minutes * 60 / SLOTS


def percentile(values: Sequence[float]) -> float:
    """Return the 95th percentile of *values* by nearest rank: one of them."""
    return sorted(values)[max(0, math.ceil(PERCENTILE * len(values) - 1e-9) - 1)]


def _slots(
    policy: PolicySpec, window: tuple[tuple[float, float], ...], mean: float | None, now: float
) -> tuple[tuple[float, float], ...]:
    """Return the window with *mean* in its slot, without slots that are too old."""
    length = slot_seconds(policy)
    kept = tuple(slot for slot in window if now - policy.window_minutes * 60 < slot[0] <= now)
    if mean is None:
        return kept
    start = now - now % length
    if kept and kept[-1][0] == start:
        return (*kept[:-1], (start, max(kept[-1][1], mean)))
    return (*kept, (start, mean))
