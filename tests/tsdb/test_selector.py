"""The guard's corpus: what passes, how it is printed, what is refused and how that is said."""

from __future__ import annotations

import pytest

from monitor.errors import BadRequest
from monitor.tsdb import lex, selector
from monitor.tsdb.selector import BoundSelector, Matcher, Selector, parse, series_text
from tests.tsdb.selector_cases import ACCEPTED, REFUSED

REFUSALS = [(text, part) for part, texts in REFUSED.items() for text in texts]

# fmt: off
# The whole error, for those that a user meets first.
WORDS: dict[str, str] = {
    "rate(container_network_receive_bytes_total[5m])":
        "functions are not accepted (found rate( at 1); use container_network_receive_bytes_per_second",
    " irate (container_fs_writes_bytes_total[5m])":
        "functions are not accepted (found irate( at 2); use container_fs_writes_bytes_per_second",
    "container_network_transmit_bytes_total[5m]":
        "ranges are not accepted (found [5m] at 39); use container_network_transmit_bytes_per_second",
    "sum(rate(container_fs_reads_bytes_total[5m]))":
        "aggregations are not accepted (found sum( at 1); use container_fs_reads_bytes_per_second",
    "sum by (agent) (container_cpu_usage_percent)":
        "aggregations are not accepted (found sum by at 1); use agent_containers_cpu_usage_percent",
    "sum(container_memory_working_set_bytes)":
        "aggregations are not accepted (found sum( at 1); use agent_containers_memory_working_set_bytes",
    "count(container_running)": "aggregations are not accepted (found count( at 1); use agent_containers",
    "SUM(kube_node_ready)": "aggregations are not accepted (found SUM( at 1); use kube_cluster_nodes_ready",
    "avg(up)": "aggregations are not accepted (found avg( at 1); give one metric name with label matchers",
    "container_memory_working_set_bytes / container_spec_memory_limit_bytes":
        "operators are not accepted (found / at 36); use container_memory_usage_percent",
    "rate(up[5m])": "functions are not accepted (found rate( at 1); give one metric name with label matchers",
    "up > 5": "comparisons are not accepted (found > at 4); an alert rule has operator and threshold",
    "up offset 5m": "offset is not accepted (found offset at 4); give a time, or start and end, beside the selector",
    'up{a="b" or c="d"}': 'or groups are not accepted (found or at 10); use one regex matcher such as label=~"a|b"',
    'up{"a"="b"}': 'quoted names are not accepted (found " at 4); write the label bare',
    "up # x": "comments are not accepted (found # at 4); leave it out",
    "{}": "the selector is empty: at least one matcher must not match the empty string;"
          ' for every metric use {__name__!=""}',
    'up{org_id="x"}':
        "no matcher may be on the label org_id (found org_id at 4); the organization is always your own",
    'up{a="b"': "the brace at 3 is not closed: expected , or } after a matcher (found the end at 9)",
    'up{a="b': 'the string that opens with " at 6 is not closed',
    'up{a="é\\d"}': "bad escape (found \\d at 8); in a regex write the backslash twice, or use `backticks`,"
                    " which know no escapes",
    "up{a='b\\\"'}": "bad escape (found \\\" at 8); inside ' write \" without the backslash",
    "up{é}": "expected a label name or } (found é at 4)",
    "up{\u00a0}": "expected a label name or } (found \\xa0 at 4)",
    'up{a=~"a{0,501}"}': "the regex at 7 repeats more than 100 times (found {0,501})",
    'up{a=~"("}': "the regex at 7 is not valid RE2 (missing ): ()",
    "on": 'keywords of PromQL are not accepted (found on at 1); a metric of that name is {__name__="on"}',
    "up\x00": "control characters are not accepted (found \\x00 at 3); inside a string write it as an escape",
    "up" + "z" * 60 + "[" + "9" * 60 + "]":
        f"ranges are not accepted (found [{'9' * 39}… at 63); give one metric name with label matchers",
}
# fmt: on


