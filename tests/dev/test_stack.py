"""``monitor dev`` as a user meets it: a program with a terminal, a folder and signals."""

import asyncio
import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp
import asyncpg
import pytest

from monitor.config import load, split_listen
from monitor.dev.files import LOOPBACK
from monitor.dev.postgres import PostgresServer
from monitor.dev.service import write_config
from monitor.dev.stack import Running, welcome
from monitor.dev.victoriametrics import VictoriaMetricsServer

READY_SECONDS = 60.0
END_SECONDS = 30.0
KEYS = [
    "baseUrl",
    "orgId",
    "email",
    "password",
    "apiKey",
    "postgresDsn",
    "victoriaMetricsUrl",
    "configFile",
]


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


class Dev:
    """One run of the command, in a folder."""

    def __init__(self, folder, port, output):
        self.folder = folder
        self.output = Path(output.name)
        self.begun = time.time()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "monitor", "dev", "--data-dir", str(folder), "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def printed(self):
        return self.output.read_text()

    async def ready(self):
        """Return what dev.json says, once this run has written it; a killed one leaves its own."""
        until = time.monotonic() + READY_SECONDS
        while not self._has_told():
            assert self.process.poll() is None, self.printed()
            assert time.monotonic() < until, self.printed()
            await asyncio.sleep(0.1)
        return json.loads((self.folder / "dev.json").read_text())

    def _has_told(self):
        with suppress(FileNotFoundError):
            return (self.folder / "dev.json").stat().st_mtime >= self.begun
        return False

    async def ended(self):
        """Return the exit status."""
        return await asyncio.to_thread(self.process.wait, END_SECONDS)


@contextmanager
def dev(folder, port):
    with tempfile.NamedTemporaryFile() as output:
        run = Dev(folder, port, output)
        try:
            yield run
        finally:
            run.process.terminate()
            try:
                run.process.wait(END_SECONDS)
            finally:
                run.process.kill()
                run.process.wait()


