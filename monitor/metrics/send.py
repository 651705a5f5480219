"""Send an answer that may be large: in pieces, compressed where the client takes it.

A small answer is one response with its length.  A large one goes out in several
writes, so it is never held twice, and other requests get their turns between.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

import zstandard
from aiohttp import web

BATCH_BYTES = 256 * 1024  # between two turns of the event loop: below 1 ms, 4 ms with gzip
COMPRESS_BYTES = 16 * 1024  # below that a compressed answer is not sooner there
LEVEL = 1  # of zstd and gzip: 8 ms for 4 MB with zstd; higher ones cost more than they save

_ZERO_QUALITY = re.compile(r";\s*q\s*=\s*0(\.0*)?\s*$")


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


async def send(request: web.Request, pieces: Iterator[bytes]) -> web.StreamResponse:
    """Answer with the JSON that *pieces* are together."""
    batches = _batches(pieces)
    first = next(batches, b"")
    second = next(batches, None)
    if second is None and len(first) < COMPRESS_BYTES:
        return web.Response(body=first, content_type="application/json")
    coding = content_coding(request.headers.get("Accept-Encoding", ""))
    compressor = _compressor(coding)
    headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": coding} if compressor else {})
    if second is None:
        body = compressor.compress(first) + compressor.flush() if compressor else first
        return web.Response(body=body, headers=headers, content_type="application/json")
    response = web.StreamResponse(headers=headers)
    response.content_type = "application/json"
    await response.prepare(request)
    for batch in chain((first, second), batches):
        await response.write(compressor.compress(batch) if compressor else batch)
        await asyncio.sleep(0)
    await response.write_eof(compressor.flush() if compressor else b"")
    return response


def content_coding(accepted: str) -> str:
    """Return the coding to use for an ``Accept-Encoding``: ``zstd``, ``gzip`` or ``identity``."""
    codings = {
        item.partition(";")[0].strip()
        for item in accepted.lower().split(",")
        if not _ZERO_QUALITY.search(item)
    }
    return next((coding for coding in ("zstd", "gzip") if coding in codings), "identity")


def _compressor(coding: str) -> _Compressor | None:
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=LEVEL).compressobj()
    return zlib.compressobj(LEVEL, wbits=31) if coding == "gzip" else None


def _batches(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield *pieces* joined to batches of at least BATCH_BYTES, and what is left."""
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= BATCH_BYTES:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)
