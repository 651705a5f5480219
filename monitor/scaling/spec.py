"""What a scaling decision is made from, and what it comes to.

All of it is plain and frozen, so that a decision can be stored beside what led to it
and be made again from there.  Names and units are those of the API; times are unix
seconds.  Pure.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

DECIDE_VERSION = 1  # of what ``decide`` makes of the same evidence; rows of older ones stay checkable

Runtime = Literal["kubernetes", "docker"]
PolicyType = Literal["scale_to_zero_on_idle", "rightsize", "spot_shift"]
Metric = Literal["cpu", "memory", "node_pressure", "gpu"]
Trigger = Literal["cpu", "memory", "node_pressure", "gpu", "manual"]
Direction = Literal["up", "down"]
Limiter = Literal[
    "missing_metrics",
    "stabilization",
    "step_size",
    "cooldown",
    "min_replicas",
    "max_replicas",
    "max_replicas_per_host",
    "offline_hosts",
]


class PolicySpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The part of a policy that decides; names, defaults and bounds as in the API.

    Made from a policy with ``msgspec.convert(policy, PolicySpec, from_attributes=True)``.

    Attributes:
        wake_metric: Selector of ``scale_to_zero_on_idle``; its value comes with the inputs.
        gpu_target_percent: Wanted mean GPU usage of ``rightsize``.
        window_minutes: What ``rightsize`` takes the 95th percentile of.
        spot_node_label: ``key`` or ``key=value`` of the nodes that ``spot_shift`` prefers.
        max_spot_percent: Of the replicas, on such nodes.
    """

    runtime: Runtime
    target_ref: str
    dry_run: bool = True
    min_replicas: int = 1
    max_replicas: int = 10
    step_size: int = 1
    cooldown_scale_up_seconds: int = 60
    cooldown_scale_down_seconds: int = 300
    cpu_target_percent: float | None = None
    memory_target_percent: float | None = None
    node_pressure_target_percent: float | None = None
    max_replicas_per_host: int | None = None
    policy_type: PolicyType | None = None
    idle_gpu_percent: float = 5.0
    idle_minutes: float = 30.0
    wake_metric: str | None = None
    gpu_target_percent: float = 80.0
    window_minutes: float = 60.0
    spot_node_label: str | None = None
    max_spot_percent: float = 50.0


class Replica(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod that is neither Succeeded nor Failed, or a running container, on an online host.

    Attributes:
        cpu: Percent as the agent reports it; None if it told none, or nothing to trust
            (``wire.derived.stats_failed``).
        memory: Percent, as cpu.
        gpu: Percent, as cpu.
        ready: False for a pod that says so or has not started; its usage counts as missing.
        spot: Whether its node carries the policy's spot label, None if not known.
    """

    cpu: float | None = None
    memory: float | None = None
    gpu: float | None = None
    ready: bool = True
    spot: bool | None = None


class Inputs(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is observed of a policy's workload at one time.

    Attributes:
        agents: Names of the online agents that report the workload, sorted; with an
            ``agentId`` in the policy that one alone.  Of a workload at zero replicas the
            agent that reported it last, if it is online.
        replicas: Those on online hosts.
        offline_replicas: Those last seen on hosts whose agent is offline now.
        online_hosts: Hosts of a docker policy's pool whose agent is online.
        node_pressure: For each node (host) that carries a replica the larger of its cpu
            and memory percent, None if it told neither.
        wake: Newest and largest value of ``wakeMetric``, None without one.
    """

    agents: tuple[str, ...] = ()
    replicas: tuple[Replica, ...] = ()
    offline_replicas: int = 0
    online_hosts: int = 0
    node_pressure: tuple[float | None, ...] = ()
    wake: float | None = None

    @property
    def current(self) -> int:
        """The observed replicas, those on offline hosts among them: ``currentReplicas``."""
        return len(self.replicas) + self.offline_replicas


class Memory(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one evaluation leaves to the next; a new policy has an empty one.

    Attributes:
        recommendations: (time, replicas) that usage asked for and that may still be the
            highest of the stabilization window; times rise, replicas fall.
        scaled_up_at: When an action in this direction was last taken.
        scaled_down_at: As scaled_up_at.
        asked: (from, to) of the action that was taken last, while it is still wanted.
        idle_since: Since when each GPU has been idle.
        gpu_window: (start of the slot, highest mean GPU percent in it), oldest first.
    """

    recommendations: tuple[tuple[float, int], ...] = ()
    scaled_up_at: float | None = None
    scaled_down_at: float | None = None
    asked: tuple[int, int] | None = None
    idle_since: float | None = None
    gpu_window: tuple[tuple[float, float], ...] = ()


class Evidence(Struct, frozen=True, rename="camel"):
    """All that a decision was made from: the ``inputs`` of a row in the decision log."""

    policy: PolicySpec
    inputs: Inputs
    memory: Memory
    now: float


class Decision(Struct, frozen=True):
    """To change the number of replicas.  Whether that is applied, proposed or only logged is not said here.

    Attributes:
        trigger_metric: What asked for it; ``manual`` when a bound of the policy did.
        trigger_value: Percent; of ``manual`` the replicas that there are.
        threshold: The target in percent; of ``manual`` the bound.
        reason: A sentence or more, to be read by people.
        limited_by: What held the result back from what usage asked for, or pushed it on.
        values: Mean percent of each metric that has a target and is known.
        recommends: Never to be applied: ``rightsize`` and ``spot_shift``, of which the
            latter counts the replicas on spot nodes.
        evidence: To be stored with the row.
        memory: To be stored when no action follows; else ``taken(decision)``.
    """

    from_replicas: int
    to_replicas: int
    direction: Direction
    trigger_metric: Trigger
    trigger_value: float
    threshold: float
    reason: str
    limited_by: tuple[Limiter, ...]
    values: dict[str, float]
    recommends: bool
    evidence: Evidence
    memory: Memory
    decide_version: int = DECIDE_VERSION


class Stay(Struct, frozen=True):
    """To leave everything as it is; ``memory`` is to be stored.  Fields as in ``Decision``."""

    current_replicas: int
    reason: str
    limited_by: tuple[Limiter, ...]
    values: dict[str, float]
    memory: Memory


def taken(decision: Decision) -> Memory:
    """Return the memory after *decision* was applied, or logged by a dry run."""
    asked = (decision.from_replicas, decision.to_replicas)
    now = decision.evidence.now
    if decision.direction == "up":
        return replace(decision.memory, asked=asked, scaled_up_at=now)
    return replace(decision.memory, asked=asked, scaled_down_at=now)


def approved(memory: Memory, decided: tuple[int, int], now: float) -> Memory:
    """Return *memory* after the proposal (from, to) was approved and applied at *now*."""
    if decided[1] > decided[0]:
        return replace(memory, asked=decided, scaled_up_at=now)
    return replace(memory, asked=decided, scaled_down_at=now)


def overruled(memory: Memory, decided: tuple[int, int], now: float) -> Memory:
    """Return *memory* after somebody set the replicas (from, to): both cooldowns start.

    Rollback and wake are such; what usage asked for before counts no more.
    """
    return replace(
        memory, asked=decided, scaled_up_at=now, scaled_down_at=now, recommendations=(), idle_since=None
    )


def failed(memory: Memory) -> Memory:
    """Return *memory* after the last action failed: it may be decided again after its cooldown."""
    return replace(memory, asked=None)
