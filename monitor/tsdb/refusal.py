"""The words of the selector guard: what was found, where, and what to use instead.

Nothing is decided here.  The grammar has already refused the text when these
are asked; each returns a ``SelectorError`` whatever it is given.
"""

from __future__ import annotations

import re

from monitor.tsdb.lex import LABEL_NAME, METRIC_NAME, SPACE, STRING, SelectorError, shown

_FOUND = re.compile(
    rf"{METRIC_NAME}|\[[^\]]*+\]?+|[0-9.][0-9A-Za-z.]*+|[=!<>][=~]?+|[\s\S]",
)
_WORD = re.compile(METRIC_NAME)
_SPACE = re.compile(SPACE)
_LABEL = re.compile(LABEL_NAME)
_OP = re.compile(r"=~|!~|!=|=")
_STRING = re.compile(STRING)

_AGGREGATIONS = frozenset(
    (
        "avg",
        "bottomk",
        "count",
        "count_values",
        "group",
        "limit_ratio",
        "limitk",
        "max",
        "min",
        "quantile",
        "stddev",
        "stdvar",
        "sum",
        "topk",
    )
)
_SET_OPERATORS = frozenset(("and", "or", "unless"))

# A tenant can neither rate() nor sum(): these metrics already are what those would give.
_RATES = {
    f"{counter}_total": f"{counter}_per_second"
    for counter in (
        "container_network_receive_bytes",
        "container_network_transmit_bytes",
        "container_fs_reads_bytes",
        "container_fs_writes_bytes",
    )
}
_SUMS = {
    ("sum", "container_cpu_usage_percent"): "agent_containers_cpu_usage_percent",
    ("sum", "container_memory_working_set_bytes"): "agent_containers_memory_working_set_bytes",
    ("sum", "container_running"): "agent_containers_running",
    ("count", "container_running"): "agent_containers",
    ("sum", "kube_pod_status_phase"): "kube_cluster_pods",
    ("count", "kube_pod_status_phase"): "kube_cluster_pods",
    ("sum", "kube_node_ready"): "kube_cluster_nodes_ready",
    ("count", "kube_node_ready"): "kube_cluster_nodes",
}
_RATIOS = {
    (
        "container_memory_working_set_bytes",
        "container_spec_memory_limit_bytes",
    ): "container_memory_usage_percent",
    ("kube_node_cpu_usage_cores", "kube_node_status_allocatable"): "kube_node_cpu_usage_percent",
    ("kube_node_memory_usage_bytes", "kube_node_status_allocatable"): "kube_node_memory_usage_percent",
}
_PLAIN = "give one metric name with label matchers"


def control(text: str, at: int) -> SelectorError:
    """Word a raw control character."""
    return _refused(
        "control characters are not accepted", text[at], at, "inside a string write it as an escape"
    )


def reserved(name: str, at: int) -> SelectorError:
    """Word a bare name that PromQL keeps for itself."""
    if name.lower() in {"inf", "nan"}:
        return _refused("numbers are not accepted", name, at, _PLAIN)
    return _refused(
        "keywords of PromQL are not accepted", name, at, f'a metric of that name is {{__name__="{name}"}}'
    )


def forbidden(label: str, at: int) -> SelectorError:
    """Word a matcher on a label that is the service's own."""
    instead = "the organization is always your own" if label == "org_id" else _PLAIN
    return _refused(f"no matcher may be on the label {label}", label, at, instead)


def second_name(at: int) -> SelectorError:
    """Word a metric name given twice."""
    return _refused("the metric name is already given", "__name__", at, "give it once")


def selects_everything() -> SelectorError:
    """Word a selector without any condition that an absent label fails."""
    return SelectorError(
        "the selector is empty: at least one matcher must not match the empty string;"
        ' for every metric use {__name__!=""}'
    )


def inside(text: str, at: int) -> SelectorError:
    """Word what stands from *at* inside braces where a matcher should be."""
    at = _skip_space(text, at)
    label = _LABEL.match(text, at)
    if label is None:
        return _no_label(text, at)
    at = _skip_space(text, label.end())
    op = _OP.match(text, at)
    if op is None:
        if text[at : at + 1] == ":":
            return _refused("label names hold no colon", ":", at, "only metric names may")
        return _unexpected(text, at, f"expected =, !=, =~ or !~ after the label {label[0]}")
    at = _skip_space(text, op.end())
    if op[0] == "=" and text[op.end() : op.end() + 1] == "=":
        return _refused("== is no matcher", "==", op.start(), "use =")
    string = _STRING.match(text, at)
    if string is None:
        return _no_string(text, at, label[0])
    at = _skip_space(text, string.end())
    if _found(text, at).lower() == "or":
        return _refused(
            "or groups are not accepted", _found(text, at), at, 'use one regex matcher such as label=~"a|b"'
        )
    return _unexpected(text, at, "expected , or } after a matcher")


