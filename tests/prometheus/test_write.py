"""Remote write against the real VictoriaMetrics: who may write, whose the series are, all or nothing."""

import asyncio
import base64
import json
import time

import aiohttp
import pytest
import zstandard

from monitor.prometheus.protobuf import MOST_FIELDS
from monitor.tsdb.client import TSDB
from tests.conftest import settings, start_service
from tests.metrics.samples import now_ms
from tests.prometheus.write_request import HEADERS, STALE, series, snappy, varint, write_request

WRITE = "/prometheus/api/v1/write"


async def write(api, *encoded, body=None, **headers):
    """Send series; return status, JSON (None if there is no body) and headers."""
    body = snappy(write_request(*encoded)) if body is None else body
    async with api.post(WRITE, data=body, headers={**HEADERS, **headers}) as response:
        text = await response.read()
        return response.status, json.loads(text) if text else None, response.headers


async def written(api, *encoded, **headers):
    status, body, _ = await write(api, *encoded, **headers)
    assert status == 204, body


async def exported(app, servers, selector):
    """Return what VictoriaMetrics stores under any organization, in lines of its export."""
    await app.app[TSDB].force_flush()
    span = {"start": "0", "end": str(now_ms() / 1000 + 3600)}  # by default it ends before this second
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{servers.vm_url}/api/v1/export", params={"match[]": selector, **span}) as response,
    ):
        assert response.status == 200, await response.text()
        return [json.loads(line) for line in (await response.text()).splitlines()]


def only(labels, now):
    return series(labels, (1, now))


@pytest.fixture
def name(api):
    """A metric that only this test writes."""
    return f"rw_{api.org_id.lower().replace('-', '_')}"


@pytest.fixture
def now():
    return now_ms()


async def test_written_samples_are_the_organizations_and_nobody_elses(app, api, other, name, now):
    await written(api, series({"__name__": name, "job": "node"}, (1.5, now - 1000), (2.5, now)))
    await app.app[TSDB].force_flush()

    own = await api.json("/api/v1/metrics/instant", params={"metric": name})
    foreign = await other.json("/api/v1/metrics/instant", params={"metric": name})

    assert [(one["metric"], one["value"]) for one in own["series"]] == [
        ({"__name__": name, "job": "node"}, 2.5)
    ]
    assert foreign["series"] == []


async def test_what_is_stored_is_exactly_what_was_sent(app, api, servers, name, now):
    labels = {
        "__name__": name,
        "a": "x y,z=\\",
        "b": "tab\there",
        "c": "ünï☃",
        "d": '"quoted"',
        "db": "x",
        "le": "+Inf",
    }

    await written(api, series(labels, (0.25, now - 1), (3.0, now)))

    [stored] = await exported(app, servers, name)
    assert stored["metric"] == {**labels, "b": "tab\ufffdhere", "org_id": api.org_id}
    assert (stored["values"], stored["timestamps"]) == ([0.25, 3.0], [now - 1, now])


# One series each: VictoriaMetrics keeps the numbers of a series with a common exponent, to 15 digits.
@pytest.mark.parametrize("value", [0.1, -0.0, -2.5e-7, 1e-300, 1e300, 1e21, 123456789012345.6, float(2**53)])
async def test_a_value_is_stored_as_it_was_sent(app, api, servers, name, now, value):
    await written(api, series({"__name__": name}, (value, now)))

    [stored] = await exported(app, servers, name)
    assert stored["values"] == [pytest.approx(value, rel=1e-15)]


