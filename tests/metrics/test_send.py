import gzip
import json
import os

import aiohttp
import pytest
import zstandard
from aiohttp import web

from monitor.metrics.send import BATCH_BYTES, COMPRESS_BYTES, content_coding, send


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", "identity"),
        ("gzip, deflate", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("ZSTD;q=0.5, gzip", "zstd"),
        ("gzip;q=0", "identity"),
        ("zstd; q=0.000, gzip; q=0.1", "gzip"),
        ("br", "identity"),
        ("xgzip", "identity"),
    ],
)
def test_the_coding_is_the_cheapest_that_is_accepted(accepted, coding):
    assert content_coding(accepted) == coding


@pytest.fixture
async def sender():
    """A server that sends the pieces it is given."""
    pieces = []

    async def answer(request):
        return await send(request, iter(pieces))

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{runner.addresses[0][1]}",
        auto_decompress=False,
        skip_auto_headers=["Accept-Encoding"],
    ) as session:
        yield pieces, session
    await runner.cleanup()


UNPACKED = {
    "identity": lambda body: body,
    "gzip": gzip.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
}
SIZES = [0, 1, COMPRESS_BYTES - 1, COMPRESS_BYTES, BATCH_BYTES, BATCH_BYTES + 1, 3 * BATCH_BYTES + 7]


@pytest.mark.parametrize("coding", list(UNPACKED))
@pytest.mark.parametrize("size", SIZES)
async def test_an_answer_arrives_whole_in_every_coding(sender, coding, size):
    pieces, session = sender
    body = json.dumps("x" * size).encode()
    pieces[:] = [body[at : at + 10_000] for at in range(0, len(body), 10_000)]

    async with session.get("/", headers={"Accept-Encoding": coding}) as response:
        sent = await response.read()

    assert UNPACKED[response.headers.get("Content-Encoding", "identity")](sent) == body
    assert response.headers["Content-Type"] == "application/json"
    small = len(body) < COMPRESS_BYTES
    assert response.headers.get("Content-Encoding", "identity") == ("identity" if small else coding)
    assert ("Vary" in response.headers) is not small


async def test_an_answer_larger_than_a_batch_is_sent_while_it_is_made(sender):
    pieces, session = sender
    pieces[:] = [os.urandom(BATCH_BYTES)] * 3

    async with session.get("/") as response:
        assert await response.read() == b"".join(pieces)

    assert response.headers["Transfer-Encoding"] == "chunked"
