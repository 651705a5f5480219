"""Read the containers of a Docker engine, with their usage.

Every container is listed, whether it runs or not.  A running one whose stats
cannot be had is listed with zeros and ``statsOk: false``; one that vanishes
between the list and its stats is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from types import TracebackType
from typing import Self

import aiodocker
import aiohttp
import msgspec
import structlog
from msgspec import Struct
from yarl import URL

from monitor.collector.failure import AgentStopped, ContainerGone, EngineAway
from monitor.collector.gpu import Gpus, GpuUse, was_given_gpu, with_gpu
from monitor.collector.listing import EngineContainer, container_of
from monitor.collector.usage import CpuSample, EngineStats, Usage, usage_of
from monitor.wire.derived import is_running
from monitor.wire.push import Container, Push

log = structlog.get_logger(__name__)

NEWEST_API = (1, 47)  # what this module was written against; an older engine is asked in its own version
ONE_SHOT_API = (1, 41)  # older engines know no one-shot stats and take a second sample of their own
LIST_SECONDS = 10.0  # an engine that needs longer to list its containers is stuck
STATS_SECONDS = 10.0  # for all containers together, below the default interval of 15 s
STATS_CONCURRENCY = 64  # each call costs the engine up to a second of waiting, and little CPU
CONNECT_SECONDS = 10.0
CALL_SECONDS = 60.0  # creating a container copies its image with some storage drivers
ERROR_BYTES = 500  # of the engine's words that are logged
STATES_WITH_STATS = frozenset({"running", "paused"})


class EngineState(Struct, frozen=True, rename="pascal"):
    """Whether a container runs (paused and restarting ones do), and since when."""

    running: bool = False
    started_at: str = ""


class EngineConfig(Struct, frozen=True, rename="pascal"):
    """How a container was made; with a terminal its output is one stream."""

    tty: bool = False


class Inspected(Struct, frozen=True, rename="pascal"):
    """The answer of ``/containers/{id}/json``, as far as it is used."""

    state: EngineState
    config: EngineConfig


class Engine:
    """A connection to one engine; use it as an async context manager.

    Args:
        docker_host: ``unix:///path``, ``tcp://host:port``, ``http(s)://host:port``;
            DOCKER_TLS_VERIFY and DOCKER_CERT_PATH count as for the docker command.
        gpus: Those of the engine's host; found by themselves if not given.
    """

    def __init__(self, docker_host: str, gpus: Gpus | None = None) -> None:
        self._docker_host = docker_host
        self._gpus = gpus or Gpus()
        self._has_gpu: dict[str, bool] = {}
        self._api: tuple[int, int] | None = None
        self._cpu_samples: dict[str, CpuSample] = {}

    async def __aenter__(self) -> Self:
        try:
            self._docker = aiodocker.Docker(url=self._docker_host)
        except (ValueError, OSError) as error:  # DOCKER_TLS_VERIFY without usable certificates
            raise AgentStopped(f"--docker-host {self._docker_host}: {error}", exit_code=2) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._docker.close()
        self._gpus.close()

    async def snapshot(self) -> Push:
        """Return all containers as the part of a push that they are.

        Raises:
            EngineAway: As ``containers``.
        """
        return Push(containers=await self.containers())

    async def containers(self) -> list[Container]:
        """Return all containers, ordered by name, each with its usage of this moment.

        CPU is 0 for a container that the previous round did not see.

        Raises:
            EngineAway: The engine does not answer, or not in its own language.
        """
        listed = await self.listed()
        deadline = asyncio.get_running_loop().time() + STATS_SECONDS
        gate = asyncio.Semaphore(STATS_CONCURRENCY)
        measured = await asyncio.gather(*(self._measure(one, gate, deadline) for one in listed))
        present = {one.id for one in listed}
        self._cpu_samples = {id_: sample for id_, sample in self._cpu_samples.items() if id_ in present}
        containers = sorted((one for one in measured if one is not None), key=lambda one: (one.name, one.id))
        return await self._with_gpus(containers) if self._gpus.present else containers

    async def _with_gpus(self, containers: list[Container]) -> list[Container]:
        """Return *containers* with what they use of GPUs; 0 for one that was given a GPU and uses none."""
        uses = await self._gpus.uses()
        present = {one.id for one in containers}
        self._has_gpu = {id_: has for id_, has in self._has_gpu.items() if id_ in present}
        for one in containers:
            if one.id not in self._has_gpu:
                status, body = await self.call("GET", f"containers/{one.id}/json", seconds=LIST_SECONDS)
                self._has_gpu[one.id] = status == 200 and was_given_gpu(body)
        return [
            with_gpu(one, uses.get(one.id, GpuUse()))
            if is_running(one) and (one.id in uses or self._has_gpu[one.id])
            else one
            for one in containers
        ]

    async def listed(self) -> list[EngineContainer]:
        """Return all containers as the engine lists them.

        Raises:
            EngineAway: As for ``containers``.
        """
        try:
            async with asyncio.timeout(LIST_SECONDS):
                return await self._list()
        except TimeoutError as error:
            raise EngineAway(f"the engine did not list its containers within {LIST_SECONDS:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineAway(f"the engine at {self._docker_host} cannot be read: {error}") from error

    async def _list(self) -> list[EngineContainer]:
        # Asked in every round, a cheap call: the engine may have been upgraded meanwhile.
        self._api = await self._negotiate()
        status, body = await self._get("containers/json", {"all": "1"})
        if status != 200:
            raise EngineAway(f"the engine answered {status}: {body[:200].decode(errors='replace')}")
        return msgspec.json.decode(body, type=list[EngineContainer])

    async def _negotiate(self) -> tuple[int, int]:
        """Return the newest API version that both sides speak."""
        async with self._docker.session.get(URL(f"{self._docker.docker_host}/_ping")) as reply:
            major, _, minor = reply.headers.get("Api-Version", "").partition(".")
        if not (major.isdecimal() and minor.isdecimal()):
            raise EngineAway(f"{self._docker_host} answers, but not as a Docker engine: no Api-Version")
        return min(NEWEST_API, (int(major), int(minor)))

    async def _measure(
        self, listed: EngineContainer, gate: asyncio.Semaphore, deadline: float
    ) -> Container | None:
        """Return *listed* with its usage, or None if it is gone."""
        if listed.state not in STATES_WITH_STATS:
            return container_of(listed, Usage())
        try:
            async with asyncio.timeout_at(deadline), gate:
                status, body = await self._get_stats(listed.id)
            if status == 404:
                return None
            if status == 200:
                stats = msgspec.json.decode(body, type=EngineStats)
                measured = usage_of(stats, self._cpu_samples.get(listed.id))
                if measured is not None:
                    usage, self._cpu_samples[listed.id] = measured
                    return container_of(listed, usage)
            log.debug("no stats", container=listed.id[:12], status=status)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
            log.debug("no stats", container=listed.id[:12], error=repr(error))
        return container_of(listed, None)

    async def _get_stats(self, container_id: str) -> tuple[int, bytes]:
        one_shot = {"one-shot": "true"} if self._api and self._api >= ONE_SHOT_API else {}
        return await self._get(f"containers/{container_id}/stats", {"stream": "false"} | one_shot)

    async def _get(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        # aiodocker's connection, not its calls: those decode twice and know no one-shot stats.
        async with self._docker.session.get(self._url(path, query)) as reply:
            return reply.status, await reply.read()

    def _url(self, path: str, query: dict[str, str]) -> URL:
        major, minor = self._api or NEWEST_API
        return URL(f"{self._docker.docker_host}/v{major}.{minor}/{path}").with_query(query)

    async def call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: object = None,
        *,
        seconds: float = CALL_SECONDS,
    ) -> tuple[int, bytes]:
        """Return status and body of any other request; *body* goes as JSON.

        Raises:
            EngineAway: There is no answer within *seconds*.
        """
        try:
            async with asyncio.timeout(seconds):
                self._api = self._api or await self._negotiate()
                async with self._docker.session.request(
                    method,
                    self._url(path, query or {}),
                    data=None if body is None else msgspec.json.encode(body),
                    headers={"Content-Type": "application/json"},
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as reply:
                    return reply.status, await reply.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise EngineAway(f"the engine at {self._docker_host} does not answer: {error!r}") from error

    async def inspect(self, container_id: str) -> Inspected:
        """Return what the engine knows of one container.

        Raises:
            ContainerGone: It knows none of this id.
            EngineAway: It does not answer, or not in its own language.
        """
        async with self.stream(f"containers/{container_id}/json", {}, ends_soon=True) as reply:
            try:
                async with asyncio.timeout(LIST_SECONDS):
                    return msgspec.json.decode(await reply.read(), type=Inspected)
            except ValueError as error:
                raise EngineAway(f"the engine's answer cannot be read: {error}") from error

    @asynccontextmanager
    async def stream(
        self, path: str, query: dict[str, str], *, ends_soon: bool = False
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open an answer that may be long or never end; what fails while it is read is told as here.

        Args:
            path: Below the API's version.
            query: Of the request.
            ends_soon: Whether it may have one of the kept connections; streams that stay open
                would use them up, so they get one of their own, which costs more to open.

        Raises:
            ContainerGone: 404, or 409 for what is just being removed.
            EngineAway: Anything else but 200.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            if self._api is None:
                async with asyncio.timeout(LIST_SECONDS):
                    self._api = await self._negotiate()
            async with (
                nullcontext(self._docker) if ends_soon else aiodocker.Docker(url=self._docker_host) as docker,
                docker.session.get(self._url(path, query), timeout=limit) as reply,
            ):
                if reply.status in {404, 409}:
                    raise ContainerGone(path)
                if reply.status != 200:
                    text = (await reply.content.read(ERROR_BYTES)).decode(errors="replace")
                    raise EngineAway(f"the engine answered {reply.status}: {text.strip()}")
                yield reply.content
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise EngineAway(f"the engine at {self._docker_host} cannot be read: {error!r}") from error
