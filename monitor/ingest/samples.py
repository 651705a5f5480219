"""Make the samples of a push: what stands in the catalogue, and the agent's own samples.

A field that was not sent gives no sample.  Pure: a checked push and the counters of the
push before go in, the body of a write to VictoriaMetrics comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct

from monitor.ingest.counters import Counters, counters_of, rates
from monitor.ingest.lines import container_lines, node_lines, pod_lines
from monitor.tsdb import catalogue, influx
from monitor.tsdb.influx import Lines
from monitor.wire.derived import is_running
from monitor.wire.push import Container, Push, Sample
from monitor.wire.times import sample_ms

# A dashboard needs a 0 where there was a 3: these phases are always written.
POD_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


class AgentRef(Struct, frozen=True):
    """Whose samples they are."""

    org_id: str
    agent_id: str
    name: str


class Samples(Struct, frozen=True):
    """The samples of one push.

    Attributes:
        lines: Body for ``/write?precision=ms``, of whole lines; bodies can be joined.
        count: Number of samples in it.
        counters: To be given as *previous* with the next push; None if the push has
            no containers array.
        increase: The rates in it, counter by counter, None where there is none; None
            if the push has no containers array.
    """

    lines: bytes
    count: int
    counters: Counters | None
    increase: list[float | None] | None


def samples_of(
    push: Push,
    agent: AgentRef,
    previous: Counters | None,
    at_ms: int,
    allowlist: Sequence[str] = (),
) -> Samples:
    """Return all samples of a push that ``check`` has passed.

    Args:
        push: The checked push.
        agent: Whose push it is.
        previous: The counters of the newest stored snapshot for the rates; None for a
            late push and for the first one.  Those of other containers give no rates.
        at_ms: Time of the samples, milliseconds since 1970.
        allowlist: Docker and Kubernetes labels that become metric labels ``label_…``,
            at most ``ALLOWLIST_MAX``.
    """
    tags = agent_tags(agent)
    parts = [_agent_lines(push, tags, at_ms)]
    counters, increase = None, None
    if push.containers is not None:
        counters = counters_of(push.containers, at_ms)
        increase = rates(previous, counters)
        parts.append(container_lines(push.containers, tags, at_ms, increase, allowlist))
    if push.pods:
        parts.append(pod_lines(push.pods, tags, at_ms, allowlist))
    if push.nodes:
        parts.append(node_lines(push.nodes, tags, at_ms, allowlist))
    if push.samples:
        parts.append(sample_lines(push.samples, tags, at_ms))
    text = "".join([part.text for part in parts])
    return Samples(text.encode(), sum([part.count for part in parts]), counters, increase)


def agent_tags(agent: AgentRef) -> str:
    """Return the labels of the agent as the first tags of a line, the organization before all."""
    org_id, agent_id, name = map(influx.escape, (agent.org_id, agent.agent_id, agent.name))
    return f",org_id={org_id},agent_id={agent_id},agent={name}"


def agent_down_line(agent: AgentRef, at_ms: int) -> bytes:
    """Return the line that says that the agent is offline."""
    return f"agent{agent_tags(agent)} up=0 {at_ms}\n".encode()


def sample_lines(samples: Sequence[Sample], tags: str, at_ms: int) -> Lines:
    """Return a line for each sample; without a measurement the field alone is the name."""
    lines = []
    values = influx.print_values([sample.value for sample in samples])
    for sample, value in zip(samples, values, strict=True):
        labels = sample.labels or {}
        own = "".join(
            [
                f",{name}={influx.escape(text)}"
                for name, text in labels.items()
                if text and name not in catalogue.AGENT_LABELS
            ]
        )
        when = at_ms if sample.timestamp is None else sample_ms(sample.timestamp)
        lines.append(f"{tags}{own} {sample.metric}={value} {when}\n")
    return Lines("".join(lines), len(lines))


def _agent_lines(push: Push, tags: str, at_ms: int) -> Lines:
    """Return the agent's own figures, and those of its cluster."""
    agent: dict[str, float] = {"up": 1}
    cluster: dict[str, float] = {}
    phases: Counter[str] = Counter()
    if push.containers is not None:
        agent["containers"] = len(push.containers)
        agent["containers_running"] = sum([is_running(c) for c in push.containers])
        agent |= _sums(push.containers)
    if push.pods is not None:
        agent["pods"] = len(push.pods)
    if push.nodes is not None:
        agent["nodes"] = len(push.nodes)
    # Docker agents send both arrays empty: they have no cluster.
    if push.pods is not None and (push.pods or push.nodes):
        cluster["namespaces"] = len({pod.namespace for pod in push.pods})
        phases.update(dict.fromkeys(POD_PHASES, 0))
        phases.update([pod.phase for pod in push.pods if pod.phase])
    if push.nodes is not None and (push.pods or push.nodes):
        cluster["nodes"] = len(push.nodes)
        cluster["nodes_ready"] = sum([node.status == "Ready" for node in push.nodes])
    by_phase = [f"{tags},phase={influx.escape(phase)}" for phase in phases]
    parts = (
        influx.print_lines("agent", [tags], {name: [value] for name, value in agent.items()}, at_ms),
        influx.print_lines("kube_cluster", [tags], {name: [value] for name, value in cluster.items()}, at_ms),
        influx.print_lines("kube_cluster", by_phase, {"pods": list(phases.values())}, at_ms),
    )
    return Lines("".join([part.text for part in parts]), sum([part.count for part in parts]))


def _sums(containers: Sequence[Container]) -> dict[str, float]:
    """Return the sum of each summed metric of which any container has sent a value."""
    sums: dict[str, float] = {}
    for metric, read in _SUMMED:
        try:
            total = sum(map(read, containers))
        except TypeError:  # None and UNSET are rare
            sent = [value for value in map(read, containers) if isinstance(value, (int, float))]
            if not sent:
                continue
            total = sum(sent)
        sums[f"containers_{metric.field}"] = total * metric.scale
    return sums


_SUMMED = tuple(
    (metric, attrgetter(metric.attribute))
    for metric in catalogue.CATALOGUE
    if f"agent_containers_{metric.name.removeprefix('container_')}" in catalogue.BY_NAME and metric.attribute
)
