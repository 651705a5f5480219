"""What the keys of the configuration file mean."""

from ipaddress import ip_network

import pytest

from monitor.config import (
    Limits,
    Log,
    Metrics,
    OrgLimits,
    OrgLimitsOverride,
    Postgres,
    Retention,
    RetentionDefault,
    RetentionOverride,
    Server,
    VictoriaMetrics,
    load,
    split_listen,
)

DAY = 86_400
SECRET = "0123456789abcdef0123456789abcdef"
OTHER_SECRET = "fedcba9876543210fedcba9876543210"


def test_what_is_left_out_has_its_documented_default(written):
    config = load(written(), {})

    assert config.server == Server("127.0.0.1:8080", "127.0.0.1:9464", 2, (), None)
    assert config.postgres == Postgres("postgresql://app:hunter2@db/monitor", None, 10)
    assert config.victoriametrics == VictoriaMetrics("http://vm:8428", None, None, (), 30.0, 16)
    assert config.auth.jwt_secrets == (SECRET,)
    assert config.retention == Retention(RetentionDefault(metrics=30 * DAY, logs=7 * DAY), {}, {}, 90 * DAY)
    assert config.limits == Limits(OrgLimits(20_000, 50_000, 2_000, 20_000, 100_000, 204_800), {})
    assert config.metrics == Metrics(())
    assert config.journal.max_backlog_mib == 8192
    assert config.log == Log("info", "json")


def test_every_key_is_read_into_its_field(written):
    config = load(
        written(f"""
server:
  listen: "[::]:80"
  internal_listen:
  workers: 4
  trusted_proxies: [10.0.0.0/8, "fd00::/8", 192.0.2.1]
  public_url: https://monitor.example.com/
postgres:
  dsn: postgres://app@db/monitor
  owner_dsn: postgresql://owner@db/monitor
  pool_size: 1000
victoriametrics: {{url: http://vm/, query_timeout: 1m500ms, concurrent_queries_per_org: 2}}
auth: {{jwt_secrets: [{SECRET}, {OTHER_SECRET}]}}
retention:
  default: {{metrics: 10d}}
  plans: {{pro: {{logs: 2w}}}}
  organizations: {{org_a: {{metrics: 1y, logs: 1h}}}}
  alerts: 45d
limits:
  default: {{agents: 7}}
  organizations: {{org_a: {{rules: 0}}}}
metrics: {{label_allowlist: [app.kubernetes.io/name, tier]}}
journal: {{max_backlog_mib: 64}}
log: {{level: debug, format: console}}
"""),
        {},
    )

    assert config.server == Server(
        "[::]:80",
        None,
        4,
        (ip_network("10.0.0.0/8"), ip_network("fd00::/8"), ip_network("192.0.2.1/32")),
        "https://monitor.example.com/",
    )
    assert config.postgres == Postgres("postgres://app@db/monitor", "postgresql://owner@db/monitor", 1000)
    assert config.victoriametrics == VictoriaMetrics(
        "http://vm/", query_timeout_seconds=60.5, concurrent_queries_per_org=2
    )
    assert config.auth.jwt_secrets == (SECRET, OTHER_SECRET)
    assert config.retention == Retention(
        RetentionDefault(metrics=10 * DAY, logs=7 * DAY),
        {"pro": RetentionOverride(logs=14 * DAY)},
        {"org_a": RetentionOverride(metrics=365 * DAY, logs=3600)},
        45 * DAY,
    )
    assert config.limits == Limits(OrgLimits(agents=7), {"org_a": OrgLimitsOverride(rules=0)})
    assert config.metrics.label_allowlist == ("app.kubernetes.io/name", "tier")
    assert config.journal.max_backlog_mib == 64
    assert config.log == Log("debug", "console")


def test_an_empty_section_or_list_counts_as_left_out(written):
    config = load(written("server:\nretention: {plans: }\nmetrics:\n  label_allowlist:\nlimits: ~\n"), {})

    assert config == load(written(), {})


