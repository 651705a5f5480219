"""A Prometheus Alertmanager, by its API v2.

https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml

An Alertmanager takes an alert for resolved when nobody repeats it, so what fires is
sent again every minute; it knows an alert by its labels, of which none names an episode.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from monitor.config import Notifications
from monitor.notify.channels.kind import Kind, Url, check_url
from monitor.notify.compose import one_line, trend, utc
from monitor.notify.models import Message, Notice
from monitor.notify.outlet import Outlet

PATH = "/api/v2/alerts"
REPEAT_SECONDS = 60.0  # as Prometheus does by default
# Four repeats may fail, or wait for others, before the alert ends by itself.
LIFETIME = timedelta(seconds=5 * REPEAT_SECONDS)


class Settings(msgspec.Struct, frozen=True):
    """Base URL of the Alertmanager."""

    url: Url


def check(settings: Settings, notifications: Notifications) -> None:
    """Refuse a URL that cannot be a target."""
    check_url(settings.url, notifications)


async def send(outlet: Outlet, settings: Settings, message: Message) -> None:
    """POST the newest state of each alert."""
    alerts = {}
    for notice in message.notices:
        alert = alert_of(notice, message)
        alerts[tuple(sorted(alert["labels"].items()))] = alert
    url = settings.url.rstrip("/")
    body = msgspec.json.encode(list(alerts.values()))
    await outlet.post(url if url.endswith(PATH) else url + PATH, body, {"Content-Type": "application/json"})


def alert_of(notice: Notice, message: Message) -> dict[str, Any]:
    """Return a ``postableAlert``; one that is resolved starts when the Alertmanager says."""
    change = notice.change
    labels = {label: value for label, value in change.metric.items() if not label.startswith("__") and value}
    labels |= {
        "alertname": one_line(change.rule_name),
        "severity": change.severity,
        "rule_id": change.rule_id,
        "metric": change.metric.get("__name__", ""),
    }
    annotations = {
        "summary": f"{change.rule_name}: {change.resource_name or change.resource_id}",
        "description": change.message,
        "resource": f"{change.resource_type} {change.resource_id}",
        "value": f"{change.value:g}",
        "threshold": f"{change.operator} {change.threshold:g}",
        "alert_id": change.alert_id,
    }
    if notice.values:
        annotations["last_15_minutes"] = trend(notice.values)
    alert: dict[str, Any] = {
        "labels": {label: value for label, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
    }
    if change.state == "resolved":
        alert["endsAt"] = utc(change.at)
    else:
        alert["startsAt"] = utc(change.at)
        alert["endsAt"] = utc(max(message.sent_at, change.at) + LIFETIME)
    if notice.link:
        alert["generatorURL"] = notice.link
    return alert


KIND = Kind(Settings, check, send, repeat_seconds=REPEAT_SECONDS)
