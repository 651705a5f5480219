"""Read what an organization's agents report, once for all its policies."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from monitor.db.postgres import connection
from monitor.scaling.live import store
from monitor.scaling.models import Settings
from monitor.scaling.observe import Observation, Seen
from monitor.scaling.spec import Inputs

if TYPE_CHECKING:
    from aiohttp import web

FRESH_SECONDS = 5.0  # shards of one organization evaluated within this share one pass


class Workloads:
    """The newest pass over an organization's snapshots, for the shards of a round.

    Attributes:
        org_id: The organization of that pass, "" before the first.
    """

    def __init__(self, app: web.Application) -> None:
        self.org_id = ""
        self._app = app
        self._at = 0.0
        self._served: set[int] = set()
        self._observation = Observation((), ())

    async def of(self, org_id: str, shard: int) -> Observation:
        """Return what *org_id*'s agents report, at most 5 s old and new to *shard*.

        Raises:
            StorageUnavailable: Postgres is away.
        """
        fresh = time.monotonic() - self._at <= FRESH_SECONDS
        if org_id != self.org_id or shard in self._served or not fresh:
            self._observation = await observe(self._app, org_id)
            self.org_id, self._at, self._served = org_id, time.monotonic(), set()
        self._served.add(shard)
        return self._observation


async def observe(app: web.Application, org_id: str) -> Observation:
    """Return what *org_id*'s agents report now of the targets of its policies.

    Raises:
        StorageUnavailable: Postgres is away.
    """
    async with connection(app) as conn:
        wanted = await store.target_refs(conn, org_id)
        snapshots = await store.snapshots(conn, org_id)
    return await asyncio.to_thread(Observation, snapshots, wanted)  # a large organization's take a second


async def seen_now(app: web.Application, org_id: str, policy: Settings) -> Seen:
    """Return what a change by hand has to know of the workload: the hosts, where there are any.

    Raises:
        StorageUnavailable: Postgres is away.
    """
    if policy.runtime == "kubernetes":
        return Seen(Inputs())  # the agent gets a manifest, whatever is there
    return (await observe(app, org_id)).of(policy, None, None)
