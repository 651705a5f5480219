"""Take lines from agents; search, count and show them."""

from __future__ import annotations

from aiohttp import web

from monitor.auth.middleware import agent
from monitor.auth.models import AGENT, TENANT
from monitor.errors import UnsupportedMediaType
from monitor.logs.ingest.append import APPENDS
from monitor.logs.ingest.ceilings import CEILINGS
from monitor.logs.ingest.lines import parse_batch_id, read_lines
from monitor.logs.messages import Answer, Find
from monitor.logs.models import (
    Context,
    ContextQuery,
    FoundLine,
    Histogram,
    HistogramQuery,
    SearchQuery,
)
from monitor.logs.parameters import around_of, count_of, search_of
from monitor.logs.searches import LOG_SEARCHES
from monitor.web.codec import read_bytes, reply
from monitor.web.openapi import describes
from monitor.wire.logs import BATCH_ID_HEADER, CONTENT_TYPE, Accepted, LogLine

MEDIA = (CONTENT_TYPE, "application/ndjson", "application/jsonl", "application/json")

routes = web.RouteTableDef()


@routes.post("/api/v1/agents/{agentId}/logs")
@agent
@describes(body=LogLine, reply=Accepted)
async def take(request: web.Request) -> web.Response:
    """Store a batch of log lines, one JSON object a line; durable when answered."""
    caller = request[AGENT]
    batch_id = parse_batch_id(request.headers.get(BATCH_ID_HEADER))
    await request.app[CEILINGS].admit(caller.org_id)
    check_media(request)
    body = await read_bytes(request)
    blocks = await read_lines(body, caller.agent_id)
    count = sum(block.line_count for block in blocks)
    await request.app[APPENDS].append(caller.org_id, caller.agent_id, batch_id, blocks)
    request.app[CEILINGS].spend(caller.org_id, count, len(body))
    return reply(Accepted(count))


@routes.get("/api/v1/logs/search")
@describes(query=SearchQuery, reply=list[FoundLine])
async def search(request: web.Request) -> web.Response:
    """Return the lines that are asked for, newest first; X-Next-Cursor asks for the next page."""
    asked = search_of(request, request[TENANT])
    answer = await request.app[LOG_SEARCHES].ask(request, asked.org_id, Find(asked))
    return answered(answer, {"X-Next-Cursor": answer.cursor} if answer.cursor else None)


@routes.get("/api/v1/logs/histogram")
@describes(query=HistogramQuery, reply=Histogram)
async def histogram(request: web.Request) -> web.Response:
    """Count the lines that are asked for by interval and stream."""
    asked = count_of(request, request[TENANT])
    return answered(await request.app[LOG_SEARCHES].ask(request, asked.search.org_id, asked))


@routes.get("/api/v1/logs/context")
@describes(query=ContextQuery, reply=Context)
async def context(request: web.Request) -> web.Response:
    """Return the lines around one line, of the same agent and container."""
    asked = around_of(request, request[TENANT])
    return answered(await request.app[LOG_SEARCHES].ask(request, asked.org_id, asked))


def answered(answer: Answer, headers: dict[str, str] | None = None) -> web.Response:
    """Return an answer of the search process as a response."""
    return web.Response(body=answer.body, headers=headers, content_type="application/json")


def check_media(request: web.Request) -> None:
    """Refuse a body that says it is something else than NDJSON.

    Raises:
        UnsupportedMediaType: Another content type.
    """
    if "Content-Type" in request.headers and request.content_type not in MEDIA:
        raise UnsupportedMediaType(f"content type: expected {CONTENT_TYPE}")
