"""Where the reading of a container's log stands, and which lines lie behind it.

Pure.  The engine selects by time alone, stdout and stderr may be logged out of
order by a little, and equal timestamps are possible.  So each stream has a mark of
its own, a read begins a little before the newest, and what lies before its
stream's mark is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from monitor.collector.logs.records import PIECE_BYTES, Record, nanoseconds
from monitor.wire.logs import MESSAGE_BYTES, Stream

SLACK_NS = 1_000_000_000  # how much later than it should one stream's record may stand behind the other's
PARTIAL_LIMIT_NS = 60_000_000_000  # what waits longer for its newline is shipped without
# Above the service's limit by one character: it cuts the message and marks it as cut.
LINE_LIMIT_BYTES = MESSAGE_BYTES + 4


class Mark(Struct, frozen=True, array_like=True):
    """The last line of a stream that was taken, which is the ``count``-th at its ``time``.

    ``cut`` means that more of this line may come, and is passed over.
    """

    time: str
    count: int
    cut: bool = False


class Position(Struct, frozen=True, omit_defaults=True):
    """What was taken of a container's log; ``floor`` is the time of a line that still waits for its newline."""

    stdout: Mark | None = None
    stderr: Mark | None = None
    floor: str | None = None


class Line(Struct, frozen=True, gc=False):
    """A line, joined, without its newline."""

    stream: Stream
    time: str
    text: bytes


class _Side:
    """One stream: its mark, how many lines at the mark's time are to pass, and the line that is being joined."""

    def __init__(self, stream: Stream, mark: Mark | None) -> None:
        self.stream = stream
        self.mark = mark
        self.to_pass = mark.count if mark else 0
        self.time = ""
        self.joined = bytearray()
        self.newest_bytes = 0

    def is_behind(self, time: str) -> bool:
        mark = self.mark
        return mark is not None and (time < mark.time or (time == mark.time and mark.cut))

    def line(self, *, cut: bool) -> Iterator[Line]:
        """End the line that is being joined; yield it unless it was taken before."""
        time, self.time = self.time, ""
        text = bytes(self.joined[:LINE_LIMIT_BYTES])
        self.joined.clear()
        same_time = self.mark is not None and self.mark.time == time
        if same_time and self.to_pass:
            self.to_pass -= 1
            return
        self.to_pass = 0
        count = self.mark.count + 1 if self.mark is not None and same_time else 1
        self.mark = Mark(time, count, cut)
        yield Line(self.stream, time, text)


class Reading:
    """One read of a log from *position* on: records in, new lines out.

    ``position`` always includes the line that was yielded last, and none after it.
    """

    def __init__(self, position: Position) -> None:
        self._sides: dict[Stream, _Side] = {
            "stdout": _Side("stdout", position.stdout),
            "stderr": _Side("stderr", position.stderr),
        }

    @property
    def position(self) -> Position:
        """Where the reading stands."""
        floor = min((side.time for side in self._sides.values() if side.time), default=None)
        return Position(self._sides["stdout"].mark, self._sides["stderr"].mark, floor)

    @property
    def is_in_a_line(self) -> bool:
        """Whether a line still waits for its newline."""
        return any(side.time for side in self._sides.values())

    def lines(self, record: Record) -> Iterator[Line]:
        """Yield the lines that *record* ends and that were not taken before."""
        side = self._sides[record.stream]
        if side.time and side.time != record.time:
            # Pieces of a line bear one timestamp: the program ended without a newline.
            yield from side.line(cut=True)
        if side.is_behind(record.time):
            return
        side.time = record.time
        side.newest_bytes = len(record.text)
        side.joined += record.text[: max(0, LINE_LIMIT_BYTES - len(side.joined))]
        if record.ended:
            yield from side.line(cut=False)
        elif len(side.joined) >= LINE_LIMIT_BYTES:
            yield from side.line(cut=True)

    def leftovers(self, started_at: str | None) -> Iterator[Line]:
        """Yield, at the end of a read, the lines whose newline will not come.

        Args:
            started_at: When the program that writes now was started, as ``Record.time``; None if none does.
        """
        newest = _newest(self.position)
        for side in sorted(self._sides.values(), key=lambda side: side.time):
            if not side.time:
                continue
            # The engine notes the start after it: a first line may be older, but its pieces but the last are full.
            is_last_word = side.newest_bytes < PIECE_BYTES
            is_over = started_at is None or (side.time < started_at and is_last_word)
            if is_over or (newest and nanoseconds(newest.time) - nanoseconds(side.time) > PARTIAL_LIMIT_NS):
                yield from side.line(cut=True)


def since_ns(position: Position | None, start_ns: int) -> int:
    """Return from when on a read must begin, in nanoseconds since 1970.

    Args:
        position: Where it stands, None before its first line.
        start_ns: What is older is not wanted.
    """
    newest = _newest(position) if position else None
    if position is None or newest is None:
        return start_ns
    # Behind a cut line the rest of it would come again in every read, however much that is.
    since = nanoseconds(newest.time) + 1 if newest.cut else nanoseconds(newest.time) - SLACK_NS
    if position.floor:
        since = min(since, nanoseconds(position.floor))
    return max(since, start_ns)


def _newest(position: Position) -> Mark | None:
    marks = [mark for mark in (position.stdout, position.stderr) if mark]
    return max(marks, key=lambda mark: mark.time, default=None)
