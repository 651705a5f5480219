"""The logs of a real engine's containers arrive exactly once, whatever happens to agent and service."""

import asyncio
import sys

import pytest

from tests.collector.fakes import API_KEY, FakeService, served
from tests.collector.test_command import start

pytestmark = pytest.mark.xdist_group("docker")

ARRIVAL_SECONDS = 60.0
LOOP = "i=0; while [ $i -lt {count} ]; do i=$((i+1)); {body}; done; sleep 1000"
LONG = 40 * 1024


@pytest.fixture
def run(docker_engine):
    """Start containers that are removed after the test."""
    names = []

    def start_container(name, script, *options):
        names.append(name)
        arguments = [
            "run",
            "--detach",
            "--stop-signal",
            "KILL",
            "--name",
            name,
            "--network",
            "none",
            *options,
        ]
        return docker_engine.call(*arguments, "monitor-test:busybox", "sh", "-c", script)

    yield start_container
    for name in names:
        docker_engine.remove(name)


class Agents:
    """One state directory, in which one agent after the other is started and killed."""

    def __init__(self, url, docker_host, state):
        self._options = ["--url", url, "--docker-host", docker_host, "--state-dir", str(state)]
        self.process = None

    async def start(self, *options):
        self.process = await start(
            *self._options, "--interval", "60s", "--log-level", "debug", *options, MONITOR_API_KEY=API_KEY
        )
        self._drain = asyncio.create_task(self._show())

    async def _show(self):
        async for line in self.process.stderr:
            sys.stderr.buffer.write(line)

    async def kill(self):
        if self.process is not None:
            self.process.kill()
            await self.process.wait()
            await self._drain
            self.process = None


@pytest.fixture
async def agents(service, docker_engine, tmp_path):
    made = Agents(service.url, docker_engine.host, tmp_path / "state")
    yield made
    await made.kill()


async def arrived(condition):
    async with asyncio.timeout(ARRIVAL_SECONDS):
        while not condition():
            await asyncio.sleep(0.05)


async def test_every_line_arrives_once_after_five_kills_and_a_service_that_was_away(
    docker_engine, run, tmp_path, unused_tcp_port
):
    service = FakeService()
    agents = Agents(f"http://127.0.0.1:{unused_tcp_port}", docker_engine.host, tmp_path / "state")
    try:
        async with served(service.app(), unused_tcp_port):
            await agents.start()
            await arrived(lambda: service.polls)
            run("plain", LOOP.format(count=600, body="echo out $i; echo err $i >&2; sleep 0.01"))
            run("tty", LOOP.format(count=300, body="echo tty $i; sleep 0.02"), "--tty")
            zeros = f"x=$(printf '%0{LONG}d' 0); "
            run("long", zeros + LOOP.format(count=20, body="echo $i $x; sleep 0.3"))
            rotation = ("--log-opt", "max-size=60k", "--log-opt", "max-file=20")
            run(
                "rotated",
                LOOP.format(count=5000, body="echo rot $i; [ $((i % 500)) = 0 ] && sleep 0.5"),
                *rotation,
            )
            first = run("twice", "for i in 1 2 3; do echo first $i; done; sleep 1000")
            await arrived(lambda: len(service.messages("twice")) >= 3)
            service.cut_answers = 2
            for _ in range(2):
                await asyncio.sleep(0.8)
                await agents.kill()
                await agents.start()
        await asyncio.sleep(1.0)  # the service is away, lines go on
        await agents.kill()
        await agents.start()
        await asyncio.sleep(1.5)
        async with served(service.app(), unused_tcp_port):
            docker_engine.remove("twice")
            second = run("twice", "for i in 1 2 3; do echo second $i; done; printf unfinished")
            for _ in range(2):
                await asyncio.sleep(1.2)
                await agents.kill()
                await agents.start()

            def complete():
                return (
                    len(service.messages("plain")) >= 1200
                    and len(service.messages("tty")) >= 300
                    and len(service.messages("long")) >= 20
                    and len(service.messages("rotated")) >= 5000
                    and len(service.messages("twice")) >= 7
                )

            await arrived(complete)
            await asyncio.sleep(1.5)  # what came twice would come now
    finally:
        await agents.kill()

    of_plain = [line for line in service.lines if line["container"] == "plain"]
    for stream, word in (("stdout", "out"), ("stderr", "err")):
        messages = [line["message"] for line in of_plain if line["stream"] == stream]
        assert messages == [f"{word} {number}" for number in range(1, 601)]
    assert service.messages("tty") == [f"tty {number}" for number in range(1, 301)]
    assert {line["stream"] for line in service.lines if line["container"] == "tty"} == {"stdout"}
    long = [f"{number} {'0' * LONG}" for number in range(1, 21)]
    sizes = [(line[:4], len(line)) for line in service.messages("long")]
    assert sizes == [(line[:4], len(line)) for line in long]
    assert service.messages("long") == long
    assert service.messages("rotated") == [f"rot {number}" for number in range(1, 5001)]
    generations = {
        id_: [line["message"] for line in service.lines if line["containerId"] == id_]
        for id_ in (first, second)
    }
    assert generations[first] == ["first 1", "first 2", "first 3"]
    assert generations[second] == ["second 1", "second 2", "second 3", "unfinished"]
    repeated = len(service.batches) - len({batch_id for batch_id, _ in service.batches})
    assert repeated >= 2
    print(
        f"{len(service.lines)} lines in {len(service.batches)} batches, {repeated} repeated", file=sys.stderr
    )


