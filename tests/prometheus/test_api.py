import asyncio
import base64
import json
import shutil
import subprocess

import pytest

from tests.metrics.samples import SECOND, now_ms, store

API = "/prometheus/api/v1"
ENDPOINTS = [
    "query",
    "query_range",
    "series",
    "labels",
    "label/host/values",
    "metadata",
    "status/buildinfo",
    "rules",
    "alerts",
    "query_exemplars",
]


async def ask(api, path, parameters=(), **headers):
    async with api.get(f"{API}/{path}", params=parameters, headers=headers) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()


async def data_of(api, path, parameters=()):
    status, body = await ask(api, path, parameters)
    assert (status, body["status"]) == (200, "success"), body
    return body["data"]


@pytest.fixture
async def stored(app, api, other):
    """Three series of the organization and one of another, sampled a second ago."""
    at_ms = now_ms() // 1000 * 1000 - SECOND
    await store(
        app,
        api.org_id,
        f"cpu,host=b usage=2.5 {at_ms}",
        f"cpu,host=a usage=1e21 {at_ms}",
        f"disk,host=a,room=<x>&é used=0.00000015 {at_ms}",
    )
    await store(app, other.org_id, f"cpu,host=z usage=9 {at_ms}", f"secret,plan=x v=1 {at_ms}")
    return at_ms // 1000


async def test_an_instant_query_answers_a_vector_of_texts(api, stored):
    assert await data_of(api, "query", {"query": "cpu_usage", "time": stored + 0.5}) == {
        "resultType": "vector",
        "result": [
            {"metric": {"__name__": "cpu_usage", "host": "a"}, "value": [stored + 0.5, "1e+21"]},
            {"metric": {"__name__": "cpu_usage", "host": "b"}, "value": [stored + 0.5, "2.5"]},
        ],
    }


async def test_a_range_query_answers_a_matrix_of_texts(api, stored):
    parameters = {"query": '{__name__=~"disk.*"}', "start": stored - 15, "end": stored, "step": "15s"}

    assert await data_of(api, "query_range", parameters) == {
        "resultType": "matrix",
        "result": [
            {
                "metric": {"__name__": "disk_used", "host": "a", "room": "<x>&é"},
                "values": [[stored, "1.5e-07"]],
            }
        ],
    }


async def test_the_index_shows_the_organizations_own_and_nothing_of_the_organization(api, stored):
    assert await data_of(api, "labels") == ["__name__", "host", "room"]
    assert await data_of(api, "labels", [("match[]", "cpu_usage"), ("match[]", "absent")]) == [
        "__name__",
        "host",
    ]
    assert await data_of(api, "label/host/values") == ["a", "b"]
    assert await data_of(api, "label/__name__/values") == ["cpu_usage", "disk_used"]
    assert await data_of(api, "label/host/values", {"match[]": "disk_used"}) == ["a"]
    assert await data_of(api, "label/org_id/values") == []
    assert await data_of(api, "label/U__org__id/values") == []
    assert await data_of(api, "label/absent/values") == []
    assert await data_of(api, "series", [("match[]", "disk_used"), ("match[]", 'cpu_usage{host="b"}')]) == [
        {"__name__": "cpu_usage", "host": "b"},
        {"__name__": "disk_used", "host": "a", "room": "<x>&é"},
    ]
    assert await data_of(api, "series", {"match[]": '{__name__!=""}', "start": "-1e18", "end": "1e18"}) != []


async def test_an_organization_without_series_has_no_labels(api):
    assert await data_of(api, "labels") == []
    assert await data_of(api, "label/__name__/values") == []
    assert await data_of(api, "series", {"match[]": '{__name__!=""}'}) == []


async def test_what_a_limit_cuts_off_is_said(api, stored):
    for path, parameters in (
        ("labels", {}),
        ("label/host/values", {}),
        ("series", {"match[]": '{host!=""}'}),
    ):
        status, body = await ask(api, path, {**parameters, "limit": "1"})
        assert status == 200
        assert len(body["data"]) == 1
        assert body["warnings"] == ["results truncated due to limit"]

    status, body = await ask(api, "label/host/values", {"limit": "2"})
    assert "warnings" not in body
    assert len(await data_of(api, "label/host/values", {"limit": "0"})) == 2
    assert (await ask(api, "labels", {"limit": "x"}))[0] == 400


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1+1", "2"),
        ("-1", "-1"),
        ("2*3", "6"),
        ("1/0", "+Inf"),
        ("0/0", "NaN"),
        ("1/3", "0.3333333333333333"),
    ],
)
async def test_grafanas_health_check_is_answered_without_storage(api, text, result):
    async with api.post(f"{API}/query", data={"query": text, "time": "4"}) as response:
        assert await response.json() == {
            "status": "success",
            "data": {"resultType": "scalar", "result": [4, result]},
        }


