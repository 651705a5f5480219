"""Open a live tail: share the request that asks for the same, or make a new one.

A viewer who asks to follow a container without ``sinceSeconds`` shares the request, and
so the agent's stream, of those who ask for the same with the same ``tail``; every other
request is its viewer's own.  With the ``Last-Event-ID`` of a request a viewer goes on in
that one.
"""

from __future__ import annotations

import secrets

import msgspec
from aiohttp import web
from msgspec import Struct

from monitor.commands.store import enqueue
from monitor.config import CONFIG
from monitor.db.postgres import Connection, found, transaction
from monitor.errors import NotFound, TooManyRequests
from monitor.logs.tail import store
from monitor.logs.tail.locate import SHORT_ID, reporter_of
from monitor.logs.tail.models import Place, Request, TailQuery, Target
from monitor.logs.tail.sweep import end_dead
from monitor.wire.tail import LogRequest

ID_BYTES = 16  # not to be guessed, though an id alone opens nothing


class Opened(Struct, frozen=True):
    """A request that is watched, and the number of the line that the viewer gets first."""

    request: Request
    next_seq: int


async def open_tail(app: web.Application, org_id: str, target: Target, asked: TailQuery) -> Opened:
    """Return the request that brings what is asked for; a new one is on its way to its agent.

    Raises:
        BadRequest: Several agents report the target.
        NotFound: No agent reports it.
        TooManyRequests: The organization watches as much as it may.
        StorageUnavailable: Postgres is away.
    """
    await end_dead(app, org_id)
    async with transaction(app) as conn:
        agent_id, target = await reporter_of(conn, org_id, target, asked.agent_id)
        request = log_request(target, asked)
        await store.lock_requests(conn, org_id)
        shared_as = _shared_as(request)
        if shared_as is not None:
            shared = await store.join_shared(conn, org_id, agent_id, shared_as)
            if shared is not None:
                return Opened(shared, max(shared.next_seq - asked.tail, 0))
        return Opened(await _new(app, conn, org_id, agent_id, request, shared_as), 0)


async def _new(
    app: web.Application,
    conn: Connection,
    org_id: str,
    agent_id: str,
    request: LogRequest,
    shared_as: str | None,
) -> Request:
    limits = app[CONFIG].config.limits.for_org(org_id)
    if await store.count_watched(conn, org_id) >= limits.tails:
        raise TooManyRequests(f"tails: the organization watches {limits.tails} logs already", field="tails")
    seconds = limits.tail_minutes * 60.0
    stored = await store.insert_request(conn, org_id, agent_id, request, shared_as=shared_as, seconds=seconds)
    await enqueue(conn, org_id, agent_id, "logs.tail", msgspec.to_builtins(request))
    return stored


async def resume_tail(app: web.Application, org_id: str, target: Target, place: Place) -> Opened:
    """Return the request in which a viewer goes on at *place*.

    Raises:
        NotFound: The organization has no such request for *target*, or no longer.
        StorageUnavailable: Postgres is away.
    """
    await end_dead(app, org_id)
    async with transaction(app) as conn:
        request, asked = found(await store.rejoin(conn, org_id, place.request_id))
        if not _is_of(asked, target):
            raise NotFound
    return Opened(request, min(place.next_seq, request.next_seq))


def log_request(target: Target, asked: TailQuery) -> LogRequest:
    """Return a new request for the log of *target*."""
    return LogRequest(
        request_id=f"tail_{secrets.token_hex(ID_BYTES)}",
        source=target.source,
        tail=asked.tail,
        follow=asked.follow,
        container_id=target.container_id or None,
        namespace=target.namespace or None,
        pod=target.pod or None,
        container=target.container or None,
        since_seconds=asked.since_seconds,
    )


def _shared_as(request: LogRequest) -> str | None:
    """Return what makes requests alike, None for one that is its viewer's own."""
    if not request.follow or request.since_seconds is not None:
        return None
    return msgspec.json.encode(msgspec.structs.replace(request, request_id="")).decode()


def _is_of(asked: LogRequest, target: Target) -> bool:
    if asked.source == "docker":
        container_id = asked.container_id or ""
        return target.container_id in (container_id, container_id[:SHORT_ID])
    return (asked.namespace, asked.pod, asked.container or "") == (
        target.namespace,
        target.pod,
        target.container,
    )
