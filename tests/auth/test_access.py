from __future__ import annotations

import asyncpg
import pytest

from monitor.auth.middleware import security_of
from monitor.auth.provision import revoke_api_key, set_org
from monitor.db.postgres import create_pool
from tests.auth.probes import bearer, opened, own_path, session_of, unmarked

UNAUTHORIZED = {"error": "unauthorized"}


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        ("viewer", "GET", "/probe/unmarked", 200),
        ("viewer", "HEAD", "/probe/unmarked", 200),
        ("viewer", "POST", "/probe/unmarked", 403),
        ("viewer", "DELETE", "/probe/unmarked", 403),
        ("member", "POST", "/probe/unmarked", 200),
        ("admin", "POST", "/probe/unmarked", 200),
        ("viewer", "POST", "/probe/viewer", 200),
        ("viewer", "GET", "/probe/admin", 403),
        ("member", "GET", "/probe/admin", 403),
        ("admin", "GET", "/probe/admin", 200),
    ],
)
async def test_a_role_opens_what_its_marker_says(service, make_user, role, method, path, status):
    user = await make_user(role)

    answer = await service.request(method, path, headers=bearer(user.token))

    assert answer.status == status
    if status == 403:
        assert await answer.json() == {"error": "forbidden"}


@pytest.mark.parametrize(("path", "status"), [("/probe/unmarked", 200), ("/probe/admin", 403)])
async def test_an_api_key_acts_as_a_member(service, org, path, status):
    assert (await service.post(path, headers={"X-API-Key": org.api_key})).status == status


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_a_route_without_a_marker_is_closed(service, method):
    answer = await service.request(method, "/probe/unmarked")

    assert answer.status == 401
    assert await answer.json() == UNAUTHORIZED
    assert "WWW-Authenticate" not in answer.headers


async def test_a_public_route_identifies_nobody(service, org):
    answer = await service.get("/probe/public", headers={"X-API-Key": org.api_key})

    assert await answer.json() == {"identified": False}


async def test_an_unknown_path_is_404_and_a_wrong_method_405_whoever_asks(service):
    missing = await service.get("/probe/missing")
    wrong = await service.delete("/probe/public")

    assert missing.status == 404
    assert await missing.json() == {"error": "not_found"}
    assert wrong.status == 405
    assert "GET" in wrong.headers["Allow"]


async def test_the_first_valid_credential_identifies(service, make_user, org):
    first, second = await make_user(), await make_user()
    cookie = {"Cookie": f"auth_token={second.token}"}
    key = {"X-API-Key": org.api_key}

    async def subject(headers):
        return (await (await service.get("/probe/unmarked", headers=headers)).json())["subject"]

    assert await subject(bearer(first.token) | cookie | key) == first.id
    assert await subject(bearer("no.such.token") | cookie | key) == second.id
    assert await subject(bearer(org.api_key) | {"Cookie": "auth_token=x"} | key) == org.api_key_id


@pytest.mark.parametrize(
    "headers",
    [
        [("X-API-Key", "{key}"), ("X-API-Key", "{key}")],
        [("Authorization", "Bearer {token}"), ("Authorization", "Bearer {token}")],
        [("Cookie", "auth_token={token}; auth_token={token}")],
        [("X-API-Key", "{key}"), ("Cookie", "auth_token=a; auth_token=b")],
        [("X-API-Key", "{key}x")],
        [("X-API-Key", "")],
        [("X-API-Key", "{token}")],
        [("Authorization", "Bearer {key}")],
        [("Authorization", "{token}")],
        [("Authorization", "Bearer {token}x")],
    ],
)
async def test_a_doubled_or_damaged_credential_is_unauthorized(service, make_user, org, headers):
    token = (await make_user()).token
    sent = [(name, text.format(key=org.api_key, token=token)) for name, text in headers]

    answer = await service.get("/probe/unmarked", headers=sent)

    assert answer.status == 401
    assert await answer.json() == UNAUTHORIZED


