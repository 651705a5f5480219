"""What an agent watches, a Docker engine or a cluster, as the loops see it.

A cluster's modules are only loaded by an agent of a cluster: one beside a Docker
engine stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from monitor.collector.client import Service
from monitor.collector.docker import Engine
from monitor.collector.executor import Executor
from monitor.collector.logs.ship import LogSettings, Shipper
from monitor.collector.logs.tail import DockerLines
from monitor.collector.scale.execute import scale_executors
from monitor.collector.state import Identity
from monitor.collector.tail import LineSource
from monitor.wire.push import AgentType, Push

if TYPE_CHECKING:
    from monitor.collector.kubernetes.apply import Applier
    from monitor.collector.kubernetes.source import Cluster


class Watched(Struct, frozen=True):
    """What to watch; ``kubeconfig`` and ``context`` are None where kubectl's defaults hold."""

    type: AgentType
    docker_host: str = ""
    kubeconfig: str | None = None
    context: str | None = None


class Source(Protocol):
    """Whatever can be read."""

    async def snapshot(self) -> Push:
        """Return the kinds that it has, and nothing else of a push.

        Raises:
            EngineAway: It cannot be read now.
        """
        ...


class LogShipper(Protocol):
    """Reads a source's logs into a spool, and empties that."""

    async def read_forever(self) -> None:
        """Read all logs into the spool."""
        ...

    async def deliver(self, service: Service, identity: Identity) -> None:
        """Wait for a batch, and send what is held.

        Raises:
            AgentStopped, ServiceAway: As ``Service.ship_logs``.
        """
        ...


def open_source(watched: Watched, user_agent: str) -> AbstractAsyncContextManager[Source]:
    """Return what is to be watched, not opened yet.

    Raises:
        AgentStopped: There is no way to it.
    """
    if watched.type == "docker":
        return Engine(watched.docker_host)
    from monitor.collector.kubernetes.kubeconfig import find_access  # noqa: PLC0415 (see above)
    from monitor.collector.kubernetes.source import Cluster  # noqa: PLC0415

    return Cluster(find_access(watched.kubeconfig, watched.context), user_agent)


def command_executors(source: Source) -> Mapping[str, Executor]:
    """Return what executes the commands that *source* alone can execute, by type."""
    return scale_executors(source) if isinstance(source, Engine) else {}


def log_shipper(source: Source, state: Path, settings: LogSettings) -> LogShipper:
    """Return what ships the logs of *source*.

    Raises:
        AgentStopped: The directory *state* cannot be used.
    """
    if isinstance(source, Engine):
        return Shipper(source, state, settings)
    from monitor.collector.kubernetes.logs import PodShipper  # noqa: PLC0415 (see above)

    return PodShipper(cluster_of(source), state, settings)


def line_sources(source: Source) -> Mapping[str, LineSource]:
    """Return what reads the logs of *source* for live tails, by the ``source`` of a log request."""
    if isinstance(source, Engine):
        return {"docker": DockerLines(source)}
    from monitor.collector.kubernetes.tail import PodLines  # noqa: PLC0415 (see above)

    return {"kubernetes": PodLines(cluster_of(source))}


def manifest_applier(source: Source) -> Applier | None:
    """Return what applies the service's manifests; None for an engine, which is scaled by commands."""
    if isinstance(source, Engine):
        return None
    from monitor.collector.kubernetes.apply import Applier  # noqa: PLC0415 (see above)

    return Applier(cluster_of(source).api)


def cluster_of(source: Source) -> Cluster:
    """Return *source*, which is no engine, as the cluster that it is."""
    from monitor.collector.kubernetes.source import Cluster  # noqa: PLC0415 (see above)

    if not isinstance(source, Cluster):
        raise TypeError(f"neither an engine nor a cluster: {type(source).__name__}")
    return source
