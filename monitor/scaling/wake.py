"""Ask VictoriaMetrics for the wake metrics of policies, beside the rounds that use them."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import msgspec
import structlog
from msgspec import Struct

from monitor.db.claims import claim
from monitor.db.postgres import connection, transaction
from monitor.errors import ServiceError
from monitor.scaling.live import store
from monitor.tsdb.client import TSDB
from monitor.tsdb.selector import parse

if TYPE_CHECKING:
    from aiohttp import web

ROUND_SECONDS = 1.0  # how late a round may be that another process left out
ASK_SECONDS = 15.0  # between two questions for one policy
LIMIT = 500  # policies that are asked for in a round, those first that have waited longest

log = structlog.get_logger()


class _Series(Struct):
    value: tuple[float, str]


class _Result(Struct):
    result: list[_Series]


class _Answer(Struct):
    data: _Result


_answer = msgspec.json.Decoder(_Answer)


async def ask(app: web.Application) -> None:
    """Keep the present value of every wake metric, if no other process did within 15 s."""
    async with transaction(app) as conn:
        if not await claim(conn, "scaling.wake", ASK_SECONDS):
            return
        waking = await store.due_to_wake(conn, LIMIT)
    for policy in waking:
        try:
            value = await _largest(app, policy)
        except ServiceError as error:
            # What is not known wakes nobody; a value that is old counts no more.
            log.warning(
                "wake metric not known", org_id=policy.org_id, policy_id=policy.policy_id, cause=error.text
            )
            continue
        async with connection(app) as conn:
            await store.note_wake(conn, policy.org_id, policy.policy_id, value)


async def _largest(app: web.Application, policy: store.Waking) -> float | None:
    """Return the largest value of a policy's selector, None without a series."""
    bound = parse(policy.wake_metric).for_tenant(policy.org_id, policy.hidden_agents)
    answer = await app[TSDB].query(bound, time.time_ns() // 1_000_000)
    values = [float(series.value[1]) for series in _answer.decode(answer).data.result]
    return max((value for value in values if not math.isnan(value)), default=None)
