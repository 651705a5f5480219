"""What a message says: which changes it lists, and how people read them.  Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from monitor.notify.models import AlertChange, Message, Notice, State

MOST_OF_A_SERIES = 3  # changes told one by one: an alert that fired, was acknowledged, and ended
LISTED = 20  # alerts in a message to people; the others are counted
SUBJECT_CHARACTERS = 200
SYMBOLS = {"gt": ">", "gte": "≥", "lt": "<", "lte": "≤", "eq": "="}
STATES: tuple[State, ...] = ("firing", "acknowledged", "resolved")
BARS = "▁▂▃▄▅▆▇█"


def merged(changes: Sequence[tuple[bytes, AlertChange]]) -> list[Notice]:
    """Return what to tell of changes, each with its series, in their order.

    Of a series that changed more than three times only the newest change is told, with
    their number: it flaps, or its receiver was away.
    """
    counts = Counter(series for series, _ in changes)
    last = {series: number for number, (series, _) in enumerate(changes)}
    notices = []
    for number, (series, change) in enumerate(changes):
        if counts[series] <= MOST_OF_A_SERIES:
            notices.append(Notice(change))
        elif last[series] == number:
            notices.append(Notice(change, changes=counts[series]))
    return notices


def linked(notice: Notice, public_url: str | None) -> Notice:
    """Return *notice* with the address at which its alert can be seen."""
    if public_url is None:
        return notice
    return replace(notice, link=f"{public_url.rstrip('/')}/alerts/{notice.change.alert_id}")


def trial(org_id: str, at: datetime) -> Message:
    """Return the message with which an admin tries a channel."""
    change = AlertChange(
        org_id=org_id,
        alert_id="alert_test",
        state="firing",
        rule_id="rule_test",
        rule_name="Test of a notification channel",
        severity="info",
        resource_type="agent",
        resource_id="test",
        resource_name="test",
        agent_id="",
        metric={"__name__": "agent_up"},
        value=1.0,
        threshold=0.0,
        operator="gt",
        message="Nothing is wrong: somebody tries whether this arrives.",
        at=at,
    )
    return Message(org_id, at, (Notice(change),), test=True)


def subject(message: Message) -> str:
    """Return one line that says what it is about."""
    first = message.notices[0].change
    rest = len(message.notices) - 1
    counts = Counter(notice.change.state for notice in message.notices)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    head = states if rest else first.state
    more = f" and {rest} more" if rest else ""
    what = f"[{head}] {first.rule_name}: {first.resource_name or first.resource_id}"
    test = "[test] " if message.test else ""
    return one_line(f"{test}{what}")[: SUBJECT_CHARACTERS - len(more)] + more


def lines(notice: Notice) -> list[str]:
    """Return the lines that tell one alert to people, its title first."""
    change = notice.change
    name = change.resource_name or change.resource_id
    told = [
        f"{change.state} ({change.severity}): {change.rule_name}",
        f"{change.resource_type} {name}" + (f" ({change.resource_id})" if name != change.resource_id else ""),
        f"value {number(change.value)}, threshold {SYMBOLS.get(change.operator, change.operator)}"
        f" {number(change.threshold)}, at {utc(change.at)}",
    ]
    if change.message:
        told.append(change.message)
    if notice.changes > 1:
        told.append(f"changed {notice.changes} times; this is the newest")
    if notice.values:
        told.append(f"last 15 minutes: {trend(notice.values)}")
    return [one_line(line) for line in told]


def text(message: Message) -> str:
    """Return the whole message for people: at most 20 alerts, and how many more."""
    blocks = [
        "\n".join([*lines(notice), *([notice.link] if notice.link else [])])
        for notice in message.notices[:LISTED]
    ]
    if len(message.notices) > LISTED:
        blocks.append(f"and {len(message.notices) - LISTED} more")
    return "\n\n".join(blocks) + "\n"


def trend(values: Sequence[tuple[float, float]]) -> str:
    """Return values as bars with the least, the greatest and the newest; "" for none that is finite."""
    finite = [value for _, value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    span = high / 2 - low / 2  # halves: no difference of two floats overflows
    bars = "".join(
        BARS[round((value / 2 - low / 2) / span * (len(BARS) - 1)) if span else 0] for value in finite
    )
    return f"{bars} min {number(low)}, max {number(high)}, last {number(finite[-1])}"


def number(value: float) -> str:
    """Return a value as people write it, six digits at most."""
    return f"{value:.6g}"


def utc(moment: datetime) -> str:
    """Return *moment* as RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def one_line(value: str) -> str:
    """Return *value* without control characters, its white space single."""
    return " ".join("".join(c if c.isprintable() else " " for c in value).split())