async def test_a_constant_has_a_value_at_every_step(api):
    data = await data_of(api, "query_range", {"query": "1+1", "start": "1", "end": "31.5", "step": "15"})

    assert data == {
        "resultType": "matrix",
        "result": [{"metric": {}, "values": [[1, "2"], [16, "2"], [31, "2"]]}],
    }


async def test_the_other_endpoints_have_prometheus_forms(api):
    metadata = await data_of(api, "metadata")
    assert metadata["agent_up"][0].keys() == {"type", "help", "unit"}
    assert metadata["container_network_receive_bytes_total"][0]["type"] == "counter"
    assert list(await data_of(api, "metadata", {"metric": "agent_up"})) == ["agent_up"]
    assert await data_of(api, "metadata", {"metric": "unknown"}) == {}
    assert len(await data_of(api, "metadata", {"limit": "2"})) == 2
    assert (await data_of(api, "status/buildinfo"))["version"] == "2.42.0"
    assert await data_of(api, "rules") == {"groups": []}
    assert await data_of(api, "alerts") == {"alerts": []}
    assert await data_of(api, "query_exemplars", {"query": "up"}) == []


REFUSED = [
    ("query", {}, "query: required"),
    ("query", {"query": ""}, "the selector is empty"),
    ("query", {"query": "sum(up)"}, "aggregations are not accepted"),
    ("query", {"query": "up[5m]"}, "ranges are not accepted"),
    ("query", {"query": 'up{org_id="x"}'}, "org_id"),
    ("query", {"query": '"text"'}, "quoted"),
    ("query", {"query": "1e3"}, "numbers are not accepted"),
    ("query", [("query", "a"), ("query", "b")], "different values"),
    ("query", {"query": "up", "time": "x"}, "time: expected"),
    ("query_range", {"query": "up", "end": "1", "step": "1"}, "start: expected"),
    ("query_range", {"query": "up", "start": "2", "end": "1", "step": "1"}, "end: must not be before start"),
    ("query_range", {"query": "up", "start": "1", "end": "2", "step": "0"}, "step: expected at least"),
    ("query_range", {"query": "up", "start": "0", "end": "11001", "step": "1"}, "11,000 points"),
    ("series", {}, "no match[] parameter provided"),
    ("series", {"match[]": "{}"}, "empty"),
    ("series", [("match[]", "up"), ("match[]", "rate(x)")], "functions are not accepted"),
    ("series", [("match[]", "up")] * 33, "at most 32"),
    ("labels", {"match[]": "up", "start": "x"}, "start: expected"),
    ("label/a-b/values", {}, "invalid label name"),
]


@pytest.mark.parametrize(("path", "parameters", "text"), REFUSED)
async def test_what_is_refused_is_told_in_prometheus_form(api, path, parameters, text):
    for method in ("get", "post"):
        sent = {"params": parameters} if method == "get" else {"data": parameters or b""}
        async with getattr(api, method)(f"{API}/{path}", **sent) as response:
            assert response.status == 400
            body = await response.json()
        assert (body["status"], body["errorType"]) == ("error", "bad_data")
        assert text in body["error"]


async def test_eleven_thousand_points_are_answered_beyond_seven_days(api):
    end = now_ms() // 1000
    parameters = {"query": "up", "start": end - 11_000 * 3_600, "end": end, "step": "1h"}

    assert (await data_of(api, "query_range", parameters))["result"] == []


async def test_what_is_before_the_retention_is_not_shown(app, api, pool):
    await pool.execute("UPDATE organizations SET metrics_retention_seconds = 3600 WHERE id = $1", api.org_id)
    now = now_ms() // 1000
    await store(app, api.org_id, *(f"cpu,host=a usage=1 {(now - 60 * k) * 1000}" for k in range(120)))
    old = {"start": now - 7200, "end": now - 3700}

    in_range = await data_of(
        api, "query_range", {"query": "cpu_usage", "start": now - 7200, "end": now, "step": "60"}
    )

    assert now - 3600 <= in_range["result"][0]["values"][0][0] <= now - 3535
    assert (await data_of(api, "query_range", {"query": "cpu_usage", "step": "60", **old}))["result"] == []
    assert (await data_of(api, "query", {"query": "cpu_usage", "time": now - 3700}))["result"] == []
    assert len((await data_of(api, "query", {"query": "cpu_usage", "time": now - 3500}))["result"]) == 1
    assert await data_of(api, "labels", old) == []
    assert await data_of(api, "label/host/values", old) == []
    assert await data_of(api, "series", {"match[]": "cpu_usage", **old}) == []


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_every_endpoint_wants_a_credential_and_takes_forms_of_viewers(anonymous, viewer, path):
    status, body = await ask(anonymous, path)
    assert (status, body) == (401, {"error": "unauthorized"})
    form = {"query": "1", "start": "1", "end": "2", "step": "1", "match[]": "up"}
    async with viewer.post(f"{API}/{path}", data=form) as response:
        assert response.status == 200, await response.text()
        assert (await response.json())["status"] == "success"


