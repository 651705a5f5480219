"""The server classes, with the real programs: each test starts its own below its own folder."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time

import asyncpg
import pytest

from monitor.dev.postgres import PostgresServer
from monitor.dev.servers import ServerFailed, running
from monitor.dev.victoriametrics import VictoriaMetricsServer
from tests.dev.started import fetchval, started
from tests.servers import FAST

# Starts servers as `monitor dev` does, says so, and waits to be killed.
PARENT = """
import asyncio, sys
from pathlib import Path
from monitor.dev.postgres import PostgresServer
from monitor.dev.victoriametrics import VictoriaMetricsServer

async def main():
    root = Path(sys.argv[1])
    postgres, victoriametrics = PostgresServer(root / "postgres"), VictoriaMetricsServer(root / "vm")
    await postgres.start()
    await victoriametrics.start()
    print("started", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def gone(name, folder, seconds=60.0):
    until = time.monotonic() + seconds
    while left := running(name, folder):
        assert time.monotonic() < until, f"{name} still runs as {left}"
        await asyncio.sleep(0.05)


async def test_postgres_has_a_database_of_its_owner_and_a_role_that_only_serves(tmp_path):
    async with started(PostgresServer(tmp_path, settings=FAST)) as server:
        await fetchval(server.owner_dsn, "CREATE TABLE kept (id int)")
        memberships = await fetchval(
            server.superuser_dsn,
            "SELECT count(*) FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member WHERE r.rolname LIKE 'monitor%'",
        )
        database = await fetchval(
            server.superuser_dsn,
            "SELECT pg_get_userbyid(datdba) || ' ' || pg_encoding_to_char(encoding) || ' ' || datcollate"
            " FROM pg_database WHERE datname = 'monitor'",
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await fetchval(server.app_dsn, "SELECT count(*) FROM kept")

    assert memberships == 0
    assert database == "monitor_owner UTF8 C"


async def test_postgres_lets_nobody_in_without_the_password(tmp_path):
    async with started(PostgresServer(tmp_path, settings=FAST)) as server:
        wrong = re.sub(r":[^:@]+@", ":wrong@", server.superuser_dsn)
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(wrong)
        sockets = await fetchval(server.superuser_dsn, "SHOW unix_socket_directories")
        addresses = await fetchval(server.superuser_dsn, "SHOW listen_addresses")

    assert (sockets, addresses) == ("", "127.0.0.1")
    secrets = list(tmp_path.glob("*.password"))
    assert len(secrets) == 3
    assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}


async def test_postgres_is_durable_unless_asked_otherwise(tmp_path):
    async with started(PostgresServer(tmp_path, settings={"max_connections": "20"})) as server:
        settings = await fetchval(
            server.superuser_dsn,
            "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings"
            " WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'max_connections')",
        )

    assert settings == "fsync=on full_page_writes=on max_connections=20 synchronous_commit=on"


async def test_postgres_runs_where_its_user_cannot_search_the_parents(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    async with started(PostgresServer(closed / "postgres", settings=FAST)) as server:
        assert await fetchval(server.app_dsn, "SELECT 1") == 1
        assert running("postgres", server.cluster)


async def test_postgres_goes_on_with_its_data_on_the_same_port(tmp_path):
    async with started(PostgresServer(tmp_path, settings=FAST)) as first:
        await fetchval(first.owner_dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert running("postgres", first.cluster) == []

    async with started(PostgresServer(tmp_path, settings=FAST)) as second:
        assert second.owner_dsn == first.owner_dsn
        assert await fetchval(second.owner_dsn, "SELECT answer FROM kept") == 42


async def test_postgres_ends_open_connections_when_it_is_stopped(tmp_path):
    async with started(PostgresServer(tmp_path, settings=FAST)) as server:
        conn = await asyncpg.connect(server.app_dsn)
        begun = time.monotonic()
        await server.stop()

        assert time.monotonic() - begun < 30
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await conn.fetchval("SELECT 1")


async def test_a_setup_cut_off_in_its_middle_starts_anew(tmp_path):
    (tmp_path / "cluster.new").mkdir()
    (tmp_path / "cluster.new" / "PG_VERSION").write_text("15\n")

    async with started(PostgresServer(tmp_path, settings=FAST)) as server:
        assert await fetchval(server.app_dsn, "SELECT 1") == 1

    assert not (tmp_path / "cluster.new").exists()


async def test_a_lock_file_that_names_another_program_does_not_stop_postgres(tmp_path):
    server = PostgresServer(tmp_path, settings=FAST)
    async with started(server):
        pass
    owner = server.cluster.stat()
    # Another program of the same user got the id that the dead Postgres had.
    other = subprocess.Popen(
        ["sleep", "60"],
        user=owner.st_uid if os.geteuid() == 0 else None,
        group=owner.st_gid if os.geteuid() == 0 else None,
    )
    try:
        lock = server.cluster / "postmaster.pid"
        lock.write_text(f"{other.pid}\n/proc/self/fd/9\n1\n{server.port}\n\n127.0.0.1\n")
        os.chown(lock, owner.st_uid, owner.st_gid)

        async with started(PostgresServer(tmp_path, settings=FAST)) as again:
            assert await fetchval(again.app_dsn, "SELECT 1") == 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_a_server_that_a_killed_predecessor_left_is_ended_first(tmp_path):
    left = PostgresServer(tmp_path, settings=FAST)
    await left.start()
    try:
        async with started(PostgresServer(tmp_path, settings=FAST)) as server:
            assert left.exit_status is not None
            assert server.port == left.port
            assert await fetchval(server.app_dsn, "SELECT 1") == 1
    finally:
        await left.stop()


async def test_backends_that_outlive_a_killed_postgres_are_ended_first(tmp_path):
    server = PostgresServer(tmp_path, settings=FAST)
    async with started(server):
        conn = await asyncpg.connect(server.app_dsn)
        busy = asyncio.create_task(conn.execute("SELECT pg_sleep(60)"))
        await asyncio.sleep(0.2)
        postmaster = int((server.cluster / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
        await asyncio.sleep(0.2)
        assert server.exit_status == -signal.SIGKILL

        async with started(PostgresServer(tmp_path, settings=FAST)) as again:
            assert await fetchval(again.app_dsn, "SELECT 1") == 1
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await busy


async def test_servers_end_with_a_killed_parent_and_start_again_with_their_data(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert await asyncio.to_thread(parent.stdout.readline) == "started\n"
        postgres, vm = PostgresServer(tmp_path / "postgres"), VictoriaMetricsServer(tmp_path / "vm")
        assert running("postgres", postgres.cluster)
        assert running(vm.program.name, vm.data_dir)
        port = int((postgres.data_dir / "port").read_text())
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()

    await gone("postgres", postgres.cluster)
    await gone(vm.program.name, vm.data_dir)
    async with started(postgres), started(vm):
        assert postgres.port == port
        assert await fetchval(postgres.owner_dsn, "SELECT current_user") == "monitor_owner"


async def test_a_server_that_ends_at_once_is_reported_with_its_last_words(tmp_path):
    server = PostgresServer(tmp_path, settings={**FAST, "shared_buffers": "many"})

    with pytest.raises(ServerFailed, match="postgres ended unexpectedly") as failure:
        await server.start()
    await server.stop()

    assert 'invalid value for parameter "shared_buffers": "many"' in str(failure.value)
    assert str(server.log) in str(failure.value)


async def test_a_server_that_ignores_its_stop_signal_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(PostgresServer, "stop_seconds", 0.3)
    server = PostgresServer(tmp_path, settings=FAST)
    async with started(server):
        for pid in running("postgres", server.cluster):
            os.kill(pid, signal.SIGSTOP)
        await server.stop()

        assert running("postgres", server.cluster) == []


async def test_stopping_what_never_started_is_harmless(tmp_path):
    await PostgresServer(tmp_path).stop()


async def test_a_missing_postgres_is_said_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("monitor.dev.postgres.DEBIAN", tmp_path / "none")

    with pytest.raises(ServerFailed, match="apt-get install postgresql"):
        await PostgresServer(tmp_path).start()
