"""Create, change and delete policies, with what follows for what is known and in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from monitor.auth.middleware import require_feature
from monitor.auth.tokens import new_id
from monitor.config import CONFIG
from monitor.db.postgres import found, transaction
from monitor.errors import TooManyRequests
from monitor.scaling import define, store
from monitor.scaling.live import store as live
from monitor.scaling.models import NewPolicy, Policy, PolicyChange
from monitor.scaling.spec import PolicyType
from monitor.scaling.state import after_change

if TYPE_CHECKING:
    from aiohttp import web

    from monitor.auth.models import Tenant

New = TypeVar("New", bound=NewPolicy)


class _Type(msgspec.Struct, rename="camel"):
    """The one field of a new policy that the plan decides about."""

    policy_type: PolicyType | None = None


_type = msgspec.json.Decoder(_Type)


def wants_gpu(body: bytes) -> bool:
    """Tell whether a body asks for a GPU-aware policy, whatever else is wrong with it."""
    try:
        return _type.decode(body).policy_type is not None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


async def create_policy(app: web.Application, tenant: Tenant, new: NewPolicy) -> Policy:
    """Store a policy; it is evaluated with the next round of its shard.

    Raises:
        Forbidden: The plan has no policies of that type.
        BadRequest: Names the field that is not valid.
        TooManyRequests: The organization has as many policies as it may have.
    """
    settings = define.settings_of(new)
    ceiling = app[CONFIG].config.limits.for_org(tenant.org_id).policies
    policy_id = new_id("scp")
    async with transaction(app) as conn:
        await store.lock_organization(conn, tenant.org_id)
        sizes = await store.shard_sizes(conn, tenant.org_id)
        if sum(sizes.values()) >= ceiling:
            raise TooManyRequests(f"limit reached: {ceiling} policies")
        await store.insert_policy(conn, tenant.org_id, policy_id, store.shard_with_room(sizes), settings)
        return found(await store.show_policy(conn, tenant.org_id, policy_id))


async def change_policy(app: web.Application, tenant: Tenant, policy_id: str, change: PolicyChange) -> Policy:
    """Apply a partial update and return the policy.

    Raises:
        NotFound: Not a policy of this organization.
        Forbidden: The plan has no policies of that type.
        BadRequest: Names the field that is not valid, or cannot be changed.
    """
    async with transaction(app) as conn:
        before = found(await store.lock_policy(conn, tenant.org_id, policy_id))
        after = define.changed(before, change)
        if after.policy_type not in (None, before.policy_type):
            require_feature(tenant, "gpu_policies")
        differing = define.differing(before, after)
        if differing:
            await store.update_policy(conn, tenant.org_id, policy_id, after)
            state = found(await live.lock_state(conn, tenant.org_id, policy_id))
            await live.write_states(conn, tenant.org_id, [after_change(state, differing, after)])
        return found(await store.show_policy(conn, tenant.org_id, policy_id))


async def delete_policy(app: web.Application, org_id: str, policy_id: str) -> None:
    """Delete a policy; its decisions stay.

    Raises:
        NotFound: Not a policy of this organization.
    """
    async with transaction(app) as conn:
        found(await store.delete_policy(conn, org_id, policy_id))
