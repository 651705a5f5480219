"""What an agent looks like from outside."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

ONLINE_SECONDS = 90  # an agent is online while its last push is no older (api.md, Limits)


class Agent(Struct, frozen=True, rename="camel"):
    """An agent as listed; ``last_seen`` is null before the first push."""

    id: str
    name: str
    type: str
    status: str
    version: str
    container_count: int
    pod_count: int
    node_count: int
    last_seen: datetime | None
    created_at: datetime
    pool: str
