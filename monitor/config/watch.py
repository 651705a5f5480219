"""Follow a configuration file while serving.

A file that became wrong changes nothing: what was read before stays in force, and the
log says what is wrong.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from aiohttp import web

from monitor.config.document import ConfigError
from monitor.config.load import changed_keys, load, reload
from monitor.config.models import Config

POLL_SECONDS = 2.0  # inotify does not see changes on network and some container mounts
SETTLE_SECONDS = 0.2  # who writes the file in several steps is done when two looks agree
_log = structlog.get_logger(__name__)

_Stamp = tuple[int, int, int] | None


class ConfigFile:
    """A configuration file and what of it is in force.

    Attributes:
        path: The file.
        config: What is in force; after a reload another struct stands here.
        reload_requested: Set it (on SIGHUP) to have the file read without waiting for a change.

    Raises:
        ConfigError: The file is wrong.
    """

    def __init__(self, path: Path, env: Mapping[str, str] = os.environ) -> None:
        self.path = path
        self.reload_requested = asyncio.Event()
        self._env = env
        # The stamp comes first: a change during the reading is then seen by the first look.
        self._read_stamp = self._stamp()
        self.config = load(path, env)

    async def watch(self, on_change: Callable[[Config], None]) -> None:
        """Reload whenever the file changed or a reload was requested, until cancelled.

        *on_change* gets each configuration that differs from the one before; an error
        that it raises ends the watching.
        """
        seen = self._read_stamp
        while True:
            unsettled = seen != self._read_stamp
            requested = await self._requested_within(SETTLE_SECONDS if unsettled else POLL_SECONDS)
            before, seen = seen, self._stamp()
            if requested or (seen == before and unsettled):
                self._read_stamp = seen
                await self._reload(on_change)

    async def _requested_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.reload_requested.wait()
        except TimeoutError:
            return False
        self.reload_requested.clear()
        return True

    async def _reload(self, on_change: Callable[[Config], None]) -> None:
        old = self.config
        try:
            # In a thread: the parser takes seconds for a file of the largest size.
            new = await asyncio.to_thread(reload, old, self.path, self._env)
        except ConfigError as error:
            _log.error("configuration rejected, the old one stays in force", problems=error.lines())
            return
        keys = changed_keys(old, new)
        _log.info("configuration reloaded", path=str(self.path), changed=keys)
        self.config = new
        if keys:
            on_change(new)

    def _stamp(self) -> _Stamp:
        """Return what changes when the file is written or replaced; None while there is none."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size


CONFIG: web.AppKey[ConfigFile] = web.AppKey("CONFIG", ConfigFile)
