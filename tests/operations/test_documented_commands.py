"""Every command of README, CONTRIBUTING and docs/ works: it is run here, or a named test runs it.

Commands stand in ``sh`` fences; exactly one of `RULES` must fit each.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest

from monitor.cli import main
from monitor.collector.command import agent
from tests.collector.fakes import FakeEngine, served
from tests.operations.pages import (
    PAGES,
    ROOT,
    Command,
    commands,
    fences,
    inline_code,
    name_of,
    split,
    without_fences,
)
from tests.operations.rules import RECIPES, RULES, Dry, Elsewhere, Rule, Run, fitting

BIN = Path(sys.executable).parent
RUN_SECONDS = 120.0
SOURCES = {".py", ".sh", ".yml", ".yaml"}
LANGUAGES = {"sh", "text", "yaml", "toml", "json", "nginx", "python"}

COMMANDS = commands()


def of_kind(kind: type) -> list[Any]:
    """Return the commands with one rule, of this kind, as parameters of a test."""
    found = [(command, fitting(command)) for command in COMMANDS]
    return [
        pytest.param(command, rules[0], id=command.place)
        for command, rules in found
        if [type(rule) for rule in rules] == [kind]
    ]


@dataclass(frozen=True)
class Place:
    """A folder, and what the placeholders of the pages stand for there."""

    folder: Path
    api: Any
    url: str
    environment: dict[str, str]

    def filled(self, text: str) -> str:
        """Return *text* with its placeholders filled in and its system folders moved to this one."""
        for documented in ("https://monitor.example.com", "http://127.0.0.1:8080"):
            text = text.replace(documented, self.url)
        text = text.replace("monitor.example.com", urlsplit(self.url).netloc).replace(".venv/bin/", "")
        text = re.sub(r"mk_(\.\.\.|…)", self.api.secret, text)
        text = re.sub(r"org_(\.\.\.|…)|\bORG\b", self.api.org_id, text)
        return re.sub(r"(?<![\w/.])/(?=(etc|var/lib)/)", f"{self.folder}/", text)

    async def run(self, text: str, *, is_agent: bool = False) -> str:
        """Return what *text* prints, which must end with 0; tell an agent to end once its push has arrived."""
        # With a trap the shell outlives a signal to its group, and ends with the status of its command.
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", f"trap : TERM\n{self.filled(text)}"),
            cwd=self.folder,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        reading = asyncio.ensure_future(process.communicate())
        try:
            while is_agent and not reading.done():
                if await self.api.json("/api/v1/containers"):
                    os.killpg(process.pid, signal.SIGTERM)
                    break
                await asyncio.sleep(0.1)
            said, _ = await reading
        finally:
            if process.returncode is None:  # out of time
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, said.decode()
        return said.decode()


@pytest.fixture
async def place(app: Any, api: Any, admin: Any, tmp_path: Path) -> AsyncIterator[Place]:
    """A folder with the shipped files, beside a service and an engine with one container."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    for folder in ("etc/grafana/provisioning", "var/lib/grafana/dashboards/monitor", "home"):
        (tmp_path / folder).mkdir(parents=True)
    # Without the first, an answer of 400 is a success.
    (tmp_path / "home" / ".curlrc").write_text("fail-with-body\nno-progress-meter\nmax-time = 60\n")
    async with served(FakeEngine().app()) as engine:
        environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(tmp_path / "home"),
            "URL": app.base_url,
            "KEY": api.secret,
            "TOKEN": admin.secret,
            "DOCKER_HOST": engine,
            "MONITOR_CONFIG": str(app.config_path),
            "MONITOR_STATE_DIR": str(tmp_path / "state"),
        }
        yield Place(tmp_path, api, app.base_url, environment)


def test_commands_are_told_apart():
    code = "# both\nmake  # list\n\nvmagent -a=1 \\\n  -b\ncurl -d '{\n  # 1\n}' x\n"

    found = [Command("page", line, text) for line, text in split(code)]

    assert [command.line for command in found] == [1, 3, 5]
    assert [command.bare for command in found] == ["make", "vmagent -a=1 -b", "curl -d '{ # 1 }' x"]
    with pytest.raises(ValueError, match="does not end"):
        list(split("echo 'open\n"))


@pytest.mark.parametrize("command", [pytest.param(one, id=one.place) for one in COMMANDS])
def test_one_rule_fits_the_command(command: Command):
    rules = fitting(command)

    assert len(rules) == 1, (
        f"{command.place}: {command.bare}\n"
        f"is fitted by {len(rules)} rules: {rules}\n"
        "Add a Run to RULES if it can be run here, else an Elsewhere with the test that runs it."
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern)
def test_no_rule_is_left_over(rule: Rule):
    assert any(re.fullmatch(rule.pattern, command.bare) for command in COMMANDS)


