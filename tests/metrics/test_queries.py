import gzip
import json
from dataclasses import dataclass
from itertools import pairwise

import pytest

from monitor.tsdb.client import TSDB
from tests.metrics.samples import SECOND, eventually, now_ms, store

HOUR = 3_600 * SECOND
DAY = 24 * HOUR
PATHS = ["/api/v1/metrics/instant", "/api/v1/metrics/range"]


async def answered(api, path, **parameters):
    async with api.get(path, params=parameters) as response:
        return response.status, await response.json()


async def range_of(api, **parameters):
    status, body = await answered(api, PATHS[1], **parameters)
    assert status == 200, body
    return body


async def test_an_instant_query_gives_the_newest_number_of_each_series(app, api, other):
    at_ms = now_ms()
    await store(app, api.org_id, f"cpu,host=b usage=2.5 {at_ms - 1}", f"cpu,host=a usage=1 {at_ms - 1}")
    await store(app, other.org_id, f"cpu,host=c usage=9 {at_ms - 1}")

    status, body = await answered(api, PATHS[0], metric="cpu_usage")

    assert status == 200
    assert body == {
        "series": [
            {"metric": {"__name__": "cpu_usage", "host": "a"}, "value": 1},
            {"metric": {"__name__": "cpu_usage", "host": "b"}, "value": 2.5},
        ],
        "count": 2,
    }


async def test_an_instant_query_knows_nothing_older_than_five_minutes(app, api):
    at_ms = now_ms()
    await store(
        app, api.org_id, f"old,host=a v=1 {at_ms - 301 * SECOND}", f"new,host=a v=1 {at_ms - 290 * SECOND}"
    )

    _, body = await answered(api, PATHS[0], metric='{host="a"}')

    assert [series["metric"]["__name__"] for series in body["series"]] == ["new_v"]


async def test_a_known_series_shows_its_next_sample_within_seconds(app, api):
    await store(app, api.org_id, f"cpu,host=a usage=1 {now_ms() - 1}")
    await answered(api, PATHS[0], metric="cpu_usage")
    written = now_ms()
    await app.app[TSDB].write(f"cpu,org_id={api.org_id},host=a usage=2 {written}".encode())

    async def ask():
        return (await answered(api, PATHS[0], metric="cpu_usage"))[1]["series"]

    await eventually(ask, lambda series: series and series[0]["value"] == 2)

    assert now_ms() - written < 10 * SECOND


async def test_a_range_stands_on_the_grid_of_its_start(app, api, other):
    start = now_ms() // 1000 - 600
    lines = [f"cpu,host=a usage={k} {(start + 15 * k) * 1000}" for k in range(5)]
    await store(app, api.org_id, *lines)
    await store(app, other.org_id, *lines)

    body = await range_of(api, metric="cpu_usage", start=start, end=start + 60, step="15s")

    assert body["count"] == 1
    assert body["series"][0]["metric"] == {"__name__": "cpu_usage", "host": "a"}
    assert body["series"][0]["values"] == [[start + 15 * k, k] for k in range(5)]


async def test_the_newest_sample_is_the_last_point(app, api):
    at_ms = now_ms()
    await store(
        app, api.org_id, f"cpu,host=a usage=1 {at_ms - 20 * SECOND}", f"cpu,host=a usage=2 {at_ms - 1}"
    )

    (series,) = (await range_of(api, metric="cpu_usage"))["series"]

    assert [value for _, value in series["values"]][-2:] == [1, 2]
    assert series["values"][-1][0] >= at_ms / 1000


async def test_a_fractional_start_gives_fractional_times(app, api):
    start = now_ms() // 1000 - 600
    await store(app, api.org_id, *(f"cpu,host=a usage={k} {(start + 15 * k) * 1000}" for k in range(5)))

    body = await range_of(api, metric="cpu_usage", start=f"{start}.25", end=f"{start + 46}", step="15")

    assert body["series"][0]["values"] == [[start + 15 * k + 0.25, k] for k in range(4)]


