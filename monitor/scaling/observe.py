"""What the snapshots of one organization say about every policy's workload.  Pure.

The snapshots are gone through once; each policy then finds its group or workload by name.
Of what no policy asks for nothing is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TypeVar

import msgspec
import zstandard
from msgspec import Struct

from monitor.scaling import targets
from monitor.scaling.models import Settings
from monitor.scaling.spec import Inputs, Replica, Runtime
from monitor.wire.derived import group_of, is_running, stats_failed, workload_of
from monitor.wire.push import Container, Node, OptionalNumber, Pod
from monitor.wire.quantity import parse_quantity

T = TypeVar("T")

GIB = 2**30
ENDED = ("Succeeded", "Failed")  # phases of pods that are no replicas any more
PENDING = "Pending"

_CONTAINERS = msgspec.json.Decoder(list[Container])
_PODS = msgspec.json.Decoder(list[Pod])
_NODES = msgspec.json.Decoder(list[Node])
_decompressor = zstandard.ZstdDecompressor()


class Snapshot(Struct, frozen=True):
    """What an agent pushed last: zstd of JSON arrays, None if never reported."""

    agent_id: str
    name: str
    pool: str
    online: bool
    containers: bytes | None
    pods: bytes | None
    nodes: bytes | None


class Host(Struct, frozen=True):
    """An agent's host that has containers of a group.

    Attributes:
        replicas: Those that run.
        pressure: The larger of cpu and memory percent of its busiest node, None if not told.
    """

    agent_id: str
    name: str
    pool: str
    online: bool
    replicas: tuple[Replica, ...]
    pressure: float | None

    @property
    def running(self) -> int:
        """How many replicas run."""
        return len(self.replicas)


class Placed(Struct, frozen=True):
    """A pod and the node it is on."""

    replica: Replica
    node: str


class Seen(Struct, frozen=True):
    """What is observed of one policy's workload.

    Attributes:
        hosts: Online hosts that have the group, by name; none for Kubernetes.
        reporter: The agent that is to apply what is decided, None if that is not clear.
        settled: What the hosts were told before shows in what they report.
    """

    inputs: Inputs
    hosts: tuple[Host, ...] = ()
    reporter: str | None = None
    settled: bool = True


class Observation:
    """One pass over an organization's snapshots, for the policies with these targets."""

    def __init__(self, snapshots: Iterable[Snapshot], wanted: Collection[tuple[Runtime, str]]) -> None:
        self._wanted = frozenset(wanted)
        self._wanted_groups = {targets.group(ref).name for runtime, ref in wanted if runtime == "docker"}
        self._wanted_workloads = {
            (it.namespace, it.text)
            for it in (targets.workload(ref) for runtime, ref in wanted if runtime == "kubernetes")
        }
        self._agents: dict[str, tuple[str, bool]] = {}
        self._groups: dict[str, list[Host]] = defaultdict(list)
        self._pods: dict[tuple[str, str], dict[str, list[Placed]]] = defaultdict(dict)
        self._nodes: dict[str, dict[str, tuple[float | None, dict[str, str]]]] = {}
        for snapshot in sorted(snapshots, key=lambda it: (it.name, it.agent_id)):
            self._agents[snapshot.agent_id] = (snapshot.name, snapshot.online)
            nodes = {
                node.name: (_pressure(node), node.labels or {}) for node in _read(snapshot.nodes, _NODES)
            }
            self._nodes[snapshot.agent_id] = nodes
            self._add_containers(snapshot, [pressure for pressure, _ in nodes.values()])
            if snapshot.online:
                self._add_pods(snapshot)

    def covers(self, policy: Settings) -> bool:
        """Tell whether the target of *policy* was looked for."""
        return (policy.runtime, policy.target_ref) in self._wanted

    def _add_containers(self, snapshot: Snapshot, pressures: list[float | None]) -> None:
        groups: dict[str, list[Replica]] = defaultdict(list)
        for container in _read(snapshot.containers, _CONTAINERS):
            group = group_of(container)
            if group in self._wanted_groups:
                replicas = groups[group]  # a group of stopped containers is a group
                if is_running(container):
                    replicas.append(_container(container))
        known = [pressure for pressure in pressures if pressure is not None]
        pressure = max(known, default=None)
        for group, replicas in groups.items():
            host = (snapshot.agent_id, snapshot.name, snapshot.pool, snapshot.online)
            self._groups[group].append(Host(*host, tuple(replicas), pressure))

    def _add_pods(self, snapshot: Snapshot) -> None:
        for pod in _read(snapshot.pods, _PODS):
            workload = workload_of(pod)
            if (pod.namespace, workload) in self._wanted_workloads and pod.phase not in ENDED:
                pods = self._pods[pod.namespace, workload].setdefault(snapshot.agent_id, [])
                pods.append(Placed(_pod(pod), pod.node_name or ""))

    def of(self, policy: Settings, reported_by: str | None, wake: float | None) -> Seen:
        """Return what is observed for *policy*.

        Args:
            policy: Its settings.
            reported_by: The agent that reported the workload last.
            wake: The value of its ``wakeMetric``.
        """
        if policy.runtime == "docker":
            return self._of_group(policy, wake)
        return self._of_workload(policy, reported_by, wake)

    def _of_group(self, policy: Settings, wake: float | None) -> Seen:
        target = targets.group(policy.target_ref)
        hosts = [
            host
            for host in self._groups.get(target.name, ())
            if target.pool in (host.pool, host.name) and policy.agent_id in (None, host.agent_id)
        ]
        online = tuple(host for host in hosts if host.online)
        inputs = Inputs(
            agents=tuple(host.name for host in online),
            replicas=tuple(replica for host in online for replica in host.replicas),
            offline_replicas=sum(host.running for host in hosts if not host.online),
            online_hosts=len(online),
            node_pressure=tuple(host.pressure for host in online if host.replicas),
            wake=wake,
        )
        return Seen(inputs, online)

    def _of_workload(self, policy: Settings, reported_by: str | None, wake: float | None) -> Seen:
        target = targets.workload(policy.target_ref)
        reports = self._pods.get((target.namespace, target.text), {})
        agents = [it for it in reports if policy.agent_id in (None, it)]
        if not agents:
            last = policy.agent_id or reported_by
            agents = [last] if last in self._agents and self._agents[last][1] else []
        names = tuple(sorted(self._agents[agent_id][0] for agent_id in agents))
        if len(agents) != 1:  # nobody's, or not clear whose: nothing follows
            replicas = tuple(pod.replica for agent_id in agents for pod in reports[agent_id])
            return Seen(Inputs(agents=names, replicas=replicas, wake=wake))
        nodes, placed = self._nodes[agents[0]], reports.get(agents[0], [])
        carrying = sorted({pod.node for pod in placed if pod.node})
        inputs = Inputs(
            agents=names,
            replicas=tuple(_on_spot(pod, nodes, policy.spot_node_label) for pod in placed),
            node_pressure=tuple(nodes[name][0] if name in nodes else None for name in carrying),
            wake=wake,
        )
        return Seen(inputs, reporter=agents[0])


