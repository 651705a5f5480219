"""Read an agent's lines as they come: plain, gzip or zstd, for as long as the body lasts.

What is decompressed at a time is bounded, and so is a line: a bomb costs its sender
more than us.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import zstandard
from aiohttp import StreamReader, web

from monitor.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType
from monitor.logs.tail.lines.events import Line, line_of
from monitor.web.codec import PIECE_BYTES, ZSTD_WINDOW_BYTES, decode
from monitor.wire.tail import TailLine

LINE_BYTES = 512 * 1024  # of JSON: a message of 64 KiB in its longest spelling
ZSTD_INPUT_BYTES = 1024  # zstd expands at most about 20,000 times: 20 MiB at the worst


class LineReader:
    """The lines of one body.

    Attributes:
        size: Bytes that were read, decompressed.
    """

    def __init__(self, request: web.Request) -> None:
        """Begin to read.

        Raises:
            UnsupportedMediaType: An encoding other than gzip, zstd and identity.
        """
        self.size = 0
        self._content: StreamReader = request.content
        self._encoding = request.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
        if self._encoding not in ("identity", "gzip", "x-gzip", "zstd"):
            raise UnsupportedMediaType("content encoding: expected gzip, zstd or identity")
        self._gzip = zlib.decompressobj(wbits=31)
        self._zstd = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES).decompressobj()
        self._is_open = False  # something compressed has begun and not ended
        self._rest = b""
        self._number = 0

    @property
    def ended(self) -> bool:
        """Whether the whole body was read."""
        return self._content.at_eof()

    async def read(self) -> bytes:
        """Return what has come of the body, waiting for something; empty at its end.

        It may be cancelled without a loss.
        """
        return await self._content.readany()

    def lines(self, data: bytes) -> Iterator[list[Line]]:
        """Yield the lines that are complete with *data*; at the body's end the last one too.

        Each list is of what was decompressed at a time.

        Raises:
            BadRequest: Damaged, or a line is malformed; says which and why.
            PayloadTooLarge: A line is longer than 512 KiB.
        """
        for piece in self._pieces(data):
            self.size += len(piece)
            *complete, self._rest = (self._rest + piece).split(b"\n")
            if len(self._rest) > LINE_BYTES:
                raise PayloadTooLarge
            if lines := [self._line(text) for text in complete if self._counted(text)]:
                yield lines
        if self.ended:
            self._check_end()
        if self.ended and self._counted(self._rest):
            yield [self._line(self._rest)]

    def _counted(self, text: bytes) -> bool:
        self._number += 1
        return bool(text) and not text.isspace()

    def _line(self, text: bytes) -> Line:
        try:
            return line_of(decode(text, TailLine))
        except BadRequest as error:
            why = error.text.removeprefix("body: ")
            raise BadRequest(f"line {self._number}: {why}", field=error.field) from None

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        if self._encoding == "identity":
            yield data
        elif self._encoding == "zstd":
            yield from self._unzstd(data)
        else:
            yield from self._gunzip(data)

    def _check_end(self) -> None:
        if self._is_open:
            name = "zstd" if self._encoding == "zstd" else "gzip"
            raise BadRequest(f"body: {name} data ends early")

    def _gunzip(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._gzip.eof:  # a gzip file may have several members
                    self._gzip = zlib.decompressobj(wbits=31)
                yield self._gzip.decompress(data, PIECE_BYTES)
                data = self._gzip.unconsumed_tail or self._gzip.unused_data
                self._is_open = not self._gzip.eof
        except zlib.error:
            raise BadRequest("body: not valid gzip") from None

    def _unzstd(self, data: bytes) -> Iterator[bytes]:
        try:
            for start in range(0, len(data), ZSTD_INPUT_BYTES):
                rest = data[start : start + ZSTD_INPUT_BYTES]
                while rest:
                    if self._zstd.eof:
                        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
                        self._zstd = decompressor.decompressobj()
                    yield self._zstd.decompress(rest)
                    rest = self._zstd.unused_data
                    self._is_open = not self._zstd.eof
        except zstandard.ZstdError:
            raise BadRequest("body: not valid zstd") from None