def refusal_of(text: str) -> str:
    with pytest.raises(BadRequest) as refused:
        parse(text, field="selector")
    assert refused.value.field == "selector"
    return refused.value.text


def test_the_corpus_is_whole():
    assert len(ACCEPTED) + len(REFUSALS) + len(WORDS) >= 300
    assert not ACCEPTED.keys() & {text for text, _ in REFUSALS}


@pytest.mark.parametrize("text", ACCEPTED, ids=ascii)
def test_an_accepted_selector_is_printed_afresh_with_its_organization(text):
    assert parse(text).for_tenant("acme").text == f'{{{ACCEPTED[text]},org_id="acme"}}'


@pytest.mark.parametrize(("text", "part"), REFUSALS, ids=lambda text: ascii(text)[:60])
def test_a_refused_selector_says_why(text, part):
    assert part in refusal_of(text)


@pytest.mark.parametrize("text", WORDS, ids=lambda text: ascii(text)[:60])
def test_a_refusal_says_what_was_found_where_and_what_to_use(text):
    assert refusal_of(text) == WORDS[text]


@pytest.mark.parametrize(
    "text", [text for text, _ in REFUSALS if len(text) <= 4096], ids=lambda text: ascii(text)[:60]
)
def test_a_refusal_is_one_short_line_of_text(text):
    words = refusal_of(text)

    assert words.encode().decode().isprintable()
    assert len(words) < 400


def test_the_field_is_metric_unless_told():
    with pytest.raises(BadRequest) as refused:
        parse("sum(up)")
    assert refused.value.field == "metric"
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("up", "up"),
        (" up { } ", "up"),
        ('{__name__="up"}', "up"),
        ("{b='c',__name__=`up`,}", 'up{b="c"}'),
        ('up { a = "b" , c !~ "d" }', 'up{a="b",c!~"d"}'),
        ('{a="b"}', '{a="b"}'),
        ('{__name__="on"}', '{__name__="on"}'),
        ('{__name__="two words"}', '{__name__="two words"}'),
        ('{__name__="",a="b"}', '{__name__="",a="b"}'),
        ('{__name__!="x",__name__="up"}', '{__name__="up",__name__!="x"}'),
        ('{__name__=~"up.*"}', '{__name__=~"up.*"}'),
        ('up{a="\\x07\\""}', 'up{a="\\u0007\\""}'),
    ],
)
def test_the_canonical_text_is_the_usual_form(text, canonical):
    assert parse(text).canonical == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("up", "up"),
        ('{a="b",__name__="up"}', "up"),
        ('{__name__=~"up"}', None),
        ('{a="b"}', None),
        ('{__name__!=""}', None),
    ],
)
def test_a_selector_knows_the_name_it_fixes(text, name):
    assert parse(text).name == name


@pytest.mark.parametrize(
    "org_id",
    ["", "a" * 65, "a b", "a\n", 'a"', 'x",org_id="y', "é", "a.b", "a/b", "a\x00", "٣"],
    ids=ascii,
)
def test_no_selector_is_bound_to_what_is_no_organization_id(org_id):
    with pytest.raises(ValueError, match="not an organization id"):
        parse("up").for_tenant(org_id)
    with pytest.raises(ValueError, match="not an organization id"):
        BoundSelector(parse("up"), org_id)


@pytest.mark.parametrize("org_id", ["a", "org_1", "A-z_9", "-", "a" * 64])
def test_a_selector_is_bound_to_any_organization_id(org_id):
    assert parse("up").for_tenant(org_id).text == f'{{__name__="up",org_id="{org_id}"}}'


@pytest.mark.parametrize("label", ["org_id", "__graphite__", "", "a b", "a:b", "1a", "a\n", "é", 'a="b",b'])
def test_no_matcher_is_made_on_a_label_that_decides_about_the_tenant(label):
    with pytest.raises(ValueError, match="not a label"):
        Matcher(label, "=", "x")