def _on_spot(
    pod: Placed, nodes: dict[str, tuple[float | None, dict[str, str]]], spot_label: str | None
) -> Replica:
    """Return the replica with whether its node carries the label of spot nodes."""
    if spot_label is None or pod.node not in nodes:
        return pod.replica
    key, given, value = spot_label.partition("=")
    label = nodes[pod.node][1].get(key)
    return msgspec.structs.replace(pod.replica, spot=label is not None and (not given or label == value))


def _container(container: Container) -> Replica:
    if stats_failed(container):
        return Replica()
    return Replica(
        cpu=_number(container.cpu_percent),
        memory=_number(container.memory_percent),
        gpu=_number(container.gpu_percent),
    )


def _pod(pod: Pod) -> Replica:
    return Replica(
        cpu=_number(pod.cpu_percent),
        memory=_number(pod.memory_percent),
        gpu=_number(pod.gpu_percent),
        ready=pod.ready is not False and pod.phase != PENDING,
    )


def _number(value: OptionalNumber) -> float | None:
    return None if value is None or isinstance(value, msgspec.UnsetType) else float(value)


def _pressure(node: Node) -> float | None:
    """Return the larger of cpu and memory usage in percent of the allocatable."""
    usage, allocatable = node.usage, node.allocatable
    if usage is None or allocatable is None:
        return None
    shares = (
        _share(_number(usage.cpu_cores), 1, allocatable.cpu),
        _share(_number(usage.memory_gib), GIB, allocatable.memory),
    )
    return max((share for share in shares if share is not None), default=None)


def _share(used: float | None, scale: int, allocatable: str | None) -> float | None:
    try:
        whole = parse_quantity(allocatable) if allocatable else 0
    except ValueError:
        return None
    return 100 * used * scale / whole if whole > 0 and used is not None else None


def _read(packed: bytes | None, decoder: msgspec.json.Decoder[list[T]]) -> list[T]:
    return [] if packed is None else decoder.decode(_decompressor.decompress(packed))
