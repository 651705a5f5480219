"""A cluster as what the agent watches: its objects kept by watches, its usage asked for in each round."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog

from monitor.collector.failure import EngineAway
from monitor.collector.kubernetes.access import Access
from monitor.collector.kubernetes.api import Api, Refused
from monitor.collector.kubernetes.objects import ApiGroup, Node, NodeMetrics, Owned, Pod, PodMetrics
from monitor.collector.kubernetes.reflector import Reflector
from monitor.collector.kubernetes.snapshot import nodes_of, pods_of
from monitor.wire.push import Push

log = structlog.get_logger(__name__)

SYNC_SECONDS = 60.0  # the first lists of a large cluster
# A watch that is cut is open again within a second; longer, and what we have may be wrong.
STALE_SECONDS = 45.0
METRICS_GROUP = "apis/metrics.k8s.io"
METRICS_VERSIONS = ("v1", "v1beta1")  # their fields that are used are the same
ABSENT = frozenset({404, 503})  # no metrics provider, or one that is installed and not there
# Names and owners only: a ReplicaSet holds a whole pod template.
NAMES_ONLY = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
)

Item = TypeVar("Item")


class Cluster:
    """A connection to one cluster; use it as an async context manager.

    Attributes:
        api: For whoever reads logs or applies manifests.
        pods: All pods.
        pods_changed: Set after each change of them.
    """

    def __init__(self, access: Access, user_agent: str) -> None:
        self.api = Api(access, user_agent)
        self.pods_changed = asyncio.Event()
        self.pods = Reflector(self.api, "api/v1/pods", Pod, changed=self.pods_changed.set)
        self._nodes = Reflector(self.api, "api/v1/nodes", Node)
        self._replica_sets = Reflector(self.api, "apis/apps/v1/replicasets", Owned, accept=NAMES_ONLY)
        self._reflectors: tuple[Reflector[Any], ...] = (self.pods, self._nodes, self._replica_sets)
        self._tasks: list[asyncio.Task[None]] = []
        self._metrics_are_there: bool | None = None
        self._metrics_trouble = ""

    async def __aenter__(self) -> Self:
        await self.api.__aenter__()
        self._tasks = [
            asyncio.create_task(one.follow_forever(), name=f"watch {kind}")
            for one, kind in zip(self._reflectors, ("pods", "nodes", "replicasets"), strict=True)
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.api.__aexit__(kind, error, trace)

    async def snapshot(self) -> Push:
        """Return all pods and nodes, with their usage of this moment.

        Raises:
            EngineAway: The API server cannot be read, or what we have may be out of date.
        """
        await self.synced()
        for reflector in self._reflectors:
            if reflector.error is not None and reflector.failing_seconds > STALE_SECONDS:
                raise reflector.error
        version = await self._metrics_version()
        pod_metrics = await self._metrics(version, "pods", PodMetrics)
        node_metrics = await self._metrics(version, "nodes", NodeMetrics)
        pods = self.pods.items.values()
        nodes = self._nodes.items
        return Push(
            pods=pods_of(pods, nodes, self._replica_sets.items, pod_metrics),
            nodes=nodes_of(nodes.values(), pods, node_metrics),
        )

    async def synced(self) -> None:
        """Wait for the first lists.

        Raises:
            EngineAway: They do not come.
        """
        for task in self._tasks:
            if task.done():
                task.result()  # a mistake of ours ends the agent instead of leaving it blind
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                for reflector in self._reflectors:
                    await reflector.synced.wait()
        except TimeoutError as error:
            told = next((one.error for one in self._reflectors if one.error), None)
            raise told or EngineAway(f"the cluster was not listed within {SYNC_SECONDS:g} s") from error

    async def _metrics_version(self) -> str | None:
        """Return the version of the metrics API to ask, None if there is none.

        Asked in every round, a small call: providers come, go and are upgraded.
        """
        try:
            group = await self.api.get(METRICS_GROUP, ApiGroup)
            offered = {one.version for one in group.versions or ()}
            version = next((one for one in METRICS_VERSIONS if one in offered), None)
        except Refused as error:
            if error.status not in ABSENT:
                raise
            version = None
        self._tell(version is not None)
        return version

    async def _metrics(self, version: str | None, resource: str, kind: type[Item]) -> list[Item]:
        if version is None:
            return []
        found: list[Item] = []
        try:
            async for page in self.api.pages(f"{METRICS_GROUP}/{version}/{resource}", kind):
                found += page.items or ()
        except EngineAway as error:
            # The provider is a program of its own: without it there is still all the rest.
            if str(error) != self._metrics_trouble:
                self._metrics_trouble = str(error)
                log.warning("usage cannot be read, and is left out", resource=resource, error=str(error))
            return []
        return found

    def _tell(self, are_there: bool) -> None:
        if are_there != self._metrics_are_there:
            self._metrics_are_there = are_there
            if are_there:
                log.info("the cluster has a metrics provider")
            else:
                log.info("the cluster has no metrics provider: usage is left out")