@pytest.mark.parametrize("count", [0, 26, 27])
@pytest.mark.parametrize("place", ["first", "last", "amid"])
async def test_no_org_id_of_a_payload_survives_at_any_number_of_labels(
    app, api, other, servers, now, count, place
):
    metric = f"rw_{api.org_id.lower()}_{count}_{place}"
    labels = [(f"l{number:02}", "x") for number in range(count)]
    at = {"first": 0, "last": count, "amid": count // 2}[place]
    labels.insert(at, ("org_id", other.org_id))

    await written(api, only([("__name__", metric), *labels], now))

    [stored] = await exported(app, servers, metric)
    assert stored["metric"]["org_id"] == api.org_id
    assert len(stored["metric"]) == count + 2
    assert await exported(app, servers, f'{{__name__="{metric}",org_id="{other.org_id}"}}') == []


@pytest.mark.parametrize(
    "bad", ["org_id ", "org_id\0", "org\\_id", "org_id,org_id", "org_id=x,org_id", " org_id"]
)
async def test_no_disguised_org_id_is_taken(app, api, other, servers, name, now, bad):
    for labels in ([("__name__", name), (bad, other.org_id)], [(bad, other.org_id), ("__name__", name)]):
        status, body, _ = await write(api, only(labels, now))
        assert (status, body["errorType"]) == (400, "bad_data")

    assert await exported(app, servers, name) == []


@pytest.mark.parametrize(
    "value", ["a,org_id={}", "a\\,org_id={}", "a\norg,org_id={} m=1", "a\\", 'a",org_id="{}']
)
async def test_no_label_value_carries_an_org_id_over(app, api, other, servers, name, now, value):
    text = value.format(other.org_id)

    await written(api, only({"__name__": name, "a": text, "z": text}, now))

    [stored] = await exported(app, servers, name)
    shown = text.replace("\n", "\ufffd")
    assert stored["metric"] == {"__name__": name, "a": shown, "z": shown, "org_id": api.org_id}


async def test_spellings_that_are_other_labels_are_kept(app, api, servers, name, now):
    labels = {"__name__": name, "ORG_ID": "x", "Org_Id": "y", "orgid": "z"}

    await written(api, only(labels, now))

    [stored] = await exported(app, servers, name)
    assert stored["metric"] == {**labels, "org_id": api.org_id}


async def test_an_api_keys_series_keep_their_labels_but_the_agents_id(app, api, servers, name, now):
    await written(api, only({"__name__": name, "agent_id": "agt_x", "agent": "mine", "job": "j"}, now))

    [stored] = await exported(app, servers, name)
    assert stored["metric"] == {"__name__": name, "agent": "mine", "job": "j", "org_id": api.org_id}


async def test_an_agents_series_get_the_agents_labels(app, api, agent, servers, name, now):
    await written(agent.api, only({"__name__": name, "agent_id": "agt_x", "agent": "other", "job": "j"}, now))

    [stored] = await exported(app, servers, name)
    ours = {"org_id": api.org_id, "agent_id": agent.agent_id, "agent": "host-1"}
    assert stored["metric"] == {"__name__": name, "job": "j", **ours}


async def test_28_labels_are_stored_whole_and_one_more_is_refused(app, api, servers, name, now):
    labels = [("__name__", name), *[(f"l{number:02}", "x") for number in range(27)]]

    await written(api, only(labels, now))
    status, body, _ = await write(api, only([*labels, ("more", "x")], now))

    assert (status, body["status"], body["errorType"]) == (400, "error", "bad_data")
    assert body["error"] == f"timeseries[0].labels: {name}: 29 labels, 1 of them ours, at most 28 are allowed"
    [stored] = await exported(app, servers, name)
    assert len(stored["metric"]) == 29


async def test_one_bad_series_refuses_the_whole_request(app, api, servers, name, now):
    good = only({"__name__": name}, now)

    status, body, _ = await write(api, good, only({"__name__": name, "a-b": "x"}, now), good)

    assert status == 400
    assert body["error"].startswith("timeseries[1].labels: ")
    assert await exported(app, servers, name) == []


async def test_stale_markers_and_infinities_are_left_out(app, api, servers, name, now):
    await written(api, series({"__name__": name}, (1, now - 2), (STALE, now - 1), (float("inf"), now)))
    await written(api, series({"__name__": name + "_stale"}, (STALE, now)))

    assert [one["values"] for one in await exported(app, servers, f'{{__name__=~"{name}.*"}}')] == [[1]]


async def test_requests_without_samples_are_accepted(api):
    metadata = b"\x1a" + varint(6) + b"\x08\x01\x12\x02up"

    assert (await write(api, body=snappy(metadata)))[0] == 204
    assert (await write(api, body=snappy(b"")))[0] == 204


async def test_a_request_larger_than_one_write_to_storage_is_stored_whole(app, api, servers, name, now):
    padding = "x" * 500
    encoded = [
        series({"__name__": name, "n": str(n), "p": padding}, (n, now - 1), (n, now)) for n in range(3000)
    ]

    await written(api, *encoded)

    stored = await exported(app, servers, name)
    assert sum(len(one["values"]) for one in stored) == 6000


@pytest.mark.parametrize(
    ("offset", "why"),
    [(-400 * 86_400_000, "is older than the retention"), (360_000, "is more than 5 minutes in the future")],
)
async def test_a_time_out_of_bounds_is_refused(app, api, servers, name, now, offset, why):
    status, body, _ = await write(api, series({"__name__": name}, (1, now), (1, now + offset)))

    assert (status, body["errorType"]) == (400, "bad_data")
    assert body["error"] == f"timeseries[0].samples: out of bounds: {now + offset} {why}"
    assert await exported(app, servers, name) == []


# Who


def basic(password):
    return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


@pytest.mark.parametrize(
    "header",
    [
        lambda key: {"X-API-Key": key},
        lambda key: {"Authorization": f"Bearer {key}"},
        lambda key: {"Authorization": basic(key)},
        lambda key: {"Authorization": "Bearer at_" + "x" * 43, "X-API-Key": key},
    ],
)
async def test_an_api_key_may_come_in_each_way(api, anonymous, name, now, header):
    await written(anonymous, only({"__name__": name}, now), **header(api.secret))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": "mk_" + "x" * 43},
        {"Authorization": "Bearer at_" + "x" * 43},
        {"Authorization": basic("mk_" + "x" * 43)},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic !"},
    ],
)
async def test_whoever_shows_no_valid_credential_is_unauthorized(anonymous, headers):
    # Not even told that the body is none.
    status, body, _ = await write(anonymous, body=b"\xff", **headers)

    assert (status, body) == (401, {"error": "unauthorized"})