@pytest.mark.parametrize(("command", "rule"), of_kind(Run))
async def test_the_command_does_what_is_said(place: Place, command: Command, rule: Run):
    if rule.needs and shutil.which(rule.needs) is None:
        pytest.skip(f"{rule.needs} is missing")
    async with asyncio.timeout(RUN_SECONDS):
        if rule.before:
            await place.run(rule.before)
        said = await place.run(command.text, is_agent=rule.is_agent)
        while rule.before and rule.prints not in said:
            await asyncio.sleep(0.5)
            said = await place.run(command.text)

    assert rule.prints in said


@pytest.mark.parametrize(("command", "rule"), of_kind(Dry))
async def test_the_command_knows_what_it_would_do(command: Command, rule: Dry):
    await dry_run(command.bare.replace(rule.option, f"{rule.option} {rule.after}", 1))


async def dry_run(text: str) -> None:
    """Run *text* in the checkout; it changes nothing."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", text),
        cwd=ROOT,
        env={**kept, "PATH": f"{BIN}:{kept['PATH']}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


@pytest.mark.parametrize(("command", "rule"), of_kind(Elsewhere))
def test_what_runs_the_command_is_still_there(command: Command, rule: Elsewhere):
    assert rule.text in (ROOT / rule.file).read_text(encoding="utf-8"), f"{command.place}: {rule.file}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_is_fenced_and_names_its_language(page: Path):
    text = page.read_text(encoding="utf-8")

    assert {fence.language for fence in fences(text)} <= LANGUAGES
    indented = re.compile(r"\n\n {4,}(?![-*] |\d+\. |```)\S.*")
    assert indented.findall(without_fences(text)) == []


def inline(pattern: str) -> list[str]:
    """Return the pieces of code within sentences, of all pages, that match."""
    found = {code for page in PAGES for code in inline_code(page.read_text(encoding="utf-8"))}
    return sorted(code for code in found if re.match(pattern, code))


MAKE = r"(?:[A-Z_]+=\S+ )*make\b"


async def test_every_make_target_of_a_sentence_can_be_made():
    await asyncio.gather(*(dry_run(code.replace("make", "make -n", 1)) for code in inline(MAKE)))


def test_what_runs_the_recipe_of_a_documented_target_is_named():
    written = [*inline(MAKE), *(command.bare for command in COMMANDS)]
    named = {match[1] for code in written if (match := re.fullmatch(rf"{MAKE} ([a-z-]+).*", code))}

    assert named == set(RECIPES)
    pointers = [pointer for pointer in RECIPES.values() if pointer is not None]
    assert [file for file, text in pointers if text not in (ROOT / file).read_text(encoding="utf-8")] == []


def test_every_option_of_the_agent_is_documented():
    page = (ROOT / "docs" / "agent.md").read_text(encoding="utf-8")

    assert [option.opts[0] for option in agent.params if f"`{option.opts[0]}`" not in page] == []


@pytest.mark.parametrize("code", inline(r"(python|pytest) "))
def test_every_program_of_a_sentence_is_there(code: str):
    module = re.match(r"python -m ([\w.]+)", code)
    name = f"{module[1].replace('.', '/')}.py" if module else code.split()[1]

    assert (ROOT / name).exists()


def test_every_variable_of_a_sentence_is_read():
    named = {name for code in inline(r"MONITOR_") for name in re.findall(r"MONITOR_[A-Z_]+", code)}
    folders = ("monitor", "scripts", "deploy")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES]
    files += [ROOT / name for name in ("docker-compose.yml", "setup.py")]
    read = {
        name for path in files for name in re.findall(r"MONITOR_[A-Z_]+", path.read_text(encoding="utf-8"))
    }

    assert len(named) > 10
    assert named - read == set()


@pytest.mark.parametrize("code", inline(r"monitor (?!/)\w"))
def test_every_monitor_command_of_a_sentence_has_its_options(code: str):
    command: click.Command = main
    words = iter(code.split()[1:])
    for word in words:
        options = {name: option for option in command.params for name in option.opts}
        if word.startswith("--"):
            option = options[word.partition("=")[0]]
            if not (isinstance(option, click.Option) and option.is_flag) and "=" not in word:
                next(words, None)  # its value
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"{word} is no command"
            command = found
