"""What holds for every selector, not only for the corpus."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from monitor.errors import BadRequest
from monitor.tsdb import lex, regex, selector
from monitor.tsdb.selector import Matcher, Selector, parse
from tests.tsdb.selector_cases import ACCEPTED, REFUSED

OPS = ("=", "!=", "=~", "!~")
RESERVED = {"on", "bool", "ignoring", "group_left", "group_right", "atan2", "inf", "nan"}

# A reader of its own: what the guard prints is judged by other code than the guard's.
PRINTED_MATCHER = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)("(?:[^"\\\x00-\x1f]|\\.)*")(,|\Z)')


def read_printed(text: str) -> list[tuple[str, str, str]]:
    """Return (label, operator, value) of each matcher of a printed ``{…}``."""
    assert text[0] == "{"
    assert text[-1] == "}"
    found, at, inner = [], 0, text[1:-1]
    while at < len(inner):
        matcher = PRINTED_MATCHER.match(inner, at)
        assert matcher, inner[at:]
        found.append((matcher[1], matcher[2], ast.literal_eval(matcher[3])))
        at = matcher.end()
    return found


def check_accepted(text: str, parsed: Selector) -> None:
    """Assert what every accepted text promises."""
    matchers = [(m.label, m.op, m.value) for m in parsed.matchers]
    printed = parsed.for_tenant("acme").text
    assert read_printed(printed) == [*matchers, ("org_id", "=", "acme")]
    assert not {"org_id", "__graphite__"} & {label for label, _, _ in matchers}
    assert any(not m.matches("") for m in parsed.matchers)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", printed)
    if len(parsed.canonical.encode()) <= selector.MAX_BYTES:
        assert parse(parsed.canonical) == parsed
        assert parse(parsed.canonical).canonical == parsed.canonical
    with pytest.raises(BadRequest):
        parse(printed)


def check(text: str) -> bool:
    """Assert the guard's promise for any text; tell whether it was accepted."""
    try:
        parsed = parse(text)
    except BadRequest as refused:
        words = refused.text
    else:
        check_accepted(text, parsed)
        return True
    assert words.isprintable()
    assert len(words) < 400
    return False


space = st.text(" \t\r\n", max_size=2)
labels = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda label: label not in {"org_id", "__name__"}
)
names = st.from_regex(r"[A-Za-z_:][A-Za-z0-9_:]{0,12}", fullmatch=True).filter(
    lambda name: name.lower() not in RESERVED
)
values = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
simple_regexes = st.sampled_from(
    ["", ".*", ".+", "web-.*", "a|b", r"\d+", "(?i)x", "[^a]", "a{0,100}", r"\Qa.\E", "é?"]
)


@st.composite
def literals(draw: st.DrawFn, value: str) -> str:
    """Draw one of the ways in which *value* may be written."""
    quote = draw(st.sampled_from("\"'`"))
    if quote == "`" and "`" not in value and not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", value):
        return f"`{value}`"
    quote = "'" if quote == "`" else quote
    return quote + "".join(draw(character(c, quote)) for c in value) + quote


def character(c: str, quote: str) -> st.SearchStrategy[str]:
    """Return the ways to write one character between such quotes."""
    ways = [
        f"\\U{ord(c):08x}",
        "".join(f"\\x{byte:02X}" for byte in c.encode()),
        "".join(f"\\{byte:03o}" for byte in c.encode()),
    ]
    if ord(c) <= 0xFFFF:
        ways.append(f"\\u{ord(c):04X}")
    if c in "\a\b\f\n\r\t\v":
        ways.append("\\" + "abfnrtv"["\a\b\f\n\r\t\v".index(c)])
    if c in {"\\", quote}:
        ways.append("\\" + c)
    elif c in "\t\r" or not (ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F):
        ways.extend([c] * 4)
    return st.sampled_from(ways)


