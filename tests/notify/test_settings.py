"""``/api/v1/settings/channels``."""

from __future__ import annotations

import pytest

CHANNELS = "/api/v1/settings/channels"
HOOK = {"name": "hook", "type": "webhook", "settings": {"url": "https://hooks.example.com/x"}}


async def made(admin, **changes):
    answer = await admin.post(CHANNELS, json={**HOOK, **changes})
    assert answer.status == 201, await answer.text()
    return await answer.json()


async def test_a_channel_is_shown_as_it_was_made(admin):
    channel = await made(
        admin, severities=["critical"], ruleIds=["rule_1"], sendResolved=False, enabled=False
    )

    assert channel == {
        "id": channel["id"],
        "name": "hook",
        "type": "webhook",
        "settings": {"url": "https://hooks.example.com/x", "secret": ""},
        "secretsSet": [],
        "severities": ["critical"],
        "ruleIds": ["rule_1"],
        "sendResolved": False,
        "enabled": False,
        "createdAt": channel["createdAt"],
        "delivery": {
            "state": "new",
            "waiting": 0,
            "dead": 0,
            "lastDeliveredAt": None,
            "lastError": None,
            "lastErrorAt": None,
            "nextAttemptAt": None,
        },
        "dead": [],
    }
    assert channel["id"].startswith("channel_")
    assert await admin.json(CHANNELS) == [channel]


@pytest.mark.parametrize(
    ("type_", "secret", "settings"),
    [
        ("webhook", "secret", {"url": "https://hooks.example.com/x", "secret": "hunter2"}),
        ("slack", "url", {"url": "https://hooks.example.com/hunter2"}),
        ("apprise", "url", {"url": "json://hooks.example.com/hunter2"}),
    ],
)
async def test_a_secret_never_comes_out_and_stays_when_it_comes_back_empty(
    admin, pool, type_, secret, settings
):
    channel = await made(admin, type=type_, settings=settings)
    changed = await admin.put(f"{CHANNELS}/{channel['id']}", json=channel | {"name": "renamed"})
    renamed = await changed.json()
    async with pool.acquire() as conn:
        stored = await conn.fetchval(
            "SELECT settings FROM notification_channels WHERE id = $1", channel["id"]
        )

    assert changed.status == 200
    assert renamed["name"] == "renamed"
    for shown in (channel, renamed, *await admin.json(CHANNELS)):
        assert shown["settings"][secret] == ""
        assert shown["secretsSet"] == [secret]
        assert "hunter2" not in str(shown)
    assert "hunter2" in stored


async def test_a_secret_is_taken_away_with_null(admin):
    channel = await made(admin, settings=HOOK["settings"] | {"secret": "hunter2"})

    answer = await admin.put(f"{CHANNELS}/{channel['id']}", json={"settings": {"secret": None}})

    assert (await answer.json())["secretsSet"] == []
    assert (await answer.json())["settings"]["url"] == HOOK["settings"]["url"]


async def test_what_is_left_out_of_a_change_stays(admin):
    channel = await made(admin, severities=["critical"], ruleIds=["rule_1"])

    answer = await admin.put(f"{CHANNELS}/{channel['id']}", json={"sendResolved": False})

    assert await answer.json() == channel | {"sendResolved": False}


async def test_a_deleted_channel_is_gone(admin):
    channel = await made(admin)
    path = f"{CHANNELS}/{channel['id']}"

    assert (await admin.delete(path)).status == 204
    assert (await admin.delete(path)).status == 404
    assert (await admin.put(path, json={})).status == 404
    assert (await admin.post(f"{path}/test")).status == 404
    assert await admin.json(CHANNELS) == []


