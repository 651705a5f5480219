"""Read one HTTP/1.1 response from bytes as they come.  No I/O.

A body ends by its length, by its last chunk, or with the connection; it is
bounded while it is read, so what is too large is never held whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

HEAD_BYTES = 64 * 1024  # of status line and headers; VictoriaMetrics sends below 1 KiB
CHUNK_LINE_BYTES = 1024  # of a chunk's size with its extensions
_BODILESS = frozenset((204, 304))


class Answer(NamedTuple):
    """A complete response."""

    status: int
    body: bytes


class ExchangeError(Exception):
    """Why a request has no answer."""


class UnreachableError(ExchangeError):
    """There is no connection, no answer in time, or an answer that is no HTTP."""


class TooLargeError(ExchangeError):
    """The answer's body is above the caller's bound."""


class Reader:
    """Reads one response: its head, then a body of known length, in chunks, or up to the end."""

    def __init__(self, most_bytes: int, sink: Callable[[bytes], None] | None = None) -> None:
        """Take the bound of the body, and who gets a successful one as it comes; then the answer has none."""
        self._sink = sink
        self.begun = False
        self._status = 0
        self.keeps_alive = True
        self._pieces: list[bytes] = []
        self._most = most_bytes
        self._size = 0
        self._rest = b""  # read and not yet understood
        self._missing: int | None = None  # bytes of the body, or of the chunk and its line end
        self._chunked = False
        self._in_body = False
        self._last_chunk = False

    @property
    def answer(self) -> Answer:
        """The response, once it is complete."""
        return Answer(self._status, b"".join(self._pieces))

    def feed(self, data: bytes) -> bool:
        """Take *data*; tell whether the response is complete.

        Raises:
            TooLargeError: The body is above its bound.
            UnreachableError: This is no HTTP.
        """
        self.begun = True
        if not self._in_body:
            data = self._rest + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > HEAD_BYTES:
                    raise UnreachableError("the answer's head is too long")
                self._rest = data
                return False
            self._read_head(data[:end])
            self._rest = b""
            data = data[end + 4 :]
        return self._read_chunks(data) if self._chunked else self._read_plain(data)

    def end(self) -> bool:
        """Tell whether the response is complete because the connection ended."""
        return self._in_body and not self._chunked and self._missing is None

    def _read_head(self, head: bytes) -> None:
        status_line, *lines = head.split(b"\r\n")
        words = status_line.split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise UnreachableError("the answer is no HTTP")
        self._status = int(words[1])
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip().lower()
        connection = headers.get(b"connection", b"")
        self.keeps_alive = connection != b"close" and words[0] != b"HTTP/1.0"
        self._in_body = True
        self._chunked = headers.get(b"transfer-encoding") == b"chunked"
        if self._chunked or self._status in _BODILESS:
            self._missing = 0
        elif (length := headers.get(b"content-length")) is not None:
            if not length.isdigit():
                raise UnreachableError("the answer's length is no number")
            self._missing = int(length)
            self._check_size(self._missing)
        else:
            self.keeps_alive = False

    def _read_plain(self, data: bytes) -> bool:
        self._keep(data)
        if self._missing is None:
            return False
        self._missing -= len(data)
        if self._missing < 0:
            raise UnreachableError("the answer is longer than it said")
        return self._missing == 0

    def _read_chunks(self, data: bytes) -> bool:
        """Take chunks; ``_missing`` counts the present one with its line end of two bytes."""
        data, at = self._rest + data, 0
        self._rest = b""
        while True:
            if self._missing:
                taken = min(self._missing, len(data) - at)
                if (content := min(taken, self._missing - 2)) > 0:
                    self._keep(data[at : at + content])
                self._missing -= taken
                at += taken
                if self._missing:
                    return False
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > CHUNK_LINE_BYTES:
                    raise UnreachableError("a chunk's size is too long")
                self._rest = data[at:]
                return False
            line = data[at:end]
            at = end + 2
            if self._last_chunk:  # trailers, up to an empty line
                if not line:
                    return True
                continue
            self._begin_chunk(line)

    def _begin_chunk(self, line: bytes) -> None:
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            raise UnreachableError("a chunk's size is no number") from None
        if size < 0:
            raise UnreachableError("a chunk's size is negative")
        self._last_chunk = size == 0
        self._missing = size + 2 if size else 0
        self._check_size(size)

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._size += len(piece)
            self._check_size(0)
            if self._sink is not None and self._status == 200:
                self._sink(piece)
            else:
                self._pieces.append(piece)

    def _check_size(self, more: int) -> None:
        if self._size + more > self._most:
            raise TooLargeError
