"""The kinds of commands, and what a poll asks for; ``wire.commands`` has what goes over the wire."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

CommandType: TypeAlias = Literal["docker.scale", "docker.rollback", "logs.tail"]


class PollQuery(Struct, frozen=True):
    """Parameters of a poll."""

    wait: Annotated[float, Meta(description="Seconds to wait for a command, held to 0-30")] = 25.0
