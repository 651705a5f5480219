"""What an agent pushes, and what it registers with (api.md, contract 3).

The types are the validation: what decodes here is well-formed, except for the
rules that span fields, which ``monitor.ingest.check`` holds.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

Text = Annotated[str, Meta(min_length=1)]
# A JSON number as it was sent: integers stay integers in the lists.
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# Bounded so that no conversion of units overflows.
Float = Annotated[float, Meta(ge=-1e290, le=1e290)]
Number = Integer | Float
OptionalNumber = Integer | Float | UnsetType | None
AgentType = Literal["docker", "kubernetes"]


class Container(Struct, frozen=True, rename="camel", gc=False):
    """A Docker container with its latest stats; absent numbers are UNSET, listed as 0.

    ``cpu_percent`` counts one core as 100; the ``net_*`` and ``blk_*`` fields are
    counters in bytes since the container's start.
    """

    id: Text
    name: Text
    short_id: str | None = None
    image: str | None = None
    status: str | None = None
    state: str | None = None
    created: str | None = None
    source: str | None = None
    cpu_percent: OptionalNumber = UNSET
    memory_usage_mb: OptionalNumber = field(default=UNSET, name="memoryUsageMB")
    memory_limit_mb: OptionalNumber = field(default=UNSET, name="memoryLimitMB")
    memory_percent: OptionalNumber = UNSET
    net_rx_bytes: OptionalNumber = UNSET
    net_tx_bytes: OptionalNumber = UNSET
    blk_read_bytes: OptionalNumber = UNSET
    blk_write_bytes: OptionalNumber = UNSET
    ports: list[Any] | None = None
    labels: dict[str, str] | UnsetType | None = UNSET
    gpu_percent: OptionalNumber = UNSET
    gpu_memory_bytes: OptionalNumber = UNSET
    stats_ok: bool | UnsetType | None = UNSET


class PodContainer(Struct, frozen=True, rename="camel"):
    """A container of a pod."""

    name: Text
    image: str | None = None
    ready: bool | None = None
    restarts: Integer | None = None
    state: str | None = None
    cpu_cores: OptionalNumber = UNSET
    memory_bytes: OptionalNumber = UNSET


class Pod(Struct, frozen=True, rename="camel"):
    """A pod; the usage fields are there only with a metrics provider in the cluster."""

    name: Text
    namespace: Text
    phase: str | None = None
    node_name: str | None = None
    pod_ip: str | None = field(default=None, name="podIP")
    labels: dict[str, str] | None = None
    containers: list[PodContainer] | None = None
    start_time: str | None = None
    restarts: Integer | UnsetType | None = UNSET
    ready: bool | UnsetType | None = UNSET
    cpu_cores: OptionalNumber = UNSET
    cpu_percent: OptionalNumber = UNSET
    memory_bytes: OptionalNumber = UNSET
    memory_percent: OptionalNumber = UNSET
    workload: str | UnsetType | None = UNSET
    gpu_percent: OptionalNumber = UNSET
    gpu_memory_bytes: OptionalNumber = UNSET


class NodeResources(Struct, frozen=True, rename="camel"):
    """Kubernetes quantities as strings, e.g. ``8``, ``16384Ki``, ``110``."""

    cpu: str | None = None
    memory: str | None = None
    pods: str | None = None
    ephemeral_storage: str | None = None


class NodeUsage(Struct, frozen=True, rename="camel"):
    """Usage figures of a node, units in the names."""

    cpu_cores: OptionalNumber = UNSET
    cpu_system_reserved_cores: OptionalNumber = UNSET
    cpu_workload_reserved_cores: OptionalNumber = UNSET
    memory_gib: OptionalNumber = field(default=UNSET, name="memoryGiB")
    memory_system_reserved_gib: OptionalNumber = field(default=UNSET, name="memorySystemReservedGiB")
    memory_workload_reserved_gib: OptionalNumber = field(default=UNSET, name="memoryWorkloadReservedGiB")
    ephemeral_storage_gib: OptionalNumber = field(default=UNSET, name="ephemeralStorageGiB")
    ephemeral_storage_system_reserved_gib: OptionalNumber = field(
        default=UNSET, name="ephemeralStorageSystemReservedGiB"
    )
    ephemeral_storage_workload_reserved_gib: OptionalNumber = field(
        default=UNSET, name="ephemeralStorageWorkloadReservedGiB"
    )
    pods: OptionalNumber = UNSET
    pods_used: OptionalNumber = UNSET
    gpu_percent: OptionalNumber = UNSET
    gpu_count: OptionalNumber = UNSET


class Node(Struct, frozen=True, rename="camel"):
    """A Kubernetes node."""

    name: Text
    status: str | None = None
    roles: list[str] | None = None
    kubelet_version: str | None = None
    os_image: str | None = None
    architecture: str | None = None
    capacity: NodeResources | None = None
    allocatable: NodeResources | None = None
    usage: NodeUsage | None = None
    labels: dict[str, str] | None = None


class Sample(Struct, frozen=True, rename="camel"):
    """A sample of anything else; ``timestamp`` in unix seconds or RFC 3339."""

    metric: Text
    value: Integer | float
    labels: dict[str, str] | None = None
    timestamp: Integer | float | str | None = None


class Push(Struct, frozen=True, rename="camel"):
    """The body of a push; an absent or null array leaves what is stored of its kind."""

    version: str | None = None
    containers: list[Container] | None = None
    pods: list[Pod] | None = None
    nodes: list[Node] | None = None
    samples: list[Sample] | None = None
    collected_at: str | None = None
    seq: Integer | None = None


class PushReply(Struct, frozen=True, rename="camel"):
    """Answer to a push, with the log requests that wait for this agent."""

    ok: bool
    log_requests: list[Any]


class Registration(Struct, frozen=True, rename="camel"):
    """What an agent registers with."""

    name: Text
    type: AgentType
    version: str | None = None
    api_key: str | None = None
    pool: str | None = None


class Registered(Struct, frozen=True, rename="camel"):
    """An agent's identity: shown once, kept by the agent."""

    agent_id: str
    token: str
