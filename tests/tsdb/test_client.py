import asyncio
import json
import secrets
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from monitor.errors import BadRequest, StorageUnavailable, TooManyRequests
from monitor.tsdb import render
from monitor.tsdb.client import EVERYTHING, Refused, Tsdb
from monitor.tsdb.selector import parse
from monitor.tsdb.window import Grid
from tests.metrics.samples import eventually

VISIBLE_SECONDS = 30.0  # a new series may be hidden that long if it was asked for too early


@pytest.fixture
async def tsdb(servers):
    client = Tsdb(servers.vm_url, servers.vm_url, (servers.vm_url,))
    yield client
    await client.close()


@pytest.fixture
def org():
    return f"org_{secrets.token_hex(6)}"


def now_ms():
    return time.time_ns() // 1_000_000


def selector(text, org):
    return parse(text).for_tenant(org)


async def stored(tsdb, lines):
    """Write *lines* and return once a query may see them."""
    await tsdb.write("\n".join(lines).encode())
    await tsdb.force_flush()
    # 1.145 may return while a flush that it had begun by itself is still under way.
    await tsdb.force_flush()


async def series_of(tsdb, chosen, at_ms=None):
    return json.loads(render.instant_numbers(await tsdb.query(chosen, at_ms or now_ms())))["series"]


async def test_a_written_sample_is_read_by_its_organization_alone(tsdb, org):
    at_ms = now_ms() - 1_000
    other = f"{org}_other"
    await stored(tsdb, [f"load,org_id={org},host=a v=1.5 {at_ms}", f"load,org_id={other},host=b v=2 {at_ms}"])

    assert await series_of(tsdb, selector("load_v", org)) == [
        {"metric": {"__name__": "load_v", "host": "a"}, "value": 1.5}
    ]
    assert await series_of(tsdb, selector('{host!=""}', other)) == [
        {"metric": {"__name__": "load_v", "host": "b"}, "value": 2}
    ]


async def test_a_sample_is_found_for_five_minutes(tsdb, org):
    at_ms = now_ms() - 400_000
    # Ten minutes between the samples: the look-back must not stretch with them.
    await stored(tsdb, [f"rare,org_id={org} v={k} {at_ms - k * 600_000}" for k in range(6)])
    rare = selector("rare_v", org)

    assert len(await series_of(tsdb, rare, at_ms)) == 1
    assert len(await series_of(tsdb, rare, at_ms + 299_000)) == 1
    assert await series_of(tsdb, rare, at_ms + 301_000) == []
    assert await series_of(tsdb, rare, at_ms - 1) == []


@pytest.mark.parametrize(
    ("start", "length", "step"),
    [
        (0, 60_000, 15_000),
        (7, 60_000, 15_000),
        (123, 9_999, 1_001),
        (999, 5_000, 1_100),
        (1, 29, 7),
        (4_350, 1_000, 290),
        (14_999, 100_000, 33_333),
        (0, 0, 15_000),
        (5, 14_999, 15_000),
        (0, 86_400_000, 3_600_000),
        (250, 604_800_000, 14_400_000),
    ],
)
async def test_points_stand_at_start_and_whole_steps_to_the_millisecond(tsdb, org, start, length, step):
    base = (now_ms() - 700_000_000) // 15_000 * 15_000
    grid = Grid(base + start, base + start + length, step)
    times = range(grid.start_ms, grid.end_ms + 1, grid.step_ms)
    # A sample just at every point, so that every point has a value of its own.
    await stored(tsdb, [f"grid,org_id={org} v={k} {at_ms}" for k, at_ms in enumerate(times)])

    read = render.RangeNumbers(grid)
    await tsdb.stream_range(selector("grid_v", org), grid, read.feed)
    answer = json.loads(b"".join(read.pieces()))

    (series,) = answer["series"]
    assert [round(at * 1000) for at, _ in series["values"]] == list(times)
    assert [value for _, value in series["values"]] == list(range(len(times)))


async def test_seven_days_at_fifteen_seconds_are_answered_whole(tsdb, org):
    end_ms = now_ms() // 15_000 * 15_000
    week = Grid(end_ms - 7 * 86_400_000, end_ms, 15_000)
    lines = [f"week,org_id={org} v=1 {at_ms}" for at_ms in range(week.start_ms, end_ms + 1, 15_000)]
    await stored(tsdb, lines)

    async def found():
        return json.loads(await tsdb.query_range(selector("week_v", org), week))["data"]["result"]

    # 1.145 shows so many samples a moment after the flush.
    result = await eventually(found, lambda result: result and len(result[0]["values"]) >= 40_321)

    (series,) = result
    assert len(series["values"]) == 40_321


