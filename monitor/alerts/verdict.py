"""What the judgement of one push comes to.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from monitor.alerts.models import ResourceType
from monitor.alerts.rules import Group
from monitor.alerts.table import Labels, cleaned
from monitor.alerts.watch import AgentAt, Change, Key, OpenAlert, Opened, Resolved
from monitor.tsdb.selector import NAME, series_text

NewId = Callable[[], str]


class Verdict:
    """One push under judgement: the open alerts as they become, and what changed."""

    def __init__(
        self, agent: AgentAt, open_: dict[Key, OpenAlert], new_id: NewId, names: Mapping[str, str]
    ) -> None:
        self.agent = agent
        self.base = cleaned({"agent_id": agent.agent_id, "agent": agent.name})
        self.names = names
        self.open = open_
        self.changes: dict[Key, Change] = {}
        self._new_id = new_id
        self._copied = False

    def judge_series(
        self,
        labels: Labels,
        metric: str,
        group: Group,
        value: float,
        resource_type: ResourceType,
        resource: tuple[str, str] | None,
    ) -> frozenset[str]:
        """Judge one series by its rules; return the ids of the rules that hold for it."""
        holding = frozenset([rule.id for rule in group.rules if rule.crosses(value)])
        if not holding and not self.open:
            return holding
        named = {NAME: metric, **labels}
        series = series_text(named)
        if resource is None:
            resource = (
                (series, series) if resource_type == "series" else (self.agent.agent_id, self.agent.name)
            )
        for rule in group.rules:
            key = (rule.id, series)
            if rule.id not in holding:
                self._close(key, "recovered", value)
            elif key not in self.open:
                opened = Opened(self._new_id(), rule, series, named, resource_type, *resource, value)
                self._open(key, opened)
        return holding

    def _open(self, key: Key, opened: Opened) -> None:
        before = self.changes.pop(key, None)
        if isinstance(before, Resolved):  # within one push: it was open and stays so
            self._held()[key] = before.alert
        else:
            self.changes[key] = opened
            pushed = opened.resource_type == "series"
            self._held()[key] = OpenAlert(opened.alert_id, opened.metric[NAME], pushed)

    def _close(self, key: Key, by: Literal["recovered", "gone"], value: float | None) -> None:
        if key not in self.open:
            return
        alert = self._held().pop(key)
        if not isinstance(self.changes.pop(key, None), Opened):  # else nobody has seen it
            self.changes[key] = Resolved(alert, by, value)

    def _held(self) -> dict[Key, OpenAlert]:
        """Return the open alerts, to be changed."""
        if not self._copied:
            self.open, self._copied = self.open.copy(), True
        return self.open

    def keys_of(self, metric: str) -> set[Key]:
        """Return the open alerts of a catalogue metric."""
        return {key for key, alert in self.open.items() if alert.metric == metric and not alert.pushed}

    def close_gone(self, keys: set[Key]) -> None:
        """Resolve alerts whose series is no longer made."""
        for key in keys:
            self._close(key, "gone", None)
