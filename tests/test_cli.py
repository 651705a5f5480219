"""The command line as an operator calls it: one JSON object out, exit 2 on bad input."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from monitor import __version__
from tests.conftest import PASSWORD, settings
from tests.db.fresh import fresh_database

ROOT = Path(__file__).parents[1]


class Result(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object that it printed."""
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1
        return json.loads(self.out)


Command = Callable[..., Awaitable[Result]]


async def call(*arguments: str, given: str = "", **env: str) -> Result:
    """Run ``monitor`` with these arguments."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
        cwd=ROOT,
    )
    out, err = await process.communicate(given.encode())
    assert process.returncode is not None
    return Result(process.returncode, out.decode(), err.decode())


def config_file(path: Path, values: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(values))
    return str(path)


@pytest.fixture
def monitor(servers, tmp_path: Path) -> Command:
    """Run a command against the servers of this run."""
    path = config_file(tmp_path / "monitor.yaml", settings(servers))
    return lambda *arguments, **options: call(*arguments, **{"MONITOR_CONFIG": path, **options})


async def login(anonymous: Any, email: str, password: str) -> Any:
    async with anonymous.post("/auth/login", json={"email": email, "password": password}) as response:
        return response.status, await response.json()


async def status_of(anonymous: Any, key: str) -> int:
    async with anonymous.get("/api/v1/me", headers={"X-API-Key": key}) as response:
        return response.status


async def test_a_whole_organization_is_made_and_works_at_once(monitor, anonymous, make_org):
    org = (await monitor("org", "create", "--name", "Acme & Søn", "--plan", "pro")).json
    email = f"admin@{org['orgId'].replace('_', '-')}.example"
    user = (await monitor("user", "create", "--org", org["orgId"], "--email", email, "--role", "admin")).json
    key = (await monitor("apikey", "create", "--org", org["orgId"], "--name", "ci")).json

    assert set(org) == {"orgId"}
    assert set(user) == {"userId", "password"}
    assert set(key) == {"id", "key"}
    status, session = await login(anonymous, email, user["password"])
    assert (status, session["role"], session["mustChangePassword"]) == (200, "admin", True)
    me = await anonymous.json("/api/v1/me", headers={"X-API-Key": key["key"]})
    assert (me["orgId"], me["orgName"], me["plan"], me["keyName"]) == (
        org["orgId"],
        "Acme & Søn",
        "pro",
        "ci",
    )


@pytest.mark.parametrize("given", [PASSWORD, f"{PASSWORD}\n"])
async def test_a_password_from_stdin_is_kept_without_its_newline(monitor, anonymous, make_org, given):
    org_id = await make_org()
    email = f"{org_id}@example.com".lower()

    user = await monitor("user", "create", "--org", org_id, "--email", email, "--password-stdin", given=given)

    assert set(user.json) == {"userId"}
    status, session = await login(anonymous, email, PASSWORD)
    assert (status, session["role"], session["mustChangePassword"]) == (200, "member", False)


async def test_a_revoked_key_is_dead_on_a_running_server_at_once(monitor, anonymous, make_org):
    key = (await monitor("apikey", "create", "--org", await make_org(), "--name", "ci")).json
    assert await status_of(anonymous, key["key"]) == 200

    revoked = (await monitor("apikey", "revoke", key["id"])).json

    assert revoked["id"] == key["id"]
    assert await status_of(anonymous, key["key"]) == 401
    again = await monitor("apikey", "revoke", key["id"])
    assert (again.code, again.out) == (2, "")


async def test_a_change_of_an_organization_holds_on_a_running_server_at_once(monitor, api, agent, anonymous):
    suspended = (await monitor("org", "set", api.org_id, "--suspend")).json
    refused = await status_of(anonymous, api.secret)
    push = await agent.push(version="1")
    arguments = ("--resume", "--plan", "enterprise", "--metrics-retention", "5d", "--logs-retention", "2d")
    changed = (await monitor("org", "set", api.org_id, *arguments)).json

    assert suspended["suspended"] is True
    assert (refused, push.status) == (402, 402)
    assert changed == {
        "orgId": api.org_id,
        "name": "an organization",
        "plan": "enterprise",
        "suspended": False,
        "metricsRetention": "5d",
        "logsRetention": "2d",
    }
    assert (await api.json("/api/v1/me"))["plan"] == "enterprise"
    assert (await api.json("/api/v1/settings/limits"))["metricsRetention"] == "5d"
    listed = (await monitor("org", "list")).json["organizations"]
    assert changed in listed


# A few of each kind; tests/auth holds the checks themselves.
BAD_INPUT = [
    (("org", "create"), "--name"),
    (("org", "create", "--name", "A", "--plan", "gold"), "plan"),
    (("org", "set", "ORG"), "nothing to set"),
    (("org", "set", "' OR true --", "--suspend"), "unknown organization"),
    (("org", "set", "ORG", "--metrics-retention", "soon"), "--metrics-retention"),
    (("user", "create", "--org", "ORG", "--email", "nonsense"), "email"),
    (("user", "create", "--org", "ORG", "--email", "c@example.com", "--password-stdin"), "password"),
    (("apikey", "create", "--org", "org_nobody", "--name", "ci"), "org_nobody"),
    (("apikey", "revoke", "key_nobody"), "key_nobody"),
    (("dance",), "dance"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD_INPUT, ids=lambda value: str(value)[:60])
async def test_bad_input_is_named_on_stderr_with_exit_2(monitor, make_org, arguments, named):
    org_id = await make_org()

    result = await monitor(*(org_id if argument == "ORG" else argument for argument in arguments))

    assert (result.code, result.out) == (2, "")
    assert named in result.err
    assert "Traceback" not in result.err


async def test_a_database_that_is_away_is_exit_1_and_one_line(servers, tmp_path, unused_tcp_port):
    away = {"postgres": {"dsn": f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none"}}
    path = config_file(tmp_path / "monitor.yaml", settings(servers, **away))

    for arguments in (("org", "list"), ("migrate",)):
        result = await call(*arguments, "--config", path)
        assert (result.code, result.out) == (1, "")
        assert "storage_unavailable" in result.err
        assert "Traceback" not in result.err


async def test_a_configuration_is_checked_with_every_problem_and_its_line(servers, tmp_path):
    good = config_file(tmp_path / "good.yaml", settings(servers))
    bad = tmp_path / "bad.yaml"
    bad.write_text(Path(good).read_text() + "log:\n  level: loud\nnonsense: 1\n")
    lines = bad.read_text().splitlines()

    checked = await call("check-config", good)
    refused = await call("check-config", str(bad))
    missing = await call("check-config", str(tmp_path / "none.yaml"))

    assert (checked.code, checked.out) == (0, f"{good}: ok\n")
    assert (refused.code, refused.out) == (2, "")
    assert f"{bad}:{lines.index('  level: loud') + 1}:" in refused.err
    assert f"{bad}:{lines.index('nonsense: 1') + 1}:" in refused.err
    assert missing.code == 2
    assert "none.yaml" in missing.err


async def test_migrate_says_what_it_applied_and_then_that_nothing_is_to_do(servers, tmp_path):
    async with fresh_database(servers) as database:
        dsns = {"postgres": {"dsn": database.app_dsn, "owner_dsn": database.owner_dsn}}
        path = config_file(tmp_path / "monitor.yaml", settings(servers, **dsns))

        first = await call("migrate", "--config", path)
        second = await call("migrate", "--config", path)

    assert first.code == 0, first.err
    assert first.out.splitlines()[0] == "applied 0001_identity.sql"
    assert (second.code, second.out) == (0, "nothing to do\n")


async def test_the_version_and_every_command_are_told(tmp_path):
    version, overview = await call("--version"), await call("--help")

    assert __version__ in version.out
    for command in ("serve", "migrate", "check-config", "dev", "agent", "org", "user", "apikey"):
        assert f"\n  {command} " in overview.out
        if command != "check-config":
            told = await call(command, "--help")
            assert told.code == 0, told.err


async def test_a_configuration_named_before_the_command_counts_for_it(servers, tmp_path):
    path = config_file(tmp_path / "monitor.yaml", settings(servers))

    made = await call("--config", path, "org", "create", "--name", "named before")

    assert made.json["orgId"].startswith("org_")