async def test_an_api_key_in_authorization_counts_where_the_route_says_so(service, org):
    for path, status in (("/probe/bearer-key", 200), ("/probe/unmarked", 401)):
        assert (await service.get(path, headers=bearer(org.api_key))).status == status


async def test_a_public_route_may_take_one_api_key_from_the_body(service, pool, org):
    async def sent(*keys):
        return await service.post("/probe/key-in-body", json=keys)

    good = await sent(org.api_key)
    assert await good.json() == {"subject": org.api_key_id, "kept": True}
    for keys in ((), ("",), (org.api_key + "x",), (org.api_key, org.api_key)):
        assert (await sent(*keys)).status == 401
    async with pool.acquire() as conn, conn.transaction():
        await set_org(conn, org.id, suspended=True)
    assert (await sent(org.api_key)).status == 402


async def test_a_revoked_key_is_unauthorized_with_its_next_request(service, pool, org):
    key = {"X-API-Key": org.api_key}
    before = await service.get("/probe/unmarked", headers=key)
    async with pool.acquire() as conn:
        await revoke_api_key(conn, org.api_key_id)

    assert before.status == 200
    assert (await service.get("/probe/unmarked", headers=key)).status == 401


async def test_a_session_that_names_another_organization_is_unauthorized(
    service, make_user, make_organization
):
    user, foreign = await make_user("admin"), await make_organization()

    answer = await service.get("/probe/unmarked", headers=bearer(session_of(user.id, foreign.id, "admin")))

    assert answer.status == 401


async def test_role_plan_and_existence_are_those_of_now(service, pool, make_user, org):
    user = await make_user("admin")

    async def statuses():
        return [
            (await service.request(method, path, headers=bearer(user.token))).status
            for method, path in (
                ("POST", "/probe/admin"),
                ("POST", "/probe/streaming"),
                ("GET", "/probe/viewer"),
            )
        ]

    assert await statuses() == [200, 200, 200]
    async with pool.acquire() as conn, conn.transaction():
        await set_org(conn, org.id, plan="free")
    assert await statuses() == [200, 403, 200]
    await pool.execute("UPDATE users SET role = 'viewer' WHERE id = $1", user.id)
    assert await statuses() == [403, 403, 200]
    await pool.execute("DELETE FROM users WHERE id = $1", user.id)
    assert await statuses() == [401, 401, 401]


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("POST", "/probe/streaming", "Log streaming is available on the Pro plan"),
        ("GET", "/probe/gpu", "GPU-aware policies are available on the Pro plan"),
    ],
)
async def test_a_plan_without_the_feature_is_told_which_plan_has_it(
    service, make_user, make_organization, method, path, text
):
    for plan, status in (("free", 403), ("pro", 200), ("enterprise", 200)):
        user = await make_user("admin", org_id=(await make_organization(plan)).id)

        answer = await service.request(method, path, headers=bearer(user.token))

        assert answer.status == status
        if status == 403:
            assert await answer.json() == {"error": text}


async def test_refusals_come_in_the_documented_order(service, pool, make_user, make_organization):
    org = await make_organization("free")
    user = await make_user("viewer", org_id=org.id, one_time=True)

    async def refusal(token):
        answer = await service.post("/probe/streaming", headers=bearer(token))
        return answer.status, (await answer.json())["error"]

    async with pool.acquire() as conn, conn.transaction():
        await set_org(conn, org.id, suspended=True)
    assert await refusal("x") == (401, "unauthorized")
    assert await refusal(user.token) == (402, "org_suspended")
    async with pool.acquire() as conn, conn.transaction():
        await set_org(conn, org.id, suspended=False)
    assert await refusal(user.token) == (403, "password_change_required")
    await pool.execute("UPDATE users SET must_change_password = false WHERE id = $1", user.id)
    assert await refusal(user.token) == (403, "forbidden")
    await pool.execute("UPDATE users SET role = 'admin' WHERE id = $1", user.id)
    assert await refusal(user.token) == (403, "Log streaming is available on the Pro plan")


