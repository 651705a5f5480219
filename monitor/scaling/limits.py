"""What holds a wanted number of replicas back, or pushes it on: the policy's limits, one after another.

Each limit that changes the number is named and put in words.  Limits that hold back
further than those before take their place, as they alone explain the result.  Pure.
"""

from __future__ import annotations

from msgspec import Struct

from monitor.scaling.spec import Inputs, Limiter, Memory, PolicySpec


class Limited(Struct, frozen=True):
    """A number of replicas on its way through the limits.

    Attributes:
        replicas: As it is now.
        trail: What changed it: (name, words, whether it became more).
    """

    replicas: int
    trail: tuple[tuple[Limiter, str, bool], ...] = ()

    @property
    def names(self) -> tuple[Limiter, ...]:
        """The limiters that made the number what it is."""
        return tuple(name for name, _, _ in self.trail)

    @property
    def words(self) -> str:
        """The same as sentences, each after a blank; empty without any."""
        return "".join(f" {words}" for _, words, _ in self.trail)

    def to(self, replicas: int, name: Limiter, words: str) -> Limited:
        """Return this after *name* made it *replicas*."""
        if replicas == self.replicas:
            return self
        more = replicas > self.replicas
        kept = self.trail[:-1] if self.trail and self.trail[-1][2] == more else self.trail
        return Limited(replicas, (*kept, (name, words, more)))


def remembered(policy: PolicySpec, memory: Memory, wanted: int, now: float) -> tuple[tuple[float, int], ...]:
    """Return the recommendations to keep after *wanted* was made at *now*."""
    oldest = now - policy.cooldown_scale_down_seconds
    higher = (it for it in memory.recommendations if it[1] > wanted and oldest <= it[0] < now)
    return (*higher, (now, wanted)) if policy.cooldown_scale_down_seconds else ()


def paced(policy: PolicySpec, memory: Memory, current: int, limited: Limited, now: float) -> Limited:
    """Return *limited* after stabilization, step and cooldown: how fast usage may move the replicas."""
    if limited.replicas < current:
        limited = _stabilized(policy, memory, current, limited, now)
    step = policy.step_size
    held = max(current - step, min(current + step, limited.replicas))
    limited = limited.to(held, "step_size", f"One step is {counted(step, 'replica')}.")
    if limited.replicas > current:
        last, cooldown, verb = memory.scaled_up_at, policy.cooldown_scale_up_seconds, "up"
    else:
        last, cooldown, verb = memory.scaled_down_at, policy.cooldown_scale_down_seconds, "down"
    if limited.replicas != current and last is not None and now - last < cooldown:
        words = f"It scaled {verb} {now - last:.0f} s ago; the cooldown is {cooldown} s."
        limited = limited.to(current, "cooldown", words)
    return limited


def bounded(policy: PolicySpec, inputs: Inputs, limited: Limited) -> Limited:
    """Return *limited* within the policy's bounds and what its hosts can bear.

    These hold at once, without metrics, steps or cooldowns.  Replicas on offline hosts
    may still run: they count, and none is taken away from the others for them.
    """
    # What somebody scaled to zero is not started again, where the policy allows zero.
    lowest = least(policy) if inputs.current else policy.min_replicas
    if limited.replicas < lowest:
        words = (
            f"minReplicas is {policy.min_replicas}."
            if policy.min_replicas
            else "The last replica is kept, since without one there is no usage to scale up by."
        )
        limited = limited.to(lowest, "min_replicas", words)
    if limited.replicas > policy.max_replicas:
        words = f"maxReplicas is {policy.max_replicas}."
        limited = limited.to(policy.max_replicas, "max_replicas", words)
    per_host, hosts, offline = policy.max_replicas_per_host, inputs.online_hosts, inputs.offline_replicas
    if per_host is not None and limited.replicas > per_host * hosts + offline:
        words = f"{counted(hosts, 'online host')} can have {per_host} each."
        limited = limited.to(per_host * hosts + offline, "max_replicas_per_host", words)
    return limited


def kept_offline(policy: PolicySpec, inputs: Inputs, limited: Limited) -> Limited:
    """Return *limited* without taking replicas away that may be the only ones left."""
    offline, online = inputs.offline_replicas, len(inputs.replicas)
    room = max(0, online - least(policy))
    if offline and limited.replicas < inputs.current - room:
        words = f"{counted(offline, 'replica')} on offline hosts can neither be removed nor relied on."
        limited = limited.to(inputs.current - room, "offline_hosts", words)
    return limited


def counted(count: int, noun: str) -> str:
    """Return *count* with its noun in the right number: ``1 replica``, ``2 replicas``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def least(policy: PolicySpec) -> int:
    """Return the fewest replicas that usage may bring a policy to."""
    return min(max(1, policy.min_replicas), policy.max_replicas)


def _stabilized(policy: PolicySpec, memory: Memory, current: int, limited: Limited, now: float) -> Limited:
    window = policy.cooldown_scale_down_seconds
    recent = [it for it in memory.recommendations if now - window <= it[0] < now]
    if not window or not recent:
        return limited
    at, highest = max(recent, key=lambda it: it[1])
    held = max(limited.replicas, min(current, highest))
    words = (
        f"{counted(highest, 'replica')} were needed {now - at:.0f} s ago; it waits for {window} s of less."
    )
    return limited.to(held, "stabilization", words)
