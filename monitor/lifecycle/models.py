"""The receipt of a deletion."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Deletion(Struct, frozen=True, rename="camel"):
    """What became of a deleted agent's data.

    ``series_found`` is null until VictoriaMetrics was looked at; ``verified_at`` is the
    last look that found nothing left.
    """

    agent_id: str
    agent_name: str
    requested_at: datetime
    deleted_at: datetime | None
    series_found: int | None
    verified_at: datetime | None
    passes: int
