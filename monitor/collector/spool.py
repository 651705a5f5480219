"""Snapshots that the service has not acknowledged yet, oldest first, on disk and bounded.

Every snapshot passes through here, so one that a kill interrupts is pushed by
the next start.  Files are not synced: a power loss may cost the last seconds,
and in normal operation a file is gone before it ever reaches the disk.  What a
full disk refuses is held in memory: a full disk is when monitoring matters.
"""

from __future__ import annotations

from pathlib import Path

import structlog
from msgspec import Struct

from monitor.collector.failure import AgentStopped

log = structlog.get_logger(__name__)

MAX_COUNT = 256  # an hour at the default interval
MAX_BYTES = 64 * 1024 * 1024
SUFFIX = ".json.gz"
SEQ_DIGITS = 20  # names of one length sort by their number
DROPPED_FILE = "dropped"


class Held(Struct, frozen=True):
    """One held snapshot; ``body`` is None while it lies on disk."""

    size: int
    body: bytes | None = None


class Spool:
    """The held snapshots by ``seq``; the bounds hold for disk and memory together.

    Attributes:
        dropped: How many snapshots the bounds have cost since the directory was made.

    Raises:
        AgentStopped: The directory cannot be made or read.
    """

    def __init__(self, directory: Path, *, max_count: int = MAX_COUNT, max_bytes: int = MAX_BYTES) -> None:
        self._directory = directory
        self._max_count = max_count
        self._max_bytes = max_bytes
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            self._held = _read_directory(directory)
            self.dropped = _read_number(directory / DROPPED_FILE)
        except OSError as error:
            raise AgentStopped(f"{directory} cannot be used: {error.strerror}") from error
        self._bytes = sum(held.size for held in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    @property
    def newest_seq(self) -> int:
        """The highest held ``seq``, 0 if nothing is held."""
        return next(reversed(self._held), 0)

    def add(self, seq: int, body: bytes) -> None:
        """Hold *body*; *seq* is above all held ones. Drops the oldest ones above the bounds."""
        path = self._path(seq)
        temporary = path.with_suffix(".tmp")
        try:
            temporary.write_bytes(body)
            temporary.replace(path)
            self._held[seq] = Held(len(body))
        except OSError as error:
            log.warning("snapshot held in memory", directory=str(self._directory), error=error.strerror)
            temporary.unlink(missing_ok=True)
            self._held[seq] = Held(len(body), body)
        self._bytes += len(body)
        self._drop_oldest()

    def oldest(self) -> tuple[int, bytes] | None:
        """Return ``seq`` and body of the oldest held snapshot; None if nothing is held."""
        while self._held:
            seq, held = next(iter(self._held.items()))
            try:
                return seq, self._path(seq).read_bytes() if held.body is None else held.body
            except OSError as error:
                log.warning("held snapshot lost", seq=seq, error=error.strerror)
                self.remove(seq)
        return None

    def remove(self, seq: int) -> None:
        """Forget a snapshot; one that the bounds have dropped meanwhile is forgotten already."""
        held = self._held.pop(seq, None)
        if held is not None:
            self._bytes -= held.size
            self._path(seq).unlink(missing_ok=True)

    def _drop_oldest(self) -> None:
        before = len(self._held)
        while len(self._held) > 1 and (len(self._held) > self._max_count or self._bytes > self._max_bytes):
            self.remove(next(iter(self._held)))
        if len(self._held) == before:
            return
        self.dropped += before - len(self._held)
        log.warning("oldest held snapshots dropped", count=before - len(self._held), total=self.dropped)
        try:
            (self._directory / DROPPED_FILE).write_text(str(self.dropped))
        except OSError as error:
            log.warning("count of dropped snapshots not stored", error=error.strerror)

    def _path(self, seq: int) -> Path:
        return self._directory / f"{seq:0{SEQ_DIGITS}}{SUFFIX}"


def _read_directory(directory: Path) -> dict[int, Held]:
    """Return what is held, oldest first; what a kill or a power loss left unfinished is removed."""
    for temporary in directory.glob("*.tmp"):
        temporary.unlink()
    held = {}
    for path in sorted(directory.glob("*" + SUFFIX)):
        number = path.name.removesuffix(SUFFIX)
        size = path.stat().st_size
        if size == 0:
            path.unlink()
        elif number.isdecimal():
            held[int(number)] = Held(size)
    return held


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0
