"""Bodies that the service has not acknowledged yet, oldest first, on disk and bounded.

Every body passes through here, so one that a kill interrupts is sent by the next
start.  Files are not synced: a power loss may cost the last seconds, and in normal
operation a file is gone before it ever reaches the disk.  A snapshot that a full
disk refuses is held in memory: a full disk is when monitoring matters.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    """One held body; ``body`` is None while it lies on disk."""

    size: int
    body: bytes | None = None


class Count:
    """A number in a file: of what was dropped since the directory was made.

    Attributes:
        value: The number.

    Raises:
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.value = read_count(path)

    def add(self, number: int) -> None:
        """Add to it; a disk that refuses it costs the number at the next start."""
        self.value += number
        try:
            self._path.write_text(str(self.value))
        except OSError as error:
            log.warning("count of dropped not stored", path=str(self._path), error=error.strerror)


def read_count(path: Path) -> int:
    """Return the number of a ``Count``; 0 where there is none.

    Raises:
        OSError: It cannot be read.
    """
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0


class Spool:
    """The held bodies by ``seq``; the bounds hold for disk and memory together.

    Raises:
        AgentStopped: The directory cannot be made or read.
    """

    def __init__(
        self, directory: Path, *, max_count: int = MAX_COUNT, max_bytes: int = MAX_BYTES, suffix: str = SUFFIX
    ) -> None:
        self._directory = directory
        self._suffix = suffix
        self._max_count = max_count
        self._max_bytes = max_bytes
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            self._held = _read_directory(directory, suffix)
            self._dropped = Count(directory / DROPPED_FILE)
        except OSError as error:
            raise AgentStopped(f"{directory} cannot be used: {error.strerror}") from error
        self._bytes = sum(held.size for held in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    @property
    def dropped(self) -> int:
        """How many bodies the bounds and refusals have cost since the directory was made."""
        return self._dropped.value

    @property
    def newest_seq(self) -> int:
        """The highest held ``seq``, 0 if nothing is held."""
        return next(reversed(self._held), 0)

    @property
    def seqs(self) -> Iterable[int]:
        """What is held, oldest first."""
        return tuple(self._held)

    def add(self, seq: int, body: bytes) -> None:
        """Hold *body*, in memory if need be; *seq* is above all held ones. Drops the oldest above the bounds."""
        try:
            self.store(seq, body)
        except OSError as error:
            log.warning("snapshot held in memory", directory=str(self._directory), error=error.strerror)
            self._hold(seq, Held(len(body), body))

    def store(self, seq: int, body: bytes) -> None:
        """Hold *body* on disk; *seq* is above all held ones. Drops the oldest above the bounds.

        Raises:
            OSError: The disk does not take it; nothing is held of it.
        """
        path = self._path(seq)
        temporary = path.with_suffix(".tmp")
        try:
            temporary.write_bytes(body)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._hold(seq, Held(len(body)))

    def oldest(self) -> tuple[int, bytes] | None:
        """Return ``seq`` and body of the oldest that is held; None if nothing is."""
        while self._held:
            seq = next(iter(self._held))
            body = self.read(seq)
            if body is not None:
                return seq, body
        return None

    def read(self, seq: int) -> bytes | None:
        """Return a held body; None, and it is held no longer, if the disk has lost it."""
        held = self._held[seq]
        try:
            return self._path(seq).read_bytes() if held.body is None else held.body
        except OSError as error:
            log.warning("held body lost", path=str(self._path(seq)), error=error.strerror)
            self.remove(seq)
            return None

    def remove(self, seq: int) -> None:
        """Remove a body; one that the bounds have dropped meanwhile is gone already."""
        if seq in self._held:
            self.forget(seq)
            self._path(seq).unlink(missing_ok=True)

    def drop(self, seq: int) -> None:
        """Remove a body that will never be taken, and count it."""
        if seq in self._held:
            self.remove(seq)
            self._dropped.add(1)

    def forget(self, seq: int) -> None:
        """Forget a held body in this run; its file stays for the next start."""
        self._bytes -= self._held.pop(seq).size

    def _hold(self, seq: int, held: Held) -> None:
        self._held[seq] = held
        self._bytes += held.size
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        before = len(self._held)
        while len(self._held) > 1 and (len(self._held) > self._max_count or self._bytes > self._max_bytes):
            self.remove(next(iter(self._held)))
        if len(self._held) == before:
            return
        self._dropped.add(before - len(self._held))
        log.warning(
            "oldest held dropped",
            directory=str(self._directory),
            count=before - len(self._held),
            total=self.dropped,
        )

    def _path(self, seq: int) -> Path:
        return self._directory / f"{seq:0{SEQ_DIGITS}}{self._suffix}"


def _read_directory(directory: Path, suffix: str) -> dict[int, Held]:
    """Return what is held, oldest first; what a kill or a power loss left unfinished is removed."""
    for temporary in directory.glob("*.tmp"):
        temporary.unlink()
    held = {}
    for path in sorted(directory.glob("*" + suffix)):
        number = path.name.removesuffix(suffix)
        size = path.stat().st_size
        if size == 0:
            path.unlink()
        elif number.isdecimal():
            held[int(number)] = Held(size)
    return held
