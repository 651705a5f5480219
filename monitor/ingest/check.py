"""Check what the types of a push cannot: lengths, repetitions, times, names, quantities.

All or nothing: the first fault refuses the push and is named by its path.  The common
case is one look over all strings together; the fault is searched only when there is one.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter, mul
from typing import Any

from msgspec import Struct

from monitor.errors import BadRequest, TooManyRequests
from monitor.ingest.lines import container_lines, node_lines, pod_lines
from monitor.tsdb.catalogue import AGENT_LABELS, MAX_LABELS, MAX_NAME_BYTES, MAX_TEXT_BYTES, metrics_of
from monitor.wire.push import Container, Node, Pod, Push, Sample
from monitor.wire.quantity import parse_quantity
from monitor.wire.times import parse_iso8601, sample_ms

MAX_TEXT_CHARACTERS = MAX_TEXT_BYTES // 4  # as many can never be too many bytes
FUTURE_MS = 300_000  # clocks of agents may be ahead by this much
BACKDATED_MS = 300_000  # older samples are stored, and judged by no rule

_METRIC_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Checked(Struct, frozen=True):
    """What the check has found out.

    Attributes:
        at_ms: Time of the snapshot and its samples, milliseconds since 1970.
        is_backdated: Whether they are older than 5 minutes, and judged by no rule.
    """

    at_ms: int
    is_backdated: bool


def check(push: Push, *, now_ms: int, retention_seconds: int, series_limit: int) -> Checked:
    """Return the time of *push* if nothing speaks against storing it.

    Raises:
        BadRequest: with the path of the first fault.
        TooManyRequests: it would make more than *series_limit* series.
    """
    bounds = (now_ms - retention_seconds * 1000, now_ms + FUTURE_MS)
    at_ms = now_ms
    if push.collected_at is not None:
        at_ms = _time_within(push.collected_at, bounds, "collectedAt")
    containers, pods, nodes = push.containers or (), push.pods or (), push.nodes or ()
    samples = push.samples or ()
    _check_texts(push, containers, pods, nodes, samples)
    _check_unique("containers", "id", containers, _CONTAINER_ID)
    _check_unique("pods", "name", pods, _POD_ID)
    _check_unique("nodes", "name", nodes, _NODE_ID)
    _check_times(containers, pods)
    for index, node in enumerate(nodes):
        _check_quantities(node, f"nodes[{index}]")
    for index, sample in enumerate(samples):
        _check_sample(sample, f"samples[{index}]", bounds)
    _check_series(containers, pods, nodes, samples, series_limit)
    return Checked(at_ms, at_ms < now_ms - BACKDATED_MS)


_CONTAINER_ID: Callable[[Any], Hashable] = attrgetter("id")
_POD_ID: Callable[[Any], Hashable] = attrgetter("namespace", "name")
_NODE_ID: Callable[[Any], Hashable] = attrgetter("name")
# The strings that become labels or identify something, with their names in the document.
_TEXTS = {
    "containers": {"id": "id", "name": "name", "image": "image"},
    "pods": {
        "namespace": "namespace",
        "name": "name",
        "node_name": "nodeName",
        "phase": "phase",
        "workload": "workload",
    },
    "nodes": {"name": "name"},
    "samples": {"metric": "metric"},
}
_READ_TEXTS = {kind: [attrgetter(attribute) for attribute in names] for kind, names in _TEXTS.items()}
_QUANTITIES = (
    ("cpu", "cpu"),
    ("memory", "memory"),
    ("pods", "pods"),
    ("ephemeral_storage", "ephemeralStorage"),
)
_TENANT_LABELS = "VictoriaMetrics_"  # a cluster reads the tenant of a line from labels called so
_RATES = sum(bool(metric.rate_of) for metric in metrics_of("container"))
# The most series that one container, pod, node can make; a node has 14 figures by resource.
_MOST_SERIES = (len(metrics_of("container")), len(metrics_of("pod")), len(metrics_of("node")) + 14)


def _refuse(field: str, why: str) -> BadRequest:
    return BadRequest(f"{field}: {why}", field=field)


def _time_within(value: float | str, bounds: tuple[int, int], field: str) -> int:
    """Return a time in milliseconds, which must lie in *bounds*."""
    try:
        ms = sample_ms(value)
    except ValueError as error:
        raise _refuse(field, str(error)) from error
    if ms < bounds[0]:
        raise _refuse(field, "the time is older than the retention")
    if ms > bounds[1]:
        raise _refuse(field, "the time is more than 5 minutes in the future")
    return ms


def _check_texts(
    push: Push,
    containers: Sequence[Container],
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    samples: Sequence[Sample],
) -> None:
    kinds: dict[str, Sequence[Any]] = {
        "containers": containers,
        "pods": pods,
        "nodes": nodes,
        "samples": samples,
    }
    texts = [push.version or ""]
    for kind, elements in kinds.items():
        if not elements:
            continue
        for read in _READ_TEXTS[kind]:
            texts += filter(None, map(read, elements))
        for element in elements:
            if element.labels:
                texts += element.labels
                texts += element.labels.values()
    texts += [container.name for pod in pods for container in pod.containers or ()]
    if max(map(len, texts)) <= MAX_TEXT_CHARACTERS and "\0" not in "".join(texts):
        return
    for field, text in chain([("version", push.version)], *map(_named_texts, kinds, kinds.values())):
        if not text:
            continue
        if "\0" in text:
            raise _refuse(field, "holds a NUL character")
        if len(text) > MAX_TEXT_CHARACTERS and (size := len(text.encode())) > MAX_TEXT_BYTES:
            raise _refuse(field, f"is {size} bytes long, at most {MAX_TEXT_BYTES} are allowed")


def _named_texts(kind: str, elements: Sequence[Any]) -> Iterator[tuple[str, str | None]]:
    """Yield each string with its path."""
    for index, element in enumerate(elements):
        path = f"{kind}[{index}]"
        for attribute, name in _TEXTS[kind].items():
            yield f"{path}.{name}", getattr(element, attribute) or None
        for key, value in (element.labels or {}).items():
            yield f"{path}.labels", key
            yield f"{path}.labels.{key[:MAX_TEXT_CHARACTERS]}", value
        if isinstance(element, Pod):
            for number, container in enumerate(element.containers or ()):
                yield f"{path}.containers[{number}].name", container.name


def _check_unique(
    kind: str, name: str, elements: Sequence[Struct], identity: Callable[[Any], Hashable]
) -> None:
    if len(set(map(identity, elements))) == len(elements):
        return
    first: dict[Hashable, int] = {}
    for index, element in enumerate(elements):
        if (other := first.setdefault(identity(element), index)) != index:
            raise _refuse(f"{kind}[{index}].{name}", f"the same as that of {kind}[{other}]")


def _check_times(containers: Sequence[Container], pods: Sequence[Pod]) -> None:
    why = "expected an ISO 8601 time such as 2030-01-31T12:00:00Z"
    for index, container in enumerate(containers):
        if container.created and not _is_time(container.created):
            raise _refuse(f"containers[{index}].created", why)
    for index, pod in enumerate(pods):
        if pod.start_time and not _is_time(pod.start_time):
            raise _refuse(f"pods[{index}].startTime", why)


def _is_time(text: str) -> bool:
    try:
        if text[-1] == "Z":  # the usual case needs no conversion
            datetime.fromisoformat(text)
        else:
            parse_iso8601(text)
    except ValueError:
        return False
    return True


def _check_quantities(node: Node, path: str) -> None:
    for name, resources in (("capacity", node.capacity), ("allocatable", node.allocatable)):
        if resources is None:
            continue
        for attribute, key in _QUANTITIES:
            text: str | None = getattr(resources, attribute)
            try:
                if text:
                    parse_quantity(text)
            except ValueError as error:
                raise _refuse(f"{path}.{name}.{key}", str(error)) from error


def _check_sample(sample: Sample, path: str, bounds: tuple[int, int]) -> None:
    if not _METRIC_NAME.fullmatch(sample.metric):
        raise _refuse(f"{path}.metric", f"no metric name of Prometheus: {sample.metric!r:.80}")
    if sample.timestamp is not None:
        _time_within(sample.timestamp, bounds, f"{path}.timestamp")
    if not sample.labels:
        return
    for name in sample.labels:
        if not _LABEL_NAME.fullmatch(name):
            raise _refuse(f"{path}.labels", f"no label name of Prometheus: {name!r:.80}")
        if name == "__name__" or name.startswith(_TENANT_LABELS):
            raise _refuse(f"{path}.labels.{name:.80}", "this label cannot be set")
        if len(name) > MAX_NAME_BYTES:
            raise _refuse(f"{path}.labels", f"a label name is longer than {MAX_NAME_BYTES} bytes")
    count = len(AGENT_LABELS) + len(sample.labels.keys() - set(AGENT_LABELS))
    if count > MAX_LABELS:
        why = f"{count} labels with those of the agent, at most {MAX_LABELS} are allowed"
        raise _refuse(f"{path}.labels", why)


def _check_series(
    containers: Sequence[Container],
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    samples: Sequence[Sample],
    limit: int,
) -> None:
    count = len(samples) + sum(map(mul, map(len, (containers, pods, nodes)), _MOST_SERIES))
    if count <= limit:
        return
    rates = [0.0] * (len(containers) * _RATES)  # they come with the next push
    count = (
        len(samples)
        + container_lines(containers, "", 0, rates).count
        + pod_lines(pods, "", 0).count
        + node_lines(nodes, "", 0).count
    )
    if count > limit:
        raise TooManyRequests(f"series_per_push: the push makes {count} series, {limit} are allowed")
