import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from monitor.tsdb import influx

NOW = int(time.time() * 1000)
RUN = uuid.uuid4().hex  # the storage may hold what an earlier run wrote
CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]


class Storage:
    """A VictoriaMetrics that is written to and exported from."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    async def write(self, lines: str) -> None:
        url = f"{self.url}/write?precision=ms"
        async with self.session.post(url, data=lines.encode()) as response:
            assert response.status == 204

    async def export(self, case: str) -> list[dict]:
        """Return the exported series whose label ``case`` is *case*, once they are visible."""
        selector = {
            "match[]": f'{{case="{case}"}}',
            "start": str(NOW / 1000 - 60),
            "end": str(NOW / 1000 + 60),
        }
        for _ in range(40):
            async with self.session.get(f"{self.url}/internal/force_flush") as response:
                assert response.status == 200
            async with self.session.get(f"{self.url}/api/v1/export", params=selector) as response:
                if text := (await response.text()).strip():
                    return [json.loads(line) for line in text.split("\n")]
            await asyncio.sleep(0.25)
        raise AssertionError(f"nothing to see of {case}")


@pytest.fixture(scope="module")
async def storage(servers) -> AsyncIterator[Storage]:
    async with aiohttp.ClientSession() as session:
        yield Storage(session, servers.vm_url)


TEXT = st.text(
    st.one_of(st.sampled_from(list("\\,= \"'{}\n\r\t\0é漢🙂\u2028ab")), st.characters(codec="utf-8")),
    max_size=40,
)


def clean(text: str) -> str:
    """What must come back of a label value."""
    return "".join("\ufffd" if c in CONTROLS else c for c in text)


async def test_any_label_value_comes_back_from_victoriametrics_as_it_went(storage):
    values: list[str] = ["\\", "a\\", "a\\\\", "a,b", "a=b", " ", " a ", "a\\,", '"', '"a b"', "a\nb", ""]

    @settings(max_examples=600, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(TEXT)
    def gather(text: str) -> None:
        values.append(text)

    gather()
    tags = [
        f",case=round_trip{RUN},number={n},v={influx.escape(text)},last=1" for n, text in enumerate(values)
    ]
    printed = influx.print_lines("m", tags, {"x": list(range(len(values)))}, NOW)
    await storage.write(printed.text)
    series = await storage.export(f"round_trip{RUN}")

    found = {one["metric"]["number"]: one for one in series}
    assert len(found) == len(series) == len(values) == printed.count
    for number, text in enumerate(values):
        one = found[str(number)]
        assert one["metric"].get("v", "") == clean(text)
        assert one["metric"].keys() - {"v"} == {"__name__", "case", "number", "last"}
        assert one["metric"]["__name__"] == "m_x"
        assert one["values"] == [number]
        assert one["timestamps"] == [NOW]


async def test_a_name_without_an_underscore_is_printed_without_a_measurement(storage):
    names = ["up", "_x", "x_", "a:b", ":", "_", "container_cpu_usage_percent", "true", "NaN", "i"]
    await storage.write("".join([f",case=names{RUN},k=v {name}=1 {NOW}\n" for name in names]))

    series = await storage.export(f"names{RUN}")

    assert sorted(one["metric"]["__name__"] for one in series) == sorted(names)


NUMBERS = {
    "int": 12,
    "negative": -3,
    "tiny": 1e-7,
    "half": 0.5,
    "whole": 100.0,
    "huge": 1.5e300,
    "exponent": 1e22,
    "long": 123456.789012,
    "largest_int": 2**62,
    "beyond_int": 2**83,
}


async def test_numbers_come_back_equal(storage):
    columns = {name: [number] for name, number in NUMBERS.items()}
    printed = influx.print_lines("n", [f",case=numbers{RUN}"], columns, NOW)
    await storage.write(printed.text)

    series = await storage.export(f"numbers{RUN}")

    found = {one["metric"]["__name__"].removeprefix("n_"): one["values"][0] for one in series}
    assert found.keys() == NUMBERS.keys()
    for name, number in NUMBERS.items():
        assert found[name] == pytest.approx(number, rel=1e-14), name


@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: f"U+{ord(c):04X}")
def test_a_control_character_becomes_the_replacement_character(control):
    assert influx.escape(f"a{control}b") == "a\ufffdb"
    assert influx.escape_columns([["x"], [f"a{control}b"]]) == [["x"], ["a\ufffdb"]]


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_escaping_columns_is_escaping_each_text(texts):
    assert influx.escape_columns([texts, ["plain"]]) == [[influx.escape(text) for text in texts], ["plain"]]


ABSENT = [
    ("all there", {"a": [1, 2], "b": [0.5, 3]}, "m,k=1 a=1,b=0.5 7\nm,k=2 a=2,b=3 7\n", 4),
    (
        "a column without any",
        {"a": [1, 2], "b": [None, None], "c": [UNSET, UNSET]},
        "m,k=1 a=1 7\nm,k=2 a=2 7\n",
        2,
    ),
    ("one unset", {"a": [1, UNSET], "b": [0, 1]}, "m,k=1 a=1,b=0 7\nm,k=2 b=1 7\n", 3),
    ("first absent", {"a": [None, 2], "b": [UNSET, 1]}, "m,k=2 a=2,b=1 7\n", 2),
    ("infinite", {"a": [float("inf"), 2], "b": [float("nan"), float("-inf")]}, "m,k=2 a=2 7\n", 1),
    ("nothing", {"a": [None, None]}, "", 0),
    ("no columns", {}, "", 0),
]


@pytest.mark.parametrize(("columns", "text", "count"), [c[1:] for c in ABSENT], ids=[c[0] for c in ABSENT])
def test_what_is_absent_or_infinite_is_left_out(columns, text, count):
    printed = influx.print_lines("m", [",k=1", ",k=2"], columns, 7)

    assert (printed.text, printed.count) == (text, count)


def test_no_line_is_printed_for_no_tags():
    assert influx.print_lines("m", [], {"a": []}, 7).text == ""
