"""Keep what a list holds in memory, up to date by a watch.

The list is read in pages, then changes come as they happen.  A watch that ends is
opened again where it stood; one whose place is no longer known (410) is begun anew
with a list.  What is read between the two is never a mixture: a list replaces all
at once.  https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Generic, Literal, Protocol, TypeVar

import aiohttp
import msgspec
import structlog
from msgspec import Struct

from monitor.collector.backoff import backoff_seconds
from monitor.collector.failure import EngineAway
from monitor.collector.kubernetes.api import EXPIRED, Api, Refused, Status
from monitor.collector.kubernetes.objects import ObjectMeta, key_of

log = structlog.get_logger(__name__)

WATCH_SECONDS = 300  # then the API server ends a watch; random up to twice that, as clients of Go do
# The API server sends a bookmark every minute: silence for longer is a connection that is no more.
SILENCE_SECONDS = 90.0
PAUSE_SECONDS = 1.0  # at least, from one watch to the next: a proxy may cut each at once
EVENT_LIMIT_BYTES = 16 * 1024 * 1024  # etcd takes objects up to 1.5 MiB


class Named(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """What every object has."""
        ...


Item = TypeVar("Item", bound=Named)


class Event(Struct, frozen=True):
    """A line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class BookmarkMeta(Struct, frozen=True, rename="camel"):
    """Where a watch stands."""

    resource_version: str


class Bookmark(Struct, frozen=True):
    """Tells where a watch stands, and nothing else."""

    metadata: BookmarkMeta


class Reflector(Generic[Item]):
    """The objects below *path*, by ``namespace/name``.

    Args:
        kind: What they are decoded as.
        accept: Other forms than the whole, of their list and of one.
        changed: Called after each change.

    Attributes:
        items: The objects; complete once ``synced`` is set.
        error: Why it cannot be read at present.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        kind: type[Item],
        *,
        accept: tuple[str, str] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._path = path
        self._kind = kind
        self._accept_list = accept[0] if accept else None
        self._accept_one = accept[1] if accept else None
        self._changed = changed
        self._decoder = msgspec.json.Decoder(kind)
        self._version = ""
        self._failing_since: float | None = None
        self.items: dict[str, Item] = {}
        self.synced = asyncio.Event()
        self.error: EngineAway | None = None

    @property
    def failing_seconds(self) -> float:
        """For how long it has not been up to date; 0 while it is."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    async def follow_forever(self) -> None:
        """List and watch, for ever."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._list()
                failures = await self._watch(failures)
            except EngineAway as error:
                self._note(error)
                log.debug("watch ended", path=self._path, error=str(error))
                await asyncio.sleep(backoff_seconds(failures, 0.0, random.random()))  # noqa: S311 (jitter)
                failures += 1

    async def _list(self) -> None:
        items: dict[str, Item] = {}
        version = ""
        async for page in self._api.pages(self._path, self._kind, self._accept_list):
            for item in page.items or ():
                items[key_of(item.metadata)] = item
            version = page.metadata.resource_version
        self.items, self._version = items, version
        self._came()
        self.synced.set()
        self._changed()

    async def _watch(self, failures: int) -> int:
        """Follow one watch to its end; return the failures before the next, 0 if anything came."""
        query = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(WATCH_SECONDS, 2 * WATCH_SECONDS)),  # noqa: S311 (jitter)
        }
        began = time.monotonic()
        try:
            async with self._api.stream(self._path, query, SILENCE_SECONDS, self._accept_one) as content:
                self._came()
                async for line in lines_of(content):
                    failures = 0
                    self._take(line)
        except Refused as error:
            if error.status == EXPIRED:
                self._version = ""
            raise
        await asyncio.sleep(max(0.0, PAUSE_SECONDS - (time.monotonic() - began)))
        return failures

    def _take(self, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line, type=Event)
            if event.type == "ERROR":
                status = msgspec.json.decode(event.object, type=Status)
                self._version = ""  # whatever it is, a list tells the truth
                raise Refused(status.code, status)
            if event.type == "BOOKMARK":
                self._version = msgspec.json.decode(event.object, type=Bookmark).metadata.resource_version
                return
            item = self._decoder.decode(event.object)
        except ValueError as error:
            self._version = ""
            raise EngineAway(f"the API server's watch cannot be read: {error}") from error
        key = key_of(item.metadata)
        if event.type == "DELETED":
            self.items.pop(key, None)
        else:
            self.items[key] = item
        self._version = item.metadata.resource_version
        self._changed()

    def _came(self) -> None:
        self.error = self._failing_since = None

    def _note(self, error: EngineAway) -> None:
        self.error = error
        if self._failing_since is None:
            self._failing_since = time.monotonic()


async def lines_of(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, which may be longer than its buffer.

    Raises:
        EngineAway: One does not end.
    """
    rest = bytearray()
    while chunk := await content.readany():
        first, newline, last = chunk.rpartition(b"\n")
        if newline:
            rest += first
            for line in bytes(rest).split(b"\n"):
                if line:
                    yield line
            rest = bytearray(last)
        else:
            rest += chunk
        if len(rest) > EVENT_LIMIT_BYTES:
            raise EngineAway("the API server's watch has a line without end")
