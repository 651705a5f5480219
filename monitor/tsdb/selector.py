"""The selector guard: one instant vector selector, bound to one organization.

Nothing a tenant wrote reaches VictoriaMetrics as text.  ``parse`` reads a
closed, non-recursive grammar into matchers, ``Selector.for_tenant`` binds them
to an organization, and only what ``BoundSelector`` prints afresh from them is
sent.  No tree, no recursion: time is linear in the text, which is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, cast

from msgspec import Struct

from monitor.errors import BadRequest
from monitor.tsdb import refusal, regex
from monitor.tsdb.lex import LABEL_NAME, METRIC_NAME, SPACE, STRING, SelectorError, quoted, unquoted

NAME = "__name__"
ORG = "org_id"
AGENT = "agent_id"
MAX_BYTES = 4_096  # of a selector's UTF-8
MAX_MATCHERS = 64  # in one pair of braces
# RE2 instructions of all regexes together: 64 regexes, each just below its own bound, would
# hold the event loop for 0.3 s, these for about 0.02 s.
MAX_PROGRAMS = 20_000

Op = Literal["=", "!=", "=~", "!~"]

_OPS = frozenset(("=", "!=", "=~", "!~"))
# Prometheus reads these as operators, modifiers or numbers, in any case, wherever a name may stand.
_RESERVED = frozenset(("on", "bool", "ignoring", "group_left", "group_right", "atan2", "inf", "nan"))
# VictoriaMetrics reads the second one as a query of another language.
_FORBIDDEN_LABELS = frozenset((ORG, "__graphite__"))

_HEAD = re.compile(rf"{SPACE}(?P<name>{METRIC_NAME})?+{SPACE}(?P<brace>\{{)?+")
_MATCHER = re.compile(
    rf"{SPACE}(?P<label>{LABEL_NAME}){SPACE}(?P<op>=~|!~|!=|=){SPACE}(?P<value>{STRING}){SPACE}(?P<next>[,}}])"
)
_CLOSE = re.compile(rf"{SPACE}\}}")
_END = re.compile(rf"{SPACE}\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_METRIC_NAME = re.compile(METRIC_NAME)
_LABEL_NAME = re.compile(LABEL_NAME)
_ORG_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Matcher(Struct, frozen=True):
    """A condition on one label, with the meaning that VictoriaMetrics gives it.

    Raises:
        ValueError: The label is none, or one that decides about the tenant.
    """

    label: str
    op: Op
    value: str

    def __post_init__(self) -> None:
        if not _LABEL_NAME.fullmatch(self.label) or self.label in _FORBIDDEN_LABELS:
            raise ValueError(f"not a label to match on: {self.label}")
        if self.op not in _OPS:
            raise ValueError(f"not an operator of matchers: {self.op}")

    def matches(self, value: str) -> bool:
        """Tell whether a series with this label *value* passes; absent is ``""``."""
        if self.op == "=":
            return value == self.value
        if self.op == "!=":
            return value != self.value
        return regex.matches(self.value, value) == (self.op == "=~")

    def __str__(self) -> str:
        return f"{self.label}{self.op}{quoted(self.value)}"


class Selector(Struct, frozen=True):
    """One instant vector selector; a metric name is its matcher ``__name__=``, the first one."""

    matchers: tuple[Matcher, ...]

    @property
    def name(self) -> str | None:
        """The metric name, None if the selector does not fix it."""
        for matcher in self.matchers:
            if matcher.label == NAME and matcher.op == "=":
                return matcher.value
        return None

    @property
    def canonical(self) -> str:
        """The selector in its usual form, ``name{label="value",…}``, to be shown and parsed again."""
        names = [matcher for matcher in self.matchers if matcher.label == NAME]
        name = self.name
        if name is None or len(names) > 1 or not _METRIC_NAME.fullmatch(name) or name.lower() in _RESERVED:
            return f"{{{','.join(map(str, self.matchers))}}}"
        rest = [str(matcher) for matcher in self.matchers if matcher.label != NAME]
        return f"{name}{{{','.join(rest)}}}" if rest else name

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a series with *labels*, ``__name__`` among them, is selected."""
        return all(matcher.matches(labels.get(matcher.label, "")) for matcher in self.matchers)

    def for_tenant(self, org_id: str, hidden_agents: Sequence[str] = ()) -> BoundSelector:
        """Return this selector for series of *org_id* alone, but for those of *hidden_agents*.

        Raises:
            ValueError: *org_id* is not of the form of an organization's id.
        """
        return BoundSelector(self, org_id, tuple(hidden_agents))


