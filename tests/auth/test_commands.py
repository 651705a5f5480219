from __future__ import annotations

import asyncio
import json
import secrets

import click
import pytest
import yaml
from click.testing import CliRunner

from monitor.auth.commands import apikey, org, user
from tests.auth.probes import PASSWORD, SECRETS

program = click.Group("monitor", {"org": org, "user": user, "apikey": apikey})


@pytest.fixture
def monitor(servers, tmp_path):
    path = tmp_path / "monitor.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "postgres": {"dsn": servers.app_dsn},
                "victoriametrics": {"url": servers.vm_url},
                "auth": {"jwt_secrets": list(SECRETS)},
            }
        )
    )

    async def run(*words, stdin=None, config=str(path)):
        # In a thread: a command runs an event loop of its own.
        return await asyncio.to_thread(
            CliRunner(env={"MONITOR_CONFIG": config}).invoke, program, words, input=stdin
        )

    return run


def printed(result):
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


async def test_an_organization_a_user_and_a_key_made_here_are_good_at_once(monitor, service, address):
    email = f"{secrets.token_hex(6)}@Example.org"
    org_id = printed(await monitor("org", "create", "--name", "Acme", "--plan", "pro"))["orgId"]
    made = printed(await monitor("user", "create", "--org", org_id, "--email", email, "--role", "admin"))
    key = printed(await monitor("apikey", "create", "--org", org_id, "--name", "ci"))

    login = await service.post(
        "/auth/login",
        json={"email": email, "password": made["password"]},
        headers={"X-Forwarded-For": address},
    )
    me = await service.get("/api/v1/me", headers={"X-API-Key": key["key"]})

    assert (await login.json()).items() >= {
        "orgId": org_id,
        "role": "admin",
        "plan": "pro",
        "mustChangePassword": True,
    }.items()
    assert (await me.json()).items() >= {"id": key["id"], "orgId": org_id, "keyName": "ci"}.items()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
async def test_a_password_from_stdin_loses_one_newline_and_need_not_be_changed(
    monitor, service, address, org, ending
):
    email = f"{secrets.token_hex(6)}@example.org"
    words = ("user", "create", "--org", org.id, "--email", email, "--password-stdin")

    made = printed(await monitor(*words, stdin=PASSWORD + ending))
    login = await service.post(
        "/auth/login",
        json={"email": email, "password": PASSWORD},
        headers={"X-Forwarded-For": address},
    )

    assert list(made) == ["userId"]
    assert (await login.json())["mustChangePassword"] is False
    assert (await login.json())["role"] == "member"


async def test_an_organization_is_suspended_and_resumed_on_the_running_server(monitor, service, org):
    async def status():
        return (await service.get("/api/v1/me", headers={"X-API-Key": org.api_key})).status

    suspended = printed(await monitor("org", "set", org.id, "--suspend"))
    during = await status()
    resumed = printed(await monitor("org", "set", org.id, "--resume", "--plan", "enterprise"))

    assert suspended["suspended"] is True
    assert during == 402
    assert (resumed["suspended"], resumed["plan"]) == (False, "enterprise")
    assert await status() == 200


async def test_own_retention_is_set_and_listed(monitor, org):
    words = ("org", "set", org.id, "--metrics-retention", "30d", "--logs-retention", "1h30m")

    changed = printed(await monitor(*words))
    listed = printed(await monitor("org", "list"))["organizations"]

    assert changed == {
        "orgId": org.id,
        "name": "Acme",
        "plan": "pro",
        "suspended": False,
        "metricsRetention": "30d",
        "logsRetention": "1h30m",
    }
    assert changed in listed


async def test_a_key_revoked_here_is_unauthorized_at_once(monitor, service, org):
    printed(await monitor("apikey", "revoke", org.api_key_id))

    assert (await service.get("/api/v1/me", headers={"X-API-Key": org.api_key})).status == 401
    assert (await monitor("apikey", "revoke", org.api_key_id)).exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("org", "create"), "--name"),
        (("org", "create", "--name", " "), "name: must not be empty"),
        (("org", "create", "--name", "x", "--plan", "gold"), "plan: expected free, pro or enterprise"),
        (("org", "set", "{org}"), "nothing to set"),
        (("org", "set", "org_unknown", "--suspend"), "unknown organization 'org_unknown'"),
        (("org", "set", "{org}", "--plan", "gold"), "plan: "),
        (("org", "set", "{org}", "--metrics-retention", "soon"), "--metrics-retention: "),
        (("org", "set", "{org}", "--logs-retention", "0s"), "--logs-retention: "),
        (("user", "create", "--org", "org_unknown", "--email", "a@b.c"), "unknown organization"),
        (("user", "create", "--org", "{org}", "--email", "nobody"), "email: "),
        (("user", "create", "--org", "{org}", "--email", "a@b.c", "--role", "owner"), "role: "),
        (("user", "create", "--org", "{org}", "--email", "a@b.c", "--password-stdin"), "password: "),
        (("apikey", "create", "--org", "{org}", "--name", ""), "name: "),
        (("apikey", "create", "--org", "org_unknown", "--name", "x"), "unknown organization"),
        (("apikey", "revoke", "key_unknown"), "unknown API key 'key_unknown'"),
    ],
)
async def test_bad_input_is_told_on_stderr_with_exit_code_2(monitor, org, words, message):
    result = await monitor(*(word.format(org=org.id) for word in words), stdin=b"\n")

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


async def test_a_password_that_is_no_text_is_bad_input(monitor, org):
    words = ("user", "create", "--org", org.id, "--email", "a@b.c", "--password-stdin")

    result = await monitor(*words, stdin=b"\xff" * 20)

    assert result.exit_code == 2
    assert "password: not valid UTF-8" in result.stderr


async def test_a_missing_or_wrong_configuration_is_bad_input(monitor, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("postgress: {}\n")

    for config in (str(tmp_path / "missing.yaml"), str(wrong)):
        result = await monitor("org", "list", config=config)
        assert result.exit_code == 2
        assert config in result.stderr


async def test_a_database_that_is_away_is_a_failure(monitor, tmp_path, unused_tcp_port):
    away = tmp_path / "away.yaml"
    text = (tmp_path / "monitor.yaml").read_text()
    values = yaml.safe_load(text)
    values["postgres"]["dsn"] = f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none"
    away.write_text(yaml.safe_dump(values))

    result = await monitor("org", "list", config=str(away))

    assert result.exit_code == 1
    assert "storage_unavailable" in result.stderr