async def test_the_index_is_read_by_organization(tsdb, org):
    at_ms = now_ms() - 1_000
    await stored(
        tsdb,
        [
            f"a,org_id={org},host=x v=1 {at_ms}",
            f"b,org_id={org},room=y v=1 {at_ms}",
            f"c,org_id={org}2,host=z v=1 {at_ms}",
        ],
    )
    span = (at_ms - 60_000, at_ms + 60_000)
    everything = [EVERYTHING.for_tenant(org)]

    assert render.label_sets(await tsdb.series([selector("a_v", org), selector("b_v", org)], *span)) == [
        {"__name__": "a_v", "host": "x"},
        {"__name__": "b_v", "room": "y"},
    ]
    assert render.label_names(await tsdb.labels(everything, *span)) == ["__name__", "host", "room"]
    assert render.label_values(await tsdb.label_values("host", everything, *span)) == ["x"]
    assert render.label_values(await tsdb.label_values("__name__", everything, *span)) == ["a_v", "b_v"]
    assert await tsdb.series_count(org) == 2


@pytest.mark.parametrize("label", ["org_id", "__graphite__", "U__org__id", "", "a/b", "a b", "é", "../query"])
async def test_a_label_that_is_none_is_never_asked_for(tsdb, org, label):
    with pytest.raises(ValueError, match="not a label"):
        await tsdb.label_values(label, [EVERYTHING.for_tenant(org)], 0, 1)


async def test_selectors_of_two_organizations_are_never_asked_together(tsdb, org):
    with pytest.raises(ValueError, match="several organizations"):
        await tsdb.series([selector("a", org), selector("a", f"{org}2")], 0, 1)


async def test_deleting_an_agent_leaves_the_others(tsdb, org):
    at_ms = now_ms() - 1_000
    lines = [f"d,org_id={org},agent_id=a{k} v=1 {at_ms - k * 86_400_000}" for k in range(3)]
    await stored(tsdb, [*lines, f"d,org_id={org}2,agent_id=a1 v=1 {at_ms}"])
    today = time.strftime("%Y-%m-%d", time.gmtime(at_ms / 1000))
    assert await tsdb.series_count(org) == 3
    assert await tsdb.series_count(org, "a1") == 1
    assert await tsdb.series_count(org, day=today) == 1

    await tsdb.delete_series(org, "a1")

    assert await tsdb.series_count(org, "a1") == 0
    assert await tsdb.series_count(org) == 2
    assert await tsdb.series_count(f"{org}2", "a1") == 1
    assert await series_of(tsdb, selector('{agent_id="a1"}', org), at_ms - 86_000_000) == []


async def test_more_series_than_are_listed_count_as_many(org):
    async with answering(422, b"cannot find more than 30000 series: -search.maxSeries") as tsdb:
        assert await tsdb.series_count(org, "a1") == 30_000


async def test_an_agents_id_is_no_pattern(tsdb, org):
    await stored(tsdb, [f"d,org_id={org},agent_id=a1 v=1 {now_ms()}"])

    for agent_id in (".*", 'a1"} or {agent_id="a1', ""):
        assert await tsdb.series_count(org, agent_id) == 0


async def test_what_it_runs_with_is_read_from_its_own_metrics(tsdb):
    (started,) = await tsdb.started()

    assert abs(float(started) - time.time()) < 24 * 3600
    assert await tsdb.started() == (started,)
    assert await tsdb.dedup_enabled() is True
    assert await tsdb.retention_seconds() == 400 * 86_400


async def test_a_sample_written_twice_is_one(tsdb, org):
    at_ms = now_ms() - 60_000
    line = f"twice,org_id={org} v=1 {at_ms}"
    await stored(tsdb, [line])
    await stored(tsdb, [line])

    answer = await tsdb.query_range(selector("twice_v", org), Grid(at_ms, at_ms, 1_000))

    assert json.loads(answer)["data"]["result"][0]["values"] == [[at_ms / 1000, "1"]]


async def test_more_series_than_it_answers_for_are_a_bad_request(org):
    text = (
        b'{"status":"error","errorType":"422","error":"cannot execute {org_id=\\"secret\\"}: the number of matching'
        b' timeseries exceeds 300000; either narrow down the search or increase -search.max* flag values"}'
    )
    async with answering(422, text) as tsdb:
        with pytest.raises(BadRequest, match="too many series") as refusal:
            await tsdb.query(selector("up", org), now_ms())

    assert "secret" not in refusal.value.text
    assert refusal.value.field == "selector"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (500, b"boom"),
        (503, b"cannot execute: timeout; see -search.maxQueryDuration"),
        (429, b"too many concurrent requests: -search.maxConcurrentRequests"),
        (422, b"something new"),
        (404, b"not found"),
        (401, b"who are you"),
        (302, b""),
    ],
)
async def test_any_other_failure_is_the_storages(org, status, text):
    async with answering(status, text) as tsdb:
        with pytest.raises(StorageUnavailable) as refusal:
            await tsdb.query(selector("up", org), now_ms())
        with pytest.raises(StorageUnavailable):
            await tsdb.started()
        with pytest.raises(StorageUnavailable):
            await tsdb.delete_series(org, "a")

    assert refusal.value.text == "storage_unavailable"


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_lines_that_are_never_taken_are_told_apart(status):
    async with answering(status, b"bad line") as tsdb:
        with pytest.raises(Refused) as refusal:
            await tsdb.write(b"x")

    assert refusal.value.status == status


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_a_write_that_may_succeed_later_is_the_storages_failure(status):
    async with answering(status, b"") as tsdb:
        with pytest.raises(StorageUnavailable):
            await tsdb.write(b"x")


