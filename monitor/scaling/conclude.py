"""From a wanted number of replicas to a decision, or to a reason to stay.  Pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from monitor.scaling.limits import Limited
from monitor.scaling.spec import Decision, Direction, Evidence, Memory, Stay, Trigger


class Wish(Struct, frozen=True):
    """What is wanted, before it is known whether it is new.

    Attributes:
        current: Replicas now, as ``wanted`` and ``limited`` count them.
        wanted: What was asked for before any limit.
        limited: What the limits made of it.
        trigger: What asks, with its value and threshold as in ``Decision``.
        words: What asks, as sentences.
        values: As in ``Decision``.
    """

    current: int
    wanted: int
    limited: Limited
    trigger: Trigger
    value: float
    threshold: float
    words: str
    values: dict[str, float]
    recommends: bool = False


def conclude(evidence: Evidence, memory: Memory, wish: Wish) -> Decision | Stay:
    """Return the decision that *wish* is, unless nothing changes or it was taken already.

    Args:
        evidence: All that the wish was made from.
        memory: What this evaluation leaves to the next, but for ``asked``.
        wish: What is wanted.
    """
    current, to = wish.current, wish.limited.replicas
    words = f"{wish.words}{wish.limited.words}"
    asked = memory.asked if _stands(evidence, wish) else None
    memory = replace(memory, asked=asked)
    if to == current:
        return Stay(current, f"Stays at {current}: {words}", wish.limited.names, wish.values, memory)
    if asked is not None and asked[1] == to:
        return Stay(
            current, f"{_asked(evidence, asked, current)} {words}", wish.limited.names, wish.values, memory
        )
    direction: Direction = "up" if to > current else "down"
    return Decision(
        from_replicas=current,
        to_replicas=to,
        direction=direction,
        trigger_metric=wish.trigger,
        trigger_value=wish.value,
        threshold=wish.threshold,
        reason=f"{direction.capitalize()} from {current} to {to}: {words}",
        limited_by=wish.limited.names,
        values=wish.values,
        recommends=wish.recommends,
        evidence=evidence,
        memory=memory,
    )


def _stands(evidence: Evidence, wish: Wish) -> bool:
    """Tell whether the last action is still wanted, and still under way or only logged."""
    asked = evidence.memory.asked
    if asked is None:
        return False
    start, end = asked
    to = wish.limited.replicas
    toward = to if to != wish.current else wish.wanted
    if (toward > wish.current) != (end > start) or toward == wish.current:
        return False
    if evidence.policy.dry_run or wish.recommends:
        return wish.current == start
    return start <= wish.current < end or end < wish.current <= start


def _asked(evidence: Evidence, asked: tuple[int, int], current: int) -> str:
    start, end = asked
    memory = evidence.memory
    at = memory.scaled_up_at if end > start else memory.scaled_down_at
    since = f" {evidence.now - at:.0f} s ago" if at is not None else ""
    if evidence.policy.dry_run:
        return f"{start} to {end} was logged{since} and would still be done."
    return f"{end} replicas were asked for{since}, {current} are there so far."