async def test_the_defaults_are_the_last_hour_in_steps_of_fifteen_seconds(app, api):
    at_ms = now_ms()
    await store(app, api.org_id, *(f"cpu,host=a usage=1 {at_ms - 15 * SECOND * k}" for k in range(600)))

    (series,) = (await range_of(api, metric="cpu_usage"))["series"]
    times = [at for at, _ in series["values"]]

    assert 239 <= len(times) <= 241
    assert {round(later - earlier, 3) for earlier, later in pairwise(times)} == {15}
    end = at_ms // 1000 - 3600
    only_end = await range_of(api, metric="cpu_usage", end=end)
    assert [at for at, _ in only_end["series"][0]["values"]] == list(range(end - 3600, end + 1, 15))
    only_start = await range_of(api, metric="cpu_usage", start=at_ms // 1000 - 30)
    assert [at for at, _ in only_start["series"][0]["values"]][:3] == [
        at_ms // 1000 - 30 + 15 * k for k in range(3)
    ]


@pytest.mark.parametrize("path", PATHS)
async def test_a_form_asks_the_same(app, api, path):
    at_ms = now_ms()
    await store(app, api.org_id, f"cpu,host=a usage=1 {at_ms - 1}")
    parameters = {"selector": 'cpu_usage{host="a"}'}
    if path == PATHS[1]:
        parameters |= {"start": f"{at_ms // 1000 - 60}", "end": f"{at_ms // 1000 + 60}", "step": "20s"}

    async with api.post(path, data=parameters) as response:
        assert response.status == 200
        posted = await response.json()
    async with api.post(
        path, data=gzip.compress(b"metric=cpu_usage"), headers=FORM | {"Content-Encoding": "gzip"}
    ) as response:
        assert response.status == 200

    assert (await answered(api, path, **parameters))[1] == posted
    assert posted["count"] == 1


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"metric":"up"}', {"Content-Type": "application/json"}, 415),
        (b"metric=\xff", FORM, 400),
        (b"metric=%ff", FORM, 400),
        (b"metric=up&metric=down", FORM, 400),
        (b"selector=", FORM, 400),
        (b"", FORM, 400),
        (b"x" * 300_000, FORM, 413),
    ],
)
async def test_a_body_that_is_no_form_is_refused(api, path, body, headers, status):
    async with api.post(path, data=body, headers=headers) as response:
        assert response.status == status, await response.text()
        assert response.content_type == "application/json"


async def test_a_value_in_the_url_and_another_in_the_form_are_refused(api):
    async with api.post(f"{PATHS[0]}?metric=up", data={"metric": "down"}) as response:
        assert response.status == 400
    async with api.post(f"{PATHS[0]}?metric=up", data={"selector": "up"}) as response:
        assert response.status == 200


@dataclass
class Wrong:
    parameters: dict
    field: str
    text: str = ""


REFUSED = [
    Wrong({}, "metric", "required"),
    Wrong({"metric": ""}, "metric", "empty"),
    Wrong({"metric": "up", "selector": "down"}, "metric", "different values"),
    Wrong({"metric": "rate(up[5m])"}, "metric", "functions are not accepted"),
    Wrong({"selector": 'up{org_id="x"}'}, "selector", "org_id"),
    Wrong({"metric": "up", "start": "yesterday"}, "start", "expected unix seconds"),
    Wrong({"metric": "up", "start": ""}, "start"),
    Wrong({"metric": "up", "end": ""}, "end"),
    Wrong({"metric": "up", "end": "nan"}, "end"),
    Wrong({"metric": "up", "end": "1e300"}, "end"),
    Wrong({"metric": "up", "step": ""}, "step"),
    Wrong({"metric": "up", "step": "0"}, "step", "at least 1ms"),
    Wrong({"metric": "up", "step": "-15s"}, "step", "expected a duration"),
    Wrong({"metric": "up", "start": "20", "end": "10"}, "end", "before start"),
    Wrong({"metric": "up", "start": "0", "end": "604801"}, "start", "7 days"),
    # The order of the checks: all parsing, then the order, then the length, then the retention.
    Wrong({"metric": "up(", "start": "20", "end": "10"}, "metric"),
    Wrong({"metric": "up", "start": "20", "end": "10", "step": "x"}, "step"),
    Wrong({"metric": "up", "start": "9000000", "end": "10"}, "end", "before start"),
    Wrong({"metric": "up", "start": "-9000000", "end": "10"}, "start", "7 days"),
]