@pytest.mark.parametrize("suffix", ["", "/deferred"])
async def test_an_agent_may_call_its_own_paths_alone(service, pool, make_agent, make_user, org, suffix):
    own, sibling = await make_agent(), await make_agent()

    async def call(path_agent, headers):
        return await service.post(f"/probe/agents/{path_agent.id}{suffix}", headers=headers)

    allowed = await call(own, bearer(own.token))
    assert allowed.status == 200
    assert await allowed.json() == {"agent": own.id}
    refused = [
        bearer(sibling.token),
        {"X-API-Key": org.api_key},
        bearer((await make_user("admin")).token),
        {"Cookie": f"auth_token={own.token}"},
        {"X-API-Key": own.token},
        [("Authorization", f"Bearer {own.token}")] * 2,
        {},
    ]
    for headers in refused:
        answer = await call(own, headers)
        assert answer.status == 401
        assert await answer.json() == UNAUTHORIZED

    async with pool.acquire() as conn, conn.transaction():
        await set_org(conn, org.id, suspended=True)
    assert (await call(own, bearer(own.token))).status == 402
    assert (await call(sibling, bearer(own.token))).status == 401
    await pool.execute("DELETE FROM agents WHERE id = $1", own.id)
    assert (await call(own, bearer(own.token))).status == 401


async def test_an_agents_token_opens_nothing_of_a_tenant(service, make_agent):
    token = (await make_agent()).token

    for headers in (bearer(token), {"X-API-Key": token}, {"Cookie": f"auth_token={token}"}):
        assert (await service.get("/probe/bearer-key", headers=headers)).status == 401


async def test_a_store_that_is_away_is_503_and_never_401(serve, unused_tcp_port, make_user, make_agent, org):
    away = await create_pool(f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none", size=1, min_size=0)
    user, agent = await make_user(), await make_agent()
    async with serve(away) as stranded:
        answers = [
            await stranded.get("/probe/unmarked", headers={"X-API-Key": org.api_key}),
            await stranded.get("/probe/unmarked", headers=bearer(user.token)),
            await stranded.post(f"/probe/agents/{agent.id}", headers=bearer(agent.token)),
            await stranded.post("/auth/login", json={"email": user.email, "password": "wrong"}),
        ]
        without = await stranded.get("/probe/unmarked")
    await away.close()

    assert [answer.status for answer in answers] == [503] * 4
    assert await answers[0].json() == {"error": "storage_unavailable"}
    assert int(answers[0].headers["Retry-After"]) > 0
    assert without.status == 401


async def test_one_indexed_query_authenticates_each_kind_of_credential(pool):
    plans = {
        "users_pkey": "SELECT 1 FROM users u JOIN organizations o ON o.id = u.org_id WHERE u.id = $1",
        "api_keys_hash": "SELECT 1 FROM api_keys k JOIN organizations o ON o.id = k.org_id"
        " WHERE k.key_hash = decode($1, 'hex')",
        "agents_token": "SELECT 1 FROM agents a JOIN organizations o ON o.id = a.org_id"
        " WHERE a.token_hash = decode($1, 'hex')",
    }
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("SET LOCAL enable_seqscan = off")
        for index, statement in plans.items():
            plan = await explained(conn, statement)
            assert index in plan
            assert "Seq Scan" not in plan


async def explained(conn: asyncpg.Connection, statement: str) -> str:
    return "\n".join(row[0] for row in await conn.fetch("EXPLAIN " + statement.replace("$1", "'00'")))


def test_the_description_of_the_api_names_what_a_route_asks_for():
    assert security_of(opened) == []
    assert security_of(unmarked) == [{"bearer": []}, {"cookie": []}, {"apiKey": []}]
    assert security_of(own_path) == [{"agentToken": []}]
