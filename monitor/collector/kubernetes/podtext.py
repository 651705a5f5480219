"""Take a container's log, as the pod log API streams it, apart into records.  Pure.

With ``timestamps=true`` each line begins with its time and a space.  Stdout and stderr
are one stream there, and count as stdout.
"""

from __future__ import annotations

from collections.abc import Iterator

from monitor.collector.logs.position import LINE_LIMIT_BYTES
from monitor.collector.logs.records import Garbled, Record, record_time

STAMP_BYTES = 64  # room for the time before a line's text
REST_LIMIT_BYTES = LINE_LIMIT_BYTES + STAMP_BYTES  # of a line whose newline has not come yet


class PodText:
    """One stream; it does not matter where its chunks are cut.

    A line that is longer than the service takes is passed on when that much of it is there,
    and the rest of it is passed over.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._time = ""
        self._passing = False

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records of the lines that *chunk* completes.

        Raises:
            Garbled: This is no log; the text is the kubelet's.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if self._passing:
                self._passing = False
            else:
                yield self._record(line, ended=True)
        if len(self._rest) > REST_LIMIT_BYTES:
            if not self._passing:
                self._passing = True
                yield self._record(self._rest, ended=True)
            self._rest = b""

    def end(self) -> Iterator[Record]:
        """Yield what the end of the stream leaves without a newline."""
        rest, self._rest = self._rest, b""
        if rest and not self._passing:
            yield self._record(rest, ended=False)

    def _record(self, line: bytes, *, ended: bool) -> Record:
        stamp, _, text = line.partition(b" ")
        try:
            self._time = record_time(stamp)
        except Garbled:
            # Without a time before it, it is the kubelet's word on why there is no log.
            if not self._time:
                raise Garbled(line[:500].decode(errors="replace")) from None
            text = line
        # The newline of a terminal is CR LF.
        return Record("stdout", self._time, text.removesuffix(b"\r") if ended else text, ended)
