r"""The regular expressions of matchers: what is let through, and how they match.

They are RE2's, anchored at both ends, and the dot matches a line break, as in
VictoriaMetrics.  The bounds keep a tenant's expression from costing more than
its text: one with ``{0,501}`` ends a whole VictoriaMetrics of 1.79 or 1.112.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

import re2

from monitor.tsdb.lex import shown

MAX_CHARACTERS = 256
MAX_NESTING = 20
MAX_REPETITION = 100
MAX_PROGRAM = 10_000  # RE2 instructions

_REASON_CHARACTERS = 80  # of RE2's words, which may end in the whole pattern
_COMPILED = 1_024  # expressions kept compiled, each below _MEMORY_BYTES
_MEMORY_BYTES = 1 << 20  # RE2 stops compiling at about 16,000 instructions of it

# Only what decides about the bounds is told apart; RE2 itself judges the rest.
_TOKEN = re.compile(
    r"""
      \\Q (?: [^\\] | \\(?!E) )*+ (?: \\E )?+       # a quoted literal
    | \\[xpP] \{ [^}]*+ \}                          # \x{10FFFF}, \p{Greek}: no repetition
    | (?P<byte> \\C )
    | \\.
    | \[ \^?+ \]?+ (?: \[: .*? :\] | \\. | [^\]\\] )*+ \]
    | \{ (?P<least> [0-9]++ ) (?: , (?P<most> [0-9]*+ ) )?+ \}
    | \(\? [A-Za-z-]*+ \)                           # flags alone open no group
    | (?P<behind> \(\?< )
    | \(\?P< (?P<group> [^>]*+ ) >
    | (?P<opened> \( )
    | (?P<closed> \) )
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_GROUP_NAME = re.compile(r"[A-Za-z0-9_]++")


class Regex(Protocol):
    """A compiled expression of google-re2, which ships no types."""

    programsize: int

    def fullmatch(self, text: bytes) -> object | None:
        """Return a match if *text*, UTF-8, matches from end to end."""


@lru_cache(maxsize=_COMPILED)
def compiled(pattern: str) -> Regex:
    """Return *pattern* compiled as ``^(?s:pattern)$``.

    Raises:
        ValueError: The pattern is above a bound or not valid; the text goes on
            after "the regex".
    """
    if len(pattern) > MAX_CHARACTERS:
        raise ValueError(f"is longer than {MAX_CHARACTERS} characters")
    _check_bounds(pattern)
    _compile(pattern)
    # Valid alone is not enough: "a)|(b" would leave the group, and "\Qa" would swallow its end.
    return _compile(f"^(?s:{pattern})$")


def matches(pattern: str, value: str) -> bool:
    """Tell whether all of *value* matches *pattern*."""
    return compiled(pattern).fullmatch(value.encode("utf-8", "surrogatepass")) is not None


def _check_bounds(pattern: str) -> None:
    """Raise ValueError for what RE2 might take, and the service does not."""
    depth = 0
    groups: set[str] = set()
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "byte":
                raise ValueError(r"holds \C, which matches half a character")
            case "behind":
                raise ValueError(
                    "holds (?<, which not every VictoriaMetrics reads; name a group with (?P<name>…)"
                )
            case "least" | "most":
                if (
                    int(token["most"] or token["least"]) > MAX_REPETITION
                    or int(token["least"]) > MAX_REPETITION
                ):
                    raise ValueError(f"repeats more than {MAX_REPETITION} times (found {shown(token[0])})")
            case "group" | "opened":
                depth += 1
                if token["group"] is not None:
                    _check_group_name(token["group"], groups)
            case "closed":
                depth -= 1
        if depth > MAX_NESTING:
            raise ValueError(f"nests deeper than {MAX_NESTING}")


def _check_group_name(name: str, groups: set[str]) -> None:
    """Raise ValueError for a name that Go's RE2 refuses and google-re2 takes."""
    if not _GROUP_NAME.fullmatch(name):
        raise ValueError(f"holds a group name other than letters, digits and _ (found {shown(name)})")
    if name in groups:
        raise ValueError(f"holds two groups of one name (found {shown(name)})")
    groups.add(name)


def _compile(pattern: str) -> Regex:
    options = re2.Options()
    options.log_errors = False  # the caller is told; the log is not his to fill
    options.max_mem = _MEMORY_BYTES
    try:
        regex: Regex = re2.compile(pattern.encode(), options)
    except re2.error as error:
        reason = shown(error.args[0].decode("utf-8", "replace"), _REASON_CHARACTERS)
        if "too large" in reason:
            raise ValueError(f"compiles to more than {MAX_PROGRAM} instructions") from None
        raise ValueError(f"is not valid RE2 ({reason})") from None
    if regex.programsize > MAX_PROGRAM:
        raise ValueError(f"compiles to more than {MAX_PROGRAM} instructions")
    return regex
