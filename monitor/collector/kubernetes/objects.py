"""The objects of a cluster's API, as far as they are used; null and absent are alike.

https://kubernetes.io/docs/reference/kubernetes-api/
"""

from __future__ import annotations

from msgspec import Struct, field


class OwnerReference(Struct, frozen=True, gc=False):
    """Who made an object; its maker has ``controller`` set."""

    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True, rename="camel"):
    """What every object has."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    resource_version: str = ""


class Condition(Struct, frozen=True, gc=False):
    """One condition; ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str


class Resources(Struct, frozen=True):
    """What a container asks for and may use at most: quantities by resource."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class ContainerSpec(Struct, frozen=True, rename="camel"):
    """A container as it is wanted.

    ``restart_policy`` is ``Always`` for an init container that goes on beside the others.
    """

    name: str
    image: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(Struct, frozen=True, rename="camel"):
    """A pod as it is wanted; ``overhead`` is what its runtime needs."""

    containers: list[ContainerSpec]
    init_containers: list[ContainerSpec] | None = None
    node_name: str | None = None
    overhead: dict[str, str] | None = None


class Waiting(Struct, frozen=True, gc=False):
    """Why a container does not run yet."""

    reason: str = ""


class Running(Struct, frozen=True, rename="camel", gc=False):
    """Since when a container runs."""

    started_at: str | None = None


class Terminated(Struct, frozen=True, gc=False):
    """Why a container runs no more."""

    reason: str = ""


class ContainerState(Struct, frozen=True):
    """One of three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    """A container as it is."""

    name: str
    ready: bool = False
    restart_count: int = 0
    container_id: str | None = field(default=None, name="containerID")
    state: ContainerState | None = None


class PodStatus(Struct, frozen=True, rename="camel"):
    """A pod as it is."""

    phase: str = ""
    pod_ip: str | None = field(default=None, name="podIP")
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus = PodStatus()


class NodeInfo(Struct, frozen=True, rename="camel"):
    """What a kubelet tells of its machine."""

    kubelet_version: str = ""
    os_image: str = ""
    architecture: str = ""


class NodeStatus(Struct, frozen=True, rename="camel"):
    """A node as it is; ``capacity`` and ``allocatable`` are quantities by resource."""

    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None


class Node(Struct, frozen=True):
    """A node."""

    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()


class Owned(Struct, frozen=True):
    """Any object without its spec: who made it."""

    metadata: ObjectMeta


class ContainerMetrics(Struct, frozen=True):
    """Usage of a container: quantities by resource."""

    name: str
    usage: dict[str, str]


class PodMetrics(Struct, frozen=True):
    """Usage of a pod, as metrics.k8s.io tells it."""

    metadata: ObjectMeta
    containers: list[ContainerMetrics] | None = None


class NodeMetrics(Struct, frozen=True):
    """Usage of a node, as metrics.k8s.io tells it."""

    metadata: ObjectMeta
    usage: dict[str, str]


class GroupVersion(Struct, frozen=True):
    """One version of a group of the API."""

    version: str


class ApiGroup(Struct, frozen=True, rename="camel"):
    """The versions of a group of the API, the preferred one first."""

    versions: list[GroupVersion] | None = None
    preferred_version: GroupVersion | None = None


def key_of(metadata: ObjectMeta) -> str:
    """Return ``namespace/name``, or the name alone of what has no namespace."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
