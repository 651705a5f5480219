"""The guard against the real servers: Prometheus as judge of the grammar, VictoriaMetrics of the isolation."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import ClassVar

import aiohttp
import pytest
import yarl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.dev.files import LOOPBACK
from monitor.dev.servers import Server, spawn
from monitor.dev.victoriametrics import VictoriaMetricsServer
from monitor.errors import BadRequest
from monitor.tsdb import regex
from monitor.tsdb.lex import quoted
from monitor.tsdb.selector import parse
from tests.tsdb.selector_cases import ACCEPTED
from tests.tsdb.test_selector_properties import REGEX_PIECES, written_selectors

PROMETHEUS_FORM = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?(?:\{(.*)\})?", re.DOTALL)
PROMETHEUS_MATCHER = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)("(?:[^"\\]|\\.)*")(?:,|\Z)')
GENERATED = 150  # texts for each oracle: about a second


class PrometheusServer(Server):
    """An empty Prometheus on a loopback port."""

    name: ClassVar[str] = "prometheus"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_seconds: ClassVar[float] = 8.0

    @property
    def program(self) -> Path:
        return Path(shutil.which("prometheus")).resolve()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        config = self.data_dir / "prometheus.yml"
        config.write_text("{}\n")
        return spawn(
            [
                str(self.program),
                f"--config.file={config}",
                f"--storage.tsdb.path={self.data_dir / 'storage'}",
                f"--web.listen-address={LOOPBACK}:{self.port}",
            ],
            work_dir=self.work_dir,
            log=self.log,
            death_signal=self.stop_signal,
        )

    async def _answers(self) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/-/ready") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False


class Oracle:
    """Prometheus' own parser, asked over its API."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def matchers(self, text: str) -> list[tuple[str, str, str]] | None:
        """Return what *text* selects, sorted, or None where Prometheus does not parse it.

        Anything but one instant vector selector fails the test.
        """
        async with self._session.post(f"{self._url}/api/v1/format_query", data={"query": text}) as response:
            answer = await response.json()
        if answer["status"] == "error":
            assert answer["errorType"] == "bad_data"
            return None
        form = PROMETHEUS_FORM.fullmatch(answer["data"])
        assert form, f"Prometheus reads {text!a} as {answer['data']!a}"
        found = [("__name__", "=", form[1])] if form[1] else []
        at, inner = 0, form[2] or ""
        while at < len(inner):
            matcher = PROMETHEUS_MATCHER.match(inner, at)
            assert matcher, inner
            found.append((matcher[1], matcher[2], ast.literal_eval(matcher[3])))
            at = matcher.end()
        return sorted(found)

    async def is_instant_vector(self, text: str) -> bool:
        async with self._session.post(f"{self._url}/api/v1/query", data={"query": text}) as response:
            answer = await response.json()
        return answer["status"] == "success" and answer["data"]["resultType"] == "vector"


@pytest.fixture(scope="module")
async def oracle(tmp_path_factory):
    if shutil.which("prometheus") is None:
        pytest.skip("the program prometheus is not installed here (Debian: apt-get install prometheus)")
    server = PrometheusServer(tmp_path_factory.mktemp("prometheus"))
    try:
        await server.start()
        async with aiohttp.ClientSession() as session:
            yield Oracle(session, server.url)
    finally:
        await server.stop()


async def check_with(oracle: Oracle, text: str) -> None:
    parsed = parse(text)
    # Prometheus keeps a matcher for the empty name and does not print it.
    read = [(m.label, m.op, m.value) for m in parsed.matchers]
    wanted = sorted(matcher for matcher in read if matcher != ("__name__", "=", ""))
    assert await oracle.matchers(text) == wanted
    assert await oracle.matchers(parsed.canonical) == wanted
    printed = parsed.for_tenant("acme").text
    assert await oracle.matchers(printed) == sorted([*wanted, ("org_id", "=", "acme")])
    assert await oracle.is_instant_vector(printed)


@pytest.mark.parametrize("text", ACCEPTED, ids=ascii)
async def test_prometheus_reads_what_the_guard_accepts_alike(oracle, text):
    await check_with(oracle, text)


async def test_prometheus_reads_generated_selectors_alike(oracle):
    texts = []

    @settings(max_examples=GENERATED, deadline=None, database=None, derandomize=True)
    @given(written_selectors())
    def collect(case):
        texts.append(case[0])

    collect()
    accepted = [text for text in texts if accepts(text)]

    assert len(accepted) > GENERATED / 2
    for text in accepted:
        await check_with(oracle, text)


