"""HTTP as bytes over a socket, for what aiohttp's own client is too polite to send."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

ANSWER_SECONDS = 60.0  # nothing that is sent here may take that long


class Answer(NamedTuple):
    """One response as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """The error's text; fails if the body is not the documented form."""
        assert self.headers["content-type"].startswith("application/json"), self.body
        text = json.loads(self.body)["error"]
        assert isinstance(text, str)
        return text


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status_line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(status_line.split()[1]), headers, body)


async def sent_raw(base_url: str, data: bytes, answers: int = 1) -> list[Answer]:
    """Send bytes as they are and return the first *answers* responses."""
    place = urlsplit(base_url)
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            writer.write(data)
            await writer.drain()
            return [await read_answer(reader) for _ in range(answers)]
        finally:
            writer.close()


def request_head(method: str, path: str, headers: dict[str, str], *more: bytes) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: monitor",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return (
        "\r\n".join(lines).encode("latin-1") + b"\r\n" + b"".join(line + b"\r\n" for line in more) + b"\r\n"
    )


async def refusal(response: Any) -> tuple[int, str]:
    """Return status and text of an error in the documented form."""
    assert response.content_type == "application/json", await response.text()
    return response.status, (await response.json())["error"]