def test_the_schema_and_not_the_look_of_a_text_decides_its_type(written):
    config = load(
        written("metrics: {label_allowlist: [on, 12, 1_0, null_, 1e3]}\njournal: {max_backlog_mib: '5'}")
    )

    assert config.metrics.label_allowlist == ("on", "12", "1_0", "null_", "1e3")
    assert config.journal.max_backlog_mib == 5


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_the_text(written):
    path = written("log:\n  level: debug")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    assert load(path, {}).log.level == "debug"


def test_a_secret_is_measured_in_bytes(written):
    assert load(written(f"auth: {{jwt_secrets: [{'é' * 16}]}}"), {}).auth.jwt_secrets == ("é" * 16,)


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("127.0.0.1:8080", "127.0.0.1", 8080), ("[::1]:1", "::1", 1), ("localhost:65535", "localhost", 65535)],
)
def test_a_listen_address_is_split_into_host_and_port(listen, host, port):
    assert split_listen(listen) == (host, port)


def test_a_single_victoriametrics_is_written_read_and_watched_at_its_url():
    single = VictoriaMetrics(url="http://vm:8428/")

    assert single.write_base == "http://vm:8428"
    assert single.read_base == "http://vm:8428"
    assert single.watch_bases == ("http://vm:8428",)


def test_a_cluster_is_written_read_and_watched_at_its_own_urls(written):
    cluster = load(
        written("""
victoriametrics:
  insert_url: http://vminsert:8480/insert/0/
  select_url: http://vmselect:8481/select/0
  storage_urls: [http://vmstorage-1:8482/, http://vmstorage-2:8482]
"""),
        {},
    ).victoriametrics

    assert cluster.write_base == "http://vminsert:8480/insert/0"
    assert cluster.read_base == "http://vmselect:8481/select/0"
    assert cluster.watch_bases == ("http://vmstorage-1:8482", "http://vmstorage-2:8482")


# Retention and limits


RETENTION = Retention(
    RetentionDefault(metrics=30, logs=7),
    {"free": RetentionOverride(metrics=10), "pro": RetentionOverride(metrics=60, logs=20)},
    {"org_a": RetentionOverride(metrics=90)},
)


@pytest.mark.parametrize(
    ("kind", "org_id", "plan", "seconds"),
    [
        ("metrics", "org_a", "free", 90),
        ("metrics", "org_b", "free", 10),
        ("metrics", "org_b", "enterprise", 30),
        ("logs", "org_a", "pro", 20),
        ("logs", "org_a", "free", 7),
        ("logs", "org_b", "unheard-of", 7),
    ],
)
def test_the_ceiling_is_of_the_organization_else_of_its_plan_else_the_default(kind, org_id, plan, seconds):
    assert RETENTION.ceiling(kind, org_id, plan) == seconds


@pytest.mark.parametrize(("own_seconds", "effective"), [(None, 60), (1, 1), (60, 60), (61, 60)])
def test_an_own_retention_counts_up_to_the_ceiling(own_seconds, effective):
    assert RETENTION.effective("metrics", "org_b", "pro", own_seconds) == effective


@pytest.mark.parametrize(
    ("retention", "longest"),
    [
        (RETENTION, 90),
        (Retention(RetentionDefault(metrics=30)), 30),
        (Retention(RetentionDefault(metrics=30), {"pro": RetentionOverride(metrics=60)}), 60),
    ],
)
def test_the_longest_retention_is_the_largest_one_configured(retention, longest):
    assert retention.longest("metrics") == longest


def test_an_organization_has_its_own_limits_and_the_defaults_beside_them():
    limits = Limits(OrgLimits(rules=9), {"org_a": OrgLimitsOverride(agents=5, policies=0)})

    assert limits.for_org("org_a") == OrgLimits(agents=5, series_per_push=50_000, rules=9, policies=0)
    assert limits.for_org("org_b") == OrgLimits(rules=9)
