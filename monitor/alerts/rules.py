"""An organization's rules, prepared to be asked which of them concern a series.  Pure.

Rules are found by metric name; among those of a name, the ones that want one value of
a label are found by that value, so that a thousand rules for a thousand containers
cost each container its own rule alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf, nextafter
from typing import Final

from msgspec import Struct

from monitor.alerts.models import Operator
from monitor.tsdb.selector import NAME, Matcher, Selector, parse

CROSSES: Final[dict[Operator, Callable[[float, float], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "eq": operator.eq,
}
MOST_NAMES = 10_000  # metric names remembered of an organization: agents may send any
MOST_GROUPS = 10_000  # different sets of rules that concern a series, remembered for a name


class RuleText(Struct, frozen=True):
    """A rule as it is stored, as far as evaluation needs it."""

    id: str
    metric: str
    operator: Operator
    threshold: float


class Rule(Struct, frozen=True):
    """An enabled rule.

    Attributes:
        names: Matchers of the metric's name.
        labels: Matchers of the other labels.
    """

    id: str
    names: tuple[Matcher, ...]
    labels: tuple[Matcher, ...]
    operator: Operator
    threshold: float

    def crosses(self, value: float) -> bool:
        """Tell whether the condition holds; it never does for NaN."""
        return CROSSES[self.operator](value, self.threshold)


class Interval(Struct, frozen=True):
    """Values from *low* to *high*, both included; none if low is above high."""

    low: float
    high: float


EVERYTHING: Final = Interval(-inf, inf)
NOTHING: Final = Interval(inf, -inf)


class Group(Struct, frozen=True):
    """The rules that concern a series, in a fixed order.

    Attributes:
        idle: Values for which none of them fires; NOTHING where that is no interval.
    """

    rules: tuple[Rule, ...]
    idle: Interval

    def unchanged(self, firing: frozenset[str], value: float | None) -> Interval:
        """Return an interval around *value* in which exactly the rules in *firing* (ids) hold.

        Without a value an interval may not exist for ``eq`` rules: NOTHING then.
        """
        low, high = -inf, inf
        for rule in self.rules:
            beyond = _beyond(rule, rule.id in firing, value)
            low, high = max(low, beyond.low), min(high, beyond.high)
        return Interval(low, high)


def _beyond(rule: Rule, fires: bool, value: float | None) -> Interval:
    """Return the values for which *rule* does, or does not, fire."""
    at = rule.threshold
    match rule.operator:
        case "gt":
            return Interval(nextafter(at, inf), inf) if fires else Interval(-inf, at)
        case "gte":
            return Interval(at, inf) if fires else Interval(-inf, nextafter(at, -inf))
        case "lt":
            return Interval(-inf, nextafter(at, -inf)) if fires else Interval(at, inf)
        case "lte":
            return Interval(-inf, at) if fires else Interval(nextafter(at, inf), inf)
        case "eq" if fires:
            return Interval(at, at)
        case _ if value is None:
            return NOTHING
        case _:
            return Interval(-inf, nextafter(at, -inf)) if value < at else Interval(nextafter(at, inf), inf)


def _group(rules: tuple[Rule, ...]) -> Group:
    group = Group(rules, NOTHING)
    return Group(rules, group.unchanged(frozenset(), None)) if rules else NO_RULES


NO_RULES: Final = Group((), EVERYTHING)


@lru_cache(maxsize=65_536)  # names and images repeat from host to host; RE2 costs 2 to 5 µs a time
def _matches(matcher: Matcher, value: str) -> bool:
    return matcher.matches(value)


def passes(matchers: Sequence[Matcher], labels: Mapping[str, str]) -> bool:
    """Tell whether *labels* pass all *matchers*; a missing label is empty."""
    for matcher in matchers:
        value = labels.get(matcher.label, "")
        if matcher.op == "=":
            if value != matcher.value:
                return False
        elif not _matches(matcher, value):
            return False
    return True


class MetricRules:
    """The rules whose selector admits one metric name."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._always: list[int] = []  # concern every series
        self._by_value: dict[str, dict[str, list[int]]] = {}  # want this value of this label, at least
        self._others: list[int] = []
        self._rules = tuple(rules)
        self._groups: dict[tuple[int, ...], Group] = {}
        for index, rule in enumerate(rules):
            wanted = next((m for m in rule.labels if m.op == "=" and m.value), None)
            if not rule.labels:
                self._always.append(index)
            elif wanted is None:
                self._others.append(index)
            else:
                self._by_value.setdefault(wanted.label, {}).setdefault(wanted.value, []).append(index)
        self._all = _group(self._rules) if len(self._always) == len(self._rules) else None

    def group_of(self, labels: Mapping[str, str]) -> Group:
        """Return the rules that concern the series of this name with *labels*."""
        if self._all is not None:
            return self._all
        rules = self._rules
        picked = self._always.copy()
        for label, by_value in self._by_value.items():
            candidates = by_value.get(labels.get(label, ""), ())
            picked += [index for index in candidates if passes(rules[index].labels, labels)]
        picked += [index for index in self._others if passes(rules[index].labels, labels)]
        key = tuple(picked)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MOST_GROUPS:
                self._groups.clear()
            group = self._groups[key] = _group(tuple([rules[index] for index in picked]))
        return group


class RuleSet:
    """The enabled rules of an organization."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._by_name: dict[str, list[Rule]] = {}
        self._unnamed: list[Rule] = []  # their name is a regex or left open
        self._found: dict[str, MetricRules | None] = {}
        for rule in rules:
            name = next((m.value for m in rule.names if m.op == "="), None)
            if name is None:
                self._unnamed.append(rule)
            else:
                self._by_name.setdefault(name, []).append(rule)

    def __bool__(self) -> bool:
        return bool(self._by_name or self._unnamed)

    def of_metric(self, name: str) -> MetricRules | None:
        """Return the rules for series called *name*, None if there is none."""
        try:
            return self._found[name]
        except KeyError:
            pass
        labels = {NAME: name}
        rules = [rule for rule in self._by_name.get(name, ()) if passes(rule.names, labels)]
        rules += [rule for rule in self._unnamed if passes(rule.names, labels)]
        if len(self._found) >= MOST_NAMES:
            self._found.clear()
        found = self._found[name] = MetricRules(rules) if rules else None
        return found


@lru_cache(maxsize=16_384)  # a change of one rule prepares all of its organization anew
def selector_of(metric: str) -> Selector:
    """Return the selector of a rule's text, which was checked when it was stored."""
    return parse(metric)


def prepared(text: RuleText) -> Rule:
    """Return a stored rule ready for evaluation."""
    matchers = selector_of(text.metric).matchers
    return Rule(
        id=text.id,
        names=tuple([m for m in matchers if m.label == NAME]),
        labels=tuple([m for m in matchers if m.label != NAME]),
        operator=text.operator,
        threshold=text.threshold,
    )
