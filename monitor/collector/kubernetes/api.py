"""A cluster's API over HTTP: answers in pages, answers that do not end, and refusals with their reason.

https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from monitor.collector.failure import EngineAway
from monitor.collector.kubernetes.access import Access

REQUEST_SECONDS = 30.0  # a page of a large cluster's list takes the API server a second or two
CONNECT_SECONDS = 10.0
PAGE_ITEMS = 250  # a pod is about 10 KB of JSON: a page is held whole while it is decoded
TEXT_LIMIT = 500  # characters of the API server's words that are logged
EXPIRED = 410  # as a status, and as the code of a watch's error: list again

Item = TypeVar("Item")
Reply = TypeVar("Reply")


class ListMeta(Struct, frozen=True, rename="camel"):
    """What a page says of its list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(Struct, Generic[Item], frozen=True):
    """One page of a list."""

    items: list[Item] | None = None
    metadata: ListMeta = ListMeta()


class Cause(Struct, frozen=True):
    """One reason of a refusal; of a conflict it names the field and its owner."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(Struct, frozen=True):
    """The reasons of a refusal."""

    causes: list[Cause] | None = None


class Status(Struct, frozen=True):
    """What the API server answers instead of the thing."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


class Refused(EngineAway):
    """The API server answers, but not with what it was asked for.

    Attributes:
        status: The HTTP status.
        told: What it said about it.
    """

    def __init__(self, status: int, told: Status) -> None:
        self.status = status
        self.told = told
        super().__init__(f"the API server answered {status}: {told.message[:TEXT_LIMIT]}")


class Api:
    """A connection to one API server; use it as an async context manager."""

    def __init__(self, access: Access, user_agent: str) -> None:
        self._access = access
        self._user_agent = user_agent

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            trust_env=self._access.trust_env,
            # Watches and logs stay open: whoever opens them bounds how many.
            connector=aiohttp.TCPConnector(limit=0),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(
        self, path: str, kind: type[Reply], query: dict[str, str] | None = None, accept: str | None = None
    ) -> Reply:
        """Return the decoded answer to a GET.

        Raises:
            Refused: Any other status than 200.
            EngineAway: No answer, or none that can be read.
        """
        limit = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        headers = {"Accept": accept} if accept else {}
        async with self._request("GET", path, limit, query, headers=headers) as response:
            return _decoded(await response.read(), kind)

    async def patch(
        self, path: str, body: bytes, content_type: str, query: dict[str, str], kind: type[Reply]
    ) -> Reply:
        """Return the decoded answer to a PATCH.

        Raises:
            Refused, EngineAway: As ``get``.
        """
        limit = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        headers = {"Content-Type": content_type}
        async with self._request("PATCH", path, limit, query, headers=headers, body=body) as response:
            return _decoded(await response.read(), kind)

    async def pages(
        self, path: str, kind: type[Item], accept: str | None = None
    ) -> AsyncIterator[Page[Item]]:
        """Yield a list page by page; ``resource_version`` of the last one is where a watch goes on.

        Raises:
            Refused: 410 where the list took so long that its rest is gone: begin again.
            EngineAway: As ``get``.
        """
        query = {"limit": str(PAGE_ITEMS)}
        while True:
            page = await self.get(path, Page[kind], query, accept)  # type: ignore[valid-type]
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    @asynccontextmanager
    async def stream(
        self, path: str, query: dict[str, str], silence_seconds: float, accept: str | None = None
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open an answer that may never end; what fails while it is read is told as here.

        Raises:
            Refused: Any other status than 200.
            EngineAway: No answer, or silence for too long in its midst.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        headers = {"Accept": accept} if accept else {}
        async with self._request("GET", path, limit, query, headers=headers) as response:
            yield response.content

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        limit: aiohttp.ClientTimeout,
        query: dict[str, str] | None,
        *,
        headers: dict[str, str],
        body: bytes | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        credentials = await self._access.credentials()
        extra: dict[str, Any] = {}
        if self._access.server_name:
            extra["server_hostname"] = self._access.server_name
        try:
            async with self._session.request(
                method,
                self._access.server / path,
                params=query,
                data=body,
                headers=credentials.headers | headers,
                ssl=credentials.tls,
                proxy=self._access.proxy,
                timeout=limit,
                allow_redirects=False,
                **extra,
            ) as response:
                if response.status == 401:
                    self._access.refused()
                if response.status != 200:
                    raise Refused(response.status, status_of(await response.read()))
                yield response
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise EngineAway(
                f"the API server at {self._access.server} cannot be reached: {error or type(error).__name__}"
            ) from error


def status_of(body: bytes) -> Status:
    """Return what the API server said; proxies before it say it in their own way."""
    try:
        return msgspec.json.decode(body, type=Status)
    except ValueError:
        return Status(message=" ".join(body[: 4 * TEXT_LIMIT].decode(errors="replace").split()))


def _decoded(body: bytes, kind: type[Reply]) -> Reply:
    try:
        return msgspec.json.decode(body, type=kind)
    except ValueError as error:
        raise EngineAway(f"the API server's answer cannot be read: {error}") from error
