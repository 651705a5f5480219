"""Who may ask for what, over every route that is registered.

A new route fails here until ``EXAMPLES`` says who may call it and how a good request
looks; all refusals are then tested by themselves.  What is expected stands in this
table, not in the markers of the code.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from monitor.auth import provision, tokens
from tests.documented_routes import registered
from tests.example_requests import (
    EMAIL,
    EXAMPLES,
    MARKER,
    PASSWORD,
    Example,
    Who,
    World,
    bearer,
    new_agent,
    new_user,
    new_world,
)

UNAUTHORIZED = {"error": "unauthorized"}
SUSPENDED = {"error": "org_suspended"}
FORBIDDEN = {"error": "forbidden"}
NOT_FOUND = {"error": "not_found"}


ROUTES = sorted(f"{route.method} {route.resource.canonical}" for route in registered())


def example_of(route: str) -> Example:
    if route not in EXAMPLES:
        pytest.fail(
            f"add {route!r} to EXAMPLES in tests/example_requests.py: who may call it, and a good request"
        )
    return EXAMPLES[route]


def routes_for(*callers: Who) -> list[str]:
    return [route for route in ROUTES if route not in EXAMPLES or EXAMPLES[route].who in callers]


TENANT_ROUTES = routes_for("viewer", "member", "admin")
WRITES = [route for route in ROUTES if not route.startswith("GET ")]


@pytest.fixture(scope="module")
async def world(session: aiohttp.ClientSession, pool: Any) -> AsyncIterator[World]:
    """The organization whose data nobody else may see; its samples can be queried."""
    made = await new_world(session, pool, EMAIL)
    async with asyncio.timeout(30):
        while (await made.call("GET /api/v1/metrics/instant", made.callers["viewer"]))[1]["count"] == 0:
            await asyncio.sleep(0.3)
    return made


@pytest.fixture(scope="module")
async def stranger(session: aiohttp.ClientSession, pool: Any) -> AsyncIterator[dict[str, str]]:
    """An administrator of another organization."""
    async with pool.acquire() as conn:
        org_id = await provision.create_org(conn, "another", "enterprise")
        email = f"{tokens.new_id('x')}@example.com".lower()
        await provision.create_user(conn, org_id, email, "admin", PASSWORD)
    async with session.post("/auth/login", json={"email": email, "password": PASSWORD}) as response:
        return bearer((await response.json())["token"])


@pytest.fixture(scope="module")
async def suspended(session: aiohttp.ClientSession, pool: Any) -> AsyncIterator[World]:
    """An organization like ``world`` that was suspended while the service ran."""
    made = await new_world(session, pool, f"suspended-{EMAIL}")
    async with pool.acquire() as conn, conn.transaction():
        await provision.set_org(conn, made.org_id, suspended=True)
    return made


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_has_an_example(route: str):
    example_of(route)


def test_every_example_has_a_route():
    assert EXAMPLES.keys() - set(ROUTES) == set()


@pytest.mark.parametrize("route", ROUTES)
async def test_the_good_request_is_answered(world: World, route: str):
    example = example_of(route)
    ids = await world.new_resource(example.resource)

    status, answer = await world.call(route, world.best(route, ids), ids)

    assert status == example.status, answer
    if example.shows:
        assert MARKER in json.dumps(answer) or "case" in answer.get("data", ())


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in routes_for("anyone")])
async def test_without_a_credential_a_route_is_unauthorized(world: World, route: str):
    assert await world.call(route, {}) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in routes_for("anyone")])
@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": "mk_" + "x" * 43},
        bearer("at_" + "x" * 43),
        bearer("a.b.c"),
        {"Cookie": "auth_token=a.b.c"},
        {"Authorization": "Basic eDp5"},
    ],
    ids=" ".join,
)
async def test_a_credential_of_nobody_is_unauthorized(world: World, route: str, headers: dict[str, str]):
    assert await world.call(route, headers) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("route", routes_for("viewer", "member", "api_key", "sender"))
async def test_a_revoked_key_is_unauthorized_with_its_next_request(world: World, route: str):
    example = example_of(route)
    key_id, key = await world.new_key()
    ids = await world.new_resource(example.resource)
    before, _ = await world.call(route, {"X-API-Key": key}, ids)

    async with world.pool.acquire() as conn, conn.transaction():
        await provision.revoke_api_key(conn, key_id)

    assert before not in (401, 402)
    assert await world.call(route, {"X-API-Key": key}) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("route", TENANT_ROUTES)
async def test_a_deleted_user_is_unauthorized_with_their_next_request(world: World, route: str):
    email = f"{tokens.new_id('x')}@example.com".lower()
    user_id = await new_user(world.pool, world.org_id, "admin", email)
    async with world.session.post("/auth/login", json={"email": email, "password": PASSWORD}) as response:
        headers = bearer((await response.json())["token"])
    before, _ = await world.call("GET /api/v1/me", headers)
    async with world.session.delete(
        f"/api/v1/settings/users/{user_id}", headers=world.callers["admin"]
    ) as response:
        assert response.status == 204

    assert before == 200
    assert await world.call(route, headers) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in routes_for("anyone")])
async def test_a_suspended_organization_is_402(suspended: World, route: str):
    assert await suspended.call(route, suspended.best(route)) == (402, SUSPENDED)


@pytest.mark.parametrize("route", routes_for("member", "admin"))
async def test_a_viewer_changes_nothing(world: World, route: str):
    assert await world.call(route, world.callers["viewer"]) == (403, FORBIDDEN)


@pytest.mark.parametrize("route", routes_for("viewer"))
@pytest.mark.parametrize("caller", ["viewer", "member", "api_key"])
async def test_what_a_viewer_may_everybody_may(world: World, route: str, caller: str):
    status, answer = await world.call(route, world.callers[caller])

    # A key has no password to change: the one exception.
    key_and_password = caller == "api_key" and route == "POST /auth/password"
    assert status == (403 if key_and_password else example_of(route).status), answer


@pytest.mark.parametrize("route", routes_for("admin"))
@pytest.mark.parametrize("caller", ["member", "api_key"])
async def test_what_an_admin_may_no_member_and_no_key_may(world: World, route: str, caller: str):
    assert await world.call(route, world.callers[caller]) == (403, FORBIDDEN)


@pytest.mark.parametrize("route", [*TENANT_ROUTES, *routes_for("api_key")])
async def test_an_agents_token_opens_nothing_of_a_tenant(world: World, route: str):
    token = world.ids["token"]
    for headers in (bearer(token), {"X-API-Key": token}, {"Cookie": f"auth_token={token}"}):
        assert await world.call(route, headers) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("route", routes_for("sender"))
async def test_a_senders_route_opens_to_keys_and_agents_and_to_no_session(world: World, route: str):
    expected = example_of(route).status
    _, token = await new_agent(world.session, world.callers["api_key"])

    for headers in (bearer(token), world.callers["api_key"]):
        assert (await world.call(route, headers))[0] == expected
    for role in ("viewer", "member", "admin"):
        assert await world.call(route, world.callers[role]) == (401, UNAUTHORIZED)


@pytest.mark.parametrize("route", routes_for("agent"))
async def test_an_agents_route_opens_to_its_own_token_alone(
    world: World, stranger: dict[str, str], route: str
):
    _, sibling = await new_agent(world.session, world.callers["api_key"])
    for headers in (bearer(sibling), stranger, *world.callers.values()):
        assert await world.call(route, headers) == (401, UNAUTHORIZED)

    deleted = await world.new_resource("agent")
    before, _ = await world.call(route, bearer(deleted["token"]), deleted)
    await world.call("DELETE /api/v1/agents/{agentId}", world.callers["admin"], deleted)
    assert before == example_of(route).status
    assert await world.call(route, bearer(deleted["token"]), deleted) == (401, UNAUTHORIZED)


@pytest.mark.parametrize(
    "route", [route for route in TENANT_ROUTES if route not in EXAMPLES or EXAMPLES[route].resource]
)
async def test_what_belongs_to_another_organization_is_not_found(
    world: World, stranger: dict[str, str], route: str
):
    example = example_of(route)
    ids = await world.new_resource(example.resource)

    assert await world.call(route, stranger, ids) == (404, NOT_FOUND)

    status, answer = await world.call(route, world.best(route), ids)
    assert status == example.status, answer


@pytest.mark.parametrize("route", TENANT_ROUTES)
async def test_no_answer_shows_anything_of_another_organization(
    world: World, stranger: dict[str, str], route: str
):
    ids = await world.new_resource(example_of(route).resource)

    _, answer = await world.call(route, stranger, ids)

    told = json.dumps(answer)
    for secret in (MARKER, world.org_id, world.ids["agent"], world.ids["key"], world.ids["user"], '"case"'):
        assert secret not in told


# Of each body one field: a number is none of their types.
WRONG = ("comment", "name", "email", "role", "containers", "metricsRetention")
GARBAGE: list[tuple[str, bytes, dict[str, str]]] = [
    ("not text", b"\xff\xfe\x00", {}),
    ("no JSON", b"{", {}),
    ("an array", b"[]", {}),
    ("a string", b'"x"', {}),
    ("null", b"null", {}),
    ("a number", b"1e999", {}),
    ("wrong types", json.dumps(dict.fromkeys(WRONG, 7)).encode(), {}),
    ("NaN", b'{"name":NaN}', {}),
    ("HTML", b"<html>", {"Content-Type": "text/html"}),
    ("a foreign encoding", b"{}", {"Content-Encoding": "br"}),
    ("no gzip", b"{}", {"Content-Encoding": "gzip"}),
    ("no zstd", b"{}", {"Content-Encoding": "zstd"}),
]


@pytest.mark.parametrize("route", WRITES)
@pytest.mark.parametrize(
    ("data", "headers"), [case[1:] for case in GARBAGE], ids=[case[0] for case in GARBAGE]
)
async def test_a_body_of_garbage_is_refused_with_a_reason(
    world: World, route: str, data: bytes, headers: dict[str, str]
):
    example = example_of(route)
    ids = await world.new_resource(example.resource)
    sent = {"Content-Type": "application/json", **world.best(route, ids), **headers}

    status, answer = await world.call(route, sent, ids, data=data)

    if example.reads_body:
        assert status in (400, 415), answer
    else:
        assert status == example.status
    if status >= 400:
        assert isinstance(answer["error"], str)


@pytest.mark.parametrize("caller", ["anyone", "viewer", "admin", "api_key"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
async def test_an_unknown_path_is_404_whoever_asks(world: World, caller: str, method: str):
    for path in ("/api/v1/missing", "/api/v2/containers", "/api/v1/containers/", "/auth/"):
        async with world.session.request(method, path, headers=world.callers[caller]) as response:
            assert response.status == 404, path
            assert response.content_type == "application/json"
            assert await response.json() == NOT_FOUND


@pytest.mark.parametrize("caller", ["anyone", "admin"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_wrong_method_is_405_and_told_the_right_ones(world: World, caller: str, route: str):
    method, path = route.split(" ", 1)
    path = path.replace("{agentId}", world.ids["agent"])
    for name in ("{id}", "{name}", "{cid}", "{namespace}", "{requestId}"):
        path = path.replace(name, "x")

    async with world.session.request("PATCH", path, headers=world.callers[caller]) as response:
        assert response.status == 405
        assert response.content_type == "application/json"
        assert method in response.headers["Allow"].split(",")
        assert isinstance((await response.json())["error"], str)
