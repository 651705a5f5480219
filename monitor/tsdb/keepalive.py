"""A small HTTP/1.1 client that keeps its connections: what asking VictoriaMetrics needs, no more.

One request at a time on a connection, answers bounded in time and size.  Whoever
stops waiting closes the connection, which ends the work on the other side.  A
connection that the server closed while it lay idle costs one silent second attempt:
all that is asked here may be asked twice.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from monitor.tsdb.response import Answer, ExchangeError, Reader, UnreachableError

CONNECT_SECONDS = 5.0  # a server that needs longer to accept is away
IDLE_SECONDS = 30.0  # below VictoriaMetrics' own -http.idleConnTimeout of a minute
WATCH_SECONDS = 0.25  # between two looks whether a request's time is over or its client gone


class LeftError(ExchangeError):
    """Nobody waits for the answer any more."""


class Origin:
    """One server, with the connections to it that lie idle."""

    def __init__(self, base: str) -> None:
        """Take the URL below which every target lies, with ``user:password@`` if it needs them."""
        url = urlsplit(base)
        self._ssl = ssl.create_default_context() if url.scheme == "https" else None
        self._host = url.hostname or ""
        self._port = url.port or (443 if self._ssl else 80)
        self._path = url.path.rstrip("/")
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._look_timer: asyncio.TimerHandle | None = None
        host = f"[{self._host}]" if ":" in self._host else self._host
        headers = f"Host: {host}:{self._port}\r\nAccept-Encoding: identity\r\n"
        if url.username is not None:
            pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
            headers += f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
        self._headers = headers

    async def ask(
        self,
        target: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/x-www-form-urlencoded",
        seconds: float,
        most_bytes: int,
        left: Callable[[], bool] | None = None,
        sink: Callable[[bytes], None] | None = None,
    ) -> Answer:
        """GET *target*, or POST *body* to it.

        Args:
            target: Path and query below the base, percent-encoded.
            body: What is posted; None makes it a GET.
            content_type: Of *body*.
            seconds: Bound on the whole exchange, kept to a quarter of a second.
            most_bytes: Bound on the answer's body.
            left: Tells whether whoever wanted the answer has gone.
            sink: Gets the body of an answer with status 200 as it comes, instead of the answer.

        Raises:
            UnreachableError: No connection, no answer in time, or no HTTP.
            TooLargeError: The answer is above *most_bytes*.
            LeftError: *left* said so before the answer was complete.
        """
        request = self._request(target, body, content_type)
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            connection, fresh = await self._connection()
            self._busy.add(connection)
            if self._look_timer is None:
                self._look_timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._look)
            try:
                answer = await connection.exchange(request, deadline, Reader(most_bytes, sink), left)
            finally:
                self._busy.discard(connection)
            if answer is not None:
                if connection.reusable:
                    self._idle.append(connection)
                return answer
            if fresh:
                raise UnreachableError("the connection was closed before an answer")

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None

    def _look(self) -> None:
        """End the exchanges that nobody waits for or that take too long: one timer for all of them."""
        loop = asyncio.get_running_loop()
        for connection in self._busy:
            connection.look(loop.time())
        self._look_timer = loop.call_later(WATCH_SECONDS, self._look) if self._busy else None

    def _request(self, target: str, body: bytes | None, content_type: str) -> bytes:
        if body is None:
            return f"GET {self._path}{target} HTTP/1.1\r\n{self._headers}\r\n".encode()
        head = (
            f"POST {self._path}{target} HTTP/1.1\r\n{self._headers}"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def _connection(self) -> tuple[_Connection, bool]:
        """Return a connection and whether it was opened for this."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()  # the one used last: the others may time out
            if connection.alive and loop.time() - connection.idle_since < IDLE_SECONDS:
                return connection, False
            connection.close()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    _Connection, self._host, self._port, ssl=self._ssl
                )
        except (OSError, TimeoutError) as error:
            raise UnreachableError(
                f"{self._host}:{self._port}: {error or 'no connection in time'}"
            ) from error
        return connection, True


class _Connection(asyncio.Protocol):
    """One connection; ``exchange`` sends a request and gathers its answer."""

    def __init__(self) -> None:
        self.alive = False
        self.reusable = False
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer | None] | None = None
        self._reader = Reader(0)
        self._deadline = 0.0
        self._left: Callable[[], bool] | None = None

    async def exchange(
        self, request: bytes, deadline: float, reader: Reader, left: Callable[[], bool] | None
    ) -> Answer | None:
        """Return the answer, None if the connection ended before its first byte."""
        assert self._transport is not None
        assert self._answer is None, "one request at a time"
        answer: asyncio.Future[Answer | None] = self._loop.create_future()
        self._answer = answer
        self._reader = reader
        self.reusable = False
        self._deadline, self._left = deadline, left
        try:
            self._transport.write(request)
            return await answer
        finally:
            self._answer = self._left = None
            self.idle_since = self._loop.time()
            if not self.reusable:
                self.close()

    def look(self, now: float) -> None:
        """End the exchange if its time is over or nobody waits for it."""
        if self._answer is None or self._answer.done():
            return
        if self._left is not None and self._left():
            self._answer.set_exception(LeftError())
        elif now >= self._deadline:
            self._answer.set_exception(UnreachableError("no answer in time"))

    def close(self) -> None:
        """End the connection at once, whatever is under way on it."""
        self.alive = self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.alive = True

    def connection_lost(self, error: Exception | None) -> None:
        self.alive = self.reusable = False
        if self._answer is None or self._answer.done():
            return
        if not self._reader.begun:
            self._answer.set_result(None)
        elif self._reader.end():
            self._settle()
        else:
            self._answer.set_exception(UnreachableError(f"the answer broke off: {error or 'end of stream'}"))

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # nothing was asked: whatever this is, it answers nobody
            return
        try:
            complete = self._reader.feed(data)
        except ExchangeError as error:
            self._answer.set_exception(error)
            return
        if complete:
            self.reusable = self._reader.keeps_alive
            self._settle()

    def _settle(self) -> None:
        assert self._answer is not None
        self._answer.set_result(self._reader.answer)
