"""Which lines of a block are asked for.  Pure.

A text is looked for in all messages at once, from the end that is read first, and the
lines where it occurs are then looked at one by one; only messages beyond ASCII are
folded one by one, because their folded form may be longer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice

from monitor.logs.block import SHORT_ID, STDERR, TRUNCATED, Block, facet
from monitor.logs.models import FoundLine, Position, Search, Source
from monitor.logs.position import line_id
from monitor.logs.query import Query
from monitor.logs.times import format_ns


def source_matches(search: Search, source: Source) -> bool:
    """Return whether lines of *source* are asked for."""
    return (
        search.source in (None, source.source)
        and search.agent_id in (None, source.agent_id)
        and search.container_id in (None, source.container_id or None, source.container_id[:SHORT_ID] or None)
        and (search.container_name is None or _is(source, "docker", search.container_name))
        and search.namespace in (None, source.namespace or None)
        and search.pod in (None, source.pod or None)
        and (search.container is None or _is(source, "kubernetes", search.container))
    )


def _is(source: Source, name: str, container: str) -> bool:
    return source.source == name and source.container == container


def facets_asked(search: Search) -> list[int]:
    """Return the facets that a block must have to hold any line that is asked for."""
    asked = {
        "source": search.source,
        "agent_id": search.agent_id,
        "container_id": search.container_id,
        "container": search.container if search.container_name is None else search.container_name,
        "namespace": search.namespace,
        "pod": search.pod,
        "stream": search.stream,
    }
    return sorted(facet(name, value) for name, value in asked.items() if value is not None)


def found_in(block: Block, search: Search) -> list[tuple[Position, FoundLine]]:
    """Return the first ``search.limit`` lines of *block* that are asked for, in reading order."""
    passes = _passing(block, search)
    if passes is None or not _occurs(block, search.query):
        return []
    low, high = _span(block, search)
    indexes = filter(passes, _candidates(block, search.query, low, high, search.newest_first))
    return [(block.position(i), _found(block, i)) for i in islice(indexes, search.limit)]


def count_in(block: Block, search: Search, step: int, counts: dict[int, list[int]]) -> None:
    """Add the lines of *block* that are asked for to *counts*: [stdout, stderr] by interval of *step* ns.

    Intervals are numbered from 1970.
    """
    passes = _passing(block, search)
    if passes is None or not _occurs(block, search.query):
        return
    low, high = _span(block, search)
    times, flags = block.times, block.flags
    if passes is _always and search.query.is_empty:
        while low < high:
            number = times[low] // step
            until = bisect_left(times, (number + 1) * step, low, high)
            stderr = sum(flags.count(flag, low, until) for flag in (STDERR, STDERR | TRUNCATED))
            count = counts.setdefault(number, [0, 0])
            count[0] += until - low - stderr
            count[1] += stderr
            low = until
        return
    for i in filter(passes, _candidates(block, search.query, low, high, newest_first=True)):
        counts.setdefault(times[i] // step, [0, 0])[flags[i] & STDERR] += 1


def _always(index: int) -> bool:
    return True


def _passing(block: Block, search: Search) -> Callable[[int], bool] | None:
    """Return what tells whether a line's source, stream and arrival are asked for; None if no line's is."""
    wanted = {i for i, source in enumerate(block.sources) if source_matches(search, source)}
    if not wanted:
        return None
    outlived = {i for i, arrival in enumerate(block.arrivals) if arrival < search.arrived_since}
    every_source = len(wanted) == len(block.sources)
    if every_source and search.stream is None and not outlived:
        return _always
    stream = None if search.stream is None else STDERR * (search.stream == "stderr")
    source_of, flags = block.source_of, block.flags

    def passes(i: int) -> bool:
        return (
            (every_source or source_of[i] in wanted)
            and (stream is None or flags[i] & STDERR == stream)
            and (not outlived or block.row_of[i] not in outlived)
        )

    return passes


def _occurs(block: Block, query: Query) -> bool:
    """Return False if no message matches, at the least cost."""
    # CPython's rfind is several times as fast as find where there is nothing to find.
    if all(block.lowered.rfind(text.encode()) >= 0 for text in query.included):
        return True
    return any(query.matches(block.message(i).decode().casefold()) for i in block.beyond_ascii)


def _span(block: Block, search: Search) -> tuple[int, int]:
    """Return the first line inside the window, and the one after the last."""
    times, beyond = block.times, search.beyond
    low, high = bisect_left(times, search.start), bisect_right(times, search.end)
    if beyond is not None and search.newest_first:
        high = min(high, bisect_right(times, beyond[0]))
        while high > low and block.position(high - 1) >= beyond:
            high -= 1
    elif beyond is not None:
        low = max(low, bisect_left(times, beyond[0]))
        while low < high and block.position(low) <= beyond:
            low += 1
    return low, high


def _candidates(block: Block, query: Query, low: int, high: int, newest_first: bool) -> Iterator[int]:
    """Yield the lines from *low* to before *high* whose message matches, in reading order."""
    if query.is_empty:
        return iter(range(high - 1, low - 1, -1) if newest_first else range(low, high))
    beyond = [i for i in block.beyond_ascii if low <= i < high]
    folded = (i for i in reversed(beyond) if query.matches(block.message(i).decode().casefold()))
    if all(text.isascii() for text in query.included):
        found = merge(_ascii_lines(block, query, low, high), folded, reverse=True)
    else:
        found = folded
    return iter(found) if newest_first else reversed(list(found))


def _ascii_lines(block: Block, query: Query, low: int, high: int) -> Iterator[int]:
    """Yield the lines with ASCII messages that match, the last first."""
    text, starts = block.lowered, block.starts
    others = set(block.beyond_ascii)
    included = sorted((text.encode() for text in query.included), key=len, reverse=True)
    excluded = [text.encode() for text in query.excluded]
    needle = included[0] if included else b""
    index = high
    while index > low:
        if needle:
            at = text.rfind(needle, starts[low], starts[index])
            if at < 0:
                return
            index = bisect_right(starts, at) - 1
        else:
            index -= 1
        if index in others:
            continue
        message = text[starts[index] : starts[index + 1] - 1]
        if all(it in message for it in included) and not any(it in message for it in excluded):
            yield index


def _found(block: Block, index: int) -> FoundLine:
    source, flags = block.sources[block.source_of[index]], block.flags[index]
    return FoundLine(
        id=line_id(block.position(index)),
        time=format_ns(block.times[index]),
        source=source.source,
        agent_id=source.agent_id,
        namespace=source.namespace,
        pod=source.pod,
        container=source.container,
        container_id=source.container_id,
        stream="stderr" if flags & STDERR else "stdout",
        message=block.message(index).decode(),
        truncated=bool(flags & TRUNCATED),
    )
