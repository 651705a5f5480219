"""Commands: each executed once across restarts, reported until acknowledged."""

import asyncio
import json
from contextlib import asynccontextmanager

import msgspec
import pytest
from structlog.testing import capture_logs

from monitor.collector import journal as journal_module
from monitor.collector import run as agent_run
from monitor.collector.client import Service
from monitor.collector.executor import Commands
from monitor.collector.failure import AgentStopped, CommandFailed, ServiceAway
from monitor.collector.journal import INTERRUPTED, Journal
from monitor.collector.state import Identity
from monitor.wire.commands import CommandResult
from tests.collector.fakes import TOKEN, answer, until
from tests.collector.test_run import running, settings

__all__ = ["settings"]

IDENTITY = Identity("agent_1", TOKEN, "")


def command(command_id, kind="docker.scale", payload=None):
    return {
        "command_id": command_id,
        "type": kind,
        "payload": payload or {},
        "created_at": "2026-11-21T00:00:00Z",
        "expires_at": "2026-11-21T00:02:00Z",
        "attempt": 1,
    }


class Executed:
    """An executor that remembers, and fails as it is told."""

    def __init__(self):
        self.payloads = []
        self.error = None

    async def __call__(self, payload):
        self.payloads.append(payload)
        if self.error:
            raise self.error
        return "scaled"


@pytest.fixture
def executed():
    return Executed()


@asynccontextmanager
async def commands_of(service, state, executed):
    """The channel as a new start of the agent has it: one round a call."""
    async with Service(service.url, "test") as client:
        commands = Commands(
            Journal(state), dict.fromkeys(("docker.scale", "docker.rollback", "docker.later"), executed)
        )
        yield lambda: commands.round(client, IDENTITY)


async def interrupted(service, state, executed, one):
    """Let the agent end while it executes *one*."""
    executed.error = asyncio.CancelledError()  # as the end of the process would leave it
    await service.commands.put(one)
    async with commands_of(service, state, executed) as one_round:
        with pytest.raises(asyncio.CancelledError):
            await one_round()
    executed.error = None


async def test_a_command_is_executed_and_its_result_reported(service, tmp_path, executed):
    await service.commands.put(command("cmd_1", payload={"group": "web", "replicas": 3}))
    async with commands_of(service, tmp_path, executed) as one_round:
        await one_round()
        await one_round()
        await one_round()

    assert executed.payloads == [{"group": "web", "replicas": 3}]
    assert service.results == [("cmd_1", {"status": "succeeded", "message": "scaled"})]


async def test_a_command_handed_out_again_is_only_reported_again(service, tmp_path, executed):
    for _ in range(3):
        await service.commands.put(command("cmd_1"))
        async with commands_of(service, tmp_path, executed) as one_round:
            await one_round()
            await one_round()

    assert len(executed.payloads) == 1
    assert service.results == [("cmd_1", {"status": "succeeded", "message": "scaled"})] * 3


async def test_a_result_is_reported_until_acknowledged_across_restarts(service, tmp_path, executed):
    service.result_answers = [answer(500), answer(503), answer(429)]
    await service.commands.put(command("cmd_1"))
    async with commands_of(service, tmp_path, executed) as one_round:
        await one_round()
        for _ in range(3):
            with pytest.raises(ServiceAway):
                await one_round()
    assert service.results == []

    async with commands_of(service, tmp_path, executed) as one_round:
        await one_round()

    assert [command_id for command_id, _ in service.results] == ["cmd_1"]


async def test_a_report_that_fails_keeps_no_command_waiting(service, tmp_path, executed):
    await service.commands.put(command("cmd_1"))
    await service.commands.put(command("cmd_2"))
    service.result_answers = [answer(500)]
    async with commands_of(service, tmp_path, executed) as one_round:
        await one_round()
        with pytest.raises(ServiceAway):
            await one_round()
        assert len(executed.payloads) == 2
        await one_round()

    assert [command_id for command_id, _ in service.results] == ["cmd_1", "cmd_2"]


@pytest.mark.parametrize("status", [404, 400])
async def test_a_result_that_the_service_does_not_want_is_dropped(service, tmp_path, executed, status):
    await service.commands.put(command("cmd_1"))
    service.result_answers = [answer(status, "not_found")]
    async with commands_of(service, tmp_path, executed) as one_round:
        for _ in range(3):
            await one_round()

    assert (service.result_answers, service.results) == ([], [])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CommandFailed("no such group: web"), "no such group: web"),
        (KeyError("group"), "docker.scale: internal error: KeyError"),
    ],
)
async def test_a_failure_is_reported_with_its_reason(service, tmp_path, executed, error, message):
    executed.error = error
    await service.commands.put(command("cmd_1"))
    with capture_logs():
        async with commands_of(service, tmp_path, executed) as one_round:
            await one_round()
            await one_round()

    assert service.results == [("cmd_1", {"status": "failed", "message": message})]


