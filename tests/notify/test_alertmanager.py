"""A real Alertmanager, told by its API v2."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
CONFIG = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"
START_SECONDS = 60

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no prometheus-alertmanager: install the Debian package of that name"
)


@pytest.fixture(scope="module")
async def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The URL of an Alertmanager that tells nobody."""
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    (folder / "alertmanager.yml").write_text(CONFIG)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession() as session, asyncio.timeout(START_SECONDS):
        while not await is_ready(session, url):
            await asyncio.sleep(0.1)
    yield url
    process.terminate()
    await process.wait()


async def is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/-/ready") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def alerts(session: aiohttp.ClientSession, url: str, **labels: str) -> list[dict[str, Any]]:
    """Return the alerts that fire there now."""
    async with session.get(f"{url}/api/v2/alerts") as answer:
        assert answer.status == 200
        known = await answer.json()
    return [alert for alert in known if labels.items() <= alert["labels"].items()]


async def test_an_alert_fires_there_until_it_is_resolved(outbox, alertmanager, session):
    channel_id = await outbox.channel(type="alertmanager", settings={"url": f"{alertmanager}/"})
    series = {"__name__": "kube_pod_ready", "pod": "web-1", "namespace": "shop"}
    now = datetime.now(UTC)

    await outbox.note(outbox.change("alert_a", metric=series, at=now))
    await outbox.note(outbox.change("alert_a", "acknowledged", metric=series, at=now))
    await outbox.deliver()
    (firing,) = await alerts(session, alertmanager, pod="web-1")
    waiting = (await outbox.shown(channel_id))["delivery"]["waiting"]
    await outbox.note(outbox.change("alert_a", "resolved", metric=series, at=datetime.now(UTC)))
    await outbox.deliver()

    assert waiting == 0
    assert firing["labels"] == {
        "alertname": "CPU high",
        "severity": "critical",
        "rule_id": "rule_1",
        "metric": "kube_pod_ready",
        "pod": "web-1",
        "namespace": "shop",
    }
    assert firing["annotations"]["summary"] == "CPU high: name-of-alert_a"
    assert firing["annotations"]["value"] == "97.5"
    assert firing["annotations"]["alert_id"] == "alert_a"
    assert firing["generatorURL"] == "https://monitor.example.com/alerts/alert_a"
    assert await alerts(session, alertmanager, pod="web-1") == []


async def test_a_next_episode_of_the_same_series_fires_again(outbox, alertmanager, session):
    await outbox.channel(type="alertmanager", settings={"url": alertmanager})
    series = {"__name__": "up", "pod": "web-2"}

    for alert, state in (("alert_a", "firing"), ("alert_a", "resolved"), ("alert_b", "firing")):
        await outbox.note(outbox.change(alert, state, metric=series, at=datetime.now(UTC)))
        await outbox.deliver()

    (firing,) = await alerts(session, alertmanager, pod="web-2")
    assert firing["annotations"]["alert_id"] == "alert_b"


async def test_what_fires_is_told_again_every_minute_until_it_ends(outbox, alertmanager, session):
    await outbox.channel(type="alertmanager", settings={"url": alertmanager})
    series = {"__name__": "up", "pod": "web-3"}
    await outbox.note(outbox.change("alert_a", metric=series, at=datetime.now(UTC)))
    await outbox.deliver()
    (first,) = await alerts(session, alertmanager, pod="web-3")

    early = await outbox.deliver_next()
    await outbox.pass_seconds(60)
    repeated = await outbox.deliver_next()
    (second,) = await alerts(session, alertmanager, pod="web-3")
    await outbox.note(outbox.change("alert_a", "resolved", metric=series, at=datetime.now(UTC)))
    await outbox.deliver()
    await outbox.pass_seconds(600)
    after = await outbox.deliver_next()

    assert (early, repeated, after) == (False, True, False)
    assert second["updatedAt"] > first["updatedAt"]
    assert await alerts(session, alertmanager, pod="web-3") == []


async def test_an_alertmanager_that_is_away_is_told_later_and_still_repeated(outbox, receiver):
    channel_id = await outbox.channel(type="alertmanager", settings={"url": receiver.url})
    await outbox.note(outbox.change())
    await outbox.deliver()
    await outbox.pass_seconds(60)
    receiver.status = 503
    await outbox.deliver()
    failing = (await outbox.shown(channel_id))["delivery"]["state"]
    receiver.status = 200
    await outbox.pass_seconds(60)
    await outbox.deliver()

    assert failing == "failing"
    assert [request.path for request in receiver.requests] == ["/hook/api/v2/alerts"] * 3
    assert (await outbox.shown(channel_id))["delivery"]["state"] == "delivered"
