"""Ship the logs of all pods: find their containers, keep a reader on each, hold what they bring."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import structlog

from monitor.collector.backoff import backoff_seconds
from monitor.collector.client import Service
from monitor.collector.failure import EngineAway
from monitor.collector.kubernetes.objects import ContainerStatus, Pod
from monitor.collector.kubernetes.podlog import Gates, PodLog, Run
from monitor.collector.kubernetes.source import Cluster
from monitor.collector.logs.batch import OpenBatch
from monitor.collector.logs.deliver import deliver
from monitor.collector.logs.records import Garbled
from monitor.collector.logs.select import is_shipped
from monitor.collector.logs.ship import DIRECTORY, LogSettings
from monitor.collector.logs.spool import LogSpool
from monitor.collector.state import Identity

log = structlog.get_logger(__name__)

POD_NAMESPACE, POD_NAME = "MONITOR_POD_NAMESPACE", "MONITOR_POD_NAME"
SETTLE_SECONDS = 0.5  # changes of pods come in bursts
TELL_SECONDS = 60.0  # between two words on logs that are not read
STEADY_SECONDS = 60.0  # a reader that worked for so long has not failed several times in a row


class PodShipper:
    """The shipping of one cluster's logs.

    Raises:
        AgentStopped: The directory cannot be used.
    """

    def __init__(
        self,
        cluster: Cluster,
        state: Path,
        settings: LogSettings,
        own: Callable[[], str | None] | None = None,
    ) -> None:
        start_ns = time.time_ns() - int(settings.since_seconds * 1e9)
        self._cluster = cluster
        self._exclude = settings.exclude
        self._own = (own or own_pod)()
        self._spool = LogSpool(state / DIRECTORY, start_ns=start_ns, max_bytes=settings.spool_bytes)
        self._batch = OpenBatch(self._spool)
        self._gates = Gates()
        self._readers: dict[str, PodLog] = {}
        self._seen: dict[str, Pod] = {}
        self._has_looked = False
        self._untold = 0
        self._told_at = -TELL_SECONDS
        if len(self._spool):
            log.info("batches of log lines held back by an earlier run", count=len(self._spool))
            self._batch.spooled.set()

    async def read_forever(self) -> None:
        """Read the logs of all containers into the spool."""
        changed = self._cluster.pods_changed
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._batch.close_forever(), name="close batches")
                await self._cluster.pods.synced.wait()
                while True:
                    changed.clear()
                    self._look(group)
                    await changed.wait()
                    await asyncio.sleep(SETTLE_SECONDS)
        finally:
            self._batch.close()

    async def deliver(self, service: Service, identity: Identity) -> None:
        """Wait for a batch, and send what is held, oldest first, until nothing is.

        Raises:
            AgentStopped, ServiceAway: As ``Service.ship_logs``; the batch stays held.
        """
        await deliver(self._spool, self._batch, service, identity)

    def _look(self, group: asyncio.TaskGroup) -> None:
        """Stir the readers of pods that have changed, and start those of new containers."""
        before, self._seen = self._seen, dict(self._cluster.pods.items)
        present: set[str] = set()
        for name, pod in self._seen.items():
            for key, container in self._containers(name, pod):
                present.add(key)
                if key in self._readers:
                    if before.get(name) is not pod:
                        self._readers[key].stir()
                    continue
                where = (pod.metadata.namespace, pod.metadata.name, container)
                reader = PodLog(
                    self._cluster.api,
                    where,
                    key,
                    partial(self._run_of, name, pod.metadata.uid, container),
                    batch=self._batch,
                    gates=self._gates,
                    start_ns=self._spool.start_ns,
                    is_new=self._has_looked,
                )
                self._readers[key] = reader
                group.create_task(self._read(key, reader), name=f"log of {'/'.join(where)}")
        for key in self._readers.keys() - present:
            self._readers[key].stir()  # its pod is gone: it ends
        self._spool.keep_only(present | self._readers.keys())
        self._gates.readers = len(self._readers)
        self._has_looked = True

    def _containers(self, name: str, pod: Pod) -> Iterator[tuple[str, str]]:
        """Yield key and name of the containers whose logs are to be shipped and that have run at all."""
        labels = pod.metadata.labels or {}
        for status in statuses_of(pod):
            if status.container_id and is_shipped(
                f"{name}/{status.name}", labels, self._exclude, is_own=name == self._own
            ):
                yield f"{pod.metadata.uid}/{status.name}", status.name

    def _run_of(self, name: str, uid: str, container: str) -> Run | None:
        """Return the present run of a container; None once the pod of that *uid* is gone."""
        pod = self._cluster.pods.items.get(name)
        if pod is None or pod.metadata.uid != uid:
            return None
        status = next((one for one in statuses_of(pod) if one.name == container), None)
        if status is None or not status.container_id:
            return None
        running = status.state.running if status.state else None
        return Run(status.container_id, status.restart_count, running.started_at if running else None)

    async def _read(self, key: str, reader: PodLog) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await reader.read_to_its_end()
                break
            except (EngineAway, Garbled) as error:
                failures = 0 if time.monotonic() - began > STEADY_SECONDS else failures
                seconds = backoff_seconds(failures, 0.0, random.random())  # noqa: S311 (jitter)
                failures += 1
                if failures == 2:  # the first one is a restart of a kubelet or the API server
                    self._warn(reader.name, error)
                await asyncio.sleep(seconds)
        del self._readers[key]

    def _warn(self, name: str, error: Exception) -> None:
        """Tell of logs that are not read; of a whole cluster's not each by itself."""
        self._untold += 1
        if time.monotonic() - self._told_at < TELL_SECONDS:
            return
        log.warning("logs not read", count=self._untold, container=name, error=str(error))
        self._untold, self._told_at = 0, time.monotonic()


def statuses_of(pod: Pod) -> Iterator[ContainerStatus]:
    """Yield the states of a pod's containers, those before the others first."""
    yield from pod.status.init_container_statuses or ()
    yield from pod.status.container_statuses or ()


def own_pod() -> str | None:
    """Return ``namespace/name`` of the pod we run in, as its manifest tells us; None outside of any."""
    namespace, name = os.environ.get(POD_NAMESPACE), os.environ.get(POD_NAME)
    return f"{namespace}/{name}" if namespace and name else None
