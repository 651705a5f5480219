"""Policies, what agents report of their workloads, and rounds at once instead of every 15 s."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from monitor.scaling.reconcile import reconcile
from tests.conftest import Agent, Api, Service

POLICIES = "/api/v1/scaling/policies"
DECISIONS = "/api/v1/scaling/decisions"
AT_ONCE = {"cooldownScaleUpSeconds": 0, "cooldownScaleDownSeconds": 0}
LIVE = {"dryRun": False}

Round = Callable[[], Awaitable[None]]


def docker(**fields: Any) -> dict[str, Any]:
    """Return a new policy for the group ``web`` of the pool ``default``, without cooldowns."""
    body = {"name": "web", "runtime": "docker", "targetRef": "default/web", "cpuTargetPercent": 50}
    return {**body, **AT_ONCE, "stepSize": 10, **fields}


def kubernetes(**fields: Any) -> dict[str, Any]:
    """Return a new policy for the Deployment ``web`` in ``shop``, without cooldowns."""
    return {**docker(), "runtime": "kubernetes", "targetRef": "shop/web", **fields}


def containers(count: int, cpu: float = 50, first: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """Return running containers ``web-<n>`` as agents push them."""
    return [
        {
            "id": f"id-{number}",
            "name": f"web-{number}",
            "state": "running",
            "cpuPercent": cpu,
            "memoryUsageMB": 100,
            "memoryPercent": 20,
            **fields,
        }
        for number in range(first, first + count)
    ]


def pods(count: int, cpu: float = 50, **fields: Any) -> list[dict[str, Any]]:
    """Return running pods of the Deployment ``web`` in ``shop`` as agents push them."""
    return [
        {
            "name": f"web-{number}",
            "namespace": "shop",
            "workload": "Deployment/web",
            "phase": "Running",
            "ready": True,
            "nodeName": "node-1",
            "cpuPercent": cpu,
            "memoryPercent": 20,
            **fields,
        }
        for number in range(count)
    ]


async def new_policy(api: Api, body: dict[str, Any]) -> Any:
    """Create a policy, which must be accepted, and return it."""
    async with api.post(POLICIES, json=body) as response:
        assert response.status == 201, await response.text()
        return await response.json()


async def changed(api: Api, policy: Any, **fields: Any) -> Any:
    """Change a policy, which must be accepted, and return it."""
    async with api.put(f"{POLICIES}/{policy['id']}", json=fields) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def act(api: Api, policy: Any, action: str, status: int = 200, **body: Any) -> Any:
    """POST an action on a policy and return the answer."""
    async with api.post(f"{POLICIES}/{policy['id']}/{action}", json=body or None) as response:
        assert response.status == status, await response.text()
        return await response.json()


async def shown(api: Api, policy: Any) -> Any:
    return await api.json(f"{POLICIES}/{policy['id']}")


async def decisions(api: Api, **query: Any) -> list[Any]:
    """Return the decision log, oldest first."""
    return list(reversed(await api.json(DECISIONS, params=query)))


async def actions(api: Api) -> list[tuple[str, int, int]]:
    """Return what the log says, oldest first: action, from and to."""
    return [(row["action"], row["fromReplicas"], row["toReplicas"]) for row in await decisions(api)]


async def evaluate(service: Service, pool: Any, org_id: str) -> None:
    """Evaluate every enabled policy of an organization once more, by whichever loop is first."""
    done = "SELECT bool_and(coalesce(s.evaluated_at > $2, false)) FROM scaling_states s"
    done += " JOIN scaling_policies p ON p.id = s.policy_id WHERE s.org_id = $1 AND p.enabled"
    async with asyncio.timeout(60):
        while True:  # what was claimed before the push that is to be seen counts not
            held = (
                "SELECT count(*) FROM scaling_shards WHERE org_id = $1 AND leased_until > clock_timestamp()"
            )
            if not await pool.fetchval(held, org_id):
                break
            await asyncio.sleep(0.02)
        started = await pool.fetchval("SELECT clock_timestamp()")
        await pool.execute(
            "UPDATE scaling_shards SET due_at = least(due_at, clock_timestamp() - interval '1 ms')"
            " WHERE org_id = $1",
            org_id,
        )
        while not await pool.fetchval(done, org_id, started):
            await reconcile(service.app)
            await asyncio.sleep(0.02)
    await hold(pool, org_id)


async def hold(pool: Any, org_id: str) -> None:
    """Let no loop evaluate an organization's policies by itself, however slow the machine is."""
    await pool.execute(
        "INSERT INTO scaling_shards (org_id, shard, due_at) VALUES ($1, 0, clock_timestamp() + interval '1 hour')"
        " ON CONFLICT (org_id, shard) DO UPDATE SET due_at = excluded.due_at",
        org_id,
    )


@pytest.fixture
async def round_(app: Service, pool: Any, api: Api) -> Round:
    """Evaluate all policies of ``api``'s organization, now and at no other time: ``await round_()``."""
    await hold(pool, api.org_id)
    return lambda: evaluate(app, pool, api.org_id)


@pytest.fixture
async def cluster(api: Api, make_agent: Callable[..., Awaitable[Agent]]) -> Agent:
    """A Kubernetes agent."""
    return await make_agent(api, "cluster", type="kubernetes")
