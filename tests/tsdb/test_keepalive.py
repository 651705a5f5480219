import asyncio
from contextlib import asynccontextmanager

import pytest

from monitor.tsdb.keepalive import LeftError, Origin
from monitor.tsdb.response import Answer, TooLargeError, UnreachableError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BOUNDS = {"seconds": 5.0, "most_bytes": 1000}


class Server:
    """A server that follows a script: for each connection a list of what it answers to each request."""

    def __init__(self, *connections):
        self.script = list(connections)
        self.requests = []
        self.opened = 0
        self.closed = asyncio.Event()

    async def serve(self, reader, writer):
        answers = self.script[min(self.opened, len(self.script) - 1)]
        self.opened += 1
        try:
            for answer in answers:
                self.requests.append(await request_of(reader))
                if answer is None:
                    await reader.read(1)  # silence, until the client goes
                    return
                writer.write(answer)
                await writer.drain()
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()
            self.closed.set()


async def request_of(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), b":0")
    return head + await reader.readexactly(int(length.split(b":")[1]))


@asynccontextmanager
async def served(*connections, path=""):
    script = Server(*connections)
    listener = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    origin = Origin(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}{path}")
    try:
        yield script, origin
    finally:
        origin.close()
        listener.close()
        await listener.wait_closed()
        await asyncio.sleep(0)


async def test_one_connection_serves_one_request_after_the_other():
    async with served([OK, OK, OK]) as (server, origin):
        answers = [await origin.ask("/x?a=b", **BOUNDS) for _ in range(3)]

    assert answers == [Answer(200, b"ok")] * 3
    assert server.opened == 1


async def test_requests_at_the_same_time_have_connections_of_their_own():
    async with served([OK, OK]) as (server, origin):
        await asyncio.gather(*(origin.ask("/x", **BOUNDS) for _ in range(5)))

        assert server.opened == 5
        await origin.ask("/x", **BOUNDS)
        assert server.opened == 5


async def test_a_request_is_written_as_http():
    async with served([OK, OK], path="/select/0/prometheus/") as (server, origin):
        await origin.ask("/api?x=1", b"a=b", **BOUNDS)
        await origin.ask("/metrics", **BOUNDS)

    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /select/0/prometheus/api?x=1 HTTP/1.1"
    assert b"Accept-Encoding: identity" in lines
    assert b"Content-Type: application/x-www-form-urlencoded" in lines
    assert b"Content-Length: 3" in lines
    assert body == b"a=b"
    assert server.requests[1].startswith(b"GET /select/0/prometheus/metrics HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_user_and_password_of_the_url_are_sent_as_basic_credentials():
    async with served([OK]) as (server, origin):
        port = origin._port
        named = Origin(f"http://me:p%40ss@127.0.0.1:{port}")
        await named.ask("/", **BOUNDS)
        named.close()

    assert b"Authorization: Basic bWU6cEBzcw==\r\n" in server.requests[0]


async def test_an_idle_connection_that_the_server_closed_costs_a_second_attempt_only():
    async with served([OK], [OK]) as (server, origin):
        await origin.ask("/1", **BOUNDS)
        await server.closed.wait()

        assert await origin.ask("/2", **BOUNDS) == Answer(200, b"ok")
        assert server.opened == 2


async def test_a_connection_that_is_closed_instead_of_answering_again_is_replaced():
    async with served([OK, b""], [OK]) as (server, origin):
        await origin.ask("/1", **BOUNDS)

        # The second request reaches the first connection, which ends without a byte.
        assert await origin.ask("/2", **BOUNDS) == Answer(200, b"ok")
        assert [request.split()[1] for request in server.requests] == [b"/1", b"/2", b"/2"]


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"nonsense\r\n\r\n"]
)
async def test_a_new_connection_without_a_whole_answer_is_an_error(sent):
    async with served([sent]) as (server, origin):
        with pytest.raises(UnreachableError):
            await origin.ask("/", **BOUNDS)

        assert server.opened == 1


async def test_nobody_listening_is_an_error():
    async with served([OK]) as (_, origin):
        pass

    with pytest.raises(UnreachableError):
        await origin.ask("/", **BOUNDS)


async def test_silence_ends_in_time_and_closes_the_connection():
    async with served([None], [OK]) as (server, origin):
        with pytest.raises(UnreachableError, match="in time"):
            await origin.ask("/", seconds=0.05, most_bytes=10)

        await asyncio.wait_for(server.closed.wait(), 5)
        assert await origin.ask("/", **BOUNDS) == Answer(200, b"ok")


async def test_cancelling_closes_the_connection():
    async with served([None], [OK]) as (server, origin):
        asking = asyncio.create_task(origin.ask("/", **BOUNDS))
        while not server.requests:
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        await asyncio.wait_for(server.closed.wait(), 5)


async def test_whoever_leaves_ends_the_request():
    left = False
    async with served([None], [OK]) as (server, origin):
        asking = asyncio.create_task(origin.ask("/", left=lambda: left, **BOUNDS))
        while not server.requests:
            await asyncio.sleep(0.001)
        assert not asking.done()
        left = True
        with pytest.raises(LeftError):
            await asking

        await asyncio.wait_for(server.closed.wait(), 5)


async def test_an_answer_above_the_bound_is_refused_and_its_connection_closed():
    async with served([OK], [OK]) as (server, origin):
        with pytest.raises(TooLargeError):
            await origin.ask("/", seconds=5.0, most_bytes=1)
        await origin.ask("/", **BOUNDS)

        assert server.opened == 2


async def test_a_body_without_a_length_is_read_to_its_end():
    async with served([b"HTTP/1.1 200 OK\r\n\r\nto the end"]) as (_, origin):
        assert await origin.ask("/", **BOUNDS) == Answer(200, b"to the end")
