"""Read and write bodies: JSON by msgspec, gzip and zstd under a cap.

Decompression is ours and happens after authentication, in pieces that give the
event loop back in between: a bomb costs its sender more than us.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from typing import Any, TypeVar

import msgspec
import zstandard
from aiohttp import web

from monitor.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType

T = TypeVar("T")

BODY_BYTES = 16 * 1024 * 1024  # after decompression (contract 3)
PIECE_BYTES = 256 * 1024  # decompressed between two turns of the event loop: about 1 ms
BODY_SECONDS = 30.0  # a body that takes longer is held back on purpose
FRAMES = 64  # gzip members or zstd frames of one body: each more costs a copy, and brings nobody anything
ZSTD_WINDOW_BYTES = 8 * 1024 * 1024  # what RFC 8878 asks every decoder to support

_encoder = msgspec.json.Encoder()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

# msgspec's words for what was expected, and the words of JSON.
_EXPECTED = re.compile(r"^Expected `(?P<want>[^`]+)`(?P<more>[^,]*)(?:, got `(?P<got>[^`]+)`)?")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_PATH = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`$")
_JSON_WORDS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "int | float": "number",
}


def reply(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return *value* as a JSON response."""
    return web.Response(
        body=_encoder.encode(value), status=status, headers=headers, content_type="application/json"
    )


def no_content() -> web.Response:
    """Return an empty 204 response."""
    return web.Response(status=204)


def encode(value: Any) -> bytes:
    """Return *value* as JSON."""
    return _encoder.encode(value)


async def read_body(request: web.Request, type_: type[T], *, optional: bool = False) -> T:
    """Decode the JSON body of *request* as *type_*.

    With *optional*, an absent body counts as ``{}``.

    Raises:
        BadRequest: Not JSON or not of that shape; names the field.
        PayloadTooLarge: Above 16 MiB, before or after decompression.
        UnsupportedMediaType: Unknown content type, charset or encoding.
    """
    check_type(request)
    body = await read_bytes(request)
    if optional and not body.strip():
        body = b"{}"
    return decode(body, type_)


def check_type(request: web.Request) -> None:
    """Refuse a body that says it is something else than JSON in UTF-8.

    Raises:
        UnsupportedMediaType: Unknown content type or charset.
    """
    if "Content-Type" not in request.headers:
        return
    media = request.content_type
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise UnsupportedMediaType("content type: expected application/json")
    charset = request.charset
    if charset and charset.lower() not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaType("content type: expected charset utf-8")


async def read_bytes(request: web.Request, *, limit: int = BODY_BYTES) -> bytes:
    """Return the decompressed body.

    Raises:
        BadRequest: Not complete in time, or damaged.
        PayloadTooLarge: Above *limit* bytes, before or after decompression.
        UnsupportedMediaType: An encoding other than gzip, zstd and identity.
    """
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
    if encoding not in ("identity", "gzip", "x-gzip", "zstd"):
        raise UnsupportedMediaType("content encoding: expected gzip, zstd or identity")
    if (request.content_length or 0) > limit:
        raise PayloadTooLarge
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        raise BadRequest(f"body: not complete within {BODY_SECONDS:.0f} s") from None
    if len(body) > limit:
        raise PayloadTooLarge
    if encoding == "identity":
        return body
    return await (_unzstd(body, limit) if encoding == "zstd" else _gunzip(body, limit))


async def _gunzip(body: bytes, limit: int) -> bytes:
    if not body:
        raise BadRequest("body: not valid gzip")
    pieces: list[bytes] = []
    size = 0
    rest = body
    try:
        for _ in range(FRAMES):  # a gzip file may have several members
            stream = zlib.decompressobj(wbits=31)
            while not stream.eof:
                piece = stream.decompress(rest, PIECE_BYTES)
                rest = stream.unconsumed_tail
                size += len(piece)
                if size > limit:
                    raise PayloadTooLarge
                if not piece and not rest and not stream.eof:
                    raise BadRequest("body: gzip data ends early")
                pieces.append(piece)
                if size > PIECE_BYTES:
                    await asyncio.sleep(0)
            rest = stream.unused_data
            if not rest:
                return b"".join(pieces)
            await asyncio.sleep(0)
    except zlib.error:
        raise BadRequest("body: not valid gzip") from None
    raise BadRequest(f"body: more than {FRAMES} gzip members")


async def _unzstd(body: bytes, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    frames = 1
    try:
        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        stream = decompressor.decompressobj()
        # Zstd expands at most about 20,000 times: 1 KiB of input is 20 MiB at the worst.
        for start in range(0, len(body), 1024):
            rest = body[start : start + 1024]
            while rest:
                if stream.eof:
                    frames += 1
                    stream = decompressor.decompressobj()
                if frames > FRAMES:
                    raise BadRequest(f"body: more than {FRAMES} zstd frames")
                piece = stream.decompress(rest)
                rest = stream.unused_data
                size += len(piece)
                if size > limit:
                    raise PayloadTooLarge
                pieces.append(piece)
                if len(piece) > PIECE_BYTES:
                    await asyncio.sleep(0)
    except zstandard.ZstdError:
        raise BadRequest("body: not valid zstd") from None
    if not stream.eof:
        raise BadRequest("body: zstd data ends early")
    return b"".join(pieces)


def decode(body: bytes, type_: type[T]) -> T:
    """Decode JSON as *type_*.

    Raises:
        BadRequest: Not JSON or not of that shape, as ``containers[3].name: expected string``.
    """
    decoder = _decoders.get(type_)
    if decoder is None:
        decoder = _decoders[type_] = msgspec.json.Decoder(type_)
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise explain(error) from None
    except UnicodeDecodeError:
        raise BadRequest("body: not valid UTF-8") from None
    except msgspec.DecodeError as error:
        position = re.search(r"byte (\d+)", str(error))
        at = f" at byte {position[1]}" if position else ""
        raise BadRequest(f"body: not valid JSON{at}") from None
    except RecursionError:
        raise BadRequest("body: JSON is nested too deeply") from None


def explain(error: msgspec.ValidationError) -> BadRequest:
    """Return msgspec's complaint in the API's words, with the path of the field."""
    text = str(error)
    path = ""
    if at := _PATH.search(text):
        path = at["path"].lstrip(".")
        text = text[: at.start()]
    if missing := _MISSING.match(text):
        path = f"{path}.{missing['name']}".lstrip(".")
        text = "required"
    elif expected := _EXPECTED.match(text):
        words = [_JSON_WORDS.get(word.strip(), word.strip()) for word in expected["want"].split("|")]
        kinds = [word for word in dict.fromkeys(words) if word != "null"]
        if "number" in kinds and "integer" in kinds:
            kinds.remove("integer")
        text = f"expected {' or '.join(kinds)}{_bounds(expected['more'])}"
    else:
        text = text.replace("`", "")
    return BadRequest(f"{path or 'body'}: {text}", field=path or None)


def _bounds(more: str) -> str:
    if more == " of length >= 1":
        return " that is not empty"
    return more
