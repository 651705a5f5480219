"""What a scaling policy decides: the proportional rule of the Kubernetes autoscaler, then the policy's limits.

One function judges live policies, dry runs and simulations.  Whatever it was told is in
the decision's ``evidence``, from which ``recomputed`` makes the same decision again.
Pure: the time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from monitor.scaling import gpu
from monitor.scaling.conclude import Wish, conclude
from monitor.scaling.hpa import TOLERANCE, Recommendation, recommendations
from monitor.scaling.limits import Limited, bounded, counted, kept_offline, paced, remembered
from monitor.scaling.spec import (
    DECIDE_VERSION,
    Decision,
    Evidence,
    Inputs,
    Memory,
    PolicySpec,
    Stay,
    Trigger,
)

__all__ = ["Decision", "Inputs", "Memory", "PolicySpec", "Stay", "decide", "recomputed"]

_NAMES = {"cpu": "cpu", "memory": "memory", "node_pressure": "node pressure"}


def decide(policy: PolicySpec, inputs: Inputs, memory: Memory, now: float) -> Decision | Stay:
    """Return what *policy* does at *now*.

    The largest of what its targets ask for, held by stabilization, step and cooldown,
    then brought within its bounds.  The answer's ``memory`` is the next call's; after an
    action that was taken, or logged by a dry run, it is ``taken(decision)``.

    Args:
        policy: What was set.
        inputs: What is observed.
        memory: What the evaluation before left, empty at first.
        now: Unix seconds.
    """
    evidence = Evidence(policy, inputs, memory, now)
    unclear = _unclear(policy, inputs)
    if unclear:
        return Stay(inputs.current, unclear, (), {}, memory)
    if policy.policy_type == "rightsize":
        return gpu.rightsize(evidence)
    if policy.policy_type == "spot_shift":
        return gpu.spot_shift(evidence)
    if policy.policy_type == "scale_to_zero_on_idle":
        memory = gpu.watched(evidence)
        asleep = gpu.sleep(evidence, memory)
        if asleep is not None:
            return asleep
    return _by_usage(evidence, memory)


def recomputed(inputs: bytes | str, decide_version: int) -> int | None:
    """Return the ``toReplicas`` that the stored ``inputs`` of a row lead to.

    None if they lead to no change.

    Raises:
        ValueError: They are no inputs of that version, or it is not known.
    """
    if decide_version not in _VERSIONS:
        raise ValueError(f"decideVersion {decide_version} is not known")
    try:
        evidence = msgspec.json.decode(inputs, type=Evidence)
    except msgspec.DecodeError as error:
        raise ValueError(f"inputs: {error}") from None
    made = _VERSIONS[decide_version](evidence.policy, evidence.inputs, evidence.memory, evidence.now)
    return made.to_replicas if isinstance(made, Decision) else None


# A change of what decide makes of the same evidence keeps the former function here.
_VERSIONS: dict[int, Callable[[PolicySpec, Inputs, Memory, float], Decision | Stay]] = {
    DECIDE_VERSION: decide
}


def _unclear(policy: PolicySpec, inputs: Inputs) -> str:
    """Return why nothing can be decided, empty if it can."""
    if not inputs.agents:
        return f"No online agent reports {policy.target_ref}."
    if policy.runtime == "kubernetes" and len(inputs.agents) > 1:
        names = ", ".join(inputs.agents)
        return (
            f"{len(inputs.agents)} agents report {policy.target_ref} ({names}): set agentId to one of them."
        )
    asleep = policy.policy_type == "scale_to_zero_on_idle"
    if policy.runtime == "kubernetes" and not inputs.current and not asleep:
        return f"No pod of {policy.target_ref} is reported: it is gone, or somebody scaled it to zero."
    return ""


def _by_usage(evidence: Evidence, memory: Memory) -> Decision | Stay:
    policy, inputs, now = evidence.policy, evidence.inputs, evidence.now
    current = inputs.current
    found, untold = recommendations(policy, inputs)
    best = max(found, key=lambda it: it.replicas, default=None)
    wanted = current if best is None else best.replicas + inputs.offline_replicas
    limited = Limited(wanted)
    if untold and wanted < current:
        names = " and ".join(_NAMES[metric] for metric in untold)
        limited = limited.to(current, "missing_metrics", f"Without {names} nothing is scaled down.")
    elif best is not None:
        memory = replace(memory, recommendations=remembered(policy, evidence.memory, wanted, now))
    usual = paced(policy, evidence.memory, current, limited, now)
    final = kept_offline(policy, inputs, bounded(policy, inputs, usual))
    trigger, value, threshold = _trigger(best, current, wanted, usual.replicas, final.replicas)
    wish = Wish(
        current=current,
        wanted=wanted,
        limited=final,
        trigger=trigger,
        value=value,
        threshold=threshold,
        words=_words(best, untold, inputs),
        values={it.metric: it.value for it in found},
    )
    return conclude(evidence, memory, wish)


def _trigger(
    best: Recommendation | None, current: int, wanted: int, usual: int, final: int
) -> tuple[Trigger, float, float]:
    """Return what brings the replicas to *final*: usage, or a bound that somebody set."""
    if best is not None and (wanted > current) == (final > current) and wanted != current:
        return best.metric, best.value, best.threshold
    return "manual", float(current), float(final)


def _words(best: Recommendation | None, untold: Sequence[str], inputs: Inputs) -> str:
    """Return what usage asks for, as sentences."""
    names = " and ".join(_NAMES[metric] for metric in untold)
    not_known = f"{names} {'is' if len(untold) == 1 else 'are'} not known." if untold else ""
    if best is None:
        return not_known
    text = f"{_NAMES[best.metric]} is at {best.value:.4g} % of a target of {best.threshold:.4g} %"
    asks = counted(best.replicas + inputs.offline_replicas, "replica")
    if best.missing:
        what = counted(best.missing, "node" if best.metric == "node_pressure" else "replica")
        text += f"; counting {what} that told none against the change, it asks for {asks}."
    elif best.replicas == len(inputs.replicas):
        text += f", within its tolerance of {TOLERANCE * 100:.0f} %."
    else:
        text += f", which asks for {asks}."
    return f"{text} {not_known}" if not_known else text