async def test_a_users_session_may_not_write(admin, agent, now, name):
    assert (await write(admin, only({"__name__": name}, now)))[0] == 401


async def test_an_agents_token_is_no_password_and_no_api_key(anonymous, agent):
    for headers in ({"Authorization": basic(agent.api.secret)}, {"X-API-Key": agent.api.secret}):
        assert (await write(anonymous, body=b"\xff", **headers))[0] == 401


async def test_a_deleted_agent_is_unauthorized(api, agent, name, now):
    await written(agent.api, only({"__name__": name}, now))

    async with api.delete(f"/api/v1/agents/{agent.agent_id}") as response:
        assert response.status in (200, 202, 204)

    status, body, _ = await write(agent.api, only({"__name__": name}, now))
    assert (status, body) == (401, {"error": "unauthorized"})


async def test_a_suspended_organization_is_told_so_by_key_and_by_agent(pool, api, agent, name, now):
    await pool.execute("UPDATE organizations SET suspended = true WHERE id = $1", api.org_id)

    for sender in (api, agent.api):
        status, body, _ = await write(sender, only({"__name__": name}, now))
        assert (status, body) == (402, {"error": "org_suspended"})


# Forms


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"Content-Type": "application/json"},
         "content type: expected application/x-protobuf;proto=prometheus.WriteRequest (remote write 1.0)"),
        ({"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"},
         "content type: expected application/x-protobuf;proto=prometheus.WriteRequest (remote write 1.0)"),
        ({"X-Prometheus-Remote-Write-Version": "2.0.0"},
         "X-Prometheus-Remote-Write-Version: expected 0.1.0 (remote write 1.0)"),
        ({"Content-Encoding": "gzip"}, "content encoding: expected snappy or zstd"),
        ({"Content-Encoding": "identity"}, "content encoding: expected snappy or zstd"),
    ],
)  # fmt: skip
async def test_what_is_not_remote_write_1_is_an_unsupported_type(api, name, now, headers, text):
    status, body, _ = await write(api, only({"__name__": name}, now), **headers)

    assert (status, body["status"], body["error"]) == (415, "error", text)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/x-protobuf;proto=prometheus.WriteRequest"},
        {"Content-Type": "Application/X-Protobuf; PROTO=\"prometheus.WriteRequest\""},
        {"Content-Encoding": "Snappy"},
        {"X-Prometheus-Remote-Write-Version": "1.0.0"},
    ],
)  # fmt: skip
async def test_remote_write_1_is_known_by_its_headers(api, name, now, headers):
    await written(api, only({"__name__": name}, now), **headers)


