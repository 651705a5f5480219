"""Fuzz the selector guard: ``python fuzz/selector.py [libFuzzer options]``, by default one minute.

Whatever the bytes are, the guard accepts them or raises BadRequest.  What it
accepts is printed as quoted matchers that say the same, and carries exactly one
matcher on the organization: the caller's.  ``-runs=N`` or ``-max_total_time=S``
bound a run, a folder as argument keeps its corpus.
"""

from __future__ import annotations

import ast
import re
import sys

import atheris

with atheris.instrument_imports(include=["monitor.tsdb"]):
    from monitor.errors import BadRequest
    from monitor.tsdb.selector import MAX_BYTES, parse

DEFAULT_SECONDS = 60
PRINTED_MATCHER = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)("(?:[^"\\\x00-\x1f\x7f]|\\.)*")(?:,|\Z)')


def text_of(raw: bytes) -> str:
    """Return a text: mostly UTF-8, with lone surrogates for what is not."""
    return raw.decode("utf-8", "surrogateescape")


def matchers_of(printed: str) -> list[tuple[str, str, str]]:
    """Return (label, operator, value) of each matcher in a printed ``{…}``, by other code than the guard's."""
    assert printed.startswith("{"), printed
    assert printed.endswith("}"), printed
    inner, at, found = printed[1:-1], 0, []
    while at < len(inner):
        matcher = PRINTED_MATCHER.match(inner, at)
        assert matcher, printed
        found.append((matcher[1], matcher[2], ast.literal_eval(matcher[3])))
        at = matcher.end()
    return found


def check(raw: bytes) -> None:
    """Assert what the guard promises of any input."""
    text = text_of(raw)
    try:
        selector = parse(text)
    except BadRequest as refused:
        assert refused.text.encode().decode().isprintable(), refused.text  # noqa: PT017 - no pytest here
        return
    assert len(text.encode()) <= MAX_BYTES
    matchers = [(m.label, m.op, m.value) for m in selector.matchers]
    bound = selector.for_tenant("acme").text
    assert matchers_of(bound) == [*matchers, ("org_id", "=", "acme")], text
    assert not {"org_id", "__graphite__"} & {label for label, _, _ in matchers}, text
    assert any(not m.matches("") for m in selector.matchers), text
    if len(selector.canonical.encode()) <= MAX_BYTES:
        assert parse(selector.canonical) == selector, text


def main() -> None:
    """Run libFuzzer, which ends the program; status 0 if every promise held."""
    arguments = sys.argv
    if not any(argument.startswith(("-runs=", "-max_total_time=")) for argument in arguments):
        arguments = [*arguments, f"-max_total_time={DEFAULT_SECONDS}"]
    atheris.Setup(arguments, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
