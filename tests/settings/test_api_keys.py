from __future__ import annotations

import asyncio

import pytest
from yarl import URL

KEYS = "/api/v1/settings/api-keys"


async def listed(admin):
    answer = await admin.get(KEYS)
    assert answer.status == 200
    return await answer.json()


async def test_a_created_key_is_shown_once_and_works(admin, anonymous):
    answer = await admin.post(KEYS, json={"name": " ci "})
    created = await answer.json()
    me = await anonymous.get("/api/v1/me", headers={"X-API-Key": created["key"]})
    keys = await listed(admin)

    assert answer.status == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert list(created) == ["id", "name", "prefix", "createdAt", "key"]
    assert (created["name"], created["prefix"]) == ("ci", created["key"][:10])
    assert created["key"].startswith("mk_")
    assert len(created["key"]) >= 35
    assert created["createdAt"].endswith("Z")
    assert (await me.json())["keyName"] == "ci"
    shown = next(key for key in keys if key["id"] == created["id"])
    del created["key"]
    assert shown == created | {"lastUsedAt": None}


async def test_keys_are_listed_oldest_first(admin):
    made = [(await (await admin.post(KEYS, json={"name": f"key {n}"})).json())["id"] for n in range(3)]

    assert [key["id"] for key in await listed(admin)][-3:] == made


async def test_a_deleted_key_is_unauthorized_with_its_next_request(admin, anonymous):
    created = await (await admin.post(KEYS, json={"name": "ci"})).json()

    deleted = await admin.delete(f"{KEYS}/{created['id']}")
    again = await admin.delete(f"{KEYS}/{created['id']}")
    me = await anonymous.get("/api/v1/me", headers={"X-API-Key": created["key"]})

    assert deleted.status == 204
    assert again.status == 404
    assert await again.json() == {"error": "not_found"}
    assert me.status == 401


async def test_a_key_of_another_organization_is_not_found(admin, other, make_user):
    foreign = await make_user(other.org_id, "admin")
    created = await (await foreign.post(KEYS, json={"name": "ci"})).json()

    assert (await admin.delete(f"{KEYS}/{created['id']}")).status == 404
    assert created["id"] not in {key["id"] for key in await listed(admin)}
    assert created["id"] in {key["id"] for key in await listed(foreign)}


@pytest.mark.parametrize("path_id", ["a%00b", "a%2Fb", "%ff", "x" * 65, "a%0Ab"])
async def test_an_id_that_nobody_has_is_not_found(admin, path_id):
    answer = await admin.delete(URL(f"{KEYS}/{path_id}", encoded=True))

    assert answer.status == 404
    assert await answer.json() == {"error": "not_found"}


@pytest.mark.parametrize(
    "body",
    [{}, {"name": None}, {"name": 7}, {"name": ""}, {"name": " "}, {"name": "a\0b"}, {"name": "x" * 201}],
)
async def test_a_bad_name_is_refused_by_its_field(admin, body):
    answer = await admin.post(KEYS, json=body)

    assert answer.status == 400
    assert (await answer.json())["field"] == "name"


async def test_keys_are_for_admins_alone(api, member, viewer, anonymous):
    for caller, status in ((api, 403), (member, 403), (viewer, 403), (anonymous, 401)):
        for method, path in (("get", KEYS), ("post", KEYS), ("delete", f"{KEYS}/key_1")):
            answer = await getattr(caller, method)(path)
            assert answer.status == status


async def test_any_number_of_keys_is_made_at_once(admin):
    answers = await asyncio.gather(*(admin.post(KEYS, json={"name": "same"}) for _ in range(10)))

    assert len({(await answer.json())["key"] for answer in answers}) == 10
