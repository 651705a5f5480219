from __future__ import annotations

import asyncio
import time

import pytest

from tests.auth.probes import PASSWORD, bearer, session_of

NEW_PASSWORD = "a quite different one"


@pytest.fixture
def sessions(service, address):
    async def login(email, password=PASSWORD):
        answer = await service.post(
            "/auth/login",
            json={"email": email, "password": password},
            headers={"X-Forwarded-For": address},
        )
        return (await answer.json()).get("token")

    return login


@pytest.fixture
def change(service, address):
    async def put(headers, current=PASSWORD, new=NEW_PASSWORD):
        return await service.post(
            "/auth/password",
            json={"currentPassword": current, "newPassword": new},
            headers=headers | {"X-Forwarded-For": address},
        )

    return put


async def alive(service, token):
    return (await service.get("/api/v1/me", headers=bearer(token))).status == 200


async def test_me_is_the_user(service, make_user, org):
    user = await make_user("viewer")

    me = await service.get("/api/v1/me", headers=bearer(user.token))

    assert await me.json() == {
        "kind": "user",
        "id": user.id,
        "role": "viewer",
        "orgId": org.id,
        "orgName": "Acme",
        "plan": "pro",
        "mustChangePassword": False,
        "email": user.email,
    }


async def test_me_is_the_api_key(service, org):
    me = await service.get("/api/v1/me", headers={"X-API-Key": org.api_key})

    assert await me.json() == {
        "kind": "api_key",
        "id": org.api_key_id,
        "role": "member",
        "orgId": org.id,
        "orgName": "Acme",
        "plan": "pro",
        "mustChangePassword": False,
        "keyName": "ci",
    }


async def test_a_logout_clears_the_cookie(service, make_user):
    user = await make_user("viewer")

    answer = await service.post("/auth/logout", headers={"Cookie": f"auth_token={user.token}"})

    cookie = answer.cookies["auth_token"]
    assert answer.status == 204
    assert (cookie.value, cookie["max-age"], cookie["path"]) == ("", "0", "/")
    assert (await service.post("/auth/logout")).status == 401


async def test_a_changed_password_ends_all_other_sessions(service, sessions, change, make_user):
    user = await make_user("viewer")
    here, elsewhere = await sessions(user.email), await sessions(user.email)

    answer = await change(bearer(here))
    at_once = await sessions(user.email, NEW_PASSWORD)

    assert answer.status == 204
    assert await alive(service, here)
    assert await alive(service, at_once)
    assert not await alive(service, elsewhere)
    assert await sessions(user.email) is None


async def test_the_next_change_ends_the_session_that_the_last_one_kept(service, sessions, change, make_user):
    user = await make_user()
    first = await sessions(user.email)
    await change(bearer(first))
    second = await sessions(user.email, NEW_PASSWORD)

    answer = await change(bearer(second), NEW_PASSWORD, PASSWORD)

    assert answer.status == 204
    assert await alive(service, second)
    assert not await alive(service, first)


async def test_a_session_issued_before_the_change_dies_and_one_issued_after_lives(
    service, change, make_user, org
):
    user = await make_user()
    before = session_of(user.id, org.id, now=time.time() - 60)
    here = session_of(user.id, org.id, now=time.time())
    after = session_of(user.id, org.id, now=time.time() + 60)
    assert await alive(service, before)

    assert (await change(bearer(here))).status == 204

    assert [await alive(service, token) for token in (before, here, after)] == [False, True, True]


@pytest.mark.parametrize(
    ("current", "new", "field"),
    [
        ("wrong", NEW_PASSWORD, "currentPassword"),
        (PASSWORD, "eleven char", "newPassword"),
        (PASSWORD, "x" * 1025, "newPassword"),
        (PASSWORD, PASSWORD, "newPassword"),
        (PASSWORD, None, "newPassword"),
        (None, NEW_PASSWORD, "currentPassword"),
    ],
)
async def test_a_refused_change_names_the_field_and_changes_nothing(
    service, sessions, change, make_user, current, new, field
):
    user = await make_user()
    token = await sessions(user.email)

    answer = await change(bearer(token), current, new)

    assert answer.status == 400
    assert (await answer.json())["field"] == field
    assert await alive(service, token)
    assert await sessions(user.email)


async def test_a_new_password_of_twelve_and_of_1024_characters_is_good(change, make_user):
    user = await make_user()

    assert (await change(bearer(user.token), PASSWORD, "x" * 12)).status == 204
    assert (await change(bearer(user.token), "x" * 12, "é" * 1024)).status == 204


async def test_guesses_of_the_present_password_are_limited_like_logins(change, make_user):
    user = await make_user()

    statuses = [(await change(bearer(user.token), "wrong")).status for _ in range(11)]

    assert statuses == [400] * 10 + [429]


async def test_of_two_changes_at_once_one_wins(sessions, change, make_user):
    user = await make_user()
    words = ["first new password", "second new password"]

    answers = await asyncio.gather(*(change(bearer(user.token), PASSWORD, word) for word in words))

    statuses = [answer.status for answer in answers]
    assert sorted(statuses) in ([204, 400], [204, 409])
    assert await sessions(user.email, words[statuses.index(204)])


async def test_an_api_key_has_no_password(change, org):
    answer = await change({"X-API-Key": org.api_key})

    assert answer.status == 403
    assert await answer.json() == {"error": "forbidden"}


async def test_a_one_time_password_opens_nothing_but_its_change(service, pool, make_user, sessions, change):
    user = await make_user("admin", one_time=True)
    await pool.execute(
        "UPDATE users SET password_hash = (SELECT password_hash FROM users WHERE id = $2) WHERE id = $1",
        user.id,
        (await make_user()).id,
    )
    token = await sessions(user.email)
    me = await service.get("/api/v1/me", headers=bearer(token))
    closed = await service.get("/probe/viewer", headers=bearer(token))

    assert (await me.json())["mustChangePassword"] is True
    assert closed.status == 403
    assert await closed.json() == {"error": "password_change_required"}
    assert (await change(bearer(token))).status == 204
    assert (await service.get("/probe/viewer", headers=bearer(token))).status == 200
    assert (await service.post("/auth/logout", headers=bearer(token))).status == 204