async def test_an_api_key_is_also_a_bearer_and_a_basic_password(api, anonymous):
    for credential in (
        f"Bearer {api.secret}",
        "Basic " + base64.b64encode(f"anyone:{api.secret}".encode()).decode(),
    ):
        assert (await ask(anonymous, "query", {"query": "1"}, Authorization=credential))[0] == 200
    async with anonymous.get(f"{API}/query", params={"query": "1"}) as response:
        assert "WWW-Authenticate" not in response.headers


TIMES = [
    ("0", "60", "15"),
    ("0.5", "60", "15"),
    ("0.25", "31", "1.001"),
    ("0.1", "3", "0.29"),
    ("0.123", "0.9", "0.007"),
    ("0.0004", "5", "1.0019"),
    ("0", "0", "15"),
    ("5", "6", "1h"),
    ("0.999", "61.998", "1m1s"),
    ("0", "40000", "3637ms"),
]


@pytest.fixture(scope="module")
async def prometheus(tmp_path_factory, unused_tcp_port_factory):
    """A real, empty Prometheus."""
    if shutil.which("prometheus") is None:
        pytest.skip("the program prometheus is not installed here (Debian: apt-get install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "prometheus.yml").write_text("{}\n")
    port = unused_tcp_port_factory()
    server = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    yield f"http://127.0.0.1:{port}/api/v1"
    server.terminate()
    server.wait(20)


@pytest.fixture(scope="module")
async def real(prometheus, session):
    """Ask the real Prometheus; returns the body's text."""

    async def text_of(path, parameters):
        async with session.get(f"{prometheus}/{path}", params=parameters) as response:
            return await response.text()

    async with asyncio.timeout(20):
        while True:
            try:
                await text_of("query", {"query": "1"})
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return text_of


@pytest.mark.parametrize(("start", "end", "step"), TIMES)
async def test_the_points_are_those_of_a_real_prometheus_to_the_letter(app, api, real, start, end, step):
    base = now_ms() // 1000 - 86_400
    grid = {"start": f"{base + int(start.split('.')[0])}.{start.partition('.')[2] or '0'}", "step": step}
    grid["end"] = f"{base + int(end.split('.')[0])}.{end.partition('.')[2] or '0'}"
    await store(
        app, api.org_id, *(f"cpu,host=a usage=1 {(base + at) * 1000}" for at in range(-60, 40_060, 60))
    )

    async with api.get(f"{API}/query_range", params={"query": "cpu_usage", **grid}) as response:
        ours = await response.text()
    async with api.get(f"{API}/query_range", params={"query": "1", **grid}) as response:
        constant = await response.text()

    expected = await real("query_range", {"query": "vector(1)", **grid})
    assert ours.replace('"__name__":"cpu_usage","host":"a"', "") == expected
    assert constant == expected


@pytest.mark.parametrize(
    "number", ["100000000000000000000*10", "0.0000001", "0.000001", "1/0", "-1/0", "0/0", "-0", "1/3"]
)
async def test_numbers_are_printed_as_a_real_prometheus_prints_them(api, real, number):
    for path, parameters in (
        ("query", {"query": number, "time": "4.5"}),
        ("query_range", {"query": number, "start": "4", "end": "5.5", "step": "1"}),
    ):
        async with api.get(f"{API}/{path}", params=parameters) as response:
            assert json.loads(await response.text()) == json.loads(await real(path, parameters))


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "instant", "URL", "cpu_usage"),
        ("query", "range", "--step=15s", "URL", "cpu_usage"),
        ("query", "series", "--match=cpu_usage", "URL"),
        ("query", "labels", "URL", "host"),
    ],
)
async def test_promtool_works_with_it(app, api, stored, arguments):
    if shutil.which("promtool") is None:
        pytest.skip("the program promtool is not installed here (Debian: apt-get install prometheus)")
    url = app.base_url.replace("http://", f"http://anyone:{api.secret}@") + "/prometheus"

    promtool = await asyncio.create_subprocess_exec(
        "promtool", *(url if argument == "URL" else argument for argument in arguments),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    printed, errors = await promtool.communicate()

    assert promtool.returncode == 0, errors
    assert b"a" in printed
    assert b"org_" not in printed
