"""A good request to every route, and an organization to send them to.

The table says what is expected of a route's access; it is written by hand and asks
the code nothing.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import aiohttp

from monitor.auth import provision, tokens

Who = Literal["anyone", "viewer", "member", "admin", "agent", "api_key", "sender"]

MARKER = "marker-of-the-first-organization"
METRIC = "marker_of_the_first_organization"
PASSWORD = "correct horse battery"
# One login name is one person: each process of a parallel run has its own.
EMAIL = f"{MARKER}-{secrets.token_hex(4)}@example.com"


@dataclass(frozen=True)
class Example:
    """A good request to a route.

    Attributes:
        who: The least caller; ``api_key`` is a key alone, ``agent`` the path's own agent,
            ``sender`` a key or any agent.
        status: What the good request is answered with.
        json: Its body.
        data: Its body where that is no JSON.
        headers: What it needs besides a credential.
        params: Its query.
        resource: Whose id stands in the path.
        shows: The answer to the owner holds the organization's own data.
        reads_body: A body that is no JSON of the right shape is refused.
    """

    who: Who = "viewer"
    status: int = 200
    json: Any = None
    data: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    resource: Literal["agent", "alert", "channel", "key", "policy", "rule", "user"] | None = None
    shows: bool = False
    reads_body: bool = True


SELECTOR = {"metric": METRIC}
QUERY = {"query": METRIC}
MATCH = {"match[]": METRIC}
WINDOW = {"start": "0", "end": "60", "step": "15"}
LOG_LINE = {
    "time": datetime.now(UTC).isoformat(),
    "stream": "stdout",
    "message": MARKER,
    "containerId": MARKER,
}
TAIL_LINE = {"time": "2026-01-01T00:00:00Z", "stream": "stdout", "message": "a line"}

# Of the discard port: a test message is refused at once.
CHANNEL = {"name": MARKER, "type": "webhook", "settings": {"url": "http://localhost:9/"}}

RULE = {"name": MARKER, "metric": METRIC, "operator": "gt", "threshold": 0}
RULES = ("/api/v1/alerts/rules", "/api/v1/alert-rules")  # two forms of one path
BACKTEST = {**RULE, "name": "a rule", "start": 0, "end": 60}

POLICY = {"name": MARKER, "runtime": "docker", "targetRef": f"default/{MARKER}", "cpuTargetPercent": 50}
NEW_POLICY = {"name": "a policy", "runtime": "kubernetes", "targetRef": "shop/web", "cpuTargetPercent": 50}
POLICIES = "/api/v1/scaling/policies"

EXAMPLES: dict[str, Example] = {
    "POST /auth/login": Example("anyone", 401, {"email": "nobody@example.com", "password": "x" * 12}),
    "POST /auth/logout": Example("viewer", 204, reads_body=False),
    "POST /auth/password": Example("viewer", 400, {"currentPassword": PASSWORD, "newPassword": PASSWORD}),
    "GET /api/v1/me": Example(shows=True),
    "GET /api/v1/settings/api-keys": Example("admin", shows=True),
    "POST /api/v1/settings/api-keys": Example("admin", 201, {"name": "a key"}),
    "DELETE /api/v1/settings/api-keys/{id}": Example("admin", 204, resource="key", reads_body=False),
    "GET /api/v1/settings/users": Example("admin", shows=True),
    "POST /api/v1/settings/users": Example("admin", 409, {"email": EMAIL, "role": "viewer"}),
    "PUT /api/v1/settings/users/{id}": Example("admin", 200, {"role": "viewer"}, resource="user"),
    "DELETE /api/v1/settings/users/{id}": Example("admin", 204, resource="user", reads_body=False),
    "GET /api/v1/settings/channels": Example("admin", shows=True),
    "POST /api/v1/settings/channels": Example("admin", 201, CHANNEL | {"name": "a channel"}),
    "PUT /api/v1/settings/channels/{id}": Example("admin", 200, {"enabled": False}, resource="channel"),
    "DELETE /api/v1/settings/channels/{id}": Example("admin", 204, resource="channel", reads_body=False),
    "POST /api/v1/settings/channels/{id}/test": Example("admin", 200, resource="channel", reads_body=False),
    "GET /api/v1/settings/limits": Example(),
    "PUT /api/v1/settings/limits": Example("admin", 200, {"metricsRetention": "3d"}),
    "GET /api/v1/settings/deletions": Example(shows=True),
    "POST /api/v1/agents/register": Example(
        "api_key", 200, {"name": "host", "type": "docker", "version": "1.0"}
    ),
    "GET /api/v1/agents": Example(shows=True),
    "POST /api/v1/agents/{agentId}/push": Example("agent", 200, {"version": "1.0"}, resource="agent"),
    "DELETE /api/v1/agents/{agentId}": Example("member", 204, resource="agent", reads_body=False),
    "GET /api/v1/agents/{agentId}/commands": Example("agent", 204, params={"wait": "0"}, resource="agent"),
    "POST /api/v1/agents/{agentId}/commands/{cid}/result": Example(
        "agent", 404, {"status": "succeeded"}, resource="agent"
    ),
    "POST /api/v1/agents/{agentId}/logs": Example("agent", 200, LOG_LINE, resource="agent"),
    "POST /api/v1/agents/{agentId}/log-streams/{requestId}": Example(
        "agent", 404, TAIL_LINE, resource="agent"
    ),
    "GET /api/v1/logs/search": Example(shows=True),
    "GET /api/v1/logs/containers/{id}": Example("viewer", 404),
    "GET /api/v1/logs/pods/{namespace}/{name}": Example("viewer", 404),
    "GET /api/v1/logs/histogram": Example(),
    "GET /api/v1/logs/context": Example("viewer", 404, params={"id": "A" * 27}),
    "GET /api/v1/containers": Example(shows=True),
    "GET /api/v1/pods": Example(shows=True),
    "GET /api/v1/nodes": Example(shows=True),
    "GET /api/v1/cluster/summary": Example(),
    "GET /api/v1/metrics/instant": Example(params=SELECTOR, shows=True),
    "POST /api/v1/metrics/instant": Example(params=SELECTOR, shows=True),
    "GET /api/v1/metrics/range": Example(params=SELECTOR, shows=True),
    "POST /api/v1/metrics/range": Example(params=SELECTOR, shows=True),
    "GET /prometheus/api/v1/query": Example(params=QUERY, shows=True),
    "POST /prometheus/api/v1/query": Example(params=QUERY, shows=True),
    "GET /prometheus/api/v1/query_range": Example(params=QUERY | WINDOW),
    "POST /prometheus/api/v1/query_range": Example(params=QUERY | WINDOW),
    "GET /prometheus/api/v1/series": Example(params=MATCH, shows=True),
    "POST /prometheus/api/v1/series": Example(params=MATCH, shows=True),
    "GET /prometheus/api/v1/labels": Example(params=MATCH, shows=True),
    "POST /prometheus/api/v1/labels": Example(params=MATCH, shows=True),
    "GET /prometheus/api/v1/label/{name}/values": Example(params=MATCH, shows=True),
    "POST /prometheus/api/v1/label/{name}/values": Example(params=MATCH, shows=True),
    "GET /prometheus/api/v1/metadata": Example(),
    "POST /prometheus/api/v1/metadata": Example(),
    "GET /prometheus/api/v1/status/buildinfo": Example(),
    "POST /prometheus/api/v1/status/buildinfo": Example(reads_body=False),
    "GET /prometheus/api/v1/rules": Example(shows=True),
    "POST /prometheus/api/v1/rules": Example(shows=True, reads_body=False),
    "GET /prometheus/api/v1/alerts": Example(shows=True),
    "POST /prometheus/api/v1/alerts": Example(shows=True, reads_body=False),
    "GET /prometheus/api/v1/query_exemplars": Example(),
    "POST /prometheus/api/v1/query_exemplars": Example(reads_body=False),
    "POST /prometheus/api/v1/write": Example(
        "sender",
        204,
        data=b"\0",  # snappy's form of a request without any series
        headers={"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"},
    ),
    **{f"GET {path}": Example(shows=True) for path in RULES},
    **{f"POST {path}": Example("member", 201, {**RULE, "name": "a rule"}) for path in RULES},
    **{f"POST {path}/backtest": Example("viewer", 200, BACKTEST) for path in RULES},
    **{f"PUT {path}/{{id}}": Example("member", 204, {"severity": "page"}, resource="rule") for path in RULES},
    **{
        f"PUT {path}/{{id}}/toggle": Example("member", 204, resource="rule", reads_body=False)
        for path in RULES
    },
    **{f"DELETE {path}/{{id}}": Example("member", 204, resource="rule", reads_body=False) for path in RULES},
    "GET /api/v1/alerts": Example(shows=True),
    "GET /api/v1/alerts/{id}": Example(resource="alert", shows=True),
    "PUT /api/v1/alerts/{id}/acknowledge": Example("member", 204, {"comment": "seen"}, resource="alert"),
    "PUT /api/v1/alerts/{id}/resolve": Example("member", 204, resource="alert", reads_body=False),
    f"GET {POLICIES}": Example(shows=True),
    f"POST {POLICIES}": Example("member", 201, NEW_POLICY),
    f"GET {POLICIES}/{{id}}": Example(resource="policy", shows=True),
    f"PUT {POLICIES}/{{id}}": Example("member", 200, {"maxReplicas": 5}, resource="policy"),
    f"DELETE {POLICIES}/{{id}}": Example("member", 204, resource="policy", reads_body=False),
    f"POST {POLICIES}/{{id}}/approve": Example("member", 409, {"generation": 1}, resource="policy"),
    f"POST {POLICIES}/{{id}}/reject": Example("member", 409, {"generation": 1}, resource="policy"),
    f"POST {POLICIES}/{{id}}/rollback": Example("member", 400, resource="policy", reads_body=False),
    f"POST {POLICIES}/{{id}}/wake": Example("member", 400, resource="policy", reads_body=False),
    f"POST {POLICIES}/{{id}}/simulate": Example("viewer", 200, {"start": 0, "end": 60}, resource="policy"),
    "POST /api/v1/scaling/simulate": Example("viewer", 200, NEW_POLICY | {"start": 0, "end": 60}),
    "GET /api/v1/scaling/decisions": Example(),
    "GET /api/v1/scaling/decisions/verify": Example(),
    "GET /api/v1/agents/{agentId}/scaling/desired": Example("agent", 200, resource="agent"),
    "POST /api/v1/agents/{agentId}/scaling/status": Example("agent", 204, {"statuses": []}, resource="agent"),
    "GET /healthz": Example("anyone"),
    "GET /-/healthy": Example("anyone"),
    "GET /readyz": Example("anyone"),
    "GET /-/ready": Example("anyone"),
    "GET /openapi.json": Example("anyone"),
}


@dataclass
class World:
    """An organization with one of everything; its names, ids and values hold MARKER."""

    session: aiohttp.ClientSession
    pool: Any
    org_id: str
    callers: dict[str, dict[str, str]]
    ids: dict[str, str]

    async def call(
        self, route: str, headers: dict[str, str], ids: dict[str, str] | None = None, **options: Any
    ) -> tuple[int, Any]:
        """Send the good request to *route*, or what *options* replace of it; return status and JSON."""
        example = EXAMPLES[route]
        method, path = route.split(" ", 1)
        where = self.ids if ids is None else ids
        path = (
            path.replace("{agentId}", where["agent"])
            .replace("{name}", "case")
            .replace("{namespace}", "case")
            .replace("{requestId}", "tail_unknown")
            .replace("{cid}", "cmd_unknown")
        )
        if example.resource:
            path = path.replace("{id}", where[example.resource])
        path = path.replace("{id}", "unknown")
        options = {"params": example.params} | options
        if "data" not in options:
            options |= {"json": example.json, "data": example.data}
        headers = {**example.headers, **headers}
        async with self.session.request(method, path, headers=headers, **options) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else None

    async def new_key(self) -> tuple[str, str]:
        async with self.pool.acquire() as conn:
            return await provision.create_api_key(conn, self.org_id, MARKER)

    async def new_resource(self, kind: str | None) -> dict[str, str]:
        """Make a resource of its own for a request that changes it; return the ids to use."""
        if kind == "key":
            return {**self.ids, "key": (await self.new_key())[0]}
        if kind == "channel":
            return {**self.ids, "channel": await new_channel(self.session, self.callers["admin"])}
        if kind == "user":
            user_id = await new_user(self.pool, self.org_id, "viewer")
            return {**self.ids, "user": user_id}
        if kind == "agent":
            agent_id, token = await new_agent(self.session, self.callers["api_key"])
            return {**self.ids, "agent": agent_id, "token": token}
        if kind == "rule":
            return {**self.ids, "rule": await new_rule(self.session, self.callers["admin"])}
        if kind == "policy":
            return {**self.ids, "policy": await new_policy(self.session, self.callers["admin"])}
        if kind == "alert":
            return {**self.ids, "alert": await new_alert(self.session, self.callers["admin"], self.ids)}
        return self.ids

    def best(self, route: str, ids: dict[str, str] | None = None) -> dict[str, str]:
        """Return the headers of a caller who may."""
        who = EXAMPLES[route].who
        if who == "agent":
            return bearer((ids or self.ids)["token"])
        return self.callers["api_key" if who in ("api_key", "sender") else "admin"]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def new_user(pool: Any, org_id: str, role: str, email: str | None = None) -> str:
    email = email or f"{tokens.new_id('x')}@example.com".lower()
    async with pool.acquire() as conn:
        user_id, _ = await provision.create_user(conn, org_id, email, role, PASSWORD)
    return user_id


async def new_agent(session: aiohttp.ClientSession, headers: dict[str, str]) -> tuple[str, str]:
    body = {"name": MARKER, "type": "docker", "version": "1.0"}
    async with session.post("/api/v1/agents/register", json=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        registered = await response.json()
    return registered["agentId"], registered["token"]


async def new_channel(session: aiohttp.ClientSession, headers: dict[str, str]) -> str:
    async with session.post("/api/v1/settings/channels", json=CHANNEL, headers=headers) as response:
        assert response.status == 201, await response.text()
        channel_id: str = (await response.json())["id"]
        return channel_id


async def new_rule(session: aiohttp.ClientSession, headers: dict[str, str]) -> str:
    async with session.post("/api/v1/alerts/rules", json=RULE, headers=headers) as response:
        assert response.status == 201, await response.text()
        return str((await response.json())["id"])


async def new_policy(session: aiohttp.ClientSession, headers: dict[str, str]) -> str:
    async with session.post(POLICIES, json=POLICY, headers=headers) as response:
        assert response.status == 201, await response.text()
        return str((await response.json())["id"])


async def new_alert(session: aiohttp.ClientSession, headers: dict[str, str], ids: dict[str, str]) -> str:
    """Fire an alert of its own with a new series of the agent, by the rule of ``new_world``."""
    sample = {"metric": METRIC, "labels": {"case": f"{MARKER}-{secrets.token_hex(4)}"}, "value": 1}
    path = f"/api/v1/agents/{ids['agent']}/push"
    async with session.post(path, json={"samples": [sample]}, headers=bearer(ids["token"])) as response:
        assert response.status == 200, await response.text()
    async with session.get("/api/v1/alerts", headers=headers) as response:
        return str((await response.json())[0]["id"])


async def new_world(session: aiohttp.ClientSession, pool: Any, email: str) -> World:
    async with pool.acquire() as conn:
        org_id = await provision.create_org(conn, MARKER, "pro")
        key_id, key = await provision.create_api_key(conn, org_id, MARKER)
    callers = {"api_key": {"X-API-Key": key}, "anyone": {}}
    for role in ("viewer", "member", "admin"):
        address = f"{role}-{email}"
        await new_user(pool, org_id, role, address)
        login = {"email": address, "password": PASSWORD}
        async with session.post("/auth/login", json=login) as response:
            callers[role] = bearer((await response.json())["token"])
    user_id = await new_user(pool, org_id, "viewer", email)
    agent_id, token = await new_agent(session, callers["api_key"])
    channel_id = await new_channel(session, callers["admin"])
    gone_id, _ = await new_agent(session, callers["api_key"])
    async with session.delete(f"/api/v1/agents/{gone_id}", headers=callers["api_key"]) as response:
        assert response.status == 204
    ids = {"agent": agent_id, "token": token, "key": key_id, "user": user_id, "channel": channel_id}
    ids["rule"] = await new_rule(session, callers["admin"])
    ids["policy"] = await new_policy(session, callers["admin"])
    push = {
        "containers": [{"id": MARKER, "name": MARKER}],
        "pods": [{"name": MARKER, "namespace": MARKER}],
        "nodes": [{"name": MARKER}],
        "samples": [{"metric": METRIC, "labels": {"case": MARKER}, "value": 1}],
    }
    path = f"/api/v1/agents/{agent_id}/push"
    async with session.post(path, json=push, headers=bearer(token)) as response:
        assert response.status == 200, await response.text()
    path = f"/api/v1/agents/{agent_id}/logs"
    async with session.post(path, json=LOG_LINE, headers=bearer(token)) as response:
        assert response.status == 200, await response.text()
    ids["alert"] = await new_alert(session, callers["admin"], ids)
    return World(session, pool, org_id, callers, ids)
