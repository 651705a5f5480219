"""How a wrong configuration file is refused: every problem at once, with its line and key."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.config import ConfigError, load

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("servr: {}", '1: servr: unknown key, did you mean "server"?'),
        ("server:\n  worker: 1", '2: server.worker: unknown key, did you mean "workers"?'),
        ("log:\n  zzz: 1", "2: log.zzz: unknown key; known here: level, format"),
        (
            "postgres:\n  dsn: postgres://a\n  dsnfile: x",
            '3: postgres.dsnfile: unknown key, did you mean "dsn_file"?',
        ),
        (
            "retention:\n  plans:\n    fre: {}",
            '3: retention.plans.fre: expected one of free, pro, enterprise, found "fre", did you mean "free"?',
        ),
        (
            "retention:\n  organizations:\n    org_a: {metric: 1d}",
            '3: retention.organizations.org_a.metric: unknown key, did you mean "metrics"?',
        ),
        (
            "limits:\n  organizations:\n    org/a: {agents: 1}",
            "3: limits.organizations.org/a: expected an organization id: 1 to 64 letters, digits, _ and -",
        ),
        ("log:\n  level: info\n  level: debug", "3: log.level: already stands in line 2"),
        ("log:\n  level:", "2: log.level: must not be empty"),
        (
            "log:\n  level: inof",
            '2: log.level: expected one of debug, info, warning, error, found "inof", did you mean "info"?',
        ),
        ("log: [level]", "1: log: expected a mapping, found a list"),
        ("log: info", "1: log: expected a mapping, found a single value"),
        ("log: {[a]: b}", "1: log: expected a key, found a list"),
        ("log:\n  level: {a: b}", "2: log.level: expected a single value, found a mapping"),
        (
            "metrics:\n  label_allowlist: a",
            "2: metrics.label_allowlist: expected a list, found a single value",
        ),
        (
            "metrics:\n  label_allowlist: {a: b}",
            "2: metrics.label_allowlist: expected a list, found a mapping",
        ),
        (
            "metrics:\n  label_allowlist:\n    - a\n    - b c",
            '4: metrics.label_allowlist[1]: expected a label key such as app.kubernetes.io/name, found "b c"',
        ),
        (
            f"metrics: {{label_allowlist: [{','.join('abcdefghijklm')}]}}",
            "1: metrics.label_allowlist: takes at most 12, has 13",
        ),
        ("server:\n  workers: 0", '2: server.workers: expected an integer from 1 to 256, found "0"'),
        ("server:\n  workers: 257", '2: server.workers: expected an integer from 1 to 256, found "257"'),
        ("server:\n  workers: 010", '2: server.workers: expected an integer from 1 to 256, found "010"'),
        ("server:\n  workers: 1.5", '2: server.workers: expected an integer from 1 to 256, found "1.5"'),
        ("server:\n  workers: ١", '2: server.workers: expected an integer from 1 to 256, found "١"'),
        ("server:\n  workers:", "2: server.workers: must not be empty"),
        ("server:\n  listen: '8080'", '2: server.listen: expected host:port or [ipv6]:port, found "8080"'),
        ("server:\n  listen: ':8080'", '2: server.listen: expected host:port or [ipv6]:port, found ":8080"'),
        (
            "server:\n  listen: '::1:80'",
            '2: server.listen: expected host:port or [ipv6]:port, found "::1:80"',
        ),
        ("server:\n  listen: a:0", '2: server.listen: expected a port from 1 to 65535, found "0"'),
        ("server:\n  listen: a:65536", '2: server.listen: expected a port from 1 to 65535, found "65536"'),
        ("server:\n  listen: a:http", '2: server.listen: expected a port from 1 to 65535, found "http"'),
        ("server:\n  listen: 127.0.0.1:9464", "1: server: internal_listen must differ from listen"),
        (
            "server:\n  trusted_proxies: [10.0.0.1/8]",
            "2: server.trusted_proxies[0]: expected a network such as 10.0.0.0/8: 10.0.0.1/8 has host bits set",
        ),
        (
            "server:\n  public_url: example.com",
            "2: server.public_url: expected a URL that begins with http:// or https://",
        ),
        (
            "server:\n  public_url: 'http://'",
            "2: server.public_url: expected a URL such as http://host:port, without white space",
        ),
        (
            "server:\n  public_url: http://a:b",
            "2: server.public_url: expected a URL such as http://host, this one is malformed",
        ),
        (
            "server:\n  public_url: http://a#b",
            "2: server.public_url: expected a URL without user, password, query and fragment",
        ),
        (
            "postgres: {dsn: 'postgres://a', pool_size: 1001}",
            '1: postgres.pool_size: expected an integer from 1 to 1000, found "1001"',
        ),
        ("postgres: {pool_size: 1}", "1: postgres.dsn: is required, or dsn_file"),
        ("auth:", "1: auth.jwt_secrets: is required, or jwt_secrets_file"),
        ("auth: {jwt_secrets: []}", "1: auth.jwt_secrets: needs at least 1, has 0"),
        ("auth: {jwt_secrets: [short]}", "1: auth.jwt_secrets[0]: must be at least 32 bytes, has 5"),
        (f"auth: {{jwt_secrets: [{SECRET}, '']}}", "1: auth.jwt_secrets[1]: must not be empty"),
        (
            "victoriametrics: {}",
            "1: victoriametrics: needs url, or all of insert_url, select_url and storage_urls",
        ),
        (
            "victoriametrics: {insert_url: 'http://a', storage_urls: ['http://b']}",
            "1: victoriametrics: needs url, or all of insert_url, select_url and storage_urls",
        ),
        (
            "victoriametrics: {url: 'http://a', select_url: 'http://b'}",
            "1: victoriametrics: url and insert_url, select_url, storage_urls exclude each other",
        ),
        (
            "victoriametrics: {url: 'http://a', query_timeout: 2h}",
            '1: victoriametrics.query_timeout: expected a duration above 0s and at most 1h, found "2h"',
        ),
        (
            "victoriametrics: {url: 'http://a', query_timeout: 0s}",
            '1: victoriametrics.query_timeout: expected a duration above 0s and at most 1h, found "0s"',
        ),
        (
            "retention:\n  default:\n    metrics: 30",
            "3: retention.default.metrics: expected a duration such as 15s, 1h30m or 30d"
            ' (units in the order y w d h m s ms, each once), found "30"',
        ),
        (
            "retention:\n  default:\n    logs: 1s500ms",
            '3: retention.default.logs: expected whole seconds from 1s to 100y, found "1s500ms"',
        ),
        (
            "retention:\n  default:\n    logs: 101y",
            '3: retention.default.logs: expected whole seconds from 1s to 100y, found "101y"',
        ),
        (
            "limits:\n  default: {agents: -1}",
            '2: limits.default.agents: expected an integer from 0 to 1000000000, found "-1"',
        ),
        ("log: {}\n---\nlog: {}", "2: but found another document"),
        ("log: {level: *x}", "1: anchors and aliases are not supported"),
        ("log: &x {level: info}", "1: anchors and aliases are not supported"),
        ("log: {level: !!str info}", "1: tags are not supported"),
        ("log:\n\tlevel: info", "2: found character '\\t' that cannot start any token"),
        ("log:\n  level: 'a\x07'", "2: the character U+0007 is not allowed"),
        ("log: " + "[" * 100_000, "1: nested deeper than 16 levels"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line_and_key(refused, text, problem):
    assert refused(text) == [problem]


def test_all_problems_are_told_at_once_by_line(refused):
    text = """log: {format: xml}
