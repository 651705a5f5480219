"""References to the environment, files of secrets, and that secrets stay secret."""

import pytest

from monitor.config import (
    Postgres,
    load,
)

SECRET = "0123456789abcdef0123456789abcdef"
OTHER_SECRET = "fedcba9876543210fedcba9876543210"


@pytest.mark.parametrize(
    ("text", "env", "value"),
    [
        ("${KEY}", {"KEY": "a"}, "a"),
        ("${KEY}/${OTHER}", {"KEY": "a", "OTHER": "b"}, "a/b"),
        ("${KEY:-b}", {}, "b"),
        ("${KEY:-b}", {"KEY": ""}, "b"),
        ("${KEY:-b}", {"KEY": "a"}, "a"),
        ("${KEY}", {"KEY": "x${KEY}"}, "x${KEY}"),
        ("$${KEY}", {"KEY": "a"}, "${KEY}"),
        ("$KEY$", {"KEY": "a"}, "$KEY$"),
    ],
)
def test_a_reference_stands_for_an_environment_variable(written, text, env, value):
    config = load(written(f"postgres:\n  dsn: postgresql://{text}\n"), env)

    assert config.postgres.dsn == f"postgresql://{value}"


def test_references_are_read_by_the_type_of_their_key(written):
    path = written("server: {workers: '${N}', public_url: '${URL:-}', trusted_proxies: '${NETS:-}'}")

    server = load(path, {"N": "7"}).server

    assert (server.workers, server.public_url, server.trusted_proxies) == (7, None, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NOPE}", "environment variable NOPE is not set"),
        ("${NOPE", "malformed reference, expected ${NAME} or ${NAME:-default}; $${ is a plain ${"),
        ("${1}", "malformed reference, expected ${NAME} or ${NAME:-default}; $${ is a plain ${"),
        ("${A-b}", "malformed reference, expected ${NAME} or ${NAME:-default}; $${ is a plain ${"),
    ],
)
def test_a_reference_that_stands_for_nothing_is_refused(refused, text, message):
    assert refused(f"log:\n  level: '{text}'") == [f"2: log.level: {message}"]


def test_secrets_come_from_files_beside_the_configuration(written, tmp_path):
    (tmp_path / "dsn").write_text("postgresql://app:pass word@db/monitor\r\n")
    (tmp_path / "jwt").write_text(f"{SECRET}\n\n{OTHER_SECRET}\n")
    path = written("postgres: {dsn_file: dsn, owner_dsn_file: '${F:-}'}\nauth: {jwt_secrets_file: '${JWT}'}")

    config = load(path, {"JWT": str(tmp_path / "jwt")})

    assert config.postgres == Postgres("postgresql://app:pass word@db/monitor")
    assert config.auth.jwt_secrets == (SECRET, OTHER_SECRET)


def test_files_of_secrets_that_cannot_be_used_are_refused_at_their_keys(refused, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "long").write_bytes(b"x" * 65_537)
    (tmp_path / "short").write_text(f"{SECRET}\nhunter2\n")
    (tmp_path / "blank").write_text("\n")

    assert refused(
        "postgres:\n  dsn_file: nowhere\n  owner_dsn_file: .\nauth:\n  jwt_secrets_file: bytes\n"
    ) == [
        '2: postgres.dsn_file: file "nowhere" cannot be read: No such file or directory',
        '3: postgres.owner_dsn_file: file "." cannot be read: Is a directory',
        '5: auth.jwt_secrets_file: file "bytes" is not UTF-8 (at byte 0)',
    ]
    assert refused(
        "postgres:\n  dsn_file: blank\n  owner_dsn_file: short\nauth:\n  jwt_secrets_file: short\n"
    ) == [
        "2: postgres.dsn_file: must not be empty",
        "3: postgres.owner_dsn_file: expected a URL that begins with postgresql:// or postgres://",
        "5: auth.jwt_secrets_file: line 2: must be at least 32 bytes, has 7",
    ]
    assert refused("postgres:\n  dsn_file:\nauth:\n  jwt_secrets_file: blank\n") == [
        "2: postgres.dsn_file: must not be empty",
        "4: auth.jwt_secrets_file: needs at least 1, has 0",
    ]
    assert refused("postgres:\n  dsn_file: '${NOPE}'\n") == [
        "2: postgres.dsn_file: environment variable NOPE is not set"
    ]
    assert refused("postgres:\n  dsn_file: long\n") == [
        '2: postgres.dsn_file: file "long" is larger than 65536 bytes'
    ]


def test_a_secret_and_its_file_exclude_each_other(refused):
    assert refused("postgres:\n  dsn: postgres://a\n  dsn_file: dsn\n") == [
        "3: postgres.dsn_file: dsn and dsn_file exclude each other"
    ]


def test_a_printed_configuration_shows_no_secrets(written):
    config = load(written(f"auth: {{jwt_secrets: [{SECRET}, {OTHER_SECRET}]}}"), {})
    rich = [pair for section in (config, config.postgres, config.auth) for pair in section.__rich_repr__()]

    for shown in (repr(config), str(config), f"{config}", repr(rich)):
        assert "hunter2" not in shown
        assert SECRET not in shown
        assert OTHER_SECRET not in shown
    assert repr(config.postgres) == "Postgres(dsn='***', owner_dsn=None, pool_size=10)"


@pytest.mark.parametrize(
    "text",
    [
        "postgres: {dsn: hunter2}",
        "postgres: {dsn: 'mysql://u:hunter2@db'}",
        "postgres: {dsn: 'postgres://u:hunter2@db:port'}",
        "postgres: {dsn: 'postgres://u:hunter2@[db'}",
        "postgres: {dsn: 'postgres://u@db', owner_dsn: hunter2}",
        "postgres: hunter2",
        "postgres: {dsn: {hunter2}}",
        "postgres: {dsn: [hunter2]}",
        "postgres: {dsn: '${', owner_dsn: 'hunter2'}",
        "postgres:\n  dsn: 'postgres://u:hunter2@db",
        "postgres:\n  dsn hunter2",
        "postgres: {dsn: *hunter2}",
        "postgres: {dsn: &hunter2 x}",
        "postgres: {dsn: !hunter2 x}",
        "postgres: {dsn: !hunter2!x}",
        "postgres:\n  dsn: !hunter2!x y",
        "auth: {jwt_secrets: hunter2}",
        "auth: {jwt_secrets: [hunter2]}",
        "auth: {jwt_secrets: ['${S}']}",
        "victoriametrics: {url: 'http://u:hunter2@vm'}",
        "victoriametrics: {url: 'http://vm/?password=hunter2'}",
        "victoriametrics: {url: 'ftp://u:hunter2@vm'}",
    ],
)
def test_no_refusal_tells_a_secret(refused, text):
    problems = "\n".join(refused(text, {"S": "hunter2"}))

    assert problems
    assert "hunter2" not in problems
