"""What a policy decides over a course of observations, each decision as if it had been logged.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from monitor.scaling.decide import decide
from monitor.scaling.spec import Decision, Direction, Inputs, Memory, PolicySpec, taken

STEP_SECONDS: Final = 15  # between two evaluations (contract 8)
POINTS_AT_ONCE: Final = 1_000  # encoded between two turns of the event loop: about a millisecond


class Point(Struct, frozen=True):
    """One evaluation.

    Attributes:
        ts: RFC 3339 in UTC.
        current: Replicas that were observed.
        desired: Replicas that were wanted; ``current`` where nothing was to change.
        values: Mean percent of each metric with a target.
        action: What the decision log would have said; empty where nothing was decided anew.
        direction: Of the action, empty without one.
        reason: In words.
    """

    ts: str
    current: int
    desired: int
    values: dict[str, float]
    action: Literal["dry_run", "apply", ""]
    direction: Direction | Literal[""]
    reason: str


class Simulation(Struct, frozen=True, rename="camel"):
    """What a policy would have decided.

    Attributes:
        timeline: One point every 15 seconds.
        changes: How many of them decided something new.
        seconds_over_target: How long any metric was above its target.
    """

    timeline: list[Point]
    changes: int
    seconds_over_target: int


class Timeline:
    """A policy on its way through what was observed; holds its memory and its points."""

    def __init__(self, policy: PolicySpec) -> None:
        self._policy = policy
        self._memory = Memory()
        self._points: list[Point] = []
        self._changes = 0
        self._over = 0
        self._targets = {
            "cpu": policy.cpu_target_percent,
            "memory": policy.memory_target_percent,
            "node_pressure": policy.node_pressure_target_percent,
        }

    def follow(self, course: Iterable[tuple[float, Inputs]]) -> None:
        """Decide at each time, unix seconds, of *course*."""
        for now, inputs in course:
            self._points.append(self._point(now, inputs))

    def _point(self, now: float, inputs: Inputs) -> Point:
        made = decide(self._policy, inputs, self._memory, now)
        for metric, value in made.values.items():
            target = self._targets.get(metric)
            if target is not None and value > target:
                self._over += STEP_SECONDS
                break
        ts = datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")
        if isinstance(made, Decision):
            self._memory = taken(made)
            self._changes += 1
            dry = self._policy.dry_run or made.recommends
            return Point(
                ts,
                made.from_replicas,
                made.to_replicas,
                made.values,
                "dry_run" if dry else "apply",
                made.direction,
                made.reason,
            )
        self._memory = made.memory
        asked = made.memory.asked
        desired = made.current_replicas if asked is None else asked[1]
        return Point(ts, made.current_replicas, desired, made.values, "", "", made.reason)

    def told(self) -> Simulation:
        """Return what was decided so far."""
        return Simulation(self._points, self._changes, self._over)


def pieces(simulation: Simulation) -> Iterator[bytes]:
    """Yield the JSON of *simulation*, a few points at a time: seven days are some 10 MB."""
    head, tail = msgspec.json.encode(
        Simulation([], simulation.changes, simulation.seconds_over_target)
    ).split(b"[]", 1)
    yield head + b"["
    for start in range(0, len(simulation.timeline), POINTS_AT_ONCE):
        points = msgspec.json.encode(simulation.timeline[start : start + POINTS_AT_ONCE])
        yield (b"," if start else b"") + points[1:-1]
    yield b"]" + tail
