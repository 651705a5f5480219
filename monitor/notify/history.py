"""The last 15 minutes of the values that a message is about: a courtesy, never a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from monitor.errors import ServiceError
from monitor.notify.compose import LISTED
from monitor.notify.models import Notice
from monitor.tsdb.selector import ORG, Matcher, Selector
from monitor.tsdb.window import Grid

if TYPE_CHECKING:
    from monitor.tsdb.client import Tsdb

HISTORY_MS = 900_000  # contract 7
STEP_MS = 30_000  # 31 points
HISTORY_SECONDS = 3.0  # for all of a message; what is not there by then is left out


class _Series(msgspec.Struct):
    values: list[tuple[float, str]]


class _Result(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Result


_decoder = msgspec.json.Decoder(_Answer)


async def with_values(tsdb: Tsdb, org_id: str, notices: Sequence[Notice], at: datetime) -> list[Notice]:
    """Return *notices*, the first 20 with the values before *at* as far as they can be had."""
    enriched = list(notices)
    try:
        async with asyncio.timeout(HISTORY_SECONDS):
            for number, notice in enumerate(notices[:LISTED]):
                values = await _values(tsdb, org_id, notice.change.metric, at)
                enriched[number] = replace(notice, values=values)
    except (TimeoutError, ServiceError, ValueError, msgspec.MsgspecError):
        pass  # the message matters more
    return enriched


async def _values(
    tsdb: Tsdb, org_id: str, metric: dict[str, str], at: datetime
) -> tuple[tuple[float, float], ...]:
    matchers = tuple(Matcher(label, "=", value) for label, value in metric.items() if label != ORG)
    end_ms = int(at.timestamp() * 1000) // STEP_MS * STEP_MS
    grid = Grid(end_ms - HISTORY_MS, end_ms, STEP_MS)
    answer = _decoder.decode(await tsdb.query_range(Selector(matchers).for_tenant(org_id), grid))
    first = answer.data.result[:1]
    return tuple((second, float(value)) for series in first for second, value in series.values)
