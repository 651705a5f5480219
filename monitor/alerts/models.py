"""Rules and fired alerts as the API shows and takes them (api.md; contract 6)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Operator = Literal["gt", "gte", "lt", "lte", "eq"]
State = Literal["firing", "acknowledged", "resolved"]
ResourceType = Literal["container", "pod", "node", "agent", "series"]
ResolvedBy = Literal["user", "recovered", "gone", "rule"]

NAME_MAX = 200  # characters of a rule's name
TEXT_MAX = 2_000  # characters of a description or comment
SEVERITY_MAX = 100  # characters; it becomes a label
DEFAULT_SEVERITY = "warning"

Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Description = Annotated[str, Meta(max_length=TEXT_MAX)]
Severity = Annotated[str, Meta(max_length=SEVERITY_MAX)]


class Rule(Struct, frozen=True, rename="camel"):
    """An alert rule.

    Attributes:
        metric: The selector as it was sent; it and the operator never change.
        target_metric: Another selector that a client keeps here; it is not evaluated.
    """

    id: str
    org_id: str
    name: str
    description: str
    metric: str
    operator: Operator
    threshold: float
    severity: str
    enabled: bool
    created_at: datetime
    target_metric: str | None = None


class NewRule(Struct, frozen=True, rename="camel"):
    """Body of ``POST /api/v1/alerts/rules``."""

    name: Name
    metric: str
    operator: Operator
    threshold: float
    description: Description | None = None
    severity: Severity | None = None


class CreatedRule(Struct, frozen=True, rename="camel"):
    """A new rule; ``warnings`` say what its author may not expect."""

    id: str
    org_id: str
    name: str
    description: str
    metric: str
    operator: Operator
    threshold: float
    severity: str
    enabled: bool
    created_at: datetime
    target_metric: str | None = None
    warnings: list[str] | UnsetType = UNSET


class RuleChange(Struct, frozen=True, rename="camel"):
    """Body of ``PUT /api/v1/alerts/rules/{id}``; what is left out or null stays.

    ``target_metric`` alone can be unset by null.  ``metric`` and ``operator`` may come
    back as they are.
    """

    name: Name | None = None
    enabled: bool | None = None
    threshold: float | None = None
    severity: Severity | None = None
    target_metric: str | UnsetType | None = UNSET
    metric: str | None = None
    operator: Operator | None = None


class Alert(Struct, frozen=True, rename="camel"):
    """A fired alert.

    Attributes:
        metric: Labels of its series, ``__name__`` among them.
        value: The sample that fired it.
        acknowledged_by: A user's e-mail or an API key's name, as it was then.
        stale: It is open, and its agent is offline: nobody knows whether it still holds.
    """

    id: str
    org_id: str
    rule_id: str
    rule_name: str
    agent_id: str
    resource_id: str
    resource_type: ResourceType
    resource_name: str
    metric: dict[str, str]
    state: State
    message: str
    value: float
    operator: Operator
    threshold: float
    severity: str
    fired_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    comment: str
    resolved_at: datetime | None
    resolved_by: ResolvedBy | None
    stale: bool


class AlertQuery(Struct, frozen=True, rename="camel"):
    """Query of ``GET /api/v1/alerts``."""

    state: State | UnsetType = UNSET


class Acknowledgement(Struct, frozen=True, rename="camel"):
    """Body of ``PUT /api/v1/alerts/{id}/acknowledge``."""

    comment: Description | None = None


class BacktestRequest(Struct, frozen=True, rename="camel"):
    """A rule that need not exist, and the stored history to judge by it.

    ``start`` and ``end`` are unix seconds, at most seven days apart; ``step`` is a
    Prometheus duration.
    """

    metric: str
    operator: Operator
    threshold: float
    start: float
    end: float
    step: str | float | None = None
    name: str | None = None
    description: str | None = None
    severity: str | None = None


class Episode(Struct, frozen=True, rename="camel"):
    """One alert that the rule would have fired; unix seconds, ``end`` null while it goes on.

    ``peak`` is the value furthest beyond the threshold.
    """

    metric: dict[str, str]
    start: float
    end: float | None
    peak: float


class Backtest(Struct, frozen=True, rename="camel"):
    """The alerts that a rule would have fired."""

    episodes: list[Episode]
    count: int
    firing_seconds: float