async def test_an_execution_that_a_kill_interrupted_is_reported_as_failed_and_not_repeated(
    service, tmp_path, executed
):
    await interrupted(service, tmp_path, executed, command("cmd_1", "docker.later"))
    await service.commands.put(command("cmd_1", "docker.later"))

    async with commands_of(service, tmp_path, executed) as one_round:
        await one_round()
        await one_round()

    assert len(executed.payloads) == 1
    assert {body["message"] for _, body in service.results} == {INTERRUPTED.message}


async def test_an_interrupted_command_that_asks_for_a_state_is_executed_when_it_comes_again(
    service, tmp_path, executed
):
    await interrupted(service, tmp_path, executed, command("cmd_1"))
    async with commands_of(service, tmp_path, executed) as one_round:
        await one_round()
        assert service.results == []
        await service.commands.put(command("cmd_1"))
        await one_round()
        await one_round()
        await service.commands.put(command("cmd_1"))
        await one_round()
        await one_round()

    assert len(executed.payloads) == 2
    assert service.results == [("cmd_1", {"status": "succeeded", "message": "scaled"})] * 2


async def test_an_interrupted_command_is_not_executed_again_after_a_newer_one(service, tmp_path, executed):
    await interrupted(service, tmp_path, executed, command("cmd_1", payload={"replicas": 4}))
    async with commands_of(service, tmp_path, executed) as one_round:
        await service.commands.put(command("cmd_2", "docker.rollback", {"replicas": 2}))
        await one_round()
        await service.commands.put(command("cmd_1", payload={"replicas": 4}))
        await one_round()
        await one_round()

    assert executed.payloads == [{"replicas": 4}, {"replicas": 2}]
    assert {(command_id, body["status"]) for command_id, body in service.results} == {
        ("cmd_1", "failed"),
        ("cmd_2", "succeeded"),
    }


async def test_what_cannot_be_noted_is_not_executed(service, tmp_path, executed, monkeypatch):
    def refuse(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module, "write_durably", refuse)
    await service.commands.put(command("cmd_1"))
    with capture_logs():
        async with commands_of(service, tmp_path, executed) as one_round:
            await one_round()
            await one_round()

    assert executed.payloads == []
    [(_, body)] = service.results
    assert body["status"] == "failed"
    assert "No space left on device" in body["message"]


async def test_a_token_that_is_no_longer_valid_ends_the_loop(service, tmp_path, executed):
    service.result_answers = [answer(401, "unauthorized")]
    await service.commands.put(command("cmd_1"))
    async with commands_of(service, tmp_path, executed) as one_round:
        await one_round()
        with pytest.raises(AgentStopped, match="no longer valid"):
            await one_round()


def test_the_journal_is_bounded_and_forgets_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "MAX_ENTRIES", 50)
    journal = Journal(tmp_path)
    for number in range(55):
        journal.begin(f"cmd_{number}")
        journal.end(f"cmd_{number}", CommandResult("succeeded"))
        journal.acknowledge(f"cmd_{number}")

    again = Journal(tmp_path)

    assert again.result("cmd_4") is None
    assert again.result("cmd_5") == CommandResult("succeeded")
    assert again.unreported() == []
    assert len(json.loads((tmp_path / "commands.json").read_text())) == 50


def test_a_damaged_journal_is_told_and_begins_anew(tmp_path):
    (tmp_path / "commands.json").write_text("{")

    with capture_logs() as logs:
        journal = Journal(tmp_path)

    assert journal.unreported() == []
    assert logs[0]["event"] == "journal of commands lost"


@pytest.mark.parametrize("kind", ["docker.later", "logs.later", "x" * 500])
async def test_a_running_agent_reports_a_type_that_it_does_not_know_as_failed(service, settings, kind):
    async with running(settings):
        await service.commands.put(command("cmd_1", kind))
        await until(lambda: service.results)

    [(command_id, body)] = service.results
    assert command_id == "cmd_1"
    assert body == {"status": "failed", "message": f"{kind[:100]}: not supported by this agent version"}


async def test_a_running_agent_executes_by_type_and_remembers_that_it_reported(
    service, settings, monkeypatch, executed
):
    monkeypatch.setattr(agent_run, "command_executors", lambda source: {"docker.scale": executed})
    await service.commands.put(command("cmd_1"))
    stored = settings.state_dir / "commands.json"
    async with running(msgspec.structs.replace(settings, logs=None)):
        await until(lambda: service.results and "acknowledged" in stored.read_text())

    assert executed.payloads == [{}]
    assert json.loads(stored.read_text()) == {
        "cmd_1": {
            "result": {"status": "succeeded", "message": "scaled"},
            "acknowledged": True,
            "repeatable": True,
        }
    }