async def test_prometheus_takes_every_regex_that_the_guard_takes(oracle):
    patterns = set()

    @settings(
        max_examples=4 * GENERATED,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(st.sampled_from(REGEX_PIECES), max_size=6).map("".join))
    def collect(pattern):
        patterns.add(pattern)

    collect()
    taken = sorted(pattern for pattern in patterns if compiles(pattern))

    assert len(taken) > GENERATED / 2
    for pattern in taken:
        selector = f"up{{a=~{quoted(pattern)}}}"
        assert await oracle.matchers(selector) == [("__name__", "=", "up"), ("a", "=~", pattern)], pattern


def accepts(text: str) -> bool:
    try:
        parse(text)
    except BadRequest:
        return False
    return True


def compiles(pattern: str) -> bool:
    try:
        regex.compiled(pattern)
    except ValueError:
        return False
    return True


NASTY = [
    "plain", 'quo"te', "apo'strophe", "back`tick", "back\\slash", "\\n", "tab\there", 'x"} or {org_id="other', "a|b", "é", "😀", "{", "}",
    "#", "$", "%zz", "&;", "\u2028", 'b",org_id="other"', "(?s:.)",
]  # fmt: skip


@pytest.fixture(scope="module")
async def two_tenants(tmp_path_factory):
    """Two organizations with the same series, in a VictoriaMetrics of their own: a function that asks it."""
    if shutil.which("victoria-metrics") is None and shutil.which("victoria-metrics-prod") is None:
        pytest.skip("VictoriaMetrics is not installed here (Debian: apt-get install victoria-metrics)")
    server = VictoriaMetricsServer(tmp_path_factory.mktemp("victoriametrics"))
    try:
        await server.start()
        async with aiohttp.ClientSession() as session:

            async def ask(path, **query):
                # Whole and percent-encoded: what is asked is exactly the text.
                url = yarl.URL(f"{server.url}{path}").with_query(query)
                async with session.get(url) as response:
                    assert response.status == 200, await response.text()
                    return (await response.json())["data"]

            now = int(time.time())
            lines = [
                json.dumps(
                    {
                        "metric": {"__name__": "up", "org_id": org, "a": value},
                        "values": [1],
                        "timestamps": [now * 1000],
                    }
                )
                for org in ("acme", "other")
                for value in NASTY
            ]
            async with session.post(
                f"{server.url}/api/v1/import", data="\n".join(lines).encode()
            ) as response:
                assert response.status == 204
            async with session.get(f"{server.url}/internal/force_flush") as response:
                assert response.status == 200

            async def series(text):
                return await ask("/api/v1/series", **{"match[]": text}, start=now - 60, end=now + 60)

            async with asyncio.timeout(20):
                while len(await series('{__name__="up"}')) < 2 * len(NASTY):
                    await asyncio.sleep(0.2)
            yield series
    finally:
        await server.stop()


@pytest.mark.parametrize("value", NASTY, ids=ascii)
async def test_victoriametrics_finds_a_printed_value_of_the_organization_alone(two_tenants, value):
    equal = parse(f"up{{a={quoted(value)}}}").for_tenant("acme").text
    like = parse(f"up{{a=~{quoted(re.escape(value))}}}").for_tenant("acme").text

    assert await two_tenants(equal) == [{"__name__": "up", "org_id": "acme", "a": value}]
    assert await two_tenants(like) == [{"__name__": "up", "org_id": "acme", "a": value}]


async def test_victoriametrics_answers_no_accepted_selector_with_another_organizations_series(two_tenants):
    found = 0
    for text in [*ACCEPTED, '{__name__!=""}', '{a=~".+"}', '{a!~"x",a!=""}', '{__name__=~".*",a!=""}']:
        selector = parse(text)
        series = await two_tenants(selector.for_tenant("acme").text)
        assert {labels["org_id"] for labels in series} <= {"acme"}, text
        assert all(selector.matches(labels) for labels in series), text
        found += len(series)
    assert found > 3 * len(NASTY)


@pytest.mark.parametrize(
    "text",
    [
        '{__name__!=""}',
        "up",
        '{a!~"a.*",__name__=~"u."}',
        '{a=~".*e.*",b=""}',
        '{a!="",a!~"(?i)PLAIN|.*`.*"}',
    ],
)
async def test_a_selector_matches_the_series_that_victoriametrics_finds(two_tenants, text):
    everything = [{"__name__": "up", "org_id": "acme", "a": value} for value in NASTY]
    selector = parse(text)

    found = await two_tenants(selector.for_tenant("acme").text)

    assert sorted(labels["a"] for labels in found) == sorted(
        labels["a"] for labels in everything if selector.matches(labels)
    )