async def test_zstd_is_taken_as_newer_vmagents_send_it(app, api, servers, name, now):
    body = zstandard.compress(write_request(only({"__name__": name}, now)))

    await written(
        api, body=body, **{"Content-Encoding": "zstd", "X-VictoriaMetrics-Remote-Write-Version": "1"}
    )

    assert len(await exported(app, servers, name)) == 1


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "body: not valid snappy (block format)"),
        (b"\xff", "body: not valid snappy (block format)"),
        (b"\x05abc", "body: not valid snappy (block format)"),
        (b"\xff\x06\x00\x00sNaPpY", "body: not valid snappy (block format)"),
        (snappy(b"garbage"), "body: not valid protobuf: unknown wire type 7"),
        (snappy(b"\x18\x00" * (MOST_FIELDS + 1)), "body: not valid protobuf: more than 100000 fields in one message"),
    ],
)  # fmt: skip
async def test_damage_is_a_bad_request(api, body, text):
    status, answer, _ = await write(api, body=body)

    assert (status, answer) == (400, {"status": "error", "errorType": "bad_data", "error": text})


async def test_a_bomb_is_refused_by_the_length_it_tells(api):
    promised = varint(2**32 - 1) + b"\x00"
    real = snappy(b"\0" * (16 * 1024 * 1024 + 1))
    packed = zstandard.compress(b"\0" * (64 * 1024 * 1024))

    assert (await write(api, body=promised))[0] == 413
    assert (await write(api, body=real))[0] == 413
    assert (await write(api, body=packed, **{"Content-Encoding": "zstd"}))[0] == 413


async def test_other_requests_are_answered_while_a_large_one_is_read(api, anonymous, name, now):
    encoded = [series({"__name__": name, "n": str(n)}, (1, now)) for n in range(30_000)]
    large = asyncio.create_task(write(api, *encoded))
    waits = []
    while not large.done():
        started = time.perf_counter()
        async with anonymous.get("/healthz") as response:
            await response.read()
        waits.append(time.perf_counter() - started)

    assert (await large)[0] == 204
    assert len(waits) > 3  # 1 when the loop stands still meanwhile


# Limits and outages: services of their own


async def test_over_the_limit_is_too_many_requests_and_stores_nothing(servers, api, name, now, tmp_path):
    limits = {"organizations": {api.org_id: {"series_per_push": 2}}}
    service = await start_service(tmp_path / "monitor.yaml", settings(servers, limits=limits))
    try:
        async with aiohttp.ClientSession(service.base_url) as session:
            api.session = session
            encoded = [only({"__name__": name, "n": str(n)}, now) for n in range(3)]
            await written(api, *encoded[:2])
            status, body, headers = await write(api, *encoded)
        assert (status, body["status"]) == (429, "error")
        assert body["error"] == "series_per_push: more series than the 2 allowed"
        assert int(headers["Retry-After"]) > 0
        stored = await exported(service, servers, name)
        assert sorted(one["metric"]["n"] for one in stored) == ["0", "1"]
    finally:
        await service.stop()


async def test_without_victoriametrics_the_sender_is_told_to_repeat(servers, api, name, now, tmp_path):
    away = settings(servers, victoriametrics={"url": "http://127.0.0.1:9"})
    service = await start_service(tmp_path / "monitor.yaml", away, role="web")
    try:
        async with aiohttp.ClientSession(service.base_url) as session:
            api.session = session
            status, body, headers = await write(api, only({"__name__": name}, now))
        assert (status, body) == (503, {"error": "storage_unavailable"})
        assert int(headers["Retry-After"]) > 0
    finally:
        await service.stop()
