from datetime import UTC, datetime

import msgspec
import pytest

from monitor.errors import BadRequest, TooManyRequests
from monitor.ingest.check import Checked, check
from monitor.tsdb.catalogue import metrics_of
from monitor.wire.push import Push

NOW = 1_900_000_000_000
MONTH = 30 * 86400


def rfc3339(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def checked(body: dict, series_limit: int = 50_000) -> Checked:
    push = msgspec.convert(body, Push)
    return check(push, now_ms=NOW, retention_seconds=MONTH, series_limit=series_limit)


def refused(body: dict) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        checked(body)
    assert raised.value.field is not None
    assert raised.value.text.startswith(raised.value.field + ": ")
    return raised.value


def container(**fields) -> dict:
    return {"id": "c1", "name": "web", **fields}


def pod(**fields) -> dict:
    return {"name": "p", "namespace": "n", **fields}


def node(**fields) -> dict:
    return {"name": "n", **fields}


def sample(**fields) -> dict:
    return {"metric": "m", "value": 1, **fields}


LONG = "a" * 1024
PASSES = [
    {},
    {"containers": None, "pods": [], "nodes": []},
    {"version": "1.2", "containers": [container(id=LONG, name="é" * 512, image="🙂" * 256)]},
    {"containers": [container(created=""), container(id="c2", created="2030-01-01T00:00:00.123456789Z")]},
    {"containers": [container(created="2030-01-01T00:00:00+02:00", labels={"k": LONG, "": ""})]},
    {"containers": [container(created="0001-01-01T00:00:00Z")]},
    {"pods": [pod(), pod(namespace="other"), pod(name="q", startTime="2030-01-01T00:00:00")]},
    {"pods": [pod(containers=[{"name": "a"}, {"name": "a"}])]},
    {"nodes": [node(capacity={"cpu": "7900m", "memory": "1e3", "pods": "", "ephemeralStorage": "1.5Gi"})]},
    {"samples": [sample(), sample(), sample(metric="_:a9", labels={"a_9": "", "org_id": "x"})]},
    {"samples": [sample(timestamp=NOW / 1000), sample(timestamp=rfc3339(NOW)), sample(timestamp=None)]},
    {"samples": [sample(labels={f"l{n}": "v" for n in range(17)} | {"agent": "mine"})]},
]


@pytest.mark.parametrize("body", PASSES, ids=str)
def test_a_sound_push_passes_at_the_time_of_the_server(body):
    assert checked(body) == Checked(NOW, is_backdated=False)


TOO_LONG = [
    ({"containers": [container(), container(id="a" * 1025)]}, "containers[1].id"),
    ({"containers": [container(name="é" * 513)]}, "containers[0].name"),
    ({"containers": [container(image="🙂" * 257)]}, "containers[0].image"),
    ({"containers": [container(labels={"k": LONG + "a"})]}, "containers[0].labels.k"),
    ({"containers": [container(labels={LONG + "a": "v"})]}, "containers[0].labels"),
    ({"pods": [pod(name=LONG + "a")]}, "pods[0].name"),
    ({"pods": [pod(namespace=LONG + "a")]}, "pods[0].namespace"),
    ({"pods": [pod(nodeName=LONG + "a")]}, "pods[0].nodeName"),
    ({"pods": [pod(phase=LONG + "a")]}, "pods[0].phase"),
    ({"pods": [pod(workload=LONG + "a")]}, "pods[0].workload"),
    ({"pods": [pod(containers=[{"name": "a"}, {"name": LONG + "a"}])]}, "pods[0].containers[1].name"),
    ({"nodes": [node(name=LONG + "a")]}, "nodes[0].name"),
    ({"nodes": [node(labels={"k": LONG + "a"})]}, "nodes[0].labels.k"),
    ({"samples": [sample(metric=LONG + "a")]}, "samples[0].metric"),
    ({"samples": [sample(labels={"k": LONG + "a"})]}, "samples[0].labels.k"),
    ({"version": LONG + "a"}, "version"),
]


@pytest.mark.parametrize(("body", "field"), TOO_LONG, ids=[field for _, field in TOO_LONG])
def test_more_than_1024_bytes_are_refused(body, field):
    error = refused(body)

    assert error.field == field
    assert "at most 1024" in error.text


@pytest.mark.parametrize(("body", "field"), TOO_LONG, ids=[field for _, field in TOO_LONG])
def test_a_nul_is_refused(body, field):
    def short(value):
        if isinstance(value, dict):
            return {short(key): short(item) for key, item in value.items()}
        if isinstance(value, list):
            return [short(item) for item in value]
        return "x\0" if isinstance(value, str) and len(value) > 256 else value

    error = refused(short(body))

    assert error.field == field
    assert "NUL" in error.text


TWICE = [
    ({"containers": [container(), container(id="x"), container(name="other")]}, "containers[2].id"),
    ({"pods": [pod(), pod(namespace="other"), pod()]}, "pods[2].name"),
    ({"nodes": [node(), node()]}, "nodes[1].name"),
]


@pytest.mark.parametrize(("body", "field"), TWICE, ids=[field for _, field in TWICE])
def test_the_same_resource_twice_is_refused(body, field):
    assert refused(body).field == field


TIMES = [
    ({"containers": [container(), container(id="x", created="yesterday")]}, "containers[1].created"),
    ({"containers": [container(created="2030-02-30T00:00:00Z")]}, "containers[0].created"),
    ({"containers": [container(created="0001-01-01T00:00:00+05:00")]}, "containers[0].created"),
    ({"pods": [pod(startTime="12:00Z")]}, "pods[0].startTime"),
    ({"collectedAt": ""}, "collectedAt"),
    ({"collectedAt": "2030-01-01"}, "collectedAt"),
    ({"collectedAt": "2030-01-01T00:00:00"}, "collectedAt"),
    ({"collectedAt": rfc3339(NOW + 300_001)}, "collectedAt"),
    ({"collectedAt": rfc3339(NOW - MONTH * 1000 - 1)}, "collectedAt"),
    ({"samples": [sample(), sample(timestamp="now")]}, "samples[1].timestamp"),
    ({"samples": [sample(timestamp=NOW)]}, "samples[0].timestamp"),
    ({"samples": [sample(timestamp=1e308)]}, "samples[0].timestamp"),
    ({"samples": [sample(timestamp=NOW / 1000 + 301)]}, "samples[0].timestamp"),
    ({"samples": [sample(timestamp=0)]}, "samples[0].timestamp"),
    ({"samples": [sample(timestamp=rfc3339(NOW - MONTH * 1000 - 1))]}, "samples[0].timestamp"),
]


@pytest.mark.parametrize(("body", "field"), TIMES, ids=str)
def test_a_time_that_is_none_or_out_of_bounds_is_refused(body, field):
    assert refused(body).field == field


@pytest.mark.parametrize(
    ("ms", "is_backdated"),
    [
        (NOW, False),
        (NOW + 300_000, False),
        (NOW - 300_000, False),
        (NOW - 300_001, True),
        (NOW - MONTH * 1000, True),
    ],
)
def test_collected_at_is_the_time_of_the_samples(ms, is_backdated):
    assert checked({"collectedAt": rfc3339(ms)}) == Checked(ms, is_backdated)


NAMES = [
    (sample(metric="9a"), "samples[0].metric"),
    (sample(metric="a-b"), "samples[0].metric"),
    (sample(metric="a b"), "samples[0].metric"),
    (sample(metric="é"), "samples[0].metric"),
    (sample(metric="a\n"), "samples[0].metric"),
    (sample(labels={"a:b": "v"}), "samples[0].labels"),
    (sample(labels={"": "v"}), "samples[0].labels"),
    (sample(labels={"a\n": "v"}), "samples[0].labels"),
    (sample(labels={"a" * 257: "v"}), "samples[0].labels"),
    (sample(labels={"__name__": "v"}), "samples[0].labels.__name__"),
    (sample(labels={"VictoriaMetrics_AccountID": "7"}), "samples[0].labels.VictoriaMetrics_AccountID"),
    (sample(labels={f"l{n}": "v" for n in range(18)}), "samples[0].labels"),
]


@pytest.mark.parametrize(("one", "field"), NAMES, ids=str)
def test_a_sample_with_a_wrong_name_or_too_many_labels_is_refused(one, field):
    assert refused({"samples": [one]}).field == field


@pytest.mark.parametrize(
    "text", ["8x", "", "1e", "ki", "1 Gi", "0x10", "1e9999", "1e99", "١", "9" * 65, "--1"]
)
@pytest.mark.parametrize("key", ["cpu", "memory", "pods", "ephemeralStorage"])
def test_a_quantity_that_is_none_is_refused(text, key):
    for kind in ("capacity", "allocatable"):
        body = {"nodes": [node(), node(name="m", **{kind: {key: text}})]}
        if text:
            assert refused(body).field == f"nodes[1].{kind}.{key}"
        else:
            assert checked(body)


def test_numbers_that_are_no_finite_number_do_not_decode():
    for text in (b"1e999", b"NaN", b"Infinity", b'"1"', b"9223372036854775808"):
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(b'{"containers":[{"id":"a","name":"b","cpuPercent":%s}]}' % text, type=Push)


def test_the_limit_of_series_is_exact_and_named():
    counters = {"netRxBytes": 1, "netTxBytes": 1, "blkReadBytes": 1, "blkWriteBytes": 1}
    body = {
        "containers": [container(state="running", cpuPercent=1, **counters)],  # 10: rates come later
        "pods": [pod(phase="Running", ready=True)],  # 2
        "nodes": [node(capacity={"cpu": "1", "memory": "1Gi"}, usage={"cpuSystemReservedCores": 1})],  # 3
        "samples": [sample()] * 5,
    }
    assert checked(body, series_limit=20)

    with pytest.raises(TooManyRequests, match=r"series_per_push.* 20 series, 19 are allowed"):
        checked(body, series_limit=19)


def test_a_container_without_numbers_does_not_count_for_what_it_might_send():
    assert checked({"containers": [container()] * 1}, series_limit=len(metrics_of("container")) // 2)
