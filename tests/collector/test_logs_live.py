"""What a live stream brought: all that is left of a container that was removed."""

import pytest

from monitor.collector.logs.live import Live
from monitor.collector.logs.position import Position, Reading
from monitor.collector.logs.records import PIECE_BYTES
from tests.collector.fakes import frame

EARLY, LATE = "2026-11-21T01:20:51.000000000Z", "2026-11-21T01:20:52.000000000Z"
PIECE = b"x" * PIECE_BYTES


class Content:
    """A stream's content: one record in each chunk."""

    def __init__(self, *records):
        self._chunks = [frame(*record) for record in records]

    async def readany(self):
        return self._chunks.pop(0) if self._chunks else b""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ([(1, EARLY, b"read\n")], [(1, LATE, b"new\n")], [("stdout", 3)]),
        ([(1, LATE, PIECE)], [(1, LATE, b"end\n")], [("stdout", PIECE_BYTES + 3)]),
        (
            [(1, EARLY, b"read\n"), (1, LATE, PIECE), (1, LATE, PIECE), (2, LATE, b"read\n")],
            [(1, LATE, b"end\n")],
            [("stdout", 2 * PIECE_BYTES + 3)],
        ),
        ([(1, LATE, PIECE), (1, LATE, b"end\n")], [], []),
        # What the run before said last is not a part of the line.
        ([(1, EARLY, b"unfinished"), (1, LATE, PIECE)], [(1, LATE, b"end\n")], [("stdout", PIECE_BYTES + 3)]),
    ],
)
async def test_what_was_read_is_forgotten_but_not_the_first_half_of_a_line(before, after, lines):
    live = Live(tty=False)
    content = Content(*before, *after)
    for _ in before:
        await live.wait(content, 30.0)

    live.forget()
    await live.gather(content, 30.0)

    reading = Reading(Position())
    kept = [(line.stream, len(line.text)) for record in live.records for line in reading.lines(record)]
    assert kept == lines