@pytest.fixture
async def agent(agents):
    await agents.start("--exclude", "noisy-*")
    return agents


async def test_the_last_words_of_a_removed_container_arrive(docker_engine, run, service, agent):
    await arrived(lambda: service.polls)
    run("job", "sleep 1; for i in $(seq 50); do echo last $i; done", "--rm")

    await arrived(lambda: len(service.messages("job")) >= 50)

    assert service.messages("job") == [f"last {number}" for number in range(1, 51)]


async def test_a_restarted_container_goes_on_and_what_it_said_without_a_newline_is_a_line(
    docker_engine, run, service, agent
):
    await arrived(lambda: service.polls)
    run("again", "echo begin; printf unfinished")
    await arrived(lambda: len(service.messages("again")) == 2)
    for _ in range(2):
        docker_engine.call("restart", "again")

    await arrived(lambda: len(service.messages("again")) >= 6)

    assert service.messages("again") == ["begin", "unfinished"] * 3


async def test_a_first_line_that_is_written_slowly_arrives_whole_after_each_start(
    docker_engine, run, service, agent
):
    await arrived(lambda: service.polls)
    names = [f"slow-{number}" for number in range(4)]  # the engine notes about every second start too late
    for name in names:
        run(name, f"printf '%0{LONG}d' 0; sleep 2; echo end; sleep 1000")
    await arrived(lambda: all(service.messages(name) for name in names))
    for name in names[:2]:
        docker_engine.call("restart", name)
    await arrived(lambda: all(len(service.messages(name)) >= 2 for name in names[:2]))

    sizes = {name: [len(message) for message in service.messages(name)] for name in names}
    whole = LONG + len("end")
    assert sizes == {name: [whole] * (2 if name in names[:2] else 1) for name in names}


async def test_excluded_and_unreadable_containers_are_no_obstacle(docker_engine, run, service, agent):
    await arrived(lambda: service.polls)
    run("noisy-1", "echo no; sleep 1000")
    run("labelled", "echo no; sleep 1000", "--label", "monitor.logs=false")
    run("mute", "echo no; sleep 1000", "--log-driver", "none")
    run("seen", "echo yes; sleep 1000")

    await arrived(lambda: service.messages("seen"))
    await asyncio.sleep(1.5)

    assert [line["message"] for line in service.lines] == ["yes"]


async def test_a_local_log_that_rotates_fast_is_read_to_its_end(docker_engine, run, service, agent):
    await arrived(lambda: service.polls)
    options = ("--log-driver", "local", "--log-opt", "max-size=50k", "--log-opt", "max-file=20")
    run("burst", LOOP.format(count=8000, body="echo line $i"), *options)

    await arrived(lambda: len(service.messages("burst")) >= 8000)

    assert service.messages("burst") == [f"line {number}" for number in range(1, 8001)]


async def test_lines_since_the_first_start_are_shipped_and_earlier_ones_are_not(
    docker_engine, run, service, agents
):
    run("early", "echo before; sleep 3; echo after; sleep 1000")
    await asyncio.sleep(0.5)
    await agents.start()

    await arrived(lambda: service.messages("early"))

    assert service.messages("early") == ["after"]


async def test_a_first_start_reaches_back_as_far_as_asked_and_no_logs_means_none(
    docker_engine, run, service, agents
):
    run("early", "echo before; sleep 1000")
    await agents.start("--no-logs")
    await arrived(lambda: service.polls)
    await asyncio.sleep(1.5)
    assert service.lines == []
    await agents.kill()

    await agents.start("--logs-since", "1h")

    await arrived(lambda: service.messages("early"))
    [line] = service.lines
    assert line.keys() == {"time", "stream", "message", "containerId", "container"}
    assert (line["stream"], line["message"], len(line["time"]), line["time"][-1]) == (
        "stdout",
        "before",
        30,
        "Z",
    )