@st.composite
def written_selectors(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, str]]]:
    """Draw a text of the grammar with the matchers that it stands for."""
    parts: list[str] = [draw(space)]
    matchers: list[tuple[str, str, str]] = []
    name = draw(st.none() | names)
    if name is not None:
        parts += [name, draw(space)]
        matchers.append(("__name__", "=", name))
    if name is None or draw(st.booleans()):
        written = []
        for _ in range(draw(st.integers(0 if name else 1, 4))):
            label, op = draw(labels), draw(st.sampled_from(OPS))
            value = draw(simple_regexes if "~" in op else values)
            matchers.append((label, op, value))
            gaps = [draw(space) for _ in range(4)]
            written.append(f"{gaps[0]}{label}{gaps[1]}{op}{gaps[2]}{draw(literals(value))}{gaps[3]}")
        comma = draw(st.sampled_from(["", ",", ", "])) if written else ""
        parts += ["{", ",".join(written), comma, draw(space), "}", draw(space)]
    return "".join(parts), matchers


@settings(max_examples=400, deadline=None)
@given(written_selectors())
def test_every_text_of_the_grammar_is_read_as_it_is_meant(case):
    text, matchers = case
    if all(Matcher(*matcher).matches("") for matcher in matchers):
        with pytest.raises(BadRequest, match="empty"):
            parse(text)
    else:
        parsed = parse(text)
        assert [(m.label, m.op, m.value) for m in parsed.matchers] == matchers
        check_accepted(text, parsed)


@pytest.mark.parametrize("text", ACCEPTED, ids=ascii)
def test_every_accepted_text_of_the_corpus_keeps_the_promise(text):
    assert check(text)


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(), max_size=60))
@example("\ud800")
@example('up{a="\\')
def test_any_text_is_accepted_or_a_bad_request(text):
    check(text)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_accepted_or_a_bad_request(raw):
    check(raw.decode("latin-1"))
    check(raw.decode("utf-8", "surrogateescape"))


PIECES = [
    "up", "sum", "on", "or", "by", "rate", "offset", "nan", "{", "}", "(", ")", "[5m]", "[", "@", ",", "=", "==", "!=", "=~", "!~", "!",
    '"', "'", "`", '"a"', "'b'", "`c`", '""', "\\", "\\n", "\\x", "\\xff", "\\u", "\\101", " ", "\n", "\r", "\t", "#", ":", "-", "1", ".5",
    "a", "__name__", "org_id", "__graphite__", 'a="b"', 'org_id="x"', '__name__="up"', 'a=~"("', "a=~`b|c`", "é", "\x00", "\ud800",
]  # fmt: skip


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_sequence_of_tokens_is_accepted_or_a_bad_request(text):
    check(text)


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from([*ACCEPTED, *(text for texts in REFUSED.values() for text in texts)]).filter(
        lambda text: len(text) < 200
    ),
    st.integers(0, 200),
    st.integers(0, 3),
    st.sampled_from(["", *PIECES]),
)
def test_a_damaged_text_of_the_corpus_is_accepted_or_a_bad_request(text, at, cut, put):
    check(text[:at] + put + text[at + cut :])


REGEX_PIECES = [
    "a", "é", ".", "*", "+", "?", "|", "(", ")", "(?:", "(?i)", "(?P<n>", "(?<", "[", "]", "[^", "[]", "[:alpha:]", "[:", ":]", "-", "^", "$",
    "{2}", "{0,100}", "{101}", "{501,}", "{", "}", ",", "\\", "\\C", "\\Q", "\\E", "\\d", "\\pL", "\\p{Greek}", "\\x{41}", "\\x", "0", "\n",
]  # fmt: skip


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(REGEX_PIECES), max_size=12).map("".join))
@example("[[:a](?<n>b)[:]")
@example("\\Q\\\\E{101}")
@example("a{2}{100}")
def test_a_regex_that_passes_has_no_repetition_above_the_bound(pattern):
    check(f"{{a!={lex.quoted('')},b=~{lex.quoted(pattern)}}}")
    try:
        compiled = regex.compiled(pattern)
    except ValueError:
        return
    assert compiled.programsize <= regex.MAX_PROGRAM
    # Without classes, quoting and escapes the braces that are left repeat.
    bare = re.sub(r"\\Q.*?(\\E|\Z)|\\[px]\{\w+\}|\\.", "a", pattern, flags=re.DOTALL)
    if "[" not in bare:
        assert all(int(n) <= 100 for pair in re.findall(r"\{(\d+)(?:,(\d*))?\}", bare) for n in pair if n)
        assert "(?<" not in bare
