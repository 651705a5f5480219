"""Live tails of pods: what a viewer's request gives, through cut streams and restarts."""

import asyncio
import time

import pytest

from monitor.collector.failure import TailFailed
from monitor.collector.kubernetes import tail
from monitor.collector.kubernetes.tail import PodLines
from monitor.collector.logs.records import time_of
from monitor.wire.tail import LogRequest
from tests.collector.fakes import until
from tests.collector.kubernetes.fake_api import status
from tests.collector.kubernetes.shapes import pod

PODS = "/api/v1/pods"
KEY = ("shop", "web", "app", False)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tail, "REOPEN_SECONDS", 0.02)


class Taken:
    """Where a tail's lines go."""

    def __init__(self):
        self.lines = []

    async def ready(self):
        await asyncio.sleep(0)

    def add(self, line):
        self.lines.append(line)

    @property
    def messages(self):
        return [line.message for line in self.lines]


def lines(first, last):
    start = time.time_ns()
    return [(time_of(start + number), f"line {number}\n".encode()) for number in range(first, last + 1)]


def numbered(first, last):
    return [f"line {number}" for number in range(first, last + 1)]


def request(**changes):
    wanted = {"request_id": "r1", "source": "kubernetes", "tail": 100, "follow": False}
    return LogRequest(**wanted | {"namespace": "shop", "pod": "web"} | changes)


async def tailed(cluster, asked):
    taken = Taken()
    async with asyncio.timeout(30):
        await PodLines(cluster).tail(asked, taken)
    return taken


@pytest.fixture
def following(cluster):
    """Start tails that are ended with the test."""
    tasks = []

    def start(asked):
        taken = Taken()
        tasks.append(asyncio.create_task(PodLines(cluster).tail(asked, taken)))
        taken.task = tasks[-1]
        return taken

    yield start
    for task in tasks:
        task.cancel()


async def test_a_one_shot_tail_gives_the_newest_lines_and_ends(kube, cluster):
    kube.add(PODS, pod("web"))
    kube.logs[KEY] = [*lines(1, 500), (time_of(time.time_ns() + 10**9), b"without an end")]

    taken = await tailed(cluster, request(tail=10))

    assert taken.messages == [*numbered(492, 500), "without an end"]
    assert {line.stream for line in taken.lines} == {"stdout"}
    assert taken.lines[0].time == kube.logs[KEY][491][0]


async def test_seconds_are_asked_of_the_api_server(kube, cluster):
    kube.add(PODS, pod("web"))
    kube.logs[KEY] = []

    await tailed(cluster, request(since_seconds=0))

    assert kube.log_queries[-1][2] == {
        "container": "app",
        "timestamps": "true",
        "tailLines": "100",
        "sinceSeconds": "1",
    }


@pytest.mark.parametrize(("container", "seen"), [(None, "app"), ("proxy", "proxy")])
async def test_without_a_container_it_is_the_first_one(kube, cluster, container, seen):
    kube.add(PODS, pod("web", containers=("app", "proxy")))
    for name in ("app", "proxy"):
        kube.logs[("shop", "web", name, False)] = [(time_of(time.time_ns()), f"{name}\n".encode())]

    assert (await tailed(cluster, request(container=container))).messages == [seen]


async def test_new_lines_follow_the_old_ones(kube, cluster, following):
    kube.add(PODS, pod("web"))
    kube.logs[KEY] = lines(1, 20)
    taken = following(request(tail=5, follow=True))
    await until(lambda: taken.messages == numbered(16, 20))

    kube.logs[KEY] += lines(21, 25)

    await until(lambda: taken.messages == numbered(16, 25))


async def test_a_stream_that_ends_goes_on_behind_its_last_line(kube, cluster, following):
    kube.add(PODS, pod("web"))
    kube.logs[KEY] = lines(1, 3)
    taken = following(request(follow=True))
    for last in (10, 20, 30):
        await until(lambda last=last: len(taken.lines) == len(kube.logs[KEY]))
        kube.logs[KEY] = kube.logs[KEY] + lines(len(kube.logs[KEY]) + 1, last)  # another list: streams end

    await until(lambda: len(taken.lines) >= 30)
    assert taken.messages == numbered(1, 30)


async def test_a_restart_is_followed(kube, cluster, following):
    kube.add(PODS, pod("web"))
    kube.logs[KEY] = lines(1, 3)
    taken = following(request(follow=True))
    await until(lambda: taken.messages == numbered(1, 3))

    crashed = {"waiting": {"reason": "CrashLoopBackOff"}}
    await kube.put(PODS, pod("web", restarts=1, states={"app": crashed}))
    kube.logs[KEY] = lines(4, 6)

    await until(lambda: taken.messages == numbered(1, 6))
    assert not taken.task.done()


async def test_it_ends_when_the_container_stays_ended(kube, cluster, following):
    kube.add(PODS, pod("web"))
    kube.logs[KEY] = lines(1, 3)
    taken = following(request(follow=True))
    await until(lambda: taken.messages == numbered(1, 3))

    kube.logs[KEY] = kube.logs[KEY] + lines(4, 4)
    await kube.put(PODS, pod("web", phase="Succeeded", states={"app": {"terminated": {"exitCode": 0}}}))

    await until(taken.task.done)
    assert taken.messages == numbered(1, 4)


async def test_it_ends_with_its_pod(kube, cluster, following):
    kube.add(PODS, pod("web"))
    kube.logs[KEY] = lines(1, 3)
    taken = following(request(follow=True))
    await until(lambda: taken.messages == numbered(1, 3))

    await kube.delete(PODS, pod("web"))
    kube.logs.clear()

    await until(taken.task.done)
    assert taken.task.exception() is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"pod": "gone"}, "no such pod: shop/gone"),
        ({"pod": "../../secrets"}, "no such pod"),
        ({"container": "none"}, "no such container in shop/web: none"),
        ({"container": "app"}, "is waiting to start: ContainerCreating"),
        ({"container": "app", "follow": True}, "is waiting to start: ContainerCreating"),
    ],
)
async def test_what_cannot_be_read_is_told_to_the_viewer(kube, cluster, changes, text):
    kube.add(PODS, pod("web"))

    with pytest.raises(TailFailed, match=text):
        await tailed(cluster, request(**changes))


async def test_missing_rights_are_told_to_the_viewer(kube, cluster):
    kube.add(PODS, pod("web"))
    kube.refuse["/api/v1/namespaces/shop/pods/web/log"] = status(403, "Forbidden", "pods/log is forbidden")

    with pytest.raises(TailFailed, match="pods/log is forbidden"):
        await tailed(cluster, request(follow=True))
