"""The command channel's structs (contract 9): keys are snake_case here, as the contract writes them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

Outcome = Literal["succeeded", "failed"]


class Command(Struct, frozen=True):
    """A command as an agent gets it; times are RFC 3339, ``attempt`` counts from 1."""

    command_id: str
    type: str
    payload: dict[str, Any]
    created_at: str
    expires_at: str
    attempt: int


class CommandResult(Struct, frozen=True, omit_defaults=True):
    """What came of a command."""

    status: Outcome
    message: str | None = None