async def test_a_channel_of_another_organization_is_not_found(admin, other, make_user):
    channel = await made(admin)
    stranger = await make_user(other.org_id, "admin")
    path = f"{CHANNELS}/{channel['id']}"

    assert await stranger.json(CHANNELS) == []
    for answer in (
        await stranger.put(path, json={"name": "theirs"}),
        await stranger.delete(path),
        await stranger.post(f"{path}/test"),
    ):
        assert answer.status == 404
    assert await admin.json(CHANNELS) == [channel]


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        ({"name": " "}, "name", "must not be empty"),
        ({"type": "pager"}, "type", "'pager'"),
        ({"settings": {}}, "settings.url", "required"),
        ({"settings": []}, "settings", "expected"),
        ({"settings": {"url": 7}}, "settings.url", "expected string"),
        ({"settings": {"url": "ftp://x/"}}, "settings.url", "expected a URL such as https://host/path"),
        ({"settings": {"url": "https:///x"}}, "settings.url", "expected a URL"),
        ({"settings": {"url": "https://[x/"}}, "settings.url", "not a URL"),
        ({"settings": {"url": "https://x:99999/"}}, "settings.url", "not a URL"),
        ({"settings": {"url": "https://x/\r\nA: b"}}, "settings.url", "expected a URL"),
        ({"settings": {"url": "https://a:hunter2@x/"}}, "settings.url", "user and password"),
        ({"settings": {"url": "http://2130706433/"}}, "settings.url", "plain address"),
        ({"settings": {"url": "https://x/" + "y" * 2000}}, "settings.url", ""),
        ({"type": "slack", "settings": {"url": ""}}, "settings.url", "required"),
        ({"type": "email", "settings": {"to": "nobody"}}, "settings.to", ""),
        ({"type": "email", "settings": {"to": []}}, "settings.to", ""),
        ({"type": "email", "settings": {"to": ["a@b\r\nBcc: c@d"]}}, "settings.to[0]", ""),
        (
            {"type": "apprise", "settings": {"url": "nothing://x"}},
            "settings.url",
            "no URL that Apprise knows",
        ),
        ({"type": "alertmanager", "sendResolved": False}, "sendResolved", "always"),
        ({"severities": "critical"}, "severities", "expected array"),
        ({"severities": [""]}, "severities[0]", ""),
        ({"ruleIds": [7]}, "ruleIds[0]", "expected string"),
        ({"enabled": "yes"}, "enabled", "expected boolean"),
    ],
)
async def test_what_cannot_be_a_channel_is_refused_by_its_field(admin, body, field, reason):
    answer = await admin.post(CHANNELS, json={**HOOK, **body})
    error = await answer.json()

    assert answer.status == 400, error
    assert error["field"] == field
    assert error["error"].startswith(f"{field}: ")
    assert reason in error["error"]
    assert "hunter2" not in error["error"]
    assert await admin.json(CHANNELS) == []


async def test_a_channel_keeps_its_type(admin):
    channel = await made(admin)

    answer = await admin.put(f"{CHANNELS}/{channel['id']}", json={"type": "slack"})

    assert answer.status == 400
    assert await answer.json() == {"error": "type: cannot be changed", "field": "type"}


async def test_an_organization_has_at_most_a_hundred_channels(admin, pool):
    async with pool.acquire() as conn:
        await conn.execute(
            "INSERT INTO notification_channels (org_id, id, name, type, settings, severities, rule_ids,"
            " send_resolved, enabled) SELECT $1, $1 || n, 'x', 'webhook', '{\"url\": \"https://x/\"}', '{}', '{}',"
            " true, false FROM generate_series(1, 99) n",
            admin.org_id,
        )
    await made(admin)

    answer = await admin.post(CHANNELS, json=HOOK)

    assert answer.status == 429
    assert await answer.json() == {
        "error": "channels: an organization has at most 100",
        "field": "channels",
    }


async def test_a_test_message_goes_out_at_once_and_tells_what_became_of_it(outbox, webhook, receiver):
    channel_id = await webhook(enabled=False)

    good = await outbox.admin.post(f"{CHANNELS}/{channel_id}/test")
    receiver.status = 403
    bad = await outbox.admin.post(f"{CHANNELS}/{channel_id}/test")

    assert good.status == bad.status == 200
    assert await good.json() == {"delivered": True, "error": None}
    assert await bad.json() == {"delivered": False, "error": "the receiver answered 403"}
    assert receiver.requests[0].json["test"] is True
    assert (await outbox.shown(channel_id))["delivery"]["state"] == "new"


async def test_channels_are_for_admins_alone(api, member, viewer, anonymous, admin):
    path = f"{CHANNELS}/channel_1"
    for caller, status in ((api, 403), (member, 403), (viewer, 403), (anonymous, 401)):
        for answer in (
            await caller.get(CHANNELS),
            await caller.post(CHANNELS, json=HOOK),
            await caller.put(path, json={}),
            await caller.delete(path),
            await caller.post(f"{path}/test"),
        ):
            assert answer.status == status
