"""What is known of an agent's alerts, and what a push may change of it.  Pure."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Literal

from msgspec import Struct

from monitor.alerts.containers import CONTAINERS, RATES
from monitor.alerts.models import Operator, ResourceType
from monitor.alerts.rules import MetricRules, Rule, RuleSet
from monitor.alerts.series import TABLES
from monitor.alerts.table import Labels, Table
from monitor.tsdb.selector import NAME
from monitor.wire.push import Push

HASH_BYTES: Final = 16  # of the hash that stands for a series' text

Key = tuple[str, str]  # rule id, canonical text of the series


class AgentAt(Struct, frozen=True):
    """An agent, and the versions of what is stored about its alerts."""

    org_id: str
    agent_id: str
    name: str
    rules_version: int
    alerts_version: int
    version: int


class OpenAlert(Struct, frozen=True):
    """An alert that is firing or acknowledged; *pushed* tells a series of ``samples``."""

    alert_id: str
    metric: str
    pushed: bool


class Opened(Struct, frozen=True):
    """A rule whose condition has become true for a series."""

    alert_id: str
    rule: Rule
    series: str
    metric: Labels
    resource_type: ResourceType
    resource_id: str
    resource_name: str
    value: float


class Resolved(Struct, frozen=True):
    """An open alert whose condition is false now, or whose series is gone (no value)."""

    alert: OpenAlert
    by: Literal["recovered", "gone"]
    value: float | None


Change = Opened | Resolved


class Bounds(Struct, frozen=True):
    """Between which values the series of a column change no alert; one number for all, or one for each.

    Attributes:
        open_at: Rows for which an alert is open: their sample must not be missing.
    """

    low: float | list[float]
    high: float | list[float]
    open_at: frozenset[int]


class Watched(Struct, frozen=True):
    """The bounds of a table's watched columns, for rows of this identity."""

    identity: int
    bounds: dict[str, Bounds]


class Watch(Struct, frozen=True):
    """What is known of an agent: exact while the three versions are those that are stored.

    Attributes:
        version: The state's, for *times* alone.
        open: Its open alerts.
        tables: Bounds by the table's number.
        times: Newest sample of each watched series of ``samples`` in unix
            milliseconds, by its hash; None if that was not read.
    """

    rules_version: int
    alerts_version: int
    version: int
    open: dict[Key, OpenAlert]
    tables: dict[int, Watched]
    times: dict[bytes, int] | None = None


class Plan:
    """The rules of an organization, and the columns that they watch."""

    def __init__(self, rules: RuleSet, without: str = "") -> None:
        self.rules = rules
        self.tables: list[tuple[int, Table, list[tuple[str, MetricRules]]]] = []
        for number, table in enumerate(TABLES):
            names = [*table.columns, *(RATES if table is CONTAINERS else ())]
            found = [
                (name, of) for name in names if name != without and (of := rules.of_metric(name)) is not None
            ]
            if found:
                self.tables.append((number, table, found))

    def without(self, metric: str) -> Plan:
        """Return the same plan but for the column of *metric*."""
        return Plan(self.rules, metric)

    def watches_samples(self, push: Push) -> bool:
        """Tell whether a rule may concern the ``samples`` of *push*."""
        of_metric = self.rules.of_metric
        return any(of_metric(sample.metric) is not None for sample in push.samples or ())


def series_hash(series: str) -> bytes:
    """Return what stands for the canonical text of a series."""
    return blake2b(series.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


_WORDS: Final[dict[Operator, str]] = {
    "gt": "above",
    "gte": "at or above",
    "lt": "below",
    "lte": "at or below",
    "eq": "equal to",
}


def message_of(opened: Opened) -> str:
    """Return what is wrong, in one line."""
    rule = opened.rule
    of = (
        opened.series
        if opened.resource_type == "series"
        else f"{opened.metric[NAME]} of {opened.resource_name}"
    )
    return f"{of} is {_number(opened.value)}, {_WORDS[rule.operator]} {_number(rule.threshold)}"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
