"""How a question to VictoriaMetrics is written: paths, the organization, numbers.  Pure.

``target`` is the only place that makes the URL of a read, so every read has
the organization in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from monitor.tsdb.selector import ORG, BoundSelector

_FIXED = {
    "nocache": "1",  # with its cache VictoriaMetrics moves start and end to multiples of the step
    "latency_offset": "1ms",  # else the newest 30 s are hidden; before 1.88 only its own flag helps
    "deny_partial_response": "1",  # a cluster with a part away says so, it does not answer with the rest
}


def target(path: str, org_id: str) -> str:
    """Return path and query of a read of *org_id* alone; the rest goes into the body."""
    return f"{path}?{urlencode({'extra_label': f'{ORG}={org_id}', **_FIXED})}"


def between(selectors: Sequence[BoundSelector], start_ms: int, end_ms: int) -> dict[str, Any]:
    """Return the parameters of a look at the index."""
    return {
        "match[]": [selector.text for selector in selectors],
        "start": seconds(start_ms),
        "end": seconds(end_ms),
    }


def seconds(ms: int) -> str:
    """Return milliseconds as the seconds that VictoriaMetrics reads as just these.

    It multiplies by 1000 in floating point and cuts: 1.001 would become 1000 ms.
    Four tenths of a millisecond more keep the cut on the right one.
    """
    whole, rest = divmod(ms, 1000)
    return f"{whole}.{rest:03d}4" if rest else str(whole)


def below(base: str, part: str, protocol: str) -> str:
    """Return a cluster's base, known by *part*, with its *protocol*; a single node's as it is."""
    if part not in base or base.endswith(f"/{protocol}"):
        return base
    return f"{base}/{protocol}"