class BoundSelector(Struct, frozen=True):
    """A selector of one organization's series: all that VictoriaMetrics is ever asked with."""

    selector: Selector
    org_id: str
    hidden_agents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _ORG_ID.fullmatch(self.org_id):
            raise ValueError("not an organization id")

    @property
    def text(self) -> str:
        """The selector as it is sent, ``{__name__="…",…,org_id="…"}``."""
        matchers = [str(matcher) for matcher in self.selector.matchers]
        matchers += [f"{AGENT}!={quoted(agent_id)}" for agent_id in self.hidden_agents]
        return f"{{{','.join([*matchers, f'{ORG}={quoted(self.org_id)}'])}}}"


def parse(text: str, field: str = "metric") -> Selector:
    """Return the one selector that *text* is.

    Args:
        text: Anything a caller may have sent.
        field: The input's name, for the error.

    Raises:
        BadRequest: It is anything else; says what was found, at which character
            (from 1), and what to use instead where a metric gives the same.
    """
    try:
        return _parsed(text)
    except SelectorError as reason:
        raise BadRequest(str(reason), field=field) from None


# A dashboard that refreshes asks with the same selectors again.
@lru_cache(512)
def _parsed(text: str) -> Selector:
    _check_text(text)
    return _read(text)


def series_text(labels: Mapping[str, str]) -> str:
    """Return the canonical text of a series, ``name{label="value",…}``, sorted by label.

    The organization's label is left out: it is never shown.
    """
    pairs = [f"{label}={quoted(labels[label])}" for label in sorted(labels) if label not in {NAME, ORG}]
    name = labels.get(NAME, "")
    return f"{name}{{{','.join(pairs)}}}" if pairs or not name else name


def _check_text(text: str) -> None:
    """Refuse what is no text to read: too long, not Unicode, raw control characters."""
    too_long = SelectorError(f"the selector is longer than {MAX_BYTES} bytes")
    if len(text) > MAX_BYTES:
        raise too_long
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise SelectorError(
            f"the selector is not Unicode (found half a surrogate pair at {error.start + 1})"
        ) from None
    if size > MAX_BYTES:
        raise too_long
    if control := _CONTROL.search(text):
        raise refusal.control(text, control.start())


def _read(text: str) -> Selector:
    """Recognise the grammar; ``refusal`` only words what is not recognised."""
    head = _HEAD.match(text)
    assert head is not None, "every part of the head is optional"
    name, at = head["name"], head.end()
    if name and name.lower() in _RESERVED:
        raise refusal.reserved(name, head.start("name"))
    matchers: list[Matcher] = []
    if head["brace"]:
        at = _read_braces(text, at, matchers, named=bool(name))
    elif not name:
        raise refusal.outside(text, at, "")
    if not _END.match(text, at):
        raise refusal.outside(text, at, "" if head["brace"] else name, head.start("name"))
    if name:
        matchers.insert(0, Matcher(NAME, "=", name))
    else:
        # The name first, wherever it stood: equal selectors are written alike.
        matchers.sort(key=lambda matcher: (matcher.label, matcher.op) != (NAME, "="))
    if all(matcher.matches("") for matcher in matchers):
        raise refusal.selects_everything()
    return Selector(tuple(matchers))


def _read_braces(text: str, at: int, matchers: list[Matcher], *, named: bool) -> int:
    """Append what stands from *at*, behind "{", up to its "}"; return the offset behind that."""
    programs = 0
    while not (close := _CLOSE.match(text, at)):
        token = _MATCHER.match(text, at)
        if token is None:
            raise refusal.inside(text, at)
        label, op = token["label"], cast("Op", token["op"])
        if label in _FORBIDDEN_LABELS:
            raise refusal.forbidden(label, token.start("label"))
        if label == NAME and (
            named or (op == "=" and any(m.label == NAME and m.op == "=" for m in matchers))
        ):
            raise refusal.second_name(token.start("label"))
        if len(matchers) == MAX_MATCHERS:
            raise SelectorError(
                f"more than {MAX_MATCHERS} matchers (found one more at {token.start('label') + 1})"
            )
        value = unquoted(token["value"], token.start("value"))
        if op in {"=~", "!~"}:
            programs += _program_size(value, token.start("value"))
            if programs > MAX_PROGRAMS:
                raise SelectorError(f"the regexes together compile to more than {MAX_PROGRAMS} instructions")
        matchers.append(Matcher(label, op, value))
        if token["next"] == "}":
            return token.end()
        at = token.end()
    return close.end()


def _program_size(value: str, at: int) -> int:
    """Return the RE2 instructions of a regex whose string opens at *at*; refuse a bad one."""
    try:
        return regex.compiled(value).programsize
    except ValueError as error:
        raise SelectorError(f"the regex at {at + 1} {error}") from None
