"""What a Docker engine lists, and the container that is pushed of it.  Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Struct

from monitor.collector.usage import BYTES_PER_MB, Usage
from monitor.wire.push import Container

LABEL_BYTES = 1_024  # the service refuses longer keys and values
LABEL_COUNT = 64
COMPOSE_LABELS = "com.docker.compose."  # the service groups containers by these


class EngineContainer(Struct, frozen=True, rename="pascal"):
    """An element of ``/containers/json``, as far as it is used."""

    id: str
    names: list[str] | None = None
    image: str = ""
    created: int = 0
    state: str = ""
    status: str = ""
    ports: list[dict[str, Any]] | None = None
    labels: dict[str, str] | None = None


def container_of(listed: EngineContainer, usage: Usage | None) -> Container:
    """Return the container as it is pushed; None as usage means that its stats failed."""
    used = usage or Usage()
    return Container(
        id=listed.id,
        name=name_of(listed),
        short_id=listed.id[:12],
        image=listed.image,
        status=listed.status,
        state=listed.state,
        created=datetime.fromtimestamp(listed.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        source="docker",
        cpu_percent=used.cpu_percent,
        memory_usage_mb=used.memory_bytes / BYTES_PER_MB,
        memory_limit_mb=used.memory_limit_bytes / BYTES_PER_MB,
        memory_percent=used.memory_percent,
        net_rx_bytes=used.net_rx_bytes,
        net_tx_bytes=used.net_tx_bytes,
        blk_read_bytes=used.blk_read_bytes,
        blk_write_bytes=used.blk_write_bytes,
        ports=sorted_ports(listed.ports or []),
        labels=pushed_labels(listed.labels or {}),
        stats_ok=False if usage is None else UNSET,
    )


def sorted_ports(ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the engine's port objects in a stable order: the engine's changes from call to call."""
    return sorted(
        ports, key=lambda port: (port.get("PrivatePort", 0), port.get("Type", ""), port.get("IP", ""))
    )


def pushed_labels(labels: dict[str, str]) -> dict[str, str]:
    """Return at most 64 labels that the service takes, those of compose first, then by key."""
    fitting = [(key, text) for key, text in labels.items() if _fits(key) and _fits(text)]
    fitting.sort(key=lambda label: (not label[0].startswith(COMPOSE_LABELS), label[0]))
    return dict(fitting[:LABEL_COUNT])


def _fits(text: str) -> bool:
    return len(text.encode()) <= LABEL_BYTES and "\0" not in text


def name_of(listed: EngineContainer) -> str:
    """Return the container's own name, without its slash."""
    # A linked container also bears names such as "/other/alias"; its own has one slash.
    own = min(listed.names or [], key=lambda name: name.count("/"), default="")
    return own.removeprefix("/") or listed.id[:12]
