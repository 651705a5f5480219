"""Which commands were executed, and what came of each: on disk before and after each execution.

A command that was begun is not begun again.  One that a kill interrupted is
reported as failed, because nobody knows how far it came; but one that asks for a
state, and not for a change, may be begun again when the service repeats it, unless
a newer one has asked for another state since.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from monitor.collector.state import write_durably
from monitor.wire.commands import CommandResult

log = structlog.get_logger(__name__)

FILE = "commands.json"
# Commands expire after two minutes; nobody enqueues a thousand for one agent within them.
MAX_ENTRIES = 1_000
INTERRUPTED = CommandResult(
    "failed", "the agent was restarted while it executed this; how far it came is not known"
)


class Entry(Struct, frozen=True, omit_defaults=True):
    """A command: begun, then with its result, then with a result that the service has."""

    result: CommandResult | None = None
    acknowledged: bool = False
    repeatable: bool = False


class Journal:
    """The newest thousand commands by their id, oldest first."""

    def __init__(self, state: Path) -> None:
        self._path = state / FILE
        self._entries = self._load()

    def result(self, command_id: str) -> CommandResult | None:
        """Return what came of a command that was begun; None for one that may be begun."""
        entry = self._entries.get(command_id)
        if entry is None or command_id == self._to_repeat():
            return None
        return entry.result or INTERRUPTED

    def begin(self, command_id: str, *, repeatable: bool = False) -> None:
        """Note that a command is about to be executed; *repeatable* if it asks for a state.

        Raises:
            OSError: It is not noted, and must not be executed.
        """
        self._entries.pop(command_id, None)  # begun again it is the newest
        self._entries[command_id] = Entry(repeatable=repeatable)
        while len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        try:
            self._save()
        except OSError:
            del self._entries[command_id]
            raise

    def end(self, command_id: str, result: CommandResult) -> None:
        """Note what came of a command, to be reported."""
        self._entries[command_id] = msgspec.structs.replace(
            self._entries.get(command_id, Entry()), result=result, acknowledged=False
        )
        self._try_to_save()

    def acknowledge(self, command_id: str) -> None:
        """Note that the service needs no further report of a command."""
        entry = self._entries[command_id]
        self._entries[command_id] = msgspec.structs.replace(
            entry, result=entry.result or INTERRUPTED, acknowledged=True
        )
        self._try_to_save()

    def unreported(self) -> list[tuple[str, CommandResult]]:
        """Return the results that the service has not acknowledged, oldest first."""
        to_repeat = self._to_repeat()
        return [
            (command_id, entry.result or INTERRUPTED)
            for command_id, entry in self._entries.items()
            if not entry.acknowledged and command_id != to_repeat
        ]

    def _to_repeat(self) -> str | None:
        """Return the newest command that asks for a state, if it was interrupted."""
        for command_id, entry in reversed(self._entries.items()):
            if entry.repeatable:
                return command_id if entry.result is None else None
        return None

    def _load(self) -> dict[str, Entry]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Entry])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            # A host without monitoring is worse than a command that may come twice within two minutes.
            log.error("journal of commands lost", path=str(self._path), error=str(error))
            return {}

    def _try_to_save(self) -> None:
        try:
            self._save()
        except OSError as error:
            # It was noted as begun: at worst it is reported as interrupted after a restart.
            log.warning("journal of commands not written", path=str(self._path), error=error.strerror)

    def _save(self) -> None:
        write_durably(self._path, msgspec.json.encode(self._entries))
