"""From the alert's transaction to the receiver: at least once, in order, in as few messages as can be."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from monitor.db.postgres import POOL
from monitor.notify import store
from monitor.notify.outbox import enqueue
from tests.notify.receivers import change


async def test_a_change_is_told_to_a_channel_once(outbox, webhook, receiver):
    channel_id = await webhook()

    await outbox.note(outbox.change())
    await outbox.note(outbox.change())
    await outbox.deliver()
    await outbox.note(outbox.change())
    await outbox.deliver()

    assert receiver.told == [[("alert_1", "firing")]]
    delivery = (await outbox.shown(channel_id))["delivery"]
    assert (delivery["state"], delivery["waiting"], delivery["dead"]) == ("delivered", 0, 0)
    assert delivery["lastDeliveredAt"].endswith("Z")


async def test_what_is_rolled_back_is_never_told(outbox, webhook, receiver, pool):
    await webhook()

    async with pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await enqueue(conn, [outbox.change()])
        await transaction.rollback()
    await outbox.deliver()

    assert receiver.requests == []


async def test_without_a_channel_nothing_is_noted(outbox, pool):
    await outbox.note(outbox.change())

    async with pool.acquire() as conn:
        assert await conn.fetchval("SELECT count(*) FROM notifications WHERE org_id = $1", outbox.org_id) == 0


async def test_a_storm_is_one_message(outbox, webhook, receiver):
    await webhook()
    alerts = [f"alert_{number}" for number in range(230)]

    await outbox.note(*(outbox.change(alert) for alert in alerts))
    await outbox.deliver()

    assert receiver.told == [[(alert, "firing") for alert in alerts]]
    assert receiver.requests[0].json["count"] == 230


async def test_what_came_while_the_receiver_was_away_is_one_message_in_order(outbox, webhook, receiver):
    channel_id = await webhook()
    receiver.status = 503
    await outbox.note(outbox.change("alert_1"))
    await outbox.deliver()
    await outbox.note(outbox.change("alert_1", "acknowledged"), outbox.change("alert_2"))
    await outbox.note(outbox.change("alert_1", "resolved"))

    await outbox.deliver()
    failing = (await outbox.shown(channel_id))["delivery"]
    receiver.status = 200
    await outbox.pass_seconds(5)
    await outbox.deliver()

    first, second = receiver.told
    assert first == [("alert_1", "firing")]
    assert second == [
        ("alert_1", "firing"),
        ("alert_1", "acknowledged"),
        ("alert_2", "firing"),
        ("alert_1", "resolved"),
    ]
    assert (failing["state"], failing["lastError"]) == ("failing", "the receiver answered 503")
    assert failing["waiting"] == 4
    assert failing["nextAttemptAt"].endswith("Z")
    assert (await outbox.shown(channel_id))["delivery"]["lastError"] is None


async def test_pauses_grow_while_a_receiver_is_away(outbox, webhook, receiver):
    await webhook()
    receiver.status = 500
    await outbox.note(outbox.change())

    attempts = 0
    for _ in range(20):  # minutes
        await outbox.deliver()
        await outbox.pass_seconds(60)
        attempts += 1
    seen = len(receiver.requests)

    # 5, 10, 20, 40, 80, 160, 320, 600 s, each less up to a half: at a look a minute.
    assert 6 <= seen <= 11, (seen, attempts)


async def test_after_a_day_a_notification_is_dead_and_shown_with_its_error(outbox, webhook, receiver):
    channel_id = await webhook()
    receiver.status = 404
    await outbox.note(outbox.change())
    await outbox.deliver()
    assert (await outbox.shown(channel_id))["dead"] == []

    await outbox.pass_seconds(timedelta(hours=24).total_seconds())
    await outbox.deliver()
    await outbox.pass_seconds(3600)
    receiver.status = 200
    await outbox.deliver()

    assert len(receiver.requests) == 2
    shown = await outbox.shown(channel_id)
    assert (shown["delivery"]["waiting"], shown["delivery"]["dead"]) == (0, 1)
    (dead,) = shown["dead"]
    assert (dead["alertId"], dead["state"], dead["ruleName"]) == ("alert_1", "firing", "CPU high")
    assert dead["error"] == "the receiver answered 404"


async def test_killed_on_the_way_a_notification_is_told_when_the_lease_ends(outbox, webhook, receiver, pool):
    await webhook()
    await outbox.note(outbox.change())
    async with pool.acquire() as conn:  # a worker that claims and is never heard of again
        claim = await store.claim_channel(conn, 60.0)

    assert claim is not None
    assert not await outbox.deliver_next()
    await outbox.pass_seconds(60)
    assert await outbox.deliver_next()

    assert receiver.told == [[("alert_1", "firing")]]


async def test_a_worker_that_comes_too_late_changes_nothing(outbox, webhook, receiver, pool):
    channel_id = await webhook()
    await outbox.note(outbox.change())
    async with pool.acquire() as conn:
        late = await store.claim_channel(conn, 60.0)
    assert late is not None
    await outbox.pass_seconds(60)
    await outbox.deliver()

    async with pool.acquire() as conn:
        paused = await store.pause(conn, late, "too late", 600.0)

    assert not paused
    assert (await outbox.shown(channel_id))["delivery"]["state"] == "delivered"


async def test_a_worker_that_is_stopped_gives_its_channel_back_at_once(outbox, webhook, receiver):
    await webhook()
    await outbox.note(outbox.change())
    receiver.gate.clear()
    stopped = asyncio.create_task(outbox.deliver_next())
    await receiver.arrived.wait()

    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    receiver.gate.set()

    assert await outbox.deliver_next()
    assert receiver.told == [[("alert_1", "firing")]] * 2


async def test_one_worker_at_a_time_tells_a_channel_and_others_tell_others(outbox, webhook, receiver):
    await webhook(name="first")
    await webhook(name="second")
    await outbox.note(outbox.change())
    receiver.gate.clear()

    workers = [asyncio.create_task(outbox.deliver_next()) for _ in range(5)]
    while len(receiver.requests) < 2:
        await asyncio.sleep(0.01)
    receiver.gate.set()
    done = await asyncio.gather(*workers)

    assert sorted(done) == [False, False, False, True, True]
    assert len(receiver.requests) == 2


async def test_no_connection_is_held_while_a_receiver_is_waited_for(outbox, webhook, receiver):
    await webhook()
    await outbox.note(outbox.change())
    receiver.gate.clear()
    waiting = asyncio.create_task(outbox.deliver_next())
    await receiver.arrived.wait()

    opened = outbox.app.app[POOL]
    held = opened.get_size() - opened.get_idle_size()
    receiver.gate.set()
    await waiting

    assert held == 0


async def test_one_refused_alert_holds_back_neither_the_others_nor_their_order(outbox, webhook, receiver):
    channel_id = await webhook()
    receiver.refuse = b"alert_2"
    await outbox.note(*(outbox.change(f"alert_{number}") for number in range(4)))
    await outbox.deliver()
    await outbox.note(outbox.change("alert_2", "resolved"), outbox.change("alert_9"))

    for _ in range(6):
        await outbox.pass_seconds(10)
        await outbox.deliver()

    accepted = [states for states in receiver.told if "alert_2" not in dict(states)]
    assert sorted(alert for states in accepted for alert, _ in states) == [
        "alert_0",
        "alert_1",
        "alert_3",
        "alert_9",
    ]
    assert [("alert_2", "resolved")] not in receiver.told
    assert (await outbox.shown(channel_id))["delivery"]["waiting"] == 2

    receiver.refuse = None
    await outbox.pass_seconds(3600)
    await outbox.deliver()

    refused_last = [states for states in receiver.told if "alert_2" in dict(states)][-2:]
    assert refused_last == [[("alert_2", "firing")], [("alert_2", "resolved")]]


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({}, True),
        ({"severities": ["critical", "page"]}, True),
        ({"severities": ["warning"]}, False),
        ({"ruleIds": ["rule_1"]}, True),
        ({"ruleIds": ["rule_2"]}, False),
        ({"ruleIds": ["rule_1"], "severities": ["warning"]}, False),
        ({"enabled": False}, False),
    ],
)
async def test_a_channel_is_told_what_its_filters_let_through(outbox, webhook, receiver, filters, told):
    await webhook(**filters)

    await outbox.note(outbox.change())
    await outbox.deliver()

    assert len(receiver.requests) == told


async def test_an_end_is_told_to_those_who_want_it(outbox, webhook, receiver):
    await webhook(sendResolved=False)

    await outbox.note(outbox.change(), outbox.change(state="resolved"))
    await outbox.deliver()

    assert receiver.told == [[("alert_1", "firing")]]


async def test_a_channel_is_told_of_its_own_organization_alone(outbox, webhook, receiver, other):
    await webhook()

    await outbox.note(outbox.change(), change(other.org_id, "alert_2"))
    await outbox.deliver()

    assert receiver.told == [[("alert_1", "firing")]]


async def test_a_channel_that_is_turned_off_forgets_what_it_waits_for(outbox, webhook, receiver):
    channel_id = await webhook()
    await outbox.note(outbox.change())

    for enabled in (False, True):
        answer = await outbox.admin.put(f"/api/v1/settings/channels/{channel_id}", json={"enabled": enabled})
        assert answer.status == 200
    await outbox.deliver()

    assert receiver.requests == []


async def test_a_changed_channel_is_tried_at_once(outbox, webhook, receiver):
    channel_id = await webhook()
    path = f"/api/v1/settings/channels/{channel_id}"
    await outbox.admin.put(path, json={"settings": {"url": "http://127.0.0.1:1/"}})
    await outbox.note(outbox.change())
    await outbox.deliver()
    assert (await outbox.shown(channel_id))["delivery"]["lastError"] == "no connection"

    await outbox.admin.put(path, json={"settings": {"url": receiver.url}})
    await outbox.deliver()

    assert receiver.told == [[("alert_1", "firing")]]


async def test_what_flaps_is_held_and_told_together(outbox, webhook, receiver):
    await webhook()
    same = {"metric": {"__name__": "up", "pod": "a"}}

    for number in range(5):
        await outbox.note(outbox.change(f"alert_{number}", **same))
        await outbox.note(outbox.change(f"alert_{number}", "resolved", **same))
        await outbox.note(outbox.change(f"steady_{number}"))
        await outbox.deliver()
        await outbox.pass_seconds(15)
    before = [states for message in receiver.told for states in message if states[0].startswith("alert")]
    await outbox.pass_seconds(600)
    await outbox.deliver()

    assert before == [
        ("alert_0", "firing"),
        ("alert_0", "resolved"),
        ("alert_1", "firing"),
        ("alert_1", "resolved"),
    ]
    assert sum(("steady" in alert) for message in receiver.told for alert, _ in message) == 5
    assert receiver.told[-1] == [("alert_4", "resolved")]
    assert receiver.requests[-1].json["alerts"][0]["changes"] == 6


async def test_old_notifications_are_forgotten_and_open_ones_are_not(outbox, webhook, receiver, pool):
    await webhook()
    await outbox.note(outbox.change("told"))
    await outbox.deliver()
    await outbox.pass_seconds(86_400)
    await outbox.note(outbox.change("waiting"))

    async with pool.acquire() as conn:
        await store.forget_old(conn)
        left = await conn.fetch("SELECT alert_id FROM notifications WHERE org_id = $1", outbox.org_id)

    assert [row["alert_id"] for row in left] == ["waiting"]