server:
  workers: many
  listn: a
limits:
  default:
    agents: x
journal: {max_backlog_mib: 0}
postgres: {}
"""

    assert [problem.split(": ")[:2] for problem in refused(text)] == [
        ["1", "log.format"],
        ["3", "server.workers"],
        ["4", "server.listn"],
        ["7", "limits.default.agents"],
        ["8", "journal.max_backlog_mib"],
        ["9", "postgres.dsn"],
    ]


def test_a_file_without_content_lacks_what_is_required(tmp_path):
    path = tmp_path / "monitor.yaml"
    path.write_text("# nothing yet\n")

    with pytest.raises(ConfigError) as error:
        load(path, {})

    assert str(error.value).splitlines() == [
        f"{path}:1: auth.jwt_secrets: is required, or jwt_secrets_file",
        f"{path}:1: postgres.dsn: is required, or dsn_file",
        f"{path}:1: victoriametrics: needs url, or all of insert_url, select_url and storage_urls",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"log: \xff", "is not UTF-8 (at byte 5)"),
        (b"#" * 1_048_577, "is larger than 1048576 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path, content, message):
    path = tmp_path / "monitor.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError) as error:
        load(path, {})

    assert str(error.value) == f"{path}:1: {message}"


@settings(deadline=None, max_examples=300)
@given(text=st.text(alphabet="abc:-[]{}#&*!|>'\"%@`,?\n\t \\$0", max_size=60))
def test_any_text_is_a_configuration_or_refused_with_lines(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as error:
        load(path, {})

    assert all(1 <= problem.line <= text.count("\n") + 1 for problem in error.value.problems)
