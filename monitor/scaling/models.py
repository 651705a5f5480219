"""Policies and decisions as the API shows and takes them (api.md, Scaling; contract 8)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from monitor.scaling.spec import PolicyType, Runtime

ApplyHealth: TypeAlias = Literal["applied", "pending", "failed", "unknown"]

REPLICAS_MAX = 1_000  # contract 8
TARGET_MAX = 1_000.0  # percent: ten cores of one container
NAME_MAX = 200  # characters
TEXT_MAX = 2_000  # characters of a comment
REF_MAX = 512  # characters: a namespace or pool, a kind and a name
SECONDS_MAX = 86_400  # of a cooldown: its recommendations are kept for so long
MINUTES_MAX = 1_440  # of idleness, and of the window of right-sizing
STRATEGIES: dict[Runtime, str] = {"kubernetes": "pods", "docker": "containers"}
DECISIONS_DEFAULT = 100  # of a list
DECISIONS_MAX = 1_000

Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Ref = Annotated[str, Meta(min_length=1, max_length=REF_MAX)]
Replicas = Annotated[int, Meta(ge=0, le=REPLICAS_MAX)]
Positive = Annotated[int, Meta(ge=1, le=REPLICAS_MAX)]
Seconds = Annotated[int, Meta(ge=0, le=SECONDS_MAX)]
Minutes = Annotated[float, Meta(gt=0, le=MINUTES_MAX)]
TargetPercent = Annotated[float, Meta(gt=0, le=TARGET_MAX)]
Percent = Annotated[float, Meta(ge=0, le=100)]
SelectorText = Annotated[str, Meta(min_length=1, max_length=4_096)]


class Settings(Struct, frozen=True, rename="camel", kw_only=True):
    """What an author decides about a policy.

    Attributes:
        target_ref: ``namespace/name``, ``namespace/Kind/name``, or ``pool/group``.
        agent_id: The agent whose report counts where several report the workload.
        idle_gpu_percent: ``scale_to_zero_on_idle``: at or below this a replica idles.
        wake_metric: A selector; above 0 it ends the sleep.
        gpu_target_percent: ``rightsize``: wanted mean GPU usage.
        window_minutes: ``rightsize``: what the 95th percentile is taken of.
        spot_node_label: ``spot_shift``: ``key`` or ``key=value`` of spot nodes.
    """

    name: str
    runtime: Runtime
    target_ref: str
    policy_type: PolicyType | None = None
    enabled: bool = True
    dry_run: bool = True
    approval_required: bool = False
    min_replicas: int = 1
    max_replicas: int = 10
    step_size: int = 1
    cooldown_scale_up_seconds: int = 60
    cooldown_scale_down_seconds: int = 300
    cpu_target_percent: float | None = None
    memory_target_percent: float | None = None
    node_pressure_target_percent: float | None = None
    max_replicas_per_host: int | None = None
    lb_pool_ref: str | None = None
    agent_id: str | None = None
    idle_gpu_percent: float = 5.0
    idle_minutes: float = 30.0
    wake_metric: str | None = None
    gpu_target_percent: float = 80.0
    window_minutes: float = 60.0
    spot_node_label: str | None = None
    max_spot_percent: float = 50.0


class Proposal(Struct, frozen=True, rename="camel"):
    """A change that waits to be approved, frozen until it is decided or 15 minutes old."""

    generation: int
    from_replicas: int
    to_replicas: int
    direction: str
    trigger_metric: str
    trigger_value: float
    threshold: float
    reason: str
    rendered_manifest: str
    created_at: datetime
    expires_at: datetime


class Policy(Settings, frozen=True, rename="camel", kw_only=True):
    """A scaling policy.

    Attributes:
        current_replicas: As observed last; 0 before the first evaluation.
        desired_replicas: What it is brought to; of a dry run, what it would be brought to.
        apply_message: What the agent said of the change in force.
        last_reason: What the last evaluation found, in words.
        generation: That of the change in force; 0 before the first.
    """

    id: str
    org_id: str
    strategy: str
    current_replicas: int
    desired_replicas: int
    apply_health: ApplyHealth
    apply_message: str
    generation: int
    pending_approval: Proposal | None
    last_reason: str
    last_evaluated_at: datetime | None
    created_at: datetime


class PolicyChange(Struct, frozen=True, rename="camel", kw_only=True):
    """Body of ``PUT /api/v1/scaling/policies/{id}``; what is left out stays.

    Null unsets what may be absent, and leaves the rest as it is.  ``runtime`` and
    ``strategy`` may come back as they are.
    """

    name: Name | UnsetType | None = UNSET
    runtime: Runtime | UnsetType | None = UNSET
    strategy: str | UnsetType | None = UNSET
    target_ref: Ref | UnsetType | None = UNSET
    policy_type: PolicyType | UnsetType | None = UNSET
    enabled: bool | UnsetType | None = UNSET
    dry_run: bool | UnsetType | None = UNSET
    approval_required: bool | UnsetType | None = UNSET
    min_replicas: Replicas | UnsetType | None = UNSET
    max_replicas: Replicas | UnsetType | None = UNSET
    step_size: Positive | UnsetType | None = UNSET
    cooldown_scale_up_seconds: Seconds | UnsetType | None = UNSET
    cooldown_scale_down_seconds: Seconds | UnsetType | None = UNSET
    cpu_target_percent: TargetPercent | UnsetType | None = UNSET
    memory_target_percent: TargetPercent | UnsetType | None = UNSET
    node_pressure_target_percent: TargetPercent | UnsetType | None = UNSET
    max_replicas_per_host: Positive | UnsetType | None = UNSET
    lb_pool_ref: Ref | UnsetType | None = UNSET
    agent_id: Ref | UnsetType | None = UNSET
    idle_gpu_percent: Percent | UnsetType | None = UNSET
    idle_minutes: Minutes | UnsetType | None = UNSET
    wake_metric: SelectorText | UnsetType | None = UNSET
    gpu_target_percent: TargetPercent | UnsetType | None = UNSET
    window_minutes: Minutes | UnsetType | None = UNSET
    spot_node_label: Ref | UnsetType | None = UNSET
    max_spot_percent: Percent | UnsetType | None = UNSET


class NewPolicy(PolicyChange, frozen=True, rename="camel", kw_only=True):
    """Body of ``POST /api/v1/scaling/policies``: what is left out has its default."""

    name: Name
    runtime: Runtime
    target_ref: Ref


class UnsavedPolicy(NewPolicy, frozen=True, rename="camel", kw_only=True):
    """Body of ``POST /api/v1/scaling/simulate``: a new policy's fields, and when to try it."""

    start: float
    end: float


class Verdict(Struct, frozen=True, rename="camel"):
    """Body of approve and reject; without ``generation`` whichever proposal waits is meant."""

    generation: int | None = None
    comment: Annotated[str, Meta(max_length=TEXT_MAX)] | None = None


class Decision(Struct, frozen=True, rename="camel"):
    """A row of the decision log.

    Attributes:
        inputs: What it was decided by, as ``decideVersion`` reads it.
        limited_by: What changed the result of the formula.
        prev_hash: SHA-256 (hex) of the row before.
        hash: SHA-256 (hex) of that and of this row's exact text.
    """

    id: int
    policy_id: str
    ts: str
    runtime: str
    trigger_metric: str
    trigger_value: float
    threshold: float
    direction: str
    from_replicas: int
    to_replicas: int
    action: str
    dry_run: bool
    rendered_manifest: str
    outcome: str
    inputs: dict[str, Any]
    limited_by: list[str]
    decide_version: int
    prev_hash: str
    hash: str


class DecisionQuery(Struct, frozen=True, rename="camel"):
    """Query of ``GET /api/v1/scaling/decisions``."""

    policy_id: str | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=DECISIONS_MAX)] | UnsetType = DECISIONS_DEFAULT
