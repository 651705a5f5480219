from __future__ import annotations

import asyncio
import time
from ipaddress import ip_address

import jwt
import pytest

from monitor.auth.login import counted_address
from monitor.auth.provision import set_org
from tests.auth.probes import PASSWORD, SECRETS, bearer

INVALID = {"error": "invalid_credentials"}


@pytest.fixture
def login(service, address):
    async def attempt(email, password=PASSWORD, source=address, **headers):
        return await service.post(
            "/auth/login",
            json={"email": email, "password": password},
            headers={"X-Forwarded-For": source} | headers,
        )

    return attempt


async def test_a_login_gives_a_token_and_the_same_as_cookie(service, login, make_user, org):
    user = await make_user("admin")
    started = int(time.time())

    answer = await login(user.email)
    body = await answer.json()
    cookie = answer.cookies["auth_token"]
    claims = jwt.decode(body["token"], SECRETS[0], algorithms=["HS256"])

    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert (
        body.items()
        >= {
            "orgId": org.id,
            "role": "admin",
            "plan": "pro",
            "mustChangePassword": False,
        }.items()
    )
    assert cookie.value == body["token"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
    assert (cookie["max-age"], cookie["secure"]) == ("86400", "")
    assert (claims["sub"], claims["org_id"]) == (user.id, org.id)
    assert claims["exp"] - claims["iat"] == 24 * 3600
    assert started <= claims["iat"] <= time.time()
    for headers in (bearer(body["token"]), {"Cookie": f"auth_token={body['token']}"}):
        me = await service.get("/api/v1/me", headers=headers)
        assert (await me.json())["email"] == user.email


async def test_the_cookie_is_secure_when_served_over_https(login, make_user):
    answer = await login((await make_user()).email, **{"X-Forwarded-Proto": "https"})

    assert answer.cookies["auth_token"]["secure"]


async def test_an_email_is_the_same_in_any_case_and_with_spaces_around(login, make_user):
    user = await make_user()

    assert (await login(f"  {user.email.upper()} ")).status == 200


async def test_unknown_email_and_wrong_password_are_told_alike(login, make_user):
    user = await make_user()

    for email, password in ((user.email, "wrong"), ("nobody@example.org", PASSWORD), ("nobody", "")):
        answer = await login(email, password)
        assert answer.status == 401
        assert await answer.json() == INVALID
        assert "auth_token" not in answer.cookies


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "email"),
        ({"email": "a@b.c"}, "password"),
        ({"email": 7, "password": "x"}, "email"),
        ({"email": "a@b.c", "password": None}, "password"),
        ({"email": "", "password": "x"}, "email"),
        ({"email": "a\0@b.c", "password": "x"}, "email"),
        ({"email": "a" * 321, "password": "x"}, "email"),
        ({"email": "a@b.c", "password": "x" * 1025}, "password"),
    ],
)
async def test_a_malformed_login_names_the_field(service, body, field):
    answer = await service.post("/auth/login", json=body)

    assert answer.status == 400
    assert (await answer.json())["field"] == field


@pytest.mark.parametrize(
    ("content", "type_", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"email":"a@b.c","password":"\\ud800"}', "application/json", 400),
        (b"email=a&password=b", "application/x-www-form-urlencoded", 415),
        (b'"' + b"x" * 40_000 + b'"', "application/json", 413),
    ],
)
async def test_a_body_that_is_no_login_is_refused(service, content, type_, status):
    answer = await service.post("/auth/login", data=content, headers={"Content-Type": type_})

    assert answer.status == status


async def test_the_longest_login_is_read(login):
    assert (await login("é" * 320, "\N{PILE OF POO}" * 1024)).status == 401


async def test_the_eleventh_failure_of_an_email_is_refused_whatever_the_password(login, make_user):
    user, neighbour = await make_user(), await make_user()
    failures = [await login(user.email, "wrong", f"10.255.0.{n}") for n in range(10)]

    blocked = await login(user.email, PASSWORD, "10.255.0.99")

    assert [answer.status for answer in failures] == [401] * 10
    assert blocked.status == 429
    assert await blocked.json() == {"error": "too_many_login_attempts"}
    assert 890 <= int(blocked.headers["Retry-After"]) <= 900
    assert (await login(neighbour.email, PASSWORD, "10.255.0.99")).status == 200


