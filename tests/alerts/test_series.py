"""What is judged is what is stored: the tables against the lines that are written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.containers import CONTAINERS, RATES, rate_column
from monitor.alerts.series import METRICS, TABLES
from monitor.alerts.table import cleaned, label_names
from monitor.ingest.counters import counters_of, rates
from monitor.ingest.samples import AgentRef, samples_of
from monitor.tsdb.catalogue import CATALOGUE
from monitor.tsdb.selector import NAME, ORG, series_text
from monitor.wire.push import Push

AGENT = AgentRef("org_1", "agent_1", "host 1")
ALLOWED = ("com.acme/tier", "team")
AT_MS = 1_900_000_000_000
PART = re.compile(r"((?:\\.|[^\\,= ])*)([,= ])?")


def stored(lines: bytes) -> dict[str, float]:
    """Return the value of each series that Influx lines write."""
    found = {}
    for line in lines.decode().splitlines():
        *tokens, (at, _) = [(re.sub(r"\\(.)", r"\1", text), end) for text, end in PART.findall(line)][:-1]
        assert at == str(AT_MS)
        words = iter(tokens)
        measurement, end = next(words)
        labels = {}
        while end == ",":
            (name, _), (value, end) = next(words), next(words)
            labels[name] = value
        labels.pop(ORG)
        for (field, _), (value, _) in zip(words, words, strict=True):
            name = f"{measurement}_{field}" if measurement else field
            found[series_text(cleaned({**labels, NAME: name}))] = float(value)
    return found


def judged(push: Push, increase: list[float | None] | None) -> Iterator[tuple[str, float]]:
    """Yield each series that rules see, with its value."""
    base = {"agent_id": AGENT.agent_id, "agent": AGENT.name}
    for table in TABLES:
        rows = table.rows(push)
        if rows is None:
            continue
        columns = {name: read(rows) for name, read in table.columns.items()}
        if table is CONTAINERS:
            columns |= {name: rate_column(name, rows, increase) for name in RATES}
        untold = table.untold(rows) if table.untold is not None else ()
        for name, column in columns.items():
            for number, (row, value) in enumerate(zip(rows, column, strict=True)):
                if isinstance(value, int | float):
                    labels = {**base, **table.labels(row, label_names(ALLOWED)), NAME: name}
                    is_untold = number in untold and name not in table.told
                    yield series_text(cleaned(labels)), math.nan if is_untold else float(value)


TEXT = st.text(st.sampled_from('ab1-_. ,=\\"ü\n'), min_size=1, max_size=6)
NUMBER = st.one_of(st.none(), st.integers(0, 2**53), st.floats(0, 1e6))
LABELS = st.none() | st.dictionaries(st.sampled_from([*ALLOWED, "com.docker.compose.service"]), TEXT)
QUANTITY = st.sampled_from(["8", "7900m", "16384Ki", "0", None])


def fields(*names: str, of: st.SearchStrategy[Any] = NUMBER) -> dict[str, st.SearchStrategy[Any]]:
    return dict.fromkeys(names, of)


def elements(required: dict[str, Any], optional: dict[str, Any], *, by: tuple[str, ...]) -> Any:
    one = st.fixed_dictionaries(required, optional=optional)
    return st.none() | st.lists(one, max_size=4, unique_by=lambda it: tuple(it[name] for name in by))


RESOURCES = st.none() | st.fixed_dictionaries(
    fields("cpu", "memory", "pods", "ephemeralStorage", of=QUANTITY)
)
USAGE = st.fixed_dictionaries(
    {},
    optional=fields(
        "cpuCores", "cpuSystemReservedCores", "cpuWorkloadReservedCores", "memoryGiB", "pods", "podsUsed",
        "memorySystemReservedGiB", "memoryWorkloadReservedGiB", "ephemeralStorageGiB", "gpuPercent", "gpuCount",
        "ephemeralStorageSystemReservedGiB", "ephemeralStorageWorkloadReservedGiB",
    ),
)  # fmt: skip
PUSHES = st.fixed_dictionaries(
    {
        "containers": elements(
            {"id": TEXT, "name": TEXT},
            {
                **fields("cpuPercent", "memoryUsageMB", "memoryLimitMB", "memoryPercent", "netRxBytes"),
                **fields("netTxBytes", "blkReadBytes", "blkWriteBytes", "gpuPercent", "gpuMemoryBytes"),
                "state": st.sampled_from(["running", "exited", None]),
                "image": TEXT,
                "labels": LABELS,
                "statsOk": st.sampled_from([True, False, None]),
            },
            by=("id",),
        ),
        "pods": elements(
            {"name": TEXT, "namespace": TEXT},
            {
                **fields(
                    "cpuCores", "cpuPercent", "memoryBytes", "memoryPercent", "gpuPercent", "gpuMemoryBytes"
                ),
                "restarts": st.none() | st.integers(0, 9),
                "ready": st.none() | st.booleans(),
                "phase": st.sampled_from(["Running", "Odd", "", None]),
                "startTime": st.sampled_from(["2026-01-02T03:04:05Z", None]),
                "nodeName": TEXT,
                "workload": TEXT,
                "labels": LABELS,
            },
            by=("namespace", "name"),
        ),
        "nodes": elements(
            {"name": TEXT},
            {
                "status": st.sampled_from(["Ready", "NotReady", None]),
                "capacity": RESOURCES,
                "allocatable": RESOURCES,
                "usage": st.none() | USAGE,
                "labels": LABELS,
            },
            by=("name",),
        ),
    }
)


@given(PUSHES, st.booleans())
def test_rules_see_the_series_that_are_stored_with_the_same_numbers(body: Any, again: bool):
    push = msgspec.convert(body, Push)
    before = counters_of(push.containers, AT_MS - 10_000) if again and push.containers else None
    samples = samples_of(push, AGENT, before, AT_MS, ALLOWED)
    increase = None if samples.counters is None else rates(before, samples.counters)
    written = stored(samples.lines)

    seen = dict(judged(push, increase))

    told_nothing = {series for series, value in seen.items() if math.isnan(value)}
    assert {series: value for series, value in written.items() if series not in told_nothing} == {
        series: value for series, value in seen.items() if series not in told_nothing
    }


def test_every_metric_that_pushes_make_can_be_watched():
    made = {metric.name for metric in CATALOGUE if metric.resource not in ("policy", "alert")}

    assert made == METRICS


@pytest.mark.parametrize(("failed", "name"), [(0, "ok"), (1, "failed")])
def test_a_failed_stats_call_is_found_by_its_flag_and_by_its_zeros(failed: int, name: str):
    table = CONTAINERS
    zeros = {"id": "1", "name": "z", "state": "running", "cpuPercent": 0, "memoryUsageMB": 0, "netRxBytes": 0}
    flagged = {"id": "2", "name": "f", "statsOk": False, "memoryUsageMB": 5}
    fine = {"id": "3", "name": "g", "state": "running", "memoryUsageMB": 5}
    push = msgspec.convert({"containers": [fine, zeros, flagged] if failed else [fine]}, Push)

    assert table.untold is not None
    assert list(table.untold(push.containers or [])) == ([1, 2] if failed else []), name
