"""Try a policy, stored or not, on stored history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from monitor.db.postgres import connection
from monitor.scaling import targets
from monitor.scaling.live import store as live
from monitor.scaling.simulate import Window, simulate
from monitor.scaling.spec import PolicySpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from aiohttp import web

    from monitor.auth.models import Tenant
    from monitor.scaling.models import Settings
    from monitor.scaling.timeline import Simulation


async def try_out(
    app: web.Application,
    tenant: Tenant,
    policy: Settings,
    window: Window,
    left: Callable[[], bool],
) -> Simulation:
    """Return what *policy* would have decided within *window*.

    Raises:
        BadRequest: The window is no window, or holds too much.
        StorageUnavailable: A store is away.
    """
    spec = msgspec.convert(policy, PolicySpec, from_attributes=True)
    agent_ids = await _agents(app, tenant.org_id, policy)
    return await simulate(app, tenant, spec, window, agent_ids, left)


async def _agents(app: web.Application, org_id: str, policy: Settings) -> Collection[str] | None:
    """Return the agents whose replicas are the policy's, None if that is all of them."""
    if policy.agent_id is not None:
        return [policy.agent_id]
    if policy.runtime == "kubernetes":
        return None
    async with connection(app) as conn:
        return await live.agents_of_pool(conn, org_id, targets.group(policy.target_ref).pool)
