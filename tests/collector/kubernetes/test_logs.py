"""Shipping the logs of pods: each container, through restarts, every line once, whoever fails meanwhile."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from monitor.collector import backoff
from monitor.collector.client import Service
from monitor.collector.kubernetes import logs, podlog
from monitor.collector.kubernetes.logs import PodShipper
from monitor.collector.kubernetes.source import Cluster
from monitor.collector.logs import batch
from monitor.collector.logs.records import time_of
from monitor.collector.logs.ship import LogSettings
from monitor.collector.state import Identity
from tests.collector.fakes import TOKEN, answer, until
from tests.collector.kubernetes.conftest import access_to
from tests.collector.kubernetes.fake_api import status
from tests.collector.kubernetes.shapes import pod

PODS = "/api/v1/pods"
IDENTITY = Identity("agent_1", TOKEN, "")
HOUR = LogSettings(since_seconds=3600.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(batch, "BATCH_SECONDS", 0.02)
    monkeypatch.setattr(batch, "BEHIND_SECONDS", 0.02)
    monkeypatch.setattr(logs, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(podlog, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(podlog, "LONGEST_PAUSE_SECONDS", 0.1)


class Writer:
    """Writes to the logs of a fake API server; each line has a later time."""

    def __init__(self, kube):
        self.kube = kube
        self.start = time.time_ns()
        self.count = 0

    def __call__(self, text, container="app", pod="web", end="\n"):
        self.count += 1
        stamp = time_of(self.start + self.count * 1_000_000)
        self.kube.logs.setdefault(("shop", pod, container, False), []).append(
            (stamp, f"{text}{end}".encode())
        )

    def restart(self, container="app", pod="web"):
        """Begin a new run: the log so far is that of the run before."""
        key = ("shop", pod, container)
        self.kube.logs[(*key, True)] = self.kube.logs.pop((*key, False))
        self.kube.logs[(*key, False)] = []


@pytest.fixture
def write(kube):
    return Writer(kube)


@asynccontextmanager
async def shipping(kube, service, state, settings=HOUR, own=None):
    async with Cluster(access_to(kube.url), "test") as cluster, Service(service.url, "test") as client:
        shipper = PodShipper(cluster, state, settings, own=lambda: own)

        async def deliver():
            await shipper.deliver(client, IDENTITY)

        tasks = [
            asyncio.create_task(shipper.read_forever()),
            asyncio.create_task(backoff.keep_trying(deliver, "logs")),
        ]
        try:
            yield shipper
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(ended, asyncio.CancelledError), ended


def messages(service, container="app", of="web"):
    return [line["message"] for line in service.lines if (line["pod"], line["container"]) == (of, container)]


def numbered(last):
    return [f"line {number}" for number in range(1, last + 1)]


async def test_the_lines_of_each_container_are_shipped_as_they_come(kube, service, write, tmp_path):
    kube.add(PODS, pod("web", containers=("app", "proxy")))
    write("before")
    write("of the proxy", "proxy")

    async with shipping(kube, service, tmp_path):
        await until(
            lambda: messages(service) == ["before"] and messages(service, "proxy") == ["of the proxy"]
        )
        for number in range(1, 6):
            write(f"line {number}")
        await until(lambda: messages(service) == ["before", *numbered(5)])

    [first] = [line for line in service.lines if line["message"] == "before"]
    assert first == {
        "time": time_of(write.start + 1_000_000),
        "stream": "stdout",
        "message": "before",
        "namespace": "shop",
        "pod": "web",
        "container": "app",
    }
    assert {query["timestamps"] for _, _, query in kube.log_queries} == {"true"}


async def test_init_containers_are_shipped_too(kube, service, write, tmp_path):
    shape = pod("web")
    shape["status"]["initContainerStatuses"] = [
        {"name": "setup", "containerID": "containerd://s", "state": {"terminated": {"exitCode": 0}}}
    ]
    kube.add(PODS, shape)
    write("migrated", "setup")

    async with shipping(kube, service, tmp_path):
        await until(lambda: messages(service, "setup") == ["migrated"])


async def test_a_pod_that_starts_later_is_shipped_from_its_first_line(kube, service, write, tmp_path):
    async with shipping(kube, service, tmp_path, LogSettings()):
        waiting = pod("web", phase="Pending", container_ids={"app": ""})
        await kube.put(PODS, waiting)
        write.start = time.time_ns()
        for number in range(1, 4):
            write(f"line {number}")
        await kube.put(PODS, pod("web"))

        await until(lambda: messages(service) == numbered(3))


async def test_what_was_written_before_the_first_start_is_not_shipped(kube, service, write, tmp_path):
    kube.add(PODS, pod("web"))
    write.start -= 60 * 10**9
    write("long ago")
    write.start += 70 * 10**9

    async with shipping(kube, service, tmp_path, LogSettings()):
        write("now")
        await until(lambda: messages(service) == ["now"])


async def test_a_log_that_is_being_written_is_followed_by_one_stream(kube, service, write, tmp_path):
    kube.add(PODS, pod("web"))
    write("line 1")
    async with shipping(kube, service, tmp_path):
        await until(lambda: kube.log_streams == 1)
        reads = len(kube.log_queries)
        for number in range(2, 51):
            write(f"line {number}")
        await until(lambda: messages(service) == numbered(50))

        assert len(kube.log_queries) == reads


async def test_streams_are_bounded_and_the_others_are_read_in_turns(
    kube, service, write, tmp_path, monkeypatch
):
    monkeypatch.setattr(podlog, "FOLLOWED_AT_ONCE", 2)
    names = [f"web-{number}" for number in range(6)]
    kube.add(PODS, *(pod(name) for name in names))
    async with shipping(kube, service, tmp_path):
        for number in range(1, 31):
            for name in names:
                write(f"line {number}", pod=name)
            await asyncio.sleep(0.01)
        await until(lambda: all(messages(service, of=name) == numbered(30) for name in names))

    assert 1 <= kube.most_log_streams <= 2


async def test_a_quiet_stream_is_given_back(kube, service, write, tmp_path, monkeypatch):
    monkeypatch.setattr(podlog, "QUIET_SECONDS", 0.1)
    kube.add(PODS, pod("web"))
    write("line 1")
    async with shipping(kube, service, tmp_path) as shipper:
        await until(lambda: kube.log_streams == 1)
        await until(lambda: shipper._gates.free == podlog.FOLLOWED_AT_ONCE)
        write("line 2")
        await until(lambda: messages(service) == numbered(2))


async def test_the_end_of_the_run_before_is_shipped_when_a_container_is_restarted(
    kube, service, write, tmp_path
):
    kube.add(PODS, pod("web"))
    write("line 1")
    async with shipping(kube, service, tmp_path):
        await until(lambda: messages(service) == numbered(1))
        kube.logs[("shop", "web", "app", False)] = list(
            kube.logs[("shop", "web", "app", False)]
        )  # streams end
        write("line 2")
        write("line 3")
        write.restart()
        write("line 4")
        await kube.put(PODS, pod("web", restarts=1, container_ids={"app": "containerd://app-2"}))
        await until(lambda: messages(service) == numbered(4))
        write("line 5")
        await until(lambda: messages(service) == numbered(5))


async def test_a_run_that_crashed_before_it_was_seen_is_shipped(kube, service, write, tmp_path):
    write("line 1")
    write.restart()
    write("line 2")
    kube.add(PODS, pod("web", restarts=1))

    async with shipping(kube, service, tmp_path):
        await until(lambda: messages(service) == numbered(2))


async def test_a_container_that_has_ended_is_read_to_its_end_and_left_alone(kube, service, write, tmp_path):
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    kube.add(PODS, pod("web", phase="Succeeded", states={"app": ended}))
    for number in range(1, 101):
        write(f"line {number}")

    async with shipping(kube, service, tmp_path):
        await until(lambda: messages(service) == numbered(100))
        await until(lambda: len(kube.log_queries) == 2)  # once more, behind the last line
        await asyncio.sleep(0.3)

        assert len(kube.log_queries) == 2


async def test_two_pods_of_one_name_in_turn_are_two(kube, service, write, tmp_path):
    kube.add(PODS, pod("web", uid="first"))
    write("line 1")
    async with shipping(kube, service, tmp_path):
        await until(lambda: messages(service) == numbered(1))
        await kube.delete(PODS, pod("web"))
        kube.logs.clear()
        write("line 2")
        await kube.put(PODS, pod("web", uid="second"))
        await until(lambda: messages(service) == numbered(2))


async def test_every_line_arrives_once_whatever_is_cut_and_restarted(
    kube, service, write, tmp_path, monkeypatch
):
    monkeypatch.setattr(backoff, "BACKOFF_LIMIT_SECONDS", 0.02)
    kube.add(PODS, pod("web"))
    service.cut_answers = 5
    written = 0
    for turn in range(6):
        async with shipping(kube, service, tmp_path):
            for _ in range(40):
                written += 1
                write(f"line {written}")
                await asyncio.sleep(0.001)
            if turn % 2:
                service.log_answers = [answer(503), answer(500), answer(429)]
            await asyncio.sleep(0.05)
    async with shipping(kube, service, tmp_path):
        await until(lambda: len(messages(service)) >= written)

    assert messages(service) == numbered(written)


async def test_lines_of_one_time_are_all_shipped_and_once(kube, service, write, tmp_path):
    kube.add(PODS, pod("web"))
    stamp = time_of(time.time_ns())
    kube.logs[("shop", "web", "app", False)] = [(stamp, f"line {number}\n".encode()) for number in (1, 2, 3)]
    async with shipping(kube, service, tmp_path):
        await until(lambda: messages(service) == numbered(3))
    kube.logs[("shop", "web", "app", False)] += [(stamp, b"line 4\n"), (time_of(time.time_ns()), b"line 5\n")]
    async with shipping(kube, service, tmp_path):
        await until(lambda: messages(service) == numbered(5))


@pytest.mark.parametrize(
    ("labels", "settings", "own", "shipped"),
    [
        ({}, HOUR, None, True),
        ({"monitor.logs": "false"}, HOUR, None, False),
        ({}, LogSettings(["shop/*"], 3600.0), None, False),
        ({}, LogSettings(["*/app"], 3600.0), None, False),
        ({}, LogSettings(["other/*", "web"], 3600.0), None, True),
        ({"monitor.logs": "true"}, LogSettings(["shop/*"], 3600.0), None, True),
        ({}, HOUR, "shop/web", False),
    ],
)
async def test_which_logs_are_shipped(kube, service, write, tmp_path, labels, settings, own, shipped):
    kube.add(PODS, pod("web", labels=labels), pod("db", containers=("postgres",)))
    write("line 1")
    write("of the database", "postgres", "db")

    async with shipping(kube, service, tmp_path, settings, own=own):
        if "shop/*" not in settings.exclude:
            await until(lambda: messages(service, "postgres", "db"))
        if shipped:
            await until(lambda: messages(service) == numbered(1))
        await asyncio.sleep(0.1)

    assert bool(messages(service)) is shipped


async def test_a_log_that_may_not_be_read_is_told_and_tried_again(kube, service, write, tmp_path):
    kube.add(PODS, pod("web"))
    write("line 1")
    path = "/api/v1/namespaces/shop/pods/web/log"
    kube.refuse[path] = status(403, "Forbidden", "pods/log is forbidden")
    async with shipping(kube, service, tmp_path):
        await until(lambda: kube.requests[f"GET {path}"] >= 3)
        kube.refuse.clear()
        await until(lambda: messages(service) == numbered(1))


async def test_a_whole_clusters_logs_that_may_not_be_read_are_told_in_one_line(
    kube, service, write, tmp_path
):
    names = [f"web-{number}" for number in range(20)]
    kube.add(PODS, *(pod(name) for name in names))
    for name in names:
        kube.refuse[f"/api/v1/namespaces/shop/pods/{name}/log"] = status(403, "Forbidden", "not yours")

    with capture_logs() as told:
        async with shipping(kube, service, tmp_path) as shipper:
            await until(lambda: shipper._untold >= len(names) - 1)

    [warning] = [entry for entry in told if entry["log_level"] == "warning"]
    assert "not yours" in warning["error"]
