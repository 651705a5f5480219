"""Wake waiting requests of any replica with Postgres NOTIFY.

A notification is only a hint to look at the table again.  Whoever waits also
looks on its own after a while, so a lost hint costs time, never data.  A process
listens on one connection; a silent one is found by its heartbeat and replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web
from prometheus_client import Counter

from monitor.db.postgres import connect, connection, translated
from monitor.errors import StorageUnavailable

if TYPE_CHECKING:
    import asyncpg

    from monitor.config import Config
    from monitor.db.postgres import Connection

CHANNEL = "monitor"
APPLICATION = "monitor wake-ups"  # tells the connection from the pool's in pg_stat_activity
HEARTBEAT_SECONDS = 10.0  # LISTEN gives no sign when its connection is silently cut
ANSWER_SECONDS = 5.0  # a server that needs longer for SELECT 1 is away
RETRY_SECONDS = (0.1, 5.0)  # first and longest pause before connecting again
GATHER_SECONDS = 0.01  # between two notifications of a process: what comes meanwhile shares the next
KEYS_A_NOTIFICATION = 100  # Postgres takes 8,000 bytes; a key has less than 80

RECONNECTS = Counter("monitor_wakeups_connections_lost_total", "Listening connections that were lost.")

log = structlog.get_logger()


class Wakeups:
    """What is called when somebody notifies its key."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._callbacks: dict[str, list[Callable[[], object]]] = {}

    @contextmanager
    def calling(self, key: str, callback: Callable[[], object]) -> Iterator[None]:
        """Call *callback* at each hint for *key*, and when hints may have been lost.

        It is called thousands of times a second, between others': it is quick, does not
        raise, and begins or ends no other such block.
        """
        callbacks = self._callbacks.setdefault(key, [])
        callbacks.append(callback)
        try:
            yield
        finally:
            callbacks.remove(callback)
            if not callbacks:
                del self._callbacks[key]

    @contextmanager
    def listening(self, key: str) -> Iterator[asyncio.Event]:
        """Lend an event that is set by each hint for *key*; whoever waits clears it.

        It is also set when hints may have been lost.
        """
        event = asyncio.Event()
        with self.calling(key, event.set):
            yield event

    def _heard(self, conn: Any, pid: int, channel: str, keys: Any) -> None:
        for key in keys.split(" "):
            for callback in self._callbacks.get(key, ()):
                callback()

    def _wake_all(self) -> None:
        for callbacks in self._callbacks.values():
            for callback in callbacks:
                callback()

    async def listen(self) -> None:
        """Listen until cancelled, on a new connection whenever one is lost."""
        pause = RETRY_SECONDS[0]
        while True:
            try:
                conn = await connect(self._dsn)
                pause = RETRY_SECONDS[0]
                try:
                    await self._listen_on(conn)
                finally:
                    conn.terminate()
            except StorageUnavailable as error:
                RECONNECTS.inc()
                log.warning("not listening for wake-ups", cause=repr(error.__cause__), retry_seconds=pause)
                await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads processes
                pause = min(pause * 2, RETRY_SECONDS[1])

    async def _listen_on(self, conn: asyncpg.Connection[asyncpg.Record]) -> None:
        lost = asyncio.Event()
        conn.add_termination_listener(lambda _: lost.set())
        with translated():
            await conn.execute(f"SET application_name = '{APPLICATION}'")
            await conn.add_listener(CHANNEL, self._heard)
            self._wake_all()
            while not lost.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await lost.wait()
                async with asyncio.timeout(ANSWER_SECONDS):
                    await conn.execute("SELECT 1")


WAKEUPS: web.AppKey[Wakeups] = web.AppKey("WAKEUPS", Wakeups)


async def notify(conn: Connection, *keys: str) -> None:
    """Wake whoever listens for one of *keys*, anywhere, when the transaction commits.

    Costs a lot in a transaction that is frequent: do it where somebody waits, or leave
    it to ``Hints``.  A key holds no space.
    """
    await conn.execute("SELECT pg_notify($1, $2)", CHANNEL, " ".join(keys))


class Hints:
    """Hints of one process, given when what they hint at is committed.

    The first goes out at once, and those that come soon after it together: a listener
    pays for a notification more than for a key.
    """

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._keys: dict[str, None] = {}
        self._sender: asyncio.Task[None] | None = None

    def give(self, key: str) -> None:
        """Wake whoever listens for *key*, anywhere, soon; never if Postgres is away."""
        self._keys[key] = None
        if self._sender is None:
            self._sender = asyncio.create_task(self._send(), name="db.hints")

    async def _send(self) -> None:
        try:
            while self._keys:
                some = list(self._keys)[:KEYS_A_NOTIFICATION]
                for key in some:
                    del self._keys[key]
                async with connection(self._app) as conn:
                    await notify(conn, *some)
                await asyncio.sleep(GATHER_SECONDS)
        except StorageUnavailable as error:
            self._keys.clear()  # whoever waits looks by itself
            log.warning("wake-ups are not sent", cause=repr(error.__cause__))
        except Exception:
            self._keys.clear()
            log.exception("wake-ups are not sent")
        finally:
            self._sender = None

    async def stop(self) -> None:
        """Send what is left."""
        while self._sender is not None:
            await asyncio.wait([self._sender])


HINTS: web.AppKey[Hints] = web.AppKey("HINTS", Hints)


def wakeups_context(config: Config) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return the cleanup context that listens, and hints, while the app lives."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        wakeups = app[WAKEUPS] = Wakeups(config.postgres.dsn)
        hints = app[HINTS] = Hints(app)
        task = asyncio.create_task(wakeups.listen(), name="db.wakeups")
        yield
        await hints.stop()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    return context
