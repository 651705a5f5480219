"""Remote write 1.0: another Prometheus, vmagent or Telegraf sends its samples here.

Answered when VictoriaMetrics has taken all samples of the request; nothing is journalled,
because the sender repeats by protocol what was not answered.  The labels of the
organization, and of the agent if one sends, are ours, whatever the payload says.
"""

from __future__ import annotations

import asyncio
import re

import cramjam
from aiohttp import web
from msgspec import Struct
from prometheus_client import Counter

from monitor.auth import credentials, store, tokens
from monitor.auth.middleware import public, tenant_by_api_key
from monitor.auth.models import AGENT, AgentCaller, Plan
from monitor.config import CONFIG
from monitor.db.postgres import connection
from monitor.errors import (
    BadRequest,
    OrgSuspended,
    PayloadTooLarge,
    StorageUnavailable,
    Unauthorized,
    UnsupportedMediaType,
)
from monitor.metrics.scope import now_ms
from monitor.prometheus.errors import prometheus_errors
from monitor.prometheus.remote import Terms, lines_of, terms_of
from monitor.tsdb.client import TSDB, Refused
from monitor.web.codec import BODY_BYTES, BODY_SECONDS, no_content, read_bytes
from monitor.web.errors import ORG_ID
from monitor.web.openapi import describes

BATCH_CHARACTERS = 1024 * 1024  # of one write to VictoriaMetrics
WRITE_SECONDS = (
    30.0  # for all writes of a request: senders wait no longer, and deletions look again after 60 s
)
TURN_SECONDS = 0.005  # of reading and printing between two turns of the event loop

MEDIA = "application/x-protobuf"
MESSAGE = "prometheus.WriteRequest"
_PROTO = re.compile(r""";\s*proto\s*=\s*"?([^";\s]*)""", re.IGNORECASE)

SAMPLES = Counter("monitor_remote_write_samples_total", "Samples acknowledged.")

routes = web.RouteTableDef()


class Sender(Struct, frozen=True):
    """Whose samples they are.

    Attributes:
        agent: Id and name of the agent that sends; None for an API key.
        metrics_retention_seconds: The organization's own setting; None if it has none.
    """

    org_id: str
    plan: Plan
    metrics_retention_seconds: int | None
    agent: tuple[str, str] | None = None


@routes.post("/prometheus/api/v1/write")
@public  # an API key or an agent's token: sender_of() finds out
@describes(status=204)
@prometheus_errors
async def remote_write(request: web.Request) -> web.Response:
    """Store the samples of a snappy-compressed ``prometheus.WriteRequest``, all or none."""
    terms = _terms(request, await sender_of(request))
    batches, count = await _batches(await _message(request), terms)
    await _store(request, batches)
    SAMPLES.inc(count)
    return no_content()


async def sender_of(request: web.Request) -> Sender:
    """Return whom the first valid API key or agent's token in *request* belongs to.

    Raises:
        OrgSuspended: The credential is good, its organization is suspended.
        Unauthorized: There is no valid one, or one was sent twice.
    """
    for kind, text in credentials.presented(request.headers, api_key_bearer=True):
        if kind == "session" and tokens.AGENT_TOKEN.fullmatch(text):
            async with connection(request.app) as conn:
                caller = await store.agent_by_token(conn, tokens.digest(text))
            if caller is not None:
                return _admitted(request, caller)
        elif kind == "api_key":
            try:
                tenant = await tenant_by_api_key(request, [text])
            except Unauthorized:
                continue
            return Sender(tenant.org_id, tenant.plan, tenant.metrics_retention_seconds)
    raise Unauthorized


def _admitted(request: web.Request, caller: AgentCaller) -> Sender:
    request[AGENT] = caller
    request[ORG_ID] = caller.org_id
    if caller.suspended:
        raise OrgSuspended
    agent = (caller.agent_id, caller.name)
    return Sender(caller.org_id, caller.plan, caller.metrics_retention_seconds, agent)


def _terms(request: web.Request, sender: Sender) -> Terms:
    config = request.app[CONFIG].config
    return terms_of(
        sender.org_id,
        sender.agent,
        now_ms=now_ms(),
        retention_seconds=config.retention.effective(
            "metrics", sender.org_id, sender.plan, sender.metrics_retention_seconds
        ),
        series_limit=config.limits.for_org(sender.org_id).series_per_push,
    )


async def _message(request: web.Request) -> bytes:
    """Return the decompressed protobuf message.

    Raises:
        BadRequest: Not complete in time, or damaged.
        PayloadTooLarge: Above 16 MiB, before or after decompression.
        UnsupportedMediaType: Not remote write 1.0, or neither snappy nor zstd.
    """
    _check_type(request)
    encoding = request.headers.get("Content-Encoding", "snappy").strip().lower()
    if encoding == "zstd":  # what newer vmagents try first
        return await read_bytes(request)
    if encoding != "snappy":
        raise UnsupportedMediaType("content encoding: expected snappy or zstd")
    if (request.content_length or 0) > BODY_BYTES:
        raise PayloadTooLarge
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return unsnappy(await request.read())
    except TimeoutError:
        raise BadRequest(f"body: not complete within {BODY_SECONDS:.0f} s") from None


def unsnappy(body: bytes) -> bytes:
    """Return the content of a snappy block; its length is told first, and bounded.

    Raises:
        BadRequest: It is none.
        PayloadTooLarge: It holds more than 16 MiB.
    """
    try:
        if cramjam.snappy.decompress_raw_len(body) > BODY_BYTES:
            raise PayloadTooLarge
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError:
        raise BadRequest("body: not valid snappy (block format)") from None


def _check_type(request: web.Request) -> None:
    given = request.headers.get("Content-Type", MEDIA)
    message = _PROTO.search(given)
    version = request.headers.get("X-Prometheus-Remote-Write-Version", "0.1.0").strip()
    if given.partition(";")[0].strip().lower() != MEDIA or (message and message[1] != MESSAGE):
        raise UnsupportedMediaType(f"content type: expected {MEDIA};proto={MESSAGE} (remote write 1.0)")
    if not version.startswith(("0.", "1.")):
        raise UnsupportedMediaType("X-Prometheus-Remote-Write-Version: expected 0.1.0 (remote write 1.0)")


async def _batches(message: bytes, terms: Terms) -> tuple[list[bytes], int]:
    """Return the bodies to write, all of them before the first is written, and the number of samples."""
    time = asyncio.get_running_loop().time
    batches: list[bytes] = []
    count, pieces, size = 0, [], 0
    turn_ends = time() + TURN_SECONDS
    for lines in lines_of(message, terms):
        count += lines.count
        pieces.append(lines.text)
        size += len(lines.text)
        if size >= BATCH_CHARACTERS:
            batches.append("".join(pieces).encode())
            pieces, size = [], 0
        if time() > turn_ends:
            await asyncio.sleep(0)
            turn_ends = time() + TURN_SECONDS
    if size:
        batches.append("".join(pieces).encode())
    return batches, count


async def _store(request: web.Request, batches: list[bytes]) -> None:
    """Write *batches*; what an interrupted request wrote is written again by its repetition.

    Raises:
        BadRequest: VictoriaMetrics will never take them.
        StorageUnavailable: It has not taken them all in time.
    """
    tsdb = request.app[TSDB]
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            for batch in batches:
                await tsdb.write(batch)
    except TimeoutError:
        raise StorageUnavailable from None
    except Refused:
        raise BadRequest("the samples cannot be stored") from None
