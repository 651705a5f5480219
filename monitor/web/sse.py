"""Streams of server-sent events that many clients may share.

Events are framed once and written to the transport of each client as they are: no task
wakes and nothing is copied for an event.  Writing never waits; whoever writes looks at
``backlog`` first and leaves out a client that does not read.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import HttpVersion11, web

MEDIA = "text/event-stream"
PING_SECONDS = 15.0  # below the usual 30-60 s idle timeout of proxies (contract 11)
PING: Final = b":\n\n"
BACKLOG_BYTES = 64 * 1024  # not yet taken by the client; whoever has more gets no more for now
END_SECONDS = 1.0  # for the last event to leave; a client that does not read is cut off

_HEADERS = {
    "Content-Type": MEDIA,  # UTF-8 by definition
    "Server": "monitor",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # or nginx keeps events back
    "X-Content-Type-Options": "nosniff",
}


def frame(events: bytes) -> bytes:
    """Return *events* as a chunk of HTTP/1.1, to be sent to any number of clients."""
    return b"%x\r\n%b\r\n" % (len(events), events)


def _unframed(chunk: bytes) -> bytes:
    return chunk[chunk.index(b"\r\n") + 2 : -2]


class EventStream:
    """The stream of one client, from ``open_stream``.

    Attributes:
        response: What the handler returns.
    """

    def __init__(self, response: web.StreamResponse, transport: asyncio.Transport, *, chunked: bool) -> None:
        self.response = response
        self._transport = transport
        self._chunked = chunked

    @property
    def is_gone(self) -> bool:
        """Whether the client has left."""
        return self._transport.is_closing()

    @property
    def backlog(self) -> int:
        """Bytes that were sent and that the client has not taken."""
        return self._transport.get_write_buffer_size()

    @property
    def is_behind(self) -> bool:
        """Whether the client should first take what it was sent."""
        return self._transport.get_write_buffer_size() > BACKLOG_BYTES

    def send(self, chunk: bytes) -> None:
        """Write a chunk made by ``frame``; to nobody if the client has left."""
        if not self._transport.is_closing():
            self._transport.write(chunk if self._chunked else _unframed(chunk))

    def send_events(self, events: bytes) -> None:
        """Frame *events* for this client alone and write them."""
        self.send(frame(events))

    def abort(self) -> None:
        """Cut the client off: it takes nothing any more."""
        self._transport.abort()

    async def end(self) -> None:
        """End the body; a client that does not take the rest in time is cut off."""
        if self.is_gone:
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                while self.backlog and not self.is_gone:
                    await asyncio.sleep(0.01)
                await self.response.write_eof()
        except TimeoutError:
            self.abort()
        except ConnectionError:
            return


async def open_stream(request: web.Request, first: bytes) -> EventStream:
    """Begin the answer to *request* with the events *first*.

    After this no error can become a status: rights and existence are checked before.

    Raises:
        ConnectionResetError: The client has left.
    """
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    response = web.StreamResponse(headers=_HEADERS)
    if chunked := request.version >= HttpVersion11:
        response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(first)
    return EventStream(response, transport, chunked=chunked)
