"""What each channel type sends, read by a receiver of its kind."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from itertools import pairwise

import pytest

from monitor.notify.channels.slack import escaped

SERIES = {"__name__": "agent_containers", "agent_id": "agent_1"}


async def test_a_webhook_is_told_everything_about_an_alert(outbox, webhook, receiver):
    await webhook()

    await outbox.note(outbox.change(metric=SERIES, value=math.nan))
    await outbox.deliver()

    document = receiver.requests[0].json
    assert receiver.requests[0].headers["Content-Type"] == "application/json"
    assert document["sentAt"].endswith("Z")
    assert {**document, "sentAt": "", "alerts": []} == {
        "version": 1,
        "orgId": outbox.org_id,
        "sentAt": "",
        "test": False,
        "count": 1,
        "alerts": [],
    }
    assert document["alerts"] == [
        {
            "id": "alert_1",
            "state": "firing",
            "ruleId": "rule_1",
            "ruleName": "CPU high",
            "severity": "critical",
            "resourceType": "container",
            "resourceId": "id-of-alert_1",
            "resourceName": "name-of-alert_1",
            "agentId": "agent_1",
            "metric": SERIES,
            "value": None,
            "threshold": 80.0,
            "operator": "gt",
            "message": "what is wrong with alert_1",
            "at": "2030-01-31T12:00:00Z",
            "changes": 1,
            "values": [],
            "link": "https://monitor.example.com/alerts/alert_1",
        }
    ]


async def test_a_webhook_is_signed_with_its_secret(outbox, webhook, receiver):
    await webhook(secret="a secret")

    await outbox.note(outbox.change())
    await outbox.deliver()

    (request,) = receiver.requests
    timestamp = request.headers["X-Monitor-Timestamp"]
    expected = hmac.new(b"a secret", timestamp.encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Monitor-Signature"] == f"sha256={expected}"
    assert abs(int(timestamp) - time.time()) < 10


async def test_a_webhook_without_a_secret_is_not_signed(outbox, webhook, receiver):
    await webhook()

    await outbox.note(outbox.change())
    await outbox.deliver()

    assert not any(name.startswith("X-Monitor") for name in receiver.requests[0].headers)


async def test_the_last_quarter_of_an_hour_is_told_with_the_alert(
    outbox, webhook, receiver, app, servers, session
):
    await webhook()
    now = int(time.time())
    lines = "".join(
        f'quarter{{org_id="{outbox.org_id}",pod="a"}} {second} {(now - 900 + second) * 1000}\n'
        for second in range(0, 900, 15)
    )
    async with session.post(f"{servers.vm_url}/api/v1/import/prometheus", data=lines) as answer:
        assert answer.status == 204
    async with session.get(f"{servers.vm_url}/internal/force_flush") as answer:
        assert answer.status == 200

    series = {"__name__": "quarter", "pod": "a", "org_id": "org_of_another"}
    await outbox.note(outbox.change(metric=series))
    await outbox.deliver()

    values = receiver.requests[0].json["alerts"][0]["values"]
    assert 28 <= len(values) <= 31
    assert all(later[0] - earlier[0] == 30 for earlier, later in pairwise(values))
    assert values[-1][1] > values[0][1] + 700


async def test_slack_is_told_twenty_alerts_and_the_number_of_the_others(outbox, receiver):
    await outbox.channel(type="slack", settings={"url": receiver.url})

    await outbox.note(
        *(outbox.change(f"alert_{number}", rule_name="<!channel> & co") for number in range(22))
    )
    await outbox.deliver()

    (request,) = receiver.requests
    document = request.json
    assert document["text"] == "[22 firing] &lt;!channel&gt; &amp; co: name-of-alert_0 and 21 more"
    assert len(document["attachments"]) == 21
    assert document["attachments"][-1] == {"text": "and 2 more"}
    first = document["attachments"][0]
    assert first["title"] == "firing (critical): &lt;!channel&gt; &amp; co"
    assert first["title_link"] == "https://monitor.example.com/alerts/alert_0"
    assert "value 97.5, threshold &gt; 80, at 2030-01-31T12:00:00Z" in first["text"]


def test_slack_reads_nothing_into_a_text():
    assert escaped("<@U1> & <http://x|y>") == "&lt;@U1&gt; &amp; &lt;http://x|y&gt;"


@pytest.mark.parametrize("to", ["one@example.com", ["one@example.com", "two@example.com"]])
async def test_a_mail_reaches_all_its_recipients(outbox, mailbox, to):
    mailbox.mails.clear()
    await outbox.channel(type="email", settings={"to": to})

    await outbox.note(outbox.change(rule_name="hot\r\nBcc: x@example.com", message="é – 漢"))
    await outbox.deliver()

    ((sender, recipients, mail),) = mailbox.mails
    assert sender == "monitor@example.com"
    assert recipients == ([to] if isinstance(to, str) else to)
    assert mail["To"] == ", ".join(recipients)
    assert mail["Bcc"] is None
    assert mail["Subject"] == "[firing] hot Bcc: x@example.com: name-of-alert_1"
    body = mail.get_content()
    assert "é – 漢" in body
    assert "https://monitor.example.com/alerts/alert_1" in body


async def test_a_mail_that_a_recipient_does_not_get_is_shown_as_failed(outbox, mailbox, monkeypatch):
    monkeypatch.setattr(mailbox, "refuse", "gone@example.com")
    channel_id = await outbox.channel(type="email", settings={"to": "gone@example.com"})

    await outbox.note(outbox.change())
    await outbox.deliver()

    error = (await outbox.shown(channel_id))["delivery"]["lastError"]
    assert error == "the mail server refused every recipient"


async def test_apprise_brings_a_message_to_what_its_url_names(outbox, receiver):
    url = f"json://127.0.0.1:{receiver.port}/apprise"
    channel_id = await outbox.channel(type="apprise", settings={"url": url})

    await outbox.note(outbox.change())
    await outbox.deliver()
    receiver.status = 500
    await outbox.note(outbox.change("alert_2"))
    await outbox.deliver()

    first = receiver.requests[0]
    assert first.path == "/apprise"
    assert first.json["title"] == "[firing] CPU high: name-of-alert_1"
    assert "value 97.5, threshold > 80" in first.json["message"]
    assert (await outbox.shown(channel_id))["delivery"]["lastError"] == "Apprise could not deliver"
