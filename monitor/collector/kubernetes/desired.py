"""The service's side of scaling, as an agent asks for it: which manifests, and what became of them."""

from __future__ import annotations

import msgspec

from monitor.collector.client import Service
from monitor.collector.failure import ServiceAway
from monitor.collector.state import Identity
from monitor.wire.scaling import Desired, DesiredList, StatusReport

UNCHANGED = 304


async def fetch_desired(service: Service, identity: Identity, etag: str) -> tuple[str, list[Desired]] | None:
    """Return the manifests and their ETag; None if they are still those of *etag*.

    Raises:
        AgentStopped, ServiceAway: As ``Service.push``.
    """
    headers = {"If-None-Match": etag} if etag else {}
    expected = frozenset({200, UNCHANGED})
    answer = await service.ask("GET", identity, "scaling/desired", expected, headers=headers)
    if answer.status == UNCHANGED:
        return None
    try:
        return answer.etag, msgspec.json.decode(answer.body, type=DesiredList).manifests
    except ValueError as error:
        raise ServiceAway(f"200, but not an answer of the service: {error}") from error


async def report_statuses(service: Service, identity: Identity, report: StatusReport) -> None:
    """Report what became of manifests.

    Raises:
        AgentStopped, BodyRefused, ServiceAway: As ``Service.push``.
    """
    body = msgspec.json.encode(report)
    await service.ask("POST", identity, "scaling/status", frozenset({200, 204}), body=body)
