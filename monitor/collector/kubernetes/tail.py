"""The logs of a cluster's pods, for live tails: one stream of the API server for each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from monitor.collector.backoff import backoff_seconds
from monitor.collector.failure import EngineAway, TailFailed
from monitor.collector.kubernetes.api import Refused
from monitor.collector.kubernetes.objects import ContainerStatus, Pod
from monitor.collector.kubernetes.podlog import log_path, records_of, whole_seconds
from monitor.collector.kubernetes.resources import OVER
from monitor.collector.kubernetes.source import Cluster
from monitor.collector.logs.position import Line, Position, Reading, since_ns
from monitor.collector.logs.records import Garbled
from monitor.collector.tail_ring import Ring
from monitor.wire.tail import LogRequest, TailLine

QUIET_SECONDS = 60.0  # then the stream is opened anew: its connection may be no more
REOPEN_SECONDS = 1.0  # a stream ends with its container, which may be started again
ENDED_LOOKS = 5  # so many looks at a container that stays ended, and so does the tail
FAILURES = 5  # in a row: about a quarter of a minute, in which an API server restarts


class PodLines:
    """The line source of a cluster's agent."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def tail(self, request: LogRequest, lines: Ring) -> None:
        """Add a container's newest lines; with ``follow`` new ones, through restarts, until it stays ended.

        Without a container's name it is the pod's first one, as with kubectl.

        Raises:
            TailFailed: There is no such pod or container, or its log cannot be read.
        """
        try:
            await self._cluster.synced()
        except EngineAway as error:
            raise TailFailed(f"the cluster cannot be read: {error}") from error
        namespace, name = request.namespace or "", request.pod or ""
        pod = self._pod(namespace, name)
        if pod is None:
            raise TailFailed(f"no such pod: {namespace}/{name}")
        container = request.container or pod.spec.containers[0].name
        if container not in names_of(pod):
            raise TailFailed(f"no such container in {namespace}/{name}: {container}")
        query = {"container": container, "timestamps": "true"}
        history = {"tailLines": str(request.tail)}
        if request.since_seconds is not None:
            history["sinceSeconds"] = str(max(1, request.since_seconds))  # the API takes no 0
        if not request.follow:
            await self._read_once(log_path(namespace, name), query | history, lines)
            return
        await self._follow(pod, container, query | {"follow": "true"}, history, lines)

    async def _read_once(self, path: str, query: dict[str, str], lines: Ring) -> None:
        reading = Reading(Position())
        try:
            await self._read(path, query, reading, lines)
        except (EngineAway, Garbled) as error:
            raise TailFailed(f"the log cannot be read: {error}") from error
        await _add(lines, reading.leftovers(None))

    async def _follow(
        self, pod: Pod, container: str, query: dict[str, str], history: dict[str, str], lines: Ring
    ) -> None:
        path = log_path(pod.metadata.namespace, pod.metadata.name)
        position = Position()
        failures = ended = 0
        while ended < ENDED_LOOKS:
            reading = Reading(position)
            since = since_ns(position, 0)
            start = {"sinceTime": whole_seconds(since)} if since else history
            try:
                await self._read(path, query | start, reading, lines)
                failures = 0
            except (EngineAway, Garbled) as error:
                is_first = position == Position() and isinstance(error, Refused)
                failures = 1 if reading.position != position else failures + 1
                if is_first or failures >= FAILURES:
                    raise TailFailed(f"the log cannot be read: {error}") from error
                await asyncio.sleep(backoff_seconds(failures, 0.0, random.random()))  # noqa: S311 (jitter)
            position = reading.position
            now = self._pod(pod.metadata.namespace, pod.metadata.name)
            if now is None or now.metadata.uid != pod.metadata.uid:
                return
            ended = ended + 1 if has_ended(now, container) else 0
            await asyncio.sleep(REOPEN_SECONDS)

    async def _read(self, path: str, query: dict[str, str], reading: Reading, lines: Ring) -> None:
        async with self._cluster.api.stream(path, query, 2 * QUIET_SECONDS) as content:
            async for record in records_of(content, QUIET_SECONDS):
                await _add(lines, reading.lines(record))

    def _pod(self, namespace: str, name: str) -> Pod | None:
        return self._cluster.pods.items.get(f"{namespace}/{name}")


def names_of(pod: Pod) -> set[str]:
    """Return the names of all of a pod's containers."""
    return {one.name for one in (*pod.spec.containers, *(pod.spec.init_containers or ()))}


def has_ended(pod: Pod, container: str) -> bool:
    """Tell whether a container does not run, and nothing says that it will again."""
    if pod.status.phase in OVER:
        return True
    statuses: Iterable[ContainerStatus] = (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    )
    state = next((one.state for one in statuses if one.name == container), None)
    return state is not None and state.terminated is not None


async def _add(lines: Ring, new: Iterable[Line]) -> None:
    for line in new:
        await lines.ready()
        lines.add(TailLine(line.time, line.stream, line.text.decode(errors="replace")))
