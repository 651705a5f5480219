"""The inputs of a policy as they were, from the series that pushes left behind.  Pure.

History is replayed a span at a time.  An agent's push shows in ``agent_up`` and in the
count of what it reports; between pushes its last snapshot stands, as it does for the
loop, until the agent is offline.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from monitor.agents.models import ONLINE_SECONDS
from monitor.scaling import targets
from monitor.scaling.spec import Inputs, PolicySpec, Replica
from monitor.tsdb.selector import NAME, Matcher, Selector

ENDED: Final = ("Succeeded", "Failed")  # phases of pods that are no replicas any more
PENDING: Final = "Pending"

Kind = Literal[
    "present", "ready", "cpu", "memory", "gpu", "up", "reported", "nodes", "node_cpu", "node_memory", "wake"
]

_PODS: dict[Kind, str] = {
    "present": "kube_pod_status_phase",
    "ready": "kube_pod_ready",
    "cpu": "kube_pod_cpu_usage_percent",
    "memory": "kube_pod_memory_usage_percent",
    "gpu": "kube_pod_gpu_usage_percent",
}
_CONTAINERS: dict[Kind, str] = {
    "present": "container_running",
    "cpu": "container_cpu_usage_percent",
    "memory": "container_memory_usage_percent",
    "gpu": "container_gpu_usage_percent",
}
_AGENTS: dict[Kind, str] = {"up": "agent_up"}
_NODES: dict[Kind, str] = {
    "nodes": "agent_nodes",
    "node_cpu": "kube_node_cpu_usage_percent",
    "node_memory": "kube_node_memory_usage_percent",
}


class Series(Struct, frozen=True):
    """One series on the points of a span: None where it has no value."""

    labels: dict[str, str]
    values: Sequence[float | None]


Span = dict[Kind, list[Series]]


def replica_selectors(policy: PolicySpec) -> dict[Kind, Selector]:
    """Return the selectors of the replicas of *policy*: what tells whose agents are to be asked next."""
    if policy.runtime == "kubernetes":
        workload = targets.workload(policy.target_ref)
        names, of = _PODS, {"namespace": workload.namespace, "workload": workload.text}
    else:
        names, of = _CONTAINERS, {"group": targets.group(policy.target_ref).name}
    matchers = tuple(Matcher(label, "=", value) for label, value in of.items())
    return {
        kind: Selector((Matcher(NAME, "=", name), *matchers))
        for kind, name in names.items()
        if kind != "gpu" or policy.policy_type is not None
    }


def agent_selectors(policy: PolicySpec, agent_ids: Collection[str]) -> dict[Kind, Selector]:
    """Return the selectors of what *agent_ids* told of themselves and of their nodes."""
    of = Matcher("agent_id", "=~", "|".join(map(re.escape, sorted(agent_ids))))
    reported = "agent_pods" if policy.runtime == "kubernetes" else "agent_containers"
    names: dict[Kind, str] = {**_AGENTS, "reported": reported}
    if policy.node_pressure_target_percent is not None:
        names |= _NODES
    return {kind: Selector((Matcher(NAME, "=", name), of)) for kind, name in names.items()}


class _Member(Struct):
    """A container or pod: its series in the span."""

    node: str = ""
    phases: list[tuple[str, Sequence[float | None]]] = []
    running: Sequence[float | None] | None = None
    told: dict[Kind, Sequence[float | None]] = {}


class _Agent(Struct):
    """What is known of an agent at the point that is replayed.

    Attributes:
        seen_at: Unix seconds of its last push.
        down: It was told to be offline since.
        reports: Whether its last snapshot has the workload at all.
        replicas: Of its last snapshot, with their nodes.
        pressures: Of each node the larger of cpu and memory percent.
    """

    name: str = ""
    seen_at: float = float("-inf")
    down: bool = False
    reports: bool = False
    replicas: tuple[tuple[Replica, str], ...] = ()
    pressures: dict[str, float] = {}

    def is_online(self, now: float) -> bool:
        return not self.down and now - self.seen_at < ONLINE_SECONDS


class Replay:
    """A policy's history, replayed span after span."""

    def __init__(self, policy: PolicySpec, agent_ids: Collection[str] | None = None) -> None:
        """Take the policy, and the agents that count: those of its pool, or of its ``agentId``; None is all."""
        self._policy = policy
        self._agent_ids = agent_ids
        self._agents: dict[str, _Agent] = {}
        self._reporter: str | None = None  # Kubernetes: whose pods were seen last

    def agent_ids(self, replicas: Span) -> set[str]:
        """Return the agents to ask about: those of the series *replicas*, and those known before."""
        told = {series.labels.get("agent_id", "") for kind in replicas.values() for series in kind}
        return {it for it in told | set(self._agents) if it and self._counts(it)}

    def inputs(self, times: Sequence[float], span: Span) -> Iterator[tuple[float, Inputs]]:
        """Yield the inputs at each of *times*, the points of *span*."""
        members = self._members(span)
        ups, reported = _by_agent(span.get("up", ())), _by_agent(span.get("reported", ()))
        nodes, counted = self._nodes(span), _by_agent(span.get("nodes", ()))
        wakes = span.get("wake", ())
        for agent_id in {*members, *ups}:
            self._agents.setdefault(agent_id, _Agent())
        for series in (*span.get("up", ()), *span.get("present", ())):
            if (known := self._agents.get(series.labels.get("agent_id", ""))) is not None:
                known.name = series.labels.get("agent", "")
        for number, now in enumerate(times):
            for agent_id, agent in self._agents.items():
                up = _value(ups.get(agent_id), number)
                if up:
                    agent.seen_at, agent.down = now, False
                elif up is not None:
                    agent.down = True
                if up and _value(reported.get(agent_id), number) is not None:
                    self._push(agent, members.get(agent_id, {}), number)
                if up and _value(counted.get(agent_id), number) is not None:
                    agent.pressures = _pressures(nodes.get(agent_id, {}), number)
            wake = max((value for it in wakes if (value := it.values[number]) is not None), default=None)
            yield now, self._inputs(now, wake)

    def _counts(self, agent_id: str) -> bool:
        return self._agent_ids is None or agent_id in self._agent_ids

    def _members(self, span: Span) -> dict[str, dict[str, _Member]]:
        """Return the containers or pods of each agent, by id."""
        kubernetes = self._policy.runtime == "kubernetes"
        found: dict[str, dict[str, _Member]] = defaultdict(dict)
        for kind in ("present", "ready", "cpu", "memory", "gpu"):
            for series in span.get(kind, ()):
                labels = series.labels
                agent_id = labels.get("agent_id", "")
                if not self._counts(agent_id):
                    continue
                name = labels.get("pod" if kubernetes else "container_id", "")
                # Series of a pod that was moved, or of a container that was renamed, go together.
                member = found[agent_id].setdefault(f"{name}\0{labels.get('node', '')}", _Member())
                member.node = labels.get("node", "")
                if kind != "present":
                    member.told[kind] = series.values
                elif kubernetes:
                    member.phases.append((labels.get("phase", ""), series.values))
                else:
                    member.running = series.values
        return found

    def _nodes(self, span: Span) -> dict[str, dict[str, list[Sequence[float | None]]]]:
        found: dict[str, dict[str, list[Sequence[float | None]]]] = defaultdict(lambda: defaultdict(list))
        for series in (*span.get("node_cpu", ()), *span.get("node_memory", ())):
            found[series.labels.get("agent_id", "")][series.labels.get("node", "")].append(series.values)
        return found

    def _push(self, agent: _Agent, members: dict[str, _Member], number: int) -> None:
        """Take the agent's snapshot at a point at which it pushed."""
        read = _pod if self._policy.runtime == "kubernetes" else _container
        told = [(read(member, number), member.node) for member in members.values()]
        agent.replicas = tuple((replica, node) for replica, node in told if replica is not None)
        agent.reports = bool(agent.replicas) or any(
            _value(member.running, number) is not None for member in members.values()
        )

    def _inputs(self, now: float, wake: float | None) -> Inputs:
        if self._policy.runtime == "kubernetes":
            return self._of_workload(now, wake)
        having = [agent for agent in self._agents.values() if agent.reports]
        online = sorted((it for it in having if it.is_online(now)), key=lambda it: it.name)
        return Inputs(
            agents=tuple(agent.name for agent in online),
            replicas=tuple(replica for agent in online for replica, _ in agent.replicas),
            offline_replicas=sum(len(it.replicas) for it in having if not it.is_online(now)),
            online_hosts=len(online),
            node_pressure=tuple(
                max(agent.pressures.values(), default=None) for agent in online if agent.replicas
            ),
            wake=wake,
        )

    def _of_workload(self, now: float, wake: float | None) -> Inputs:
        online = {name: agent for name, agent in self._agents.items() if agent.is_online(now)}
        reporting = [agent_id for agent_id, agent in online.items() if agent.reports]
        if not reporting and self._reporter in online:
            reporting = [self._reporter]
        names = tuple(sorted(online[agent_id].name for agent_id in reporting))
        if len(reporting) != 1:
            replicas = tuple(replica for it in reporting for replica, _ in online[it].replicas)
            return Inputs(agents=names, replicas=replicas, wake=wake)
        self._reporter = reporting[0]
        agent = online[self._reporter]
        carrying = sorted({node for _, node in agent.replicas if node})
        return Inputs(
            agents=names,
            replicas=tuple(replica for replica, _ in agent.replicas),
            node_pressure=tuple(agent.pressures.get(node) for node in carrying),
            wake=wake,
        )


