"""Commands of the service: waited for, executed once each, reported until acknowledged.

A new type is a function from a payload to a message, in a module of its own, and
one entry where the agent is put together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from monitor.collector.client import Service
from monitor.collector.failure import BodyRefused, CommandFailed, ServiceAway
from monitor.collector.journal import Journal
from monitor.collector.state import Identity
from monitor.wire.commands import Command, CommandResult

log = structlog.get_logger(__name__)

MESSAGE_CHARACTERS = 1_000
# These ask for a state, so one that was interrupted is executed again when it comes again.
REPEATABLE = frozenset({"docker.scale", "docker.rollback"})

# Executes a payload and returns what to tell; raises CommandFailed with what went wrong.
Executor = Callable[[dict[str, Any]], Awaitable[str]]


class Commands:
    """The agent's end of the command channel.

    Args:
        executors: By the type of command.
    """

    def __init__(self, journal: Journal, executors: Mapping[str, Executor]) -> None:
        self._journal = journal
        self._executors = executors

    async def round(self, service: Service, identity: Identity) -> None:
        """Report what is to be reported, wait for one command, and execute it.

        Raises:
            AgentStopped: The token is not valid any more.
            ServiceAway: A report or the poll failed; a report that fails keeps no command waiting.
        """
        failed: ServiceAway | None = None
        for command_id, result in self._journal.unreported():
            try:
                await service.report(identity.agent_id, identity.token, command_id, result)
            except ServiceAway as error:
                failed = error
                continue
            except BodyRefused as error:
                log.error("result refused and dropped", command_id=command_id, error=str(error))
            self._journal.acknowledge(command_id)
        command = await service.next_command(identity.agent_id, identity.token)
        if command is not None:
            await self._execute_once(command)
        if failed:
            raise failed

    async def _execute_once(self, command: Command) -> None:
        known = self._journal.result(command.command_id)
        if known is not None:
            log.info("command was executed before", command_id=command.command_id, type=command.type)
            self._journal.end(command.command_id, known)  # handed out again: the report was lost
            return
        try:
            self._journal.begin(command.command_id, repeatable=command.type in REPEATABLE)
        except OSError as error:
            result = CommandResult(
                "failed", f"not executed, the agent's disk refuses its journal: {error.strerror}"
            )
        else:
            result = await self._result_of(command)
        log.info("command executed", command_id=command.command_id, type=command.type, status=result.status)
        self._journal.end(command.command_id, result)

    async def _result_of(self, command: Command) -> CommandResult:
        executor = self._executors.get(command.type)
        if executor is None:
            return CommandResult("failed", f"{command.type[:100]}: not supported by this agent version")
        try:
            message = await executor(command.payload)
        except CommandFailed as error:
            return CommandResult("failed", str(error)[:MESSAGE_CHARACTERS])
        except Exception as error:
            log.exception("command failed", command_id=command.command_id, type=command.type)
            return CommandResult("failed", f"{command.type[:100]}: internal error: {type(error).__name__}")
        return CommandResult("succeeded", message[:MESSAGE_CHARACTERS] or None)