async def test_nobody_listening_is_the_storages_failure(org, unused_tcp_port):
    base = f"http://127.0.0.1:{unused_tcp_port}"
    tsdb = Tsdb(base, base, (base,))

    for asked in (tsdb.query(selector("up", org), 1), tsdb.write(b"x"), tsdb.started(), tsdb.force_flush()):
        with pytest.raises(StorageUnavailable):
            await asked


@asynccontextmanager
async def answering(status, body, **options):
    """A client of a server that answers everything alike."""

    async def answer(request):
        await request.read()
        return web.Response(status=status, body=body)

    async with serving(answer) as base:
        tsdb = Tsdb(base, base, (base,), **options)
        yield tsdb
        await tsdb.close()


@asynccontextmanager
async def serving(handler):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


class Slow:
    """A server that answers when told; it counts who waits and notices who leaves."""

    def __init__(self):
        self.waiting = 0
        self.left = 0
        self.answer_now = asyncio.Event()

    async def answer(self, request):
        self.waiting += 1
        try:
            await self.answer_now.wait()
        except asyncio.CancelledError:
            self.left += 1
            raise
        return web.Response(body=b'{"data":{"result":[]}}')


async def until(condition):
    async with asyncio.timeout(VISIBLE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


async def test_an_organization_has_a_number_of_queries_at_a_time(org):
    slow = Slow()
    async with serving(slow.answer) as base:
        tsdb = Tsdb(base, base, (base,), concurrent_queries=2)
        running = [asyncio.create_task(tsdb.query(selector("up", org), 1)) for _ in range(2)]
        await until(lambda: slow.waiting == 2)

        with pytest.raises(TooManyRequests) as refusal:
            await tsdb.query(selector("up", org), 1)
        neighbour = asyncio.create_task(tsdb.query(selector("up", f"{org}2"), 1))
        await until(lambda: slow.waiting == 3)
        slow.answer_now.set()
        await asyncio.gather(*running, neighbour)

        assert refusal.value.retry_after_seconds == 1
        assert await tsdb.query(selector("up", org), 1) == b'{"data":{"result":[]}}'
        await tsdb.close()


async def test_a_query_that_takes_too_long_is_given_up_on_both_sides(org):
    slow = Slow()
    async with serving(slow.answer) as base:
        tsdb = Tsdb(base, base, (base,), query_seconds=0.1)
        with pytest.raises(StorageUnavailable):
            await tsdb.query(selector("up", org), 1)
        await until(lambda: slow.left == 1)
        await tsdb.close()


async def test_a_client_that_leaves_cancels_its_query(org):
    slow = Slow()
    async with serving(slow.answer) as base:
        tsdb = Tsdb(base, base, (base,))
        with pytest.raises(ConnectionResetError):
            await tsdb.query(selector("up", org), 1, left=lambda: True)
        await until(lambda: slow.left == 1)
        await tsdb.close()


async def test_only_the_bound_selector_and_numbers_are_sent(org):
    seen = []

    async def record(request):
        seen.append((request.method, request.raw_path, await request.post()))
        return web.Response(body=b"{}")

    async with serving(record) as base:
        tsdb = Tsdb(base, base, (base,), query_seconds=7.0)
        await tsdb.query(selector("up", org), 1_893_456_000_500)
        await tsdb.query_range(selector('up{a="b"}', org), Grid(1_000, 2_000, 15_000))
        await tsdb.write(b"lines")
        await tsdb.close()

    scope = f"?extra_label=org_id%3D{org}&nocache=1&latency_offset=1ms&deny_partial_response=1"
    assert [path for _, path, _ in seen] == [
        f"/api/v1/query{scope}",
        f"/api/v1/query_range{scope}",
        "/write?precision=ms",
    ]
    assert dict(seen[0][2]) == {
        "query": f'{{__name__="up",org_id="{org}"}}',
        "time": "1893456000.5004",
        "max_lookback": "5m",
        "timeout": "7s",
    }
    assert dict(seen[1][2]) == {
        "query": f'{{__name__="up",a="b",org_id="{org}"}}',
        "start": "1",
        "end": "2",
        "step": "15",
        "timeout": "7s",
    }


async def test_the_parts_of_a_cluster_are_asked_below_their_own_paths(org):
    seen = []

    async def record(request):
        seen.append(request.path)
        return web.Response(body=b"vm_app_start_timestamp 5\n" if request.path == "/metrics" else b"{}")

    async with serving(record) as base:
        tsdb = Tsdb(f"{base}/insert/0", f"{base}/select/0", (base, base))
        await tsdb.query(selector("up", org), 1)
        await tsdb.write(b"lines")
        await tsdb.delete_series(org, "a")
        assert await tsdb.started() == ("5", "5")
        await tsdb.close()

    assert seen == [
        "/select/0/prometheus/api/v1/query",
        "/insert/0/influx/write",
        "/delete/0/prometheus/api/v1/admin/tsdb/delete_series",
        "/metrics",
        "/metrics",
    ]
