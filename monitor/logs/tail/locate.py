"""Which agent reports a container or a pod: the one that is asked for its log."""

from __future__ import annotations

import asyncio

import msgspec
import zstandard

from monitor.db.postgres import Connection
from monitor.errors import BadRequest, NotFound
from monitor.inventory.store import Kind, snapshots
from monitor.logs.tail import store
from monitor.logs.tail.models import Target
from monitor.wire.push import Container, Pod

SHORT_ID = 12  # characters of a container's id that Docker shows
AGENTS_A_TURN = 50  # snapshots searched between two turns of the event loop: about 1 ms

_CONTAINERS = msgspec.json.Decoder(list[Container])
_PODS = msgspec.json.Decoder(list[Pod])


async def reporter_of(
    conn: Connection, org_id: str, target: Target, agent_id: str | None
) -> tuple[str, Target]:
    """Return the agent that reports *target*, and the target as it names it.

    Of several the one that is online, or, if none is, the one that pushed last.

    Raises:
        BadRequest: Several agents that are online report it: ``agentId`` has to say which.
        NotFound: No agent of the organization does, or not the one that *agent_id* names.
    """
    agents = [
        agent
        for agent in await store.reporters(conn, org_id)
        if agent_id is None or agent.agent_id == agent_id
    ]
    kind: Kind = "containers" if target.source == "docker" else "pods"
    needle = msgspec.json.encode(target.container_id or target.pod)[1:-1]
    named: dict[str, Target] = {}
    decompressor = zstandard.ZstdDecompressor()
    for start in range(0, len(agents), AGENTS_A_TURN):
        some = [agent.agent_id for agent in agents[start : start + AGENTS_A_TURN]]
        for reporter, (_, blob) in (await snapshots(conn, org_id, kind, some)).items():
            text = b"" if blob is None else decompressor.decompress(blob)
            if needle in text and (found := _named(target, text)) is not None:
                named[reporter] = found
        await asyncio.sleep(0)
    if not named:
        raise NotFound
    online = [agent.agent_id for agent in agents if agent.online and agent.agent_id in named]
    if len(online) > 1:
        what = "container" if target.source == "docker" else "pod"
        raise BadRequest(f"agentId: {len(online)} agents report this {what}, say which", field="agentId")
    chosen = online[0] if online else next(agent.agent_id for agent in agents if agent.agent_id in named)
    return chosen, named[chosen]


def _named(target: Target, snapshot: bytes) -> Target | None:
    """Return *target* as *snapshot*, a JSON array, names it; None if it is not there."""
    if target.source == "docker":
        for container in _CONTAINERS.decode(snapshot):
            if target.container_id in (container.id, container.short_id, container.id[:SHORT_ID]):
                return Target("docker", container_id=container.id)
        return None
    for pod in _PODS.decode(snapshot):
        if (pod.namespace, pod.name) == (target.namespace, target.pod) and _has(pod, target.container):
            return target
    return None


def _has(pod: Pod, container: str) -> bool:
    """Return whether *pod* has the container; any, if none is named or none is known."""
    return not container or not pod.containers or any(it.name == container for it in pod.containers)
