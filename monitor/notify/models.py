"""What there is to tell, and what one message tells."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

State = Literal["firing", "acknowledged", "resolved"]


class AlertChange(Struct, frozen=True):
    """An alert that entered a state.

    Attributes:
        metric: Labels of the alert's series, ``__name__`` among them.
        value: The sample that decided; NaN if there is none.
        operator: ``gt``, ``gte``, ``lt``, ``lte`` or ``eq``.
        message: What is wrong, in one line.
        at: When it entered the state, with its time zone.
    """

    org_id: str
    alert_id: str
    state: State
    rule_id: str
    rule_name: str
    severity: str
    resource_type: str
    resource_id: str
    resource_name: str
    agent_id: str
    metric: dict[str, str]
    value: float
    threshold: float
    operator: str
    message: str
    at: datetime


class Notice(Struct, frozen=True):
    """One alert in a message.

    Attributes:
        changes: How many changes of this rule and series it stands for.
        values: The series' last 15 minutes, (unix seconds, value), oldest first; empty if unknown.
        link: Where the alert can be seen; None if the service does not know its own URL.
    """

    change: AlertChange
    changes: int = 1
    values: tuple[tuple[float, float], ...] = ()
    link: str | None = None


class Message(Struct, frozen=True):
    """All that one channel is told at one time, in the order in which it came about."""

    org_id: str
    sent_at: datetime
    notices: tuple[Notice, ...]
    test: bool = False