@pytest.mark.parametrize("op", ["", "==", ">", '="b",a=', "or"])
def test_no_matcher_is_made_with_another_operator(op):
    with pytest.raises(ValueError, match="not an operator"):
        Matcher("a", op, "x")


@pytest.mark.parametrize(
    ("op", "pattern", "value", "expected"),
    [
        ("=", "a", "a", True), ("=", "a", "A", False), ("=", "", "", True), ("!=", "a", "", True), ("!=", "a", "a", False),
        ("=~", "a", "a", True), ("=~", "a", "ab", False), ("=~", "a", "ba", False), ("=~", "a|b", "b", True),
        ("=~", "a|b", "ab", False), ("=~", "ab|b", "ab", True), ("=~", ".*", "", True), ("=~", ".+", "", False),
        ("=~", "a.b", "a\nb", True), ("=~", "(?-s)a.b", "a\nb", False), ("=~", "a", "a\n", False), ("=~", "a$", "a\n", False),
        ("=~", "(?m)^a$", "a\nb", False), ("=~", "(?i)WEB", "web", True), ("=~", "^a$", "a", True), ("=~", "a^", "a", False),
        ("=~", "é", "é", True), ("=~", ".", "é", True), ("=~", ".", "😀", True), ("=~", "..", "é", False), ("=~", "\\d", "٣", False),
        ("=~", "[^a]", "\n", True), ("=~", "\\x{e9}", "é", True), ("=~", "\\x00", "\x00", True), ("=~", "a", "\udc80", False),
        ("!~", "a", "ab", True), ("!~", "a", "a", False), ("!~", ".+", "", True), ("!~", ".*", "x", False),
        ("=~", "(x+x+)+y", "x" * 1000, False), ("=~", "(?i)\\pL{8}", "ÄÖÜäöüßA", True),
    ],
)  # fmt: skip
def test_a_matcher_is_anchored_and_its_dot_takes_a_line_break(op, pattern, value, expected):
    assert Matcher("a", op, pattern).matches(value) is expected


def test_a_label_that_is_absent_is_empty():
    labels = {"__name__": "up", "a": "b"}

    assert parse('up{a="b",c=""}').matches(labels)
    assert parse('up{c!~".+"}').matches(labels)
    assert parse('{__name__=~"u.",a!="c"}').matches(labels)
    assert not parse('up{c!=""}').matches(labels)
    assert not parse("down").matches(labels)
    assert not parse('up{a="b"}').matches({"a": "b"})


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({"__name__": "up"}, "up"),
        ({"b": "2", "__name__": "up", "a": "1"}, 'up{a="1",b="2"}'),
        ({"a": "1"}, '{a="1"}'),
        ({}, "{}"),
        ({"__name__": "up", "org_id": "acme"}, "up"),
        ({"__name__": "up", "a": 'x"\\\n\x00é'}, 'up{a="x\\"\\\\\\n\\u0000é"}'),
    ],
)
def test_a_series_has_one_text(labels, text):
    assert series_text(labels) == text
    assert series_text(dict(reversed(labels.items()))) == text


def test_a_series_text_of_labels_that_can_be_named_is_their_selector():
    labels = {"__name__": "up", "b": "x\ty", "a": "é"}

    assert {m.label: m.value for m in parse(series_text(labels)).matchers} == labels


def test_a_huge_text_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(selector, "_read", lambda text: pytest.fail("it was read"))

    assert "longer than" in refusal_of("up{" * 10_000_000)


def test_the_selector_is_immutable():
    parsed = parse("up")

    with pytest.raises(AttributeError):
        parsed.matchers = ()
    assert hash(parsed) == hash(Selector(parsed.matchers))


def test_quoting_is_undone_by_reading():
    everything = "".join(map(chr, (*range(0x300), 0x2028, 0xFEFF, 0xFFFF, 0x1F600, 0x10FFFF)))

    assert lex.unquoted(lex.quoted(everything), 0) == everything
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in lex.quoted(everything))
