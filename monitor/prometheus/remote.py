"""Print the series of a remote write as lines of samples, under the sender's own labels.  Pure.

The organization comes first in every line and no label of the payload can stand for
it.  All or nothing: the first fault refuses the request and is named with its series.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from monitor.errors import BadRequest, PayloadTooLarge, TooManyRequests
from monitor.prometheus.protobuf import series_of
from monitor.tsdb import influx
from monitor.tsdb.catalogue import MAX_NAME_BYTES, MAX_TEXT_BYTES
from monitor.tsdb.influx import Lines

FUTURE_MS: Final = 300_000  # clocks of senders may be ahead by this much, as agents' may
MOST_LABELS: Final = (
    28  # beside the name, ours included; VictoriaMetrics 1.79 cuts at 30, the last ones first
)
MOST_LINES_CHARACTERS: Final = 32 * 1024 * 1024  # a line repeats all labels: 16 MiB could become 3 GB
PIECE_CHARACTERS: Final = 64 * 1024  # of the lines that are printed at once: a few ms
VALUE_CHARACTERS: Final = 42  # most that value, time and what is between them take

_METRIC_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TENANT_LABELS = "VictoriaMetrics_"  # a cluster reads the tenant of a line from labels called so
_ESCAPED = re.compile(r"__|_([0-9A-Fa-f]{1,6})_")
_NULL = "null"


class Terms(Struct, frozen=True):
    """What one request must keep to, and what it gets.

    Attributes:
        labels: Labels that every series gets, the organization first; one whose value is
            empty is only taken from what comes in.
        oldest_ms: Least time of a sample, milliseconds since 1970.
        newest_ms: Greatest time of a sample.
        series_limit: Most series.
    """

    labels: Mapping[str, str]
    oldest_ms: int
    newest_ms: int
    series_limit: int


def terms_of(
    org_id: str,
    agent: tuple[str, str] | None,
    *,
    now_ms: int,
    retention_seconds: int,
    series_limit: int,
) -> Terms:
    """Return the terms of an organization's API key, or of its agent with that id and name."""
    agent_labels = {"agent_id": ""} if agent is None else {"agent_id": agent[0], "agent": agent[1]}
    return Terms(
        {"org_id": org_id, **agent_labels},
        now_ms - retention_seconds * 1000,
        now_ms + FUTURE_MS,
        series_limit,
    )


def lines_of(message: bytes, terms: Terms) -> Iterator[Lines]:
    """Yield the lines of a ``prometheus.WriteRequest`` in pieces, at least one of each series.

    NaN, stale markers among them, and infinities are left out: lines cannot hold them,
    and no query would show them.

    Raises:
        BadRequest: Names the series, and what is wrong with it.
        PayloadTooLarge: It has too many samples, or they take too much room as lines.
        TooManyRequests: It has more series than the organization may send at once.
    """
    printer = _Printer(terms)
    room = MOST_LINES_CHARACTERS
    for number, series in enumerate(series_of(message)):
        if number == terms.series_limit:
            raise TooManyRequests(f"series_per_push: more series than the {terms.series_limit} allowed")
        head = printer.head(series.labels, f"{series.path}.labels")
        size = len(head) + VALUE_CHARACTERS
        room -= size * len(series.encoded)
        if room < 0:
            raise PayloadTooLarge(
                f"the samples take more than {MOST_LINES_CHARACTERS} characters with their labels"
            )
        step = PIECE_CHARACTERS // size + 1
        for start in range(0, len(series.encoded) or 1, step):
            samples = series.samples(start, start + step)
            _check_times(samples, terms, f"{series.path}.samples")
            yield _lines(head, samples)


class _Printer:
    """Prints the labels of one request's series; those that repeat are checked once."""

    def __init__(self, terms: Terms) -> None:
        self._ours = terms.labels
        present = [(name, text) for name, text in terms.labels.items() if text]
        self._prefix = "".join([f",{name}={influx.escape(text)}" for name, text in present])
        self._room = MOST_LABELS - len(present)
        self._tags: dict[tuple[str, str], str] = {}

    def head(self, labels: list[tuple[str, str]], path: str) -> str:
        """Return the line of a series up to its value.

        Raises:
            BadRequest: What cannot be a series' labels.
        """
        metric = None
        tags = []
        for label in labels:
            tag = self._tags.get(label)
            if tag is None:
                tag = self._tags[label] = self._tag(*label, path)
            if label[0] == "__name__":
                metric = label[1]
            elif tag:
                tags.append(tag)
        if metric is None:
            raise _refused(path, "__name__: required")
        if len({name for name, _ in labels}) != len(labels):
            raise _refused(path, f"{metric:.80}: the label {_repeated(labels):.80} is there twice")
        if len(tags) > self._room:
            count, ours = len(tags) + MOST_LABELS - self._room, MOST_LABELS - self._room
            why = f"{metric:.80}: {count} labels, {ours} of them ours, at most {MOST_LABELS} are allowed"
            raise _refused(path, why)
        return f"{self._prefix}{''.join(tags)} {metric}="

    def _tag(self, name: str, text: str, path: str) -> str:
        """Return a label as a tag; empty for the metric's name, and if it is not taken over."""
        if len(text) > MAX_TEXT_BYTES // 4 and (size := len(text.encode())) > MAX_TEXT_BYTES:
            why = f"the value of {name!r:.80} is {size} bytes long, at most {MAX_TEXT_BYTES} are allowed"
            raise _refused(path, why)
        if "\0" in text:
            raise _refused(path, f"the value of {name!r:.80} holds a NUL character")
        if name == "__name__":
            if not _METRIC_NAME.fullmatch(text):
                raise _refused(path, f"no metric name of Prometheus: {text!r:.80}")
            return ""
        if not _LABEL_NAME.fullmatch(name):
            raise _refused(path, f"no label name of Prometheus: {name!r:.80}")
        if len(name) > MAX_NAME_BYTES:
            raise _refused(path, f"a label name is longer than {MAX_NAME_BYTES} bytes: {name:.80}")
        if name.startswith(_TENANT_LABELS):
            raise _refused(path, f"this label cannot be set: {name:.80}")
        if not text or _unescaped(name) in self._ours:
            return ""
        return f",{name}={influx.escape(text)}"


def _lines(head: str, samples: list[tuple[float, int]]) -> Lines:
    texts = influx.print_values([value for value, _ in samples])
    lines = [f"{head}{text} {ms}\n" for text, (_, ms) in zip(texts, samples, strict=True) if text != _NULL]
    return Lines("".join(lines), len(lines))


def _check_times(samples: list[tuple[float, int]], terms: Terms, path: str) -> None:
    for _, ms in samples:
        if ms < terms.oldest_ms:
            raise _refused(path, f"out of bounds: {ms} is older than the retention")
        if ms > terms.newest_ms:
            raise _refused(path, f"out of bounds: {ms} is more than 5 minutes in the future")


def _unescaped(name: str) -> str:
    """Return what newer servers of queries take for *name* if it is escaped with ``U__``."""
    if not name.startswith("U__"):
        return name
    return _ESCAPED.sub(lambda found: _character(found[1]) if found[1] else "_", name[3:])


def _character(code: str) -> str:
    return chr(number) if (number := int(code, 16)) < 0x110000 else ""


def _repeated(labels: list[tuple[str, str]]) -> str:
    return Counter(name for name, _ in labels).most_common(1)[0][0]


def _refused(field: str, why: str) -> BadRequest:
    return BadRequest(f"{field}: {why}", field=field)
