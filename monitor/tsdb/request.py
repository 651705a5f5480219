"""How a question to VictoriaMetrics is written: paths, the organization, numbers.  Pure.

``target`` is the only place that makes the URL of a read, so every read has
the organization in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote, quote_plus

from monitor.tsdb.selector import ORG, BoundSelector

# nocache: with its cache VictoriaMetrics moves start and end to multiples of the step.
# latency_offset: else the newest 30 s are hidden; before 1.88 only its own flag helps.
# deny_partial_response: a cluster with a part away says so, it does not answer with the rest.
_FIXED = "nocache=1&latency_offset=1ms&deny_partial_response=1"


def target(path: str, org_id: str) -> str:
    """Return path and query of a read of *org_id* alone; the rest goes into the body."""
    return f"{path}?extra_label={ORG}%3D{quote(org_id, safe='')}&{_FIXED}"


def form(name: str, selectors: Sequence[BoundSelector], **numbers: str) -> bytes:
    """Return the body of a read: the selectors under *name*, and numbers of ours, which need no quoting."""
    pairs = [f"{name}={_quoted(selector.text)}" for selector in selectors]
    pairs += [f"{key}={value}" for key, value in numbers.items()]
    return "&".join(pairs).encode()


# A dashboard that refreshes asks with the same selectors again.
@lru_cache(512)
def _quoted(text: str) -> str:
    return quote_plus(text)


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