@pytest.mark.parametrize("wrong", REFUSED, ids=lambda wrong: str(wrong.parameters))
async def test_a_wrong_parameter_is_refused_by_name(api, wrong):
    status, body = await answered(api, PATHS[1], **wrong.parameters)

    assert status == 400
    assert body["field"] == wrong.field
    assert wrong.text in body["error"]


async def test_more_points_than_are_answered_are_refused(api):
    end = now_ms() // 1000
    status, body = await answered(api, PATHS[1], metric="up", start=end - 50_000, end=end, step="1s")

    assert (status, body["field"]) == (400, "step")
    assert (await answered(api, PATHS[1], metric="up", start=end - 49_999, end=end, step="1s"))[0] == 200


async def test_seven_days_at_the_default_step_are_answered(app, api):
    end = now_ms() // 1000
    lines = [f"cpu,host=a usage={at % 1000} {at}000" for at in range(end - 7 * 86_400, end + 1, 15)]
    await store(app, api.org_id, *lines)

    body = await range_of(api, metric="cpu_usage", start=end - 7 * 86_400, end=end)

    assert body["series"][0]["values"] == [[at, at % 1000] for at in range(end - 7 * 86_400, end + 1, 15)]


async def test_a_range_begins_where_the_retention_does(app, api, pool):
    await pool.execute("UPDATE organizations SET metrics_retention_seconds = 3600 WHERE id = $1", api.org_id)
    now = now_ms() // 1000
    await store(app, api.org_id, *(f"cpu,host=a usage=1 {(now - 60 * k) * 1000}" for k in range(180)))

    (series,) = (await range_of(api, metric="cpu_usage", start=now - 7200, end=now, step="60s"))["series"]
    before = await range_of(api, metric="cpu_usage", start=now - 7200, end=now - 3700, step="60s")

    first = series["values"][0][0]
    assert now - 3600 <= first <= now - 3600 + 65
    assert (first - (now - 7200)) % 60 == 0
    assert before == {"series": [], "count": 0}


@pytest.mark.parametrize("path", PATHS)
async def test_nobody_is_answered_without_a_credential(anonymous, path):
    assert (await answered(anonymous, path, metric="("))[0] == 401


@pytest.mark.parametrize("path", PATHS)
async def test_a_viewer_may_ask_by_form(viewer, path):
    async with viewer.post(path, data={"metric": "up"}) as response:
        assert response.status == 200


async def test_no_further_parameter_reaches_the_storage(app, api, other):
    at_ms = now_ms()
    await store(app, api.org_id, f"cpu,host=a usage=1 {at_ms - 120 * SECOND}")
    await store(app, other.org_id, f"cpu,host=b usage=1 {at_ms - 1}")
    tricks = {
        "extra_label": f"org_id={other.org_id}",
        "extra_filters[]": f'{{org_id="{other.org_id}"}}',
        "query": "vector(1)",
        "step": "1s",
        "time": "1",
        "nocache": "0",
    }

    _, body = await answered(api, PATHS[0], metric="cpu_usage", **tricks)

    assert [series["metric"]["host"] for series in body["series"]] == ["a"]


async def test_a_large_answer_is_compressed_for_those_who_take_it(app, api):
    at_ms = now_ms()
    await store(app, api.org_id, *(f"cpu,host=h{k} usage={k} {at_ms - 1}" for k in range(500)))

    async with api.get(
        PATHS[0], params={"metric": "cpu_usage"}, headers={"Accept-Encoding": "gzip"}
    ) as response:
        body = json.loads(await response.read())

    assert response.headers["Content-Encoding"] == "gzip"
    assert body["count"] == 500
    names = [series["metric"]["host"] for series in body["series"]]
    assert names == sorted(names)
