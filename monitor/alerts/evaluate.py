"""Which alerts a push opens and resolves.  Pure: the times are arguments.

Most pushes change nothing, and are told so quickly: for each series the interval is
remembered in which no alert would change, so a push costs two comparisons a series,
however many rules there are.  What leaves its interval, and what is new or gone, is
judged rule by rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, isnan, nan
from operator import gt, lt
from typing import Final

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from monitor.alerts.containers import rate_column
from monitor.alerts.rules import NO_RULES, NOTHING, Group, Interval, MetricRules
from monitor.alerts.table import Column, Labels, Rows, Table, cleaned, label_names
from monitor.alerts.verdict import NewId, Verdict
from monitor.alerts.watch import (
    AgentAt,
    Bounds,
    Change,
    Key,
    Plan,
    Watch,
    Watched,
    series_hash,
)
from monitor.tsdb.selector import NAME, ORG, series_text
from monitor.wire.push import Push
from monitor.wire.times import sample_ms

JUDGED_MS: Final = 300_000  # older samples are stored, and judged by no rule

Rates = Sequence[float | None] | None


class Judged(Struct, frozen=True):
    """What a push came to.

    Attributes:
        changes: Alerts to open and to resolve.
        watch: What is known when they are stored.
        timed: The times of the watched samples have changed.
    """

    changes: list[Change]
    watch: Watch
    timed: bool = False


def judge(
    plan: Plan,
    watch: Watch,
    agent: AgentAt,
    push: Push,
    *,
    at_ms: int,
    now_ms: int,
    late: bool,
    rates: Rates,
    new_id: NewId,
    allowlist: Sequence[str] = (),
) -> Judged:
    """Return what *push* changes, by the rules of *plan*.

    Args:
        plan: The rules.
        watch: What is known of the agent, read under its lock.
        agent: Whose push it is.
        push: The checked push.
        at_ms: Time of its samples, unix milliseconds.
        now_ms: The present; samples older than JUDGED_MS are not judged.
        late: A newer snapshot is stored: only the ``samples`` are judged.
        rates: The push's rates, as ``rate_column`` takes them.
        new_id: Gives the id of a new alert.
        allowlist: Labels of resources that become metric labels.
    """
    verdict = Verdict(agent, watch.open, new_id, label_names(allowlist) if allowlist else {})
    tables = watch.tables
    if not late and at_ms >= now_ms - JUDGED_MS:
        changed = {}
        for number, table, metrics in plan.tables:
            rows = table.rows(push)
            if rows is not None:
                known = watch.tables.get(number)
                now = _judge_table(verdict, table, metrics, rows, known, rates, allowlist)
                if now is not known:
                    changed[number] = now
        tables = {**tables, **changed} if changed else tables
    times = watch.times
    if push.samples:
        times = _judge_samples(verdict, plan, push, times or {}, at_ms, now_ms) or times
    timed = times is not watch.times
    changes = list(verdict.changes.values())
    if not changes and not timed and tables is watch.tables:
        return Judged(changes, watch)
    return Judged(changes, replace(watch, open=verdict.open, tables=tables, times=times), timed)


def judge_down(plan: Plan, watch: Watch, agent: AgentAt, metric: str, new_id: NewId) -> Judged:
    """Return what changes when *metric*, one without labels of its own, is 0: the agent is offline."""
    verdict = Verdict(agent, watch.open, new_id, {})
    rules = plan.rules.of_metric(metric)
    if rules is not None:
        verdict.judge_series(verdict.base, metric, rules.group_of(verdict.base), 0.0, "agent", None)
    if not verdict.changes:
        return Judged([], watch)
    # The bounds are those of a living agent.
    return Judged(list(verdict.changes.values()), replace(watch, open=verdict.open, tables={}))


def _judge_table(
    verdict: Verdict,
    table: Table,
    metrics: list[tuple[str, MetricRules]],
    rows: Rows,
    known: Watched | None,
    rates: Rates,
    allowlist: Sequence[str],
) -> Watched:
    """Judge the watched columns of a table; return *known* itself if nothing left its bounds."""
    identity = hash((table.identity(rows, allowlist), allowlist and tuple(allowlist)))
    bounds = known.bounds if known is not None and known.identity == identity else {}
    untold = table.untold(rows) if table.untold is not None else ()
    labels: list[Labels] = []
    changed: dict[str, Bounds] = {}
    for metric, rules in metrics:
        read = table.columns.get(metric)
        column = rate_column(metric, rows, rates) if read is None else read(rows)
        if untold and metric not in table.told:
            column = list(column)
            for number in untold:
                column[number] = nan
        held = bounds.get(metric)
        if held is None or not _is_within(held, column, sure=read is not None and not untold):
            labels = labels or [cleaned({**verdict.base, **table.labels(row, verdict.names)}) for row in rows]
            changed[metric] = _judge_column(verdict, table, metric, rules, rows, labels, column)
    if known is not None and known.identity == identity and not changed:
        return known
    return Watched(identity, {**bounds, **changed})


def _is_within(bounds: Bounds, column: Column, *, sure: bool) -> bool:
    """Tell whether no value of *column* changes an alert; *sure* if none is NaN."""
    low, high = bounds.low, bounds.high
    try:
        if column and (sure or not isnan(sum(column))):  # type: ignore[arg-type]  # NaN would hide from max()
            if isinstance(high, list):
                return not any(map(gt, column, high)) and not any(map(lt, column, low))  # type: ignore[arg-type]
            return max(column) <= high and (low == -inf or min(column) >= low)  # type: ignore[type-var,operator]
    except TypeError:
        pass
    for number, value in enumerate(column):
        if value is None or isinstance(value, UnsetType):
            if number in bounds.open_at:
                return False
        elif not isnan(value):
            least = low[number] if isinstance(low, list) else low
            most = high[number] if isinstance(high, list) else high
            if not least <= value <= most:
                return False
    return True


def _judge_column(
    verdict: Verdict,
    table: Table,
    metric: str,
    rules: MetricRules,
    rows: Rows,
    labels: Sequence[Labels],
    column: Column,
) -> Bounds:
    """Judge a column series by series; return its new bounds."""
    gone = verdict.keys_of(metric)
    lows: list[float] = []
    highs: list[float] = []
    open_at: list[int] = []
    for number, value in enumerate(column):
        group = rules.group_of(labels[number])
        interval = group.idle
        if group is not NO_RULES and (gone or not _is_idle(group.idle, value)):
            keys = _keys(metric, labels[number], group) if gone else set()
            firing = frozenset([rule_id for rule_id, _ in keys & gone])
            told = float(value) if isinstance(value, (int, float)) else None
            if told is not None and isfinite(told):
                gone -= keys
                resource = table.resource(rows[number]) if table.resource is not None else None
                firing = verdict.judge_series(
                    labels[number], metric, group, told, table.resource_type, resource
                )
            elif told is not None and isnan(told):  # the sample tells nothing
                told = None
                gone -= keys
            else:
                told, firing = None, frozenset()
            interval = group.unchanged(firing, told) if firing or group.idle == NOTHING else group.idle
            if firing:
                open_at.append(number)
        lows.append(interval.low)
        highs.append(interval.high)
    verdict.close_gone(gone)
    if len({*lows}) <= 1 and len({*highs}) <= 1:
        return Bounds(lows[0] if lows else -inf, highs[0] if highs else inf, frozenset(open_at))
    return Bounds(lows, highs, frozenset(open_at))


def _keys(metric: str, labels: Labels, group: Group) -> set[Key]:
    series = series_text({NAME: metric, **labels})
    return {(rule.id, series) for rule in group.rules}


def _is_idle(idle: Interval, value: float | UnsetType | None) -> bool:
    """Tell whether *value* is there and fires none of the rules."""
    return isinstance(value, (int, float)) and idle.low <= value <= idle.high


def _judge_samples(
    verdict: Verdict, plan: Plan, push: Push, times: dict[bytes, int], at_ms: int, now_ms: int
) -> dict[bytes, int] | None:
    """Judge ``samples`` in the order of their times; return the newest times, None if no rule concerns one."""
    oldest = now_ms - JUDGED_MS
    found = []
    for sample in push.samples or ():
        rules = plan.rules.of_metric(sample.metric)
        if rules is None:
            continue
        labels = cleaned({**(sample.labels or {}), **verdict.base})
        labels.pop(ORG, None)
        group = rules.group_of(labels)
        at = at_ms if sample.timestamp is None else sample_ms(sample.timestamp)
        if group.rules and at >= oldest:
            found.append((at, sample, labels, group))
    if not found:
        return None
    found.sort(key=lambda entry: entry[0])
    newest = {series: at for series, at in times.items() if at >= oldest}
    for at, sample, labels, group in found:
        digest = series_hash(series_text({NAME: sample.metric, **labels}))
        if at >= newest.get(digest, at):
            newest[digest] = at
            verdict.judge_series(labels, sample.metric, group, float(sample.value), "series", None)
    return newest
