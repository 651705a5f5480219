"""What one execution does to a group's containers, and tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Any

import msgspec
import structlog

from monitor.collector.docker import CALL_SECONDS, Engine
from monitor.collector.failure import EngineAway
from monitor.collector.listing import EngineContainer, name_of
from monitor.collector.scale.clone import clone
from monitor.collector.scale.group import Member, members_of, next_number, stem_of

log = structlog.get_logger(__name__)

DEFAULT_STOP_SECONDS = 10  # between the stop signal and SIGKILL, where the container says nothing else
SETTLE_SECONDS = 1.0  # a program that cannot run has ended by then
NAME_ATTEMPTS = 5  # somebody else may take the number that was free
TEXT_LIMIT = 300  # characters of the engine's words that are reported
DONE = frozenset({200, 201, 204, 304})  # 304: it was so already


class Refused(Exception):
    """The engine has refused something, or it did not help; the text says what."""


class Change:
    """One execution: what was there before, and what has been done.

    Args:
        engine: Of the containers.
        group: To be changed.
        replicas: Wanted.
        lb_pool_ref: For the label of new ones, if given.

    Attributes:
        before: How many replicas there were; set by the caller who has looked.
    """

    def __init__(self, engine: Engine, group: str, replicas: int, lb_pool_ref: str | None) -> None:
        self._engine = engine
        self._group = group
        self._replicas = replicas
        self._lb_pool_ref = lb_pool_ref
        self._listed: list[EngineContainer] = []
        self._started: list[str] = []
        self._stopped: list[str] = []
        self._removed: list[str] = []
        self._gone: list[Member] = []
        self.before = 0

    async def look(self) -> list[Member]:
        """Return the group's members as the engine lists them now."""
        self._listed = await self._engine.listed()
        return members_of(self._listed, self._group)

    async def inspect(self, one: Member) -> dict[str, Any]:
        """Return all that the engine knows of a container."""
        return await self._json(f"containers/{one.id}/json", f"inspecting {one.name}")

    async def start(self, one: Member) -> None:
        """Start a stopped container."""
        await self._do("POST", f"containers/{one.id}/start", f"starting {one.name}")
        self._started.append(one.name)

    async def clone(self, inspected: dict[str, Any], members: list[Member], count: int) -> None:
        """Make and start *count* containers like the inspected one."""
        stem = stem_of(inspected["Name"].removeprefix("/"))
        gone = {one.id for one in self._gone}
        names = [name_of(one) for one in self._listed if one.id not in gone]
        number = next_number(stem, names, [one for one in members if one.id not in gone])
        image = await self._image_of(inspected)
        for _ in range(count):
            container_id, number = await self._create(inspected, stem, number, image)
            name = f"{stem}{number}"
            try:
                await self._do("POST", f"containers/{container_id}/start", f"starting {name}")
            except (Refused, EngineAway):
                await self._delete(container_id, name)
                raise
            self._started.append(name)
            number += 1

    async def _create(self, inspected: dict[str, Any], stem: str, number: int, image: str) -> tuple[str, int]:
        """Make one container; return its id and its number, *number* or the next that is free."""
        words = ""
        for candidate in range(number, number + NAME_ATTEMPTS):
            name = f"{stem}{candidate}"
            made = clone(inspected, name, candidate, image, self._lb_pool_ref)
            status, body = await self._engine.call("POST", "containers/create", {"name": name}, made.body)
            if status == 409:  # the name is taken
                words = _words(status, body)
                continue
            if status != 201:
                raise Refused(f"creating {name}: {_words(status, body)}")
            container_id = str(msgspec.json.decode(body)["Id"])
            for network, endpoint in made.networks.items():
                await self._do(
                    "POST",
                    f"networks/{network}/connect",
                    f"connecting {name} to {network}",
                    body={"Container": container_id, "EndpointConfig": endpoint},
                )
            return container_id, candidate
        raise Refused(f"creating {stem}{number} and the next {NAME_ATTEMPTS - 1}: {words}")

    async def _image_of(self, inspected: dict[str, Any]) -> str:
        """Return the image's name while it still means the same image, else its id."""
        name, image_id = str(inspected["Config"]["Image"]), str(inspected["Image"])
        status, body = await self._engine.call("GET", f"images/{name}/json")
        is_same = status == 200 and msgspec.json.decode(body)["Id"] == image_id
        return name if is_same else image_id

    async def take_away(self, stop: list[Member], remove: list[Member]) -> None:
        """Stop the one, remove the other, all at once: each may take its stop timeout."""
        results = await asyncio.gather(
            *(self._stop(one) for one in stop), *(self._remove(one) for one in remove), return_exceptions=True
        )
        failed = [result for result in results if result is not None]
        if failed:
            raise failed[0]

    async def _stop(self, one: Member) -> None:
        inspected = await self.inspect(one)
        if inspected["HostConfig"].get("AutoRemove"):
            raise Refused(f"{one.name} was started with --rm: stopping it would remove it")
        await self._stop_within(one, inspected)
        self._stopped.append(one.name)

    async def _remove(self, one: Member) -> None:
        if one.is_present:
            await self._stop_within(one, await self.inspect(one))
        await self._delete(one.id, one.name)
        self._gone.append(one)
        if one.state != "created":  # what a crash left half made was no replica
            self._removed.append(one.name)

    async def _delete(self, container_id: str, name: str) -> None:
        # With its anonymous volumes, which we had made for it.
        query = {"force": "true", "v": "true"}
        await self._do("DELETE", f"containers/{container_id}", f"removing {name}", {404, 409}, query=query)

    async def _stop_within(self, one: Member, inspected: dict[str, Any]) -> None:
        timeout = inspected["Config"].get("StopTimeout")
        seconds = DEFAULT_STOP_SECONDS if timeout is None else max(0, timeout)
        await self._do(
            "POST", f"containers/{one.id}/stop", f"stopping {one.name}", {404}, seconds=seconds + CALL_SECONDS
        )

    async def outcome(self) -> str:
        """Return what was done.

        Raises:
            Refused: The group does not have its number, or one that was started does not run.
        """
        if self._started:
            await asyncio.sleep(SETTLE_SECONDS)
        members = await self.look()
        by_name = {one.name: one for one in members}
        for name in self._started:
            if name not in by_name or by_name[name].state != "running":
                raise Refused(f"{name} did not keep running: {await self._end_of(by_name.get(name))}")
        present = [one for one in members if one.is_present]
        if len(present) != self._replicas:
            raise Refused(f"{len(present)} are there; single runs of the service are not touched")
        for one in present:
            if one.state == "restarting":
                raise Refused(f"{one.name} keeps restarting: {await self._end_of(one)}")
        return f"{self.before} → {len(present)}: {self._deeds() or 'nothing to do'}"

    async def told(self, reason: str) -> str:
        """Return what was done, and why not all."""
        try:
            there = sum(one.is_present for one in await self.look())
        except EngineAway:
            return f"{self._deeds() or 'nothing was done'}; {reason}"
        deeds = self._deeds()
        return f"{self.before} → {there} of {self._replicas}: {deeds + '; ' if deeds else ''}{reason}"

    def _deeds(self) -> str:
        named = {"started": self._started, "stopped": self._stopped, "removed": self._removed}
        return ", ".join(f"{verb} {', '.join(names)}" for verb, names in named.items() if names)

    async def _end_of(self, one: Member | None) -> str:
        if one is None:
            return "it is gone"
        state = (await self.inspect(one))["State"]
        return f"{one.state}, exit code {state.get('ExitCode')} {state.get('Error') or ''}".rstrip()

    async def _json(self, path: str, what: str) -> dict[str, Any]:
        status, body = await self._engine.call("GET", path)
        if status != 200:
            raise Refused(f"{what}: {_words(status, body)}")
        return dict(msgspec.json.decode(body))

    async def _do(
        self,
        method: str,
        path: str,
        what: str,
        also_done: Set[int] = frozenset(),
        *,
        query: dict[str, str] | None = None,
        body: object = None,
        seconds: float = CALL_SECONDS,
    ) -> None:
        """Ask the engine for something; *also_done* are statuses that mean that it is so already.

        Raises:
            Refused: It does not.
            EngineAway: It does not answer.
        """
        status, answer = await self._engine.call(method, path, query, body, seconds=seconds)
        if status not in DONE | also_done:
            raise Refused(f"{what}: {_words(status, answer)}")
        log.debug("engine has done", what=what, status=status)


def _words(status: int, body: bytes) -> str:
    try:
        text = str(msgspec.json.decode(body)["message"])
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return f"the engine answered {status}: {' '.join(text.split())[:TEXT_LIMIT]}"
