"""The command line: a real process, its options, its signals, its exit codes."""

import asyncio
import json
import os
import signal
import sys

import pytest

from tests.collector.fakes import API_KEY, TOKEN, answer, until

PROGRAM = "from monitor.collector.command import agent; agent()"
END_SECONDS = 30.0


async def start(*arguments, **environment):
    inherited = {"PATH": os.environ["PATH"]}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=inherited | environment,
    )


async def ended(*arguments, **environment):
    process = await start(*arguments, **environment)
    async with asyncio.timeout(20.0):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--type", "kubernetes", "--kubeconfig", "/nowhere", "--once", "--dry-run"],
            "/nowhere does not exist",
        ),
        ([], "--url (or MONITOR_URL) is missing"),
        (["--dry-run"], "--dry-run needs --once"),
        (["--url", "ftp://x"], "'--url'"),
        (["--url", "https://u:p@x"], "'--url'"),
        (["--url", "https://x/?a=1"], "'--url'"),
        (["--interval", "soon"], "'--interval'"),
        (["--interval", "2h"], "not between 1s and 60s"),
        (["--name", " "], "'--name'"),
        (["--pool", "p" * 1025], "'--pool'"),
        (["--docker-host", "/var/run/docker.sock"], "'--docker-host'"),
        (["--api-key-file", "/nowhere/key"], "'--api-key-file'"),
        (["--exclude", ""], "'--exclude'"),
        (["--logs-since", "soon"], "'--logs-since'"),
        (["--logs-spool", "0"], "'--logs-spool'"),
    ],
)
async def test_bad_input_is_named_and_exits_with_2(arguments, text):
    code, out, err = await ended(*arguments)

    assert (code, out) == (2, "")
    assert text in err


async def test_a_dry_run_prints_the_snapshot_and_needs_neither_service_nor_state(engine, tmp_path):
    code, out, err = await ended(
        "--once", "--dry-run", "--state-dir", str(tmp_path / "s"), DOCKER_HOST=engine.host
    )

    assert code == 0, err
    body = json.loads(out)
    assert body["containers"][0]["name"] == "web"
    assert body["seq"] > 0
    assert not (tmp_path / "s").exists()


async def test_a_dry_run_without_an_engine_exits_with_1(tmp_path):
    code, out, err = await ended("--once", "--dry-run", "--docker-host", f"unix://{tmp_path}/none.sock")

    assert (code, out) == (1, "")
    assert "cannot be read" in err


async def test_options_come_from_the_environment_and_the_key_from_a_file(service, engine, tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text(API_KEY + "\n")

    code, out, err = await ended(
        "--once",
        MONITOR_URL=service.url + "/",
        MONITOR_API_KEY_FILE=str(key_file),
        MONITOR_AGENT_NAME="from-env",
        MONITOR_DOCKER_HOST=engine.host,
        STATE_DIRECTORY=f"{tmp_path}/state:/other",
    )

    assert (code, out) == (0, ""), err
    [(headers, registration)] = service.registrations
    assert headers["X-API-Key"] == API_KEY
    assert registration["name"] == "from-env"
    assert json.loads((tmp_path / "state" / "agent.json").read_text())["url"] == service.url
    assert len(service.pushes) == 1


def options(service, engine, tmp_path):
    return [
        *("--url", service.url, "--docker-host", engine.host),
        *("--state-dir", str(tmp_path / "state"), "--interval", "1s", "--log-level", "debug"),
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly_and_nothing_secret_was_logged(service, engine, tmp_path, number):
    process = await start(*options(service, engine, tmp_path), MONITOR_API_KEY=API_KEY)
    await until(lambda: len(service.pushes) >= 2)

    process.send_signal(number)
    async with asyncio.timeout(END_SECONDS):
        out, err = await process.communicate()

    assert (process.returncode, out) == (0, b"")
    assert b"event=registered" in err
    assert b'event="agent ended"' in err
    assert API_KEY.encode() not in err
    assert TOKEN.encode() not in err


async def test_a_signal_ends_it_while_it_waits_for_the_service(service, engine, tmp_path):
    service.push_answer = answer(503, headers={"Retry-After": "300"})
    process = await start(*options(service, engine, tmp_path), MONITOR_API_KEY=API_KEY)
    await until(lambda: service.attempts == 1)

    process.terminate()
    async with asyncio.timeout(END_SECONDS):
        await process.communicate()

    assert process.returncode == 0
    assert list((tmp_path / "state" / "spool").glob("*.json.gz"))


async def test_a_killed_agent_loses_no_snapshot(service, engine, tmp_path):
    service.push_answer = answer(503)
    process = await start(*options(service, engine, tmp_path), MONITOR_API_KEY=API_KEY)
    await until(lambda: service.attempts >= 1)
    process.kill()
    await process.communicate()
    waiting = [
        int(path.name.split(".")[0]) for path in sorted((tmp_path / "state" / "spool").glob("*.json.gz"))
    ]
    service.push_answer = None

    code, _, err = await ended(*options(service, engine, tmp_path), "--once")

    assert code == 0, err
    assert service.seqs[:-1] == waiting
    assert len(service.registrations) == 1


async def test_a_deleted_agent_exits_with_3_and_says_what_to_remove(service, engine, tmp_path):
    service.push_answer = answer(401, "unauthorized")

    code, out, err = await ended(*options(service, engine, tmp_path), MONITOR_API_KEY=API_KEY)

    assert (code, out) == (3, "")
    assert f"remove {tmp_path}/state/agent.json to register again" in err
    assert "Traceback" not in err


async def test_a_second_agent_on_the_same_state_directory_exits_with_1(service, engine, tmp_path):
    process = await start(*options(service, engine, tmp_path), MONITOR_API_KEY=API_KEY)
    await until(lambda: service.pushes)

    code, _, err = await ended(*options(service, engine, tmp_path), MONITOR_API_KEY=API_KEY)

    process.terminate()
    await process.communicate()
    assert code == 1
    assert "in use by another agent" in err