def living(folder):
    """Return the command lines of all processes that work below *folder* or name it."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in words or (entry / "cwd").readlink().is_relative_to(folder):
                found[int(entry.name)] = words
    return found


async def get(url, **headers):
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.json()


async def test_dev_runs_everything_ends_everything_and_goes_on_with_the_same_data(tmp_path, port):
    folder = tmp_path / "dev"
    with dev(folder, port) as run:
        first = await run.ready()
        printed = await _printed_with(run, first["apiKey"])
        assert list(first) == KEYS
        assert first["baseUrl"] == f"http://127.0.0.1:{port}"
        for name in ("dev.json", "account.json", "monitor.yaml"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
        assert Path(first["configFile"]) == folder / "monitor.yaml"

        # What is printed is what opens it.
        curl = next(line for line in printed.splitlines() if line.strip().startswith("curl "))
        _, _, header, url = shlex.split(curl)
        assert await get(url, **dict([header.split(": ")])) == (200, [])
        assert first["password"] in printed
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{first['baseUrl']}/auth/login",
                json={"email": first["email"], "password": first["password"]},
            ) as response,
        ):
            login = await response.json()
        assert response.status == 200
        assert (login["orgId"], login["role"], login["plan"]) == (first["orgId"], "admin", "pro")
        assert login["mustChangePassword"] is False
        conn = await asyncpg.connect(first["postgresDsn"])
        assert await conn.fetchval("SELECT current_user") == "monitor_owner"
        await conn.close()

        run.process.send_signal(signal.SIGTERM)
        assert await run.ended() == 0
        assert living(folder) == {}
        assert not (folder / "dev.json").exists()

    with dev(folder, port) as run:
        second = await run.ready()
        assert second == first
        status, _ = await get(f"{second['baseUrl']}/api/v1/containers", **{"X-API-Key": first["apiKey"]})
        assert status == 200

        before = living(folder)
        run.process.kill()
        await run.ended()

    # The same, killed between the commit of its first account and the end of writing it down.
    (folder / "account.json").rename(folder / "account.pending")
    with dev(folder, port) as run:
        third = await run.ready()
        assert third == first
        assert living(folder).keys().isdisjoint(before)
        status, _ = await get(f"{third['baseUrl']}/api/v1/containers", **{"X-API-Key": first["apiKey"]})
        assert status == 200

        # A second run on the same folder is refused, and the first one lives on.
        with dev(folder, port) as again:
            assert await again.ended() == 1
            assert f"in use by process {run.process.pid}" in again.printed()
        status, _ = await get(f"{third['baseUrl']}/healthz")
        assert status == 200

        # One of its servers dies: that is said, and nothing stays behind.
        # The server itself, not a child of it: that one it would survive.
        pid_file = folder / "postgres" / "cluster" / "postmaster.pid"
        os.kill(int(pid_file.read_text().splitlines()[0]), signal.SIGKILL)
        assert await run.ended() == 1
        assert "postgres ended unexpectedly" in run.printed()
        assert living(folder) == {}

    (folder / "account.json").unlink()
    with dev(folder, port) as run:
        assert await run.ended() == 1
        assert "account.json is missing" in run.printed()
        assert living(folder) == {}


async def _printed_with(run, text):
    """Return the output once it holds *text*: it follows dev.json."""
    until = time.monotonic() + 30
    while text not in run.printed():
        assert time.monotonic() < until, run.printed()
        await asyncio.sleep(0.05)
    return run.printed()


async def test_dev_told_to_end_while_it_starts_leaves_nothing(tmp_path, port):
    folder = tmp_path / "dev"
    with dev(folder, port) as run:
        while not (folder / "postgres" / "port").exists():
            assert run.process.poll() is None, run.printed()
            await asyncio.sleep(0.02)
        run.process.send_signal(signal.SIGINT)

        assert await run.ended() == 0
        assert living(folder) == {}
        assert not (folder / "dev.json").exists()


async def test_dev_names_a_taken_port_and_starts_nothing(tmp_path):
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen()
        taken = listener.getsockname()[1]
        with dev(tmp_path / "dev", taken) as run:
            assert await run.ended() == 1
            assert f"port {taken} on 127.0.0.1 is in use" in run.printed()
            assert not (tmp_path / "dev" / "postgres").exists()


async def test_dev_names_a_folder_that_cannot_be_made(tmp_path, port):
    (tmp_path / "file").write_text("")
    with dev(tmp_path / "file" / "dev", port) as run:
        assert await run.ended() == 1
        assert "--data-dir" in run.printed()


def test_the_printed_commands_survive_a_shell():
    told = Running(
        base_url="http://127.0.0.1:8080",
        org_id="org_1",
        email="admin@example.com",
        password="secret",
        api_key="mk_1",
        postgres_dsn="postgresql://",
        victoria_metrics_url="http://",
        config_file="/data/monitor.yaml",
    )

    text = welcome(told, "./bin/monitor", "./my data/agent")

    lines = [shlex.split(line) for line in text.splitlines() if line.startswith("  ")]
    assert ["curl", "-H", "X-API-Key: mk_1", "http://127.0.0.1:8080/api/v1/containers"] in lines
    agent = ["--url", "http://127.0.0.1:8080", "--api-key", "mk_1", "--state-dir", "./my data/agent"]
    assert ["./bin/monitor", "agent", *agent] in lines


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_the_configuration_is_one_that_serve_accepts(tmp_path, host):
    postgres = PostgresServer(tmp_path / "postgres", 5432)
    postgres.data_dir.mkdir()
    victoriametrics = VictoriaMetricsServer(tmp_path / "victoriametrics", 8428)
    file = tmp_path / "monitor.yaml"

    write_config(file, host, 8080, postgres, victoriametrics)

    config = load(file)
    assert split_listen(config.server.listen) == (host, 8080)
    assert config.server.workers == 2
    assert config.victoriametrics.url == "http://127.0.0.1:8428"
    # The secret that signs logins outlives a restart.
    write_config(file, host, 8080, postgres, victoriametrics)
    assert load(file).auth == config.auth
