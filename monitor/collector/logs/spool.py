"""Batches of log lines that wait for the service, with the positions they reach.

A batch and its positions are one file, so either both survive a kill or neither
does: what is sent again has the same id, and what is not in a file is read again
from the engine.  ``positions.json`` beside them takes over the positions of a
batch before its file is removed.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from monitor.collector.failure import AgentStopped
from monitor.collector.logs.position import Position
from monitor.collector.spool import Count, Spool

log = structlog.get_logger(__name__)

MAX_BATCHES = 20_000  # files: more than three days of the slower beat that is kept while the service is away
POSITIONS_FILE = "positions.json"
DROPPED_LINES_FILE = "dropped_lines"
SUFFIX = ".batch"


class Header(Struct, frozen=True, rename="camel"):
    """The first line of a batch's file; the body of ``size`` bytes follows."""

    batch_id: str
    lines: int
    size: int
    positions: dict[str, Position]


class Positions(Struct, frozen=True, rename="camel"):
    """Where each container's log stands; ``start_ns`` is since when logs are shipped at all."""

    start_ns: int
    positions: dict[str, Position]


class Batch(Struct, frozen=True):
    """A batch to send; ``body`` is gzipped NDJSON."""

    seq: int
    batch_id: str
    lines: int
    body: bytes


class LogSpool:
    """The held batches, and the positions after the newest of them.

    Args:
        directory: Made if need be.
        start_ns: Since when logs are shipped, if this is their first time.
        max_bytes: Above it the oldest batches are dropped.

    Attributes:
        positions: By container id.
        start_ns: Since when logs are shipped.

    Raises:
        AgentStopped: The directory cannot be made or read.
    """

    def __init__(self, directory: Path, *, start_ns: int, max_bytes: int) -> None:
        self._path = directory / POSITIONS_FILE
        self._spool = Spool(directory, max_count=MAX_BATCHES, max_bytes=max_bytes, suffix=SUFFIX)
        stored = self._load(start_ns)
        self.start_ns = stored.start_ns
        self.positions = dict(stored.positions)
        self._dropped = Count(directory / DROPPED_LINES_FILE)
        # Numbers are never reused, not even where a power loss has taken the newest files:
        # the service would take a new batch for the repetition of an old one.
        self._epoch = secrets.token_hex(8)
        self._number = 0
        self._seq = self._spool.newest_seq
        self._lines: dict[int, int] = {}
        for seq in self._spool.seqs:
            content = self._spool.read(seq)
            if content is not None and (parts := _parts(content)):
                self._lines[seq] = parts[0].lines
                self.positions |= parts[0].positions
            elif content is not None:
                log.error("damaged batch of log lines removed", directory=str(directory), seq=seq)
                self._spool.remove(seq)
        try:
            self._save()  # the start, for a restart before the first line
        except OSError as error:
            raise AgentStopped(f"{self._path} cannot be written: {error.strerror}") from error

    def __len__(self) -> int:
        return len(self._spool)

    def add(self, body: bytes, lines: int, positions: dict[str, Position]) -> None:
        """Hold a batch and commit the positions that it reaches. Drops the oldest above the bound.

        Raises:
            OSError: The disk does not take it; nothing has changed.
        """
        header = Header(f"{self._epoch}:{self._number + 1}", lines, len(body), positions)
        self._spool.store(self._seq + 1, msgspec.json.encode(header) + b"\n" + body)
        self._seq += 1
        self._number += 1
        self._lines[self._seq] = lines
        self.positions |= positions
        gone = self._lines.keys() - set(self._spool.seqs)
        if gone:
            self._positions_stored()  # one of them may have been on its way
            self._dropped.add(sum(self._lines.pop(seq) for seq in gone))
            log.error("oldest log lines dropped: the spool is full", lines=self.dropped_lines)

    def oldest(self) -> Batch | None:
        """Return the batch to send next; None if nothing is held."""
        while held := self._spool.oldest():
            seq, content = held
            if parts := _parts(content):
                header, body = parts
                return Batch(seq, header.batch_id, header.lines, body)
            log.error("damaged batch of log lines removed", seq=seq)
            self._lines.pop(seq, None)
            self._spool.remove(seq)
        return None

    def remove(self, seq: int) -> None:
        """Forget a batch that the service has; one that was dropped is gone already."""
        if self._lines.pop(seq, None) is None:
            return
        if self._positions_stored():
            self._spool.remove(seq)
        else:
            # With its file its positions stay; sent again after a restart it is known by its id.
            self._spool.forget(seq)

    def drop(self, seq: int) -> None:
        """Forget a batch that the service will never take, and count its lines."""
        self._dropped.add(self._lines.get(seq, 0))
        self.remove(seq)

    @property
    def dropped_lines(self) -> int:
        """How many lines the bound and refusals have cost since the directory was made."""
        return self._dropped.value

    def keep_only(self, container_ids: set[str]) -> None:
        """Forget the positions of the containers that are no more."""
        self.positions = {id_: at for id_, at in self.positions.items() if id_ in container_ids}

    def _load(self, start_ns: int) -> Positions:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Positions)
        except FileNotFoundError:
            return Positions(start_ns, {})
        except (OSError, ValueError) as error:
            # Better a gap than everything once more.
            log.error("positions of logs lost, going on from now", path=str(self._path), error=str(error))
            return Positions(start_ns, {})

    def _positions_stored(self) -> bool:
        try:
            self._save()
        except OSError as error:
            log.warning("positions of logs not stored", path=str(self._path), error=error.strerror)
            return False
        return True

    def _save(self) -> None:
        temporary = self._path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(Positions(self.start_ns, self.positions)))
        temporary.replace(self._path)


def _parts(content: bytes) -> tuple[Header, bytes] | None:
    """Return header and body of a batch's file; None if a power loss has damaged it."""
    first, _, body = content.partition(b"\n")
    try:
        header = msgspec.json.decode(first, type=Header)
    except ValueError:
        return None
    return (header, body) if len(body) == header.size else None