async def test_an_unknown_email_is_counted_too(login, address):
    statuses = [(await login(f"nobody-{address}@example.org", "x")).status for _ in range(11)]

    assert statuses == [401] * 10 + [429]


async def test_concurrent_guesses_learn_no_more_than_the_limit(login, make_user):
    user = await make_user()

    answers = await asyncio.gather(*(login(user.email, f"guess {n}") for n in range(25)))

    statuses = sorted(answer.status for answer in answers)
    assert statuses == [401] * 10 + [429] * 15


async def test_guesses_that_are_verified_at_the_same_instant_are_counted_one_by_one(
    login, make_user, monkeypatch
):
    user, verified, instant = await make_user(), [], asyncio.Event()

    async def wrong(password, password_hash):
        verified.append(password)
        if len(verified) == 20:
            instant.set()
        await instant.wait()
        return False

    monkeypatch.setattr("monitor.auth.login.verify_password", wrong)

    answers = await asyncio.gather(*(login(user.email, f"guess {n}") for n in range(20)))

    assert sorted(answer.status for answer in answers) == [401] * 10 + [429] * 10


async def test_a_right_password_among_too_many_guesses_is_not_told(login, make_user):
    user = await make_user()

    guesses = [asyncio.create_task(login(user.email, "wrong")) for _ in range(20)]
    await asyncio.sleep(0.02)
    right = await login(user.email)
    await asyncio.gather(*guesses)

    assert right.status == 429


async def test_concurrent_right_logins_all_succeed(login, make_user):
    user = await make_user()

    answers = await asyncio.gather(*(login(user.email) for _ in range(20)))

    assert {answer.status for answer in answers} == {200}


async def test_a_success_forgets_the_failures_of_the_email(login, make_user):
    user = await make_user()

    for _ in range(2):
        assert [(await login(user.email, "wrong")).status for _ in range(9)] == [401] * 9
        assert (await login(user.email)).status == 200


async def test_the_fifty_first_failure_of_an_address_is_refused(login, make_user, pool, address):
    user = await make_user()
    await pool.execute(
        "INSERT INTO login_failures (email, address)"
        " SELECT 'guess-' || n, $1 FROM generate_series(1, 49) AS n",
        ip_address(address),
    )

    assert (await login(user.email, "wrong")).status == 401
    assert (await login(user.email)).status == 429
    assert (await login(user.email, source="10.254.0.1")).status == 200


async def test_a_failure_that_leaves_the_window_makes_room(login, make_user, pool):
    user = await make_user()
    await pool.execute(
        "INSERT INTO login_failures (email, address, failed_at)"
        " SELECT $1, '192.0.2.1', now() - make_interval(secs => 900 - n * 60)"
        " FROM generate_series(1, 10) AS n",
        user.email,
    )

    blocked = await login(user.email)
    await pool.execute(
        "UPDATE login_failures SET failed_at = failed_at - interval '61 s' WHERE email = $1", user.email
    )
    passed = await login(user.email)

    assert blocked.status == 429
    assert 55 <= int(blocked.headers["Retry-After"]) <= 60
    assert passed.status == 200


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("2001:db8:1:3::1", "2001:db8:1:3::"),
    ],
)
def test_an_ipv6_subscriber_counts_as_one_address(address, counted):
    assert counted_address(ip_address(address)) == ip_address(counted)


async def test_a_suspended_organizations_user_logs_in_and_is_then_refused(
    service, login, make_user, pool, org
):
    user = await make_user()
    async with pool.acquire() as conn, conn.transaction():
        await set_org(conn, org.id, suspended=True)

    answer = await login(user.email)
    me = await service.get("/api/v1/me", headers=bearer((await answer.json())["token"]))

    assert answer.status == 200
    assert me.status == 402
    assert await me.json() == {"error": "org_suspended"}
