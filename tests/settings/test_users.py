from __future__ import annotations

import asyncio
import secrets

import pytest

USERS = "/api/v1/settings/users"


def fresh_email() -> str:
    return f"{secrets.token_hex(8)}@example.org"


async def created(admin, role="member", email=None):
    answer = await admin.post(USERS, json={"email": email or fresh_email(), "role": role})
    assert answer.status == 201, await answer.text()
    return await answer.json()


async def own_id(caller):
    return (await (await caller.get("/api/v1/me")).json())["id"]


async def test_a_new_user_logs_in_with_the_one_time_password(admin, anonymous):
    email = fresh_email()
    answer = await admin.post(USERS, json={"email": f" {email.upper()}", "role": "viewer"})
    user = await answer.json()
    login = await anonymous.post("/auth/login", json={"email": email, "password": user["password"]})

    assert answer.status == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert user == {
        "id": user["id"],
        "email": email,
        "role": "viewer",
        "password": user["password"],
        "mustChangePassword": True,
    }
    assert (await login.json()).items() >= {
        "orgId": admin.org_id,
        "role": "viewer",
        "mustChangePassword": True,
    }.items()


async def test_users_are_listed_oldest_first_without_any_password(admin):
    first, second = await created(admin), await created(admin, "viewer")

    users = await (await admin.get(USERS)).json()

    assert [user["id"] for user in users] == [await own_id(admin), first["id"], second["id"]]
    assert list(users[1]) == ["id", "email", "role", "mustChangePassword", "createdAt"]
    assert users[1]["createdAt"].endswith("Z")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "email"),
        ({"email": "a@b.example"}, "role"),
        ({"email": "nobody", "role": "member"}, "email"),
        ({"email": "a\0@b.example", "role": "member"}, "email"),
        ({"email": "a@b.example", "role": "owner"}, "role"),
        ({"email": None, "role": "member"}, "email"),
        ({"email": "a@b.example", "role": None}, "role"),
    ],
)
async def test_a_bad_user_is_refused_by_its_field(admin, body, field):
    answer = await admin.post(USERS, json=body)

    assert answer.status == 400
    assert (await answer.json())["field"] == field


async def test_an_email_that_is_in_use_is_a_conflict(admin, other, make_user):
    foreign = await make_user(other.org_id, "admin")
    taken, mine = await created(foreign), await created(admin)

    new = await admin.post(USERS, json={"email": taken["email"].upper(), "role": "member"})
    changed = await admin.put(f"{USERS}/{mine['id']}", json={"email": taken["email"]})

    for answer in (new, changed):
        assert answer.status == 409
        assert (await answer.json())["field"] == "email"


async def test_a_changed_role_holds_with_the_next_request(admin, member):
    before = await member.get(USERS)
    answer = await admin.put(f"{USERS}/{await own_id(member)}", json={"role": "admin"})

    assert before.status == 403
    assert answer.status == 200
    assert (await answer.json())["role"] == "admin"
    assert (await member.get(USERS)).status == 200


async def test_a_changed_email_is_the_new_login_and_the_rest_stays(admin, anonymous):
    user, email = await created(admin, "viewer"), fresh_email()

    answer = await admin.put(f"{USERS}/{user['id']}", json={"email": email.upper(), "id": "x"})
    login = await anonymous.post("/auth/login", json={"email": email, "password": user["password"]})

    assert (await answer.json()).items() >= {"id": user["id"], "email": email, "role": "viewer"}.items()
    assert login.status == 200


@pytest.mark.parametrize(
    ("body", "field"), [({"role": "owner"}, "role"), ({"role": None}, "role"), ({"email": "x"}, "email")]
)
async def test_a_bad_change_is_refused_by_its_field(admin, body, field):
    answer = await admin.put(f"{USERS}/{await own_id(admin)}", json=body)

    assert answer.status == 400
    assert (await answer.json())["field"] == field


async def test_a_deleted_user_is_unauthorized_with_the_next_request(admin, member):
    user_id = await own_id(member)

    assert (await admin.delete(f"{USERS}/{user_id}")).status == 204
    assert (await member.get("/api/v1/me")).status == 401
    assert (await admin.delete(f"{USERS}/{user_id}")).status == 404


async def test_the_last_admin_is_neither_removed_nor_demoted(admin, member):
    path = f"{USERS}/{await own_id(admin)}"

    removed = await admin.delete(path)
    demoted = await admin.put(path, json={"role": "member"})

    assert (removed.status, demoted.status) == (409, 409)
    assert (await demoted.json())["field"] == "role"
    assert (await admin.put(path, json={"role": "admin"})).status == 200
    assert (await admin.get(USERS)).status == 200


async def test_an_admin_may_go_while_another_stays(admin, make_user):
    second = await make_user(admin.org_id, "admin")

    assert (await admin.delete(f"{USERS}/{await own_id(admin)}")).status == 204
    assert (await second.delete(f"{USERS}/{await own_id(second)}")).status == 409


@pytest.mark.parametrize("method", ["delete", "put"])
async def test_of_two_admins_who_remove_each_other_one_stays(admin, make_user, method, pool):
    second = await make_user(admin.org_id, "admin")
    paths = {
        admin: f"{USERS}/{await own_id(second)}",
        second: f"{USERS}/{await own_id(admin)}",
    }
    options = {"json": {"role": "viewer"}} if method == "put" else {}

    await asyncio.gather(*(getattr(caller, method)(path, **options) for caller, path in paths.items()))

    admins = await pool.fetchval(
        "SELECT count(*) FROM users WHERE org_id = $1 AND role = 'admin'", admin.org_id
    )
    assert admins == 1


async def test_a_user_of_another_organization_is_not_found(admin, other, make_user):
    foreign = await make_user(other.org_id, "member")
    path = f"{USERS}/{await own_id(foreign)}"

    assert (await admin.put(path, json={"role": "viewer"})).status == 404
    assert (await admin.delete(path)).status == 404
    assert (await (await foreign.get("/api/v1/me")).json())["role"] == "member"


async def test_users_are_for_admins_alone(api, member, viewer, anonymous):
    for caller, status in ((api, 403), (member, 403), (viewer, 403), (anonymous, 401)):
        for method, path in (
            ("get", USERS),
            ("post", USERS),
            ("put", f"{USERS}/user_1"),
            ("delete", f"{USERS}/user_1"),
        ):
            assert (await getattr(caller, method)(path)).status == status