def outside(text: str, at: int, name: str, name_at: int = 0) -> SelectorError:
    """Word what stands from *at* outside braces where the selector begins or should end.

    Args:
        text: The selector.
        at: Offset, from 0.
        name: The bare metric name directly before *at*, ``""`` if there is none.
        name_at: Offset of that name.
    """
    at = _skip_space(text, at)
    found = _found(text, at)
    word = found.lower()
    called = name.lower()
    if name and found == "(" and called in _AGGREGATIONS:
        return _refused("aggregations are not accepted", f"{name}(", name_at, _aggregated(text, called))
    if name and found == "(":
        return _refused("functions are not accepted", f"{name}(", name_at, _rated(text))
    if called in _AGGREGATIONS and word in {"by", "without"}:
        return _refused(
            "aggregations are not accepted", f"{name} {found}", name_at, _aggregated(text, called)
        )
    if found.startswith("["):
        return _refused("ranges are not accepted", found, at, _rated(text))
    if word == "offset" or found == "@":
        return _refused(
            f"{word} is not accepted", found, at, "give a time, or start and end, beside the selector"
        )
    if word in _SET_OPERATORS or found in {"+", "-", "*", "/", "%", "^"}:
        return _refused("operators are not accepted", found, at, _divided(text))
    if found[0:1] in {"=", "!", "<", ">"}:
        return _refused("comparisons are not accepted", found, at, "an alert rule has operator and threshold")
    return _refused_start(text, at, found)


def _refused_start(text: str, at: int, found: str) -> SelectorError:
    """Word what neither begins nor follows a selector in PromQL either."""
    if not text.strip(" \t\r\n"):
        return SelectorError(f"the selector is empty; {_PLAIN}")
    if found == "#":
        return _comment(at)
    if found[0:1] in {'"', "'", "`"}:
        return _refused(
            "quoted names are not accepted", found, at, 'write the name bare, or as {__name__="…"}'
        )
    if found in {"(", ")"}:
        return _refused("parentheses are not accepted", found, at, _PLAIN)
    if text[:at].strip(" \t\r\n"):
        return _unexpected(text, at, "expected the end: exactly one selector is accepted")
    if found[0] in ".0123456789":
        return _refused("numbers are not accepted", found, at, _PLAIN)
    return _unexpected(text, at, "expected a metric name or {")


def _no_label(text: str, at: int) -> SelectorError:
    found = _found(text, at)
    if found[0:1] in {'"', "'", "`"}:
        return _refused("quoted names are not accepted", found, at, "write the label bare")
    return _unexpected(text, at, "expected a label name or }")


def _no_string(text: str, at: int, label: str) -> SelectorError:
    quote = text[at : at + 1]
    if quote not in {'"', "'", "`"} or not quote:
        return _unexpected(text, at, f"expected a quoted string as the value of {label}")
    line_break = text.find("\n", at)
    if quote == "`" or line_break < 0:
        return SelectorError(f"the string that opens with {quote} at {at + 1} is not closed")
    return _refused(
        f"the string that opens with {quote} at {at + 1} is not closed on its line",
        text[line_break],
        line_break,
        "write \\n, or use `backticks`",
    )


def _unexpected(text: str, at: int, expected: str) -> SelectorError:
    """Word what only its place makes wrong."""
    if at >= len(text):  # only inside braces does something have to follow
        return SelectorError(
            f"the brace at {text.index('{') + 1} is not closed: {expected} (found the end at {at + 1})"
        )
    if text[at] == "#":
        return _comment(at)
    return SelectorError(f"{expected} (found {shown(_found(text, at))} at {at + 1})")


def _comment(at: int) -> SelectorError:
    return _refused("comments are not accepted", "#", at, "leave it out")


def _refused(what: str, found: str, at: int, instead: str) -> SelectorError:
    return SelectorError(f"{what} (found {shown(found)} at {at + 1}); {instead}")


def _found(text: str, at: int) -> str:
    """Return the token at *at*, empty at the end."""
    token = _FOUND.match(text, at)
    return token[0] if token else ""


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _rated(text: str) -> str:
    """Return what to use instead of a function or a range."""
    for word in _WORD.findall(text):
        if word in _RATES:
            return f"use {_RATES[word]}"
    return _PLAIN


def _aggregated(text: str, aggregation: str) -> str:
    """Return what to use instead of an aggregation."""
    for word in _WORD.findall(text):
        if instead := _SUMS.get((aggregation, word)) or _RATES.get(word):
            return f"use {instead}"
    return _PLAIN


def _divided(text: str) -> str:
    """Return what to use instead of arithmetic."""
    words = set(_WORD.findall(text))
    for operands, instead in _RATIOS.items():
        if words.issuperset(operands):
            return f"use {instead}"
    return _PLAIN
