"""Strings of the selector language: reading Go's escapes, printing them again.

What ``quoted`` prints is read alike by Prometheus and by every
VictoriaMetrics since 1.79, and ``unquoted`` reads it back unchanged.
"""

from __future__ import annotations

import re

SPACE = r"[ \t\r\n]*+"
METRIC_NAME = r"[A-Za-z_:][A-Za-z0-9_:]*+"
LABEL_NAME = r"[A-Za-z_][A-Za-z0-9_]*+"
# Every repetition is possessive: a string that is not closed costs one pass, not one for each start.
STRING = r'(?:"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"' r"|'[^'\\\n]*+(?:\\[^\n][^'\\\n]*+)*+'" r"|`[^`]*+`)"

_CONTROL = (*range(0x20), *range(0x7F, 0xA0))
_PRINTED = {
    **{code: f"\\u{code:04x}" for code in _CONTROL},
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}
_NEEDS_ESCAPE = re.compile(r'[\x00-\x1f"\\\x7f-\x9f]')

_ESCAPE = re.compile(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{2})|(?P<octal>[0-7]{3})"
    r"|u(?P<u4>[0-9A-Fa-f]{4})|U(?P<u8>[0-9A-Fa-f]{8})|(?P<one>[^xuU0-7]))"
)
_ONE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_SHOWN_CHARACTERS = 40  # of what was found


class SelectorError(Exception):
    """Why a text is no selector, worded for whoever wrote it."""


def shown(found: str, characters: int = _SHOWN_CHARACTERS) -> str:
    """Return the beginning of what was *found* so that an error can hold it on one line."""
    start = found if len(found) <= characters else f"{found[:characters]}…"
    return start if start.isprintable() else start.encode("unicode_escape").decode()


def quoted(text: str) -> str:
    """Return *text* as a double-quoted string literal, control characters escaped."""
    return f'"{text.translate(_PRINTED) if _NEEDS_ESCAPE.search(text) else text}"'


def unquoted(literal: str, at: int) -> str:
    r"""Return the text that a string literal stands for.

    Escapes are Go's, as in Prometheus: ``\x`` and octal escapes give bytes, and
    the bytes together have to be UTF-8.

    Args:
        literal: What ``STRING`` matched, with its quotes.
        at: Offset of the literal's opening quote in the selector, from 0.

    Raises:
        SelectorError: A bad escape, or bytes that are not UTF-8.
    """
    quote, inner = literal[0], literal[1:-1]
    if quote == "`" or "\\" not in inner:
        return inner
    parts = []
    done = 0
    while (backslash := inner.find("\\", done)) >= 0:
        parts.append(inner[done:backslash].encode())
        escape = _ESCAPE.match(inner, backslash)
        value = _escaped(escape, quote) if escape else None
        if escape is None or value is None:
            raise SelectorError(_bad_escape(inner, backslash, quote, at + 1 + backslash))
        parts.append(value)
        done = escape.end()
    parts.append(inner[done:].encode())
    try:
        return b"".join(parts).decode()
    except UnicodeDecodeError:
        raise SelectorError(f"the string at {at + 1} is not UTF-8 once its escapes are read") from None


def _escaped(escape: re.Match[str], quote: str) -> bytes | None:
    """Return the bytes that one escape gives, None if there is no such escape."""
    kind, digits = str(escape.lastgroup), escape[str(escape.lastgroup)]
    if kind == "one":
        code = ord(quote) if digits == quote else _ONE.get(digits)
        return None if code is None else bytes((code,))
    code = int(digits, 8 if kind == "octal" else 16)
    if kind in {"hex", "octal"}:
        return bytes((code,)) if code <= 0xFF else None
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return None
    return chr(code).encode()


def _bad_escape(inner: str, backslash: int, quote: str, at: int) -> str:
    """Word the refusal of the escape that starts at *backslash* of *inner*."""
    letter = inner[backslash + 1]
    width = 4 if letter.isdecimal() else {"x": 4, "u": 6, "U": 10}.get(letter, 2)
    found = f"(found {shown(inner[backslash : backslash + width])} at {at + 1})"
    if letter in {"'", '"'}:
        return f"bad escape {found}; inside {quote} write {letter} without the backslash"
    return (
        f"bad escape {found}; in a regex write the backslash twice, or use `backticks`, which know no escapes"
    )