def _pressures(nodes: dict[str, list[Sequence[float | None]]], number: int) -> dict[str, float]:
    """Return the larger of what each node told of its cpu and memory at a point."""
    told = {node: [it[number] for it in series] for node, series in nodes.items()}
    known = {node: [it for it in values if it is not None] for node, values in told.items()}
    return {node: max(values) for node, values in known.items() if values}


def _value(values: Sequence[float | None] | None, number: int) -> float | None:
    return None if values is None else values[number]


def _by_agent(series: Iterable[Series]) -> dict[str, Sequence[float | None]]:
    return {it.labels.get("agent_id", ""): it.values for it in series}


def _pod(member: _Member, number: int) -> Replica | None:
    """Return the pod as a replica, None if it is not there or has ended."""
    phases = [phase for phase, values in member.phases if values[number] is not None]
    told = {kind: values[number] for kind, values in member.told.items()}
    if any(phase in ENDED for phase in phases):
        return None
    if not phases and all(value is None for value in told.values()):
        return None
    ready = told.get("ready") != 0 and phases != [PENDING]
    return Replica(cpu=told.get("cpu"), memory=told.get("memory"), gpu=told.get("gpu"), ready=ready)


def _container(member: _Member, number: int) -> Replica | None:
    """Return the container as a replica, None if it does not run."""
    if not _value(member.running, number):
        return None
    cpu, memory, gpu = (_value(member.told.get(kind), number) for kind in ("cpu", "memory", "gpu"))
    if not cpu and not memory:  # the zeros that are sent when a stats call failed
        return Replica()
    return Replica(cpu=cpu, memory=memory, gpu=gpu)
