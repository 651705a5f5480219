"""What notifications are sent to in the tests: servers that keep what they are told."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message as Mail
from email.parser import BytesParser
from email.policy import default
from typing import Any

from aiohttp import web

from monitor.notify.models import AlertChange

AT = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)


def change(org_id: str, alert_id: str = "alert_1", state: str = "firing", **fields: Any) -> AlertChange:
    """Return a change; without a word about the series, each alert has its own."""
    values: dict[str, Any] = {
        "rule_id": "rule_1",
        "rule_name": "CPU high",
        "severity": "critical",
        "resource_type": "container",
        "resource_id": f"id-of-{alert_id}",
        "resource_name": f"name-of-{alert_id}",
        "agent_id": "agent_1",
        "metric": {"__name__": "container_cpu_usage_percent", "container_id": f"id-of-{alert_id}"},
        "value": 97.5,
        "threshold": 80.0,
        "operator": "gt",
        "message": f"what is wrong with {alert_id}",
        "at": AT,
        **fields,
    }
    return AlertChange(org_id=org_id, alert_id=alert_id, state=state, **values)  # type: ignore[arg-type]


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def states(self) -> list[tuple[str, str]]:
        """Of a webhook: alert and state of each alert, in their order."""
        return [(alert["id"], alert["state"]) for alert in self.json["alerts"]]


class Receiver:
    """An HTTP server that keeps what it is sent and answers with ``status``.

    ``refuse`` is the part of a body that it answers with 400; while ``gate`` is closed it waits.
    """

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.refuse: bytes | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def told(self) -> list[list[tuple[str, str]]]:
        """Of webhooks: what each message told."""
        return [request.states for request in self.requests]

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self.gate.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append(Received(request.path, dict(request.headers), body))
        self.arrived.set()
        await self.gate.wait()
        status = 400 if self.refuse and self.refuse in body else self.status
        return web.Response(status=status, headers=self.headers, text="an answer")


class Mailbox:
    """The handler of a mail server: keeps the mails; ``refuse`` is an address it does not know."""

    def __init__(self) -> None:
        self.port = 0
        self.refuse: str | None = None
        self.mails: list[tuple[str, list[str], Mail]] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address == self.refuse:
            return "550 nobody here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = BytesParser(policy=default).parsebytes(envelope.content)
        self.mails.append((envelope.mail_from, list(envelope.rcpt_tos), mail))
        return "250 OK"
