"""How a configuration file is taken over while serving."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import structlog
from structlog.testing import capture_logs

from monitor.config import (
    ConfigError,
    ConfigFile,
    Log,
    load,
    reload,
    restart_keys,
)

DAY = 86_400
SECRET = "0123456789abcdef0123456789abcdef"
OTHER_SECRET = "fedcba9876543210fedcba9876543210"


def of_configuration(_logger, _method, line):
    """Drop what the other tasks of the session's loop log meanwhile."""
    if "configuration" not in line["event"]:
        raise structlog.DropEvent
    return line


def test_a_reload_takes_over_retention_limits_and_log_level_alone(written):
    old = load(written(), {})
    path = written("""
server: {workers: 5}
retention: {default: {metrics: 1d}}
limits: {organizations: {org_a: {agents: 5}}}
log: {level: debug, format: console}
""")

    with capture_logs([of_configuration]) as logs:
        new = reload(old, path, {})

    assert new.retention.default.metrics == DAY
    assert new.limits.for_org("org_a").agents == 5
    assert new.log == Log("debug", "json")
    assert new.server == old.server
    assert [log["keys"] for log in logs] == [["server.workers", "log.format"]]


def test_a_reload_without_a_need_for_a_restart_logs_none(written):
    old = load(written(), {})

    with capture_logs([of_configuration]) as logs:
        reload(old, written("retention: {organizations: {org_a: {metrics: 1d}}}"), {})

    assert logs == []


def test_the_keys_that_need_a_restart_are_named_without_their_values(written):
    old = load(written(), {})
    new = load(
        written(
            f"postgres: {{dsn: 'postgres://other'}}\nauth: {{jwt_secrets: [{OTHER_SECRET}]}}\n"
            "victoriametrics: {url: 'http://vm:8428', query_timeout: 5s}\nlog: {level: error}"
        ),
        {},
    )

    assert restart_keys(old, new) == ["postgres.dsn", "victoriametrics.query_timeout", "auth.jwt_secrets"]
    assert restart_keys(old, old) == []


@asynccontextmanager
async def watching(file, changes):
    """Follow *file* in a task, appending to *changes*."""
    task = asyncio.create_task(file.watch(changes.append))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    """Wait until *condition* holds, at most 30 s."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def quick(monkeypatch):
    """Look at files often."""
    monkeypatch.setattr("monitor.config.watch.POLL_SECONDS", 0.03)
    monkeypatch.setattr("monitor.config.watch.SETTLE_SECONDS", 0.02)


@pytest.fixture
def slow(monkeypatch):
    """Look at files by request alone."""
    monkeypatch.setattr("monitor.config.watch.POLL_SECONDS", 600.0)


async def test_a_changed_file_is_taken_over(written, quick):
    file, changes = ConfigFile(written(), {}), []

    async with watching(file, changes):
        written("retention: {default: {metrics: 1d}}")
        await until(lambda: changes)

    assert changes == [file.config]
    assert file.config.retention.default.metrics == DAY


async def test_a_replaced_file_and_a_swapped_link_are_taken_over(written, quick, tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to(written(name="one.yaml"))
    file, changes = ConfigFile(link, {}), []

    async with watching(file, changes):
        (tmp_path / "new").symlink_to(written("log: {level: debug}", name="two.yaml"))
        (tmp_path / "new").rename(link)
        await until(lambda: file.config.log.level == "debug")
        written("log: {level: error}", name="three.yaml").rename(tmp_path / "two.yaml")
        await until(lambda: file.config.log.level == "error")

    assert [config.log.level for config in changes] == ["debug", "error"]


async def test_a_change_between_reading_and_watching_is_taken_over(written, quick):
    file, changes = ConfigFile(written(), {}), []
    written("log: {level: debug}")

    async with watching(file, changes):
        await until(lambda: changes)

    assert file.config.log.level == "debug"


async def test_a_bad_file_leaves_the_old_one_in_force_and_is_logged(written, quick):
    file, changes = ConfigFile(written("log: {level: debug}"), {}), []
    old = file.config

    with capture_logs([of_configuration]) as logs:
        async with watching(file, changes):
            path = written("retention: {default: {metrics: 1d, log: 3d}}\nlog: {level: 1}")
            await until(lambda: logs)
            await asyncio.sleep(0.2)  # several looks: the bad file is told once
            assert (file.config, changes) == (old, [])
            written("log: {level: error}")
            await until(lambda: changes)

    assert logs[0]["log_level"] == "error"
    assert [line.split(": ")[:2] for line in logs[0]["problems"]] == [
        [f"{path}:1", "retention.default.log"],
        [f"{path}:2", "log.level"],
    ]
    assert [log["event"] for log in logs[1:]] == ["configuration reloaded"]


async def test_a_file_that_vanished_leaves_the_old_one_in_force(written, quick):
    path = written("log: {level: debug}")
    file, changes = ConfigFile(path, {}), []

    with capture_logs([of_configuration]) as logs:
        async with watching(file, changes):
            path.unlink()
            await until(lambda: logs)

    assert logs[0]["problems"] == [f"{path}:1: cannot be read: No such file or directory"]
    assert (file.config.log.level, changes) == ("debug", [])


async def test_a_requested_reload_reads_an_unchanged_file_and_its_secrets_again(written, slow, tmp_path):
    (tmp_path / "jwt").write_text(SECRET)
    file, changes = ConfigFile(written("auth: {jwt_secrets_file: jwt}"), {}), []

    with capture_logs([of_configuration]) as logs:
        async with watching(file, changes):
            (tmp_path / "jwt").write_text(OTHER_SECRET)
            file.reload_requested.set()
            await until(lambda: len(logs) == 2)

    assert logs[0]["keys"] == ["auth.jwt_secrets"]
    assert logs[1]["changed"] == []
    assert (file.config.auth.jwt_secrets, changes) == ((SECRET,), [])


async def test_a_request_takes_a_change_over_at_once(written, slow):
    file, changes = ConfigFile(written(), {}), []

    async with watching(file, changes):
        written("log: {level: debug}")
        file.reload_requested.set()
        await until(lambda: changes)
        file.reload_requested.set()
        await until(lambda: not file.reload_requested.is_set())

    assert changes == [file.config]


def test_a_bad_file_stops_the_start(written):
    with pytest.raises(ConfigError, match=r"log\.level"):
        ConfigFile(written("log: {level: x}"), {})
