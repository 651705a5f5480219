"""What a push writes into its agent's state, and whether it is repeated or late.  Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import zstandard

from monitor.ingest.store import Change, Locked
from monitor.wire.push import Push

_compressor = zstandard.ZstdCompressor(level=1)
_encoder = msgspec.json.Encoder()


def change_of(agent_id: str, org_id: str, push: Push, at_ms: int) -> Change:
    """Return the state that *push*, collected at *at_ms*, leaves."""
    containers, container_count = _packed(push.containers)
    pods, pod_count = _packed(push.pods)
    nodes, node_count = _packed(push.nodes)
    return Change(
        agent_id=agent_id,
        org_id=org_id,
        newest=True,
        agent_version=push.version,
        collected_at=datetime.fromtimestamp(at_ms / 1000, UTC),
        seq=push.seq,
        containers=containers,
        container_count=container_count,
        pods=pods,
        pod_count=pod_count,
        nodes=nodes,
        node_count=node_count,
    )


def _packed(items: list[Any] | None) -> tuple[bytes | None, int | None]:
    return (None, None) if items is None else (_compressor.compress(_encoder.encode(items)), len(items))


def sign_of_life(change: Change) -> Change:
    """Return what is left of a late push's change: the agent lives."""
    return msgspec.structs.replace(
        change,
        newest=False,
        containers=None,
        container_count=None,
        pods=None,
        pod_count=None,
        nodes=None,
        node_count=None,
    )


def is_repeated(push: Push, at_ms: int, row: Locked) -> bool:
    """Tell whether this very push is the one stored last: its number and its time say so."""
    return (
        push.seq is not None
        and push.collected_at is not None
        and push.seq == row.seq
        and row.collected_at is not None
        and milliseconds(row.collected_at) == at_ms
    )


def is_late(at_ms: int, row: Locked) -> bool:
    """Tell whether a newer snapshot is stored already."""
    return row.collected_at is not None and at_ms < milliseconds(row.collected_at)


def milliseconds(time: datetime) -> int:
    """Return *time* in milliseconds since 1970."""
    return round(time.timestamp() * 1000)
