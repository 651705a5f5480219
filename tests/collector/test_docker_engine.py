"""The agent's eyes on a real Docker engine."""

import asyncio
import json
import sys

import pytest

from monitor.collector.docker import Engine
from tests.collector.test_command import ended

pytestmark = pytest.mark.xdist_group("docker")

BUSY = ("sh", "-c", "while :; do :; done")
LABELS = {"com.docker.compose.project": "shop", "com.docker.compose.service": "web"}


@pytest.fixture
def run(docker_engine):
    """Start containers that are removed after the test."""
    names = []

    def start(name, *command, **options):
        names.append(name)
        return docker_engine.run(name, *command, **options)

    yield start
    for name in names:
        docker_engine.remove(name)


async def test_a_real_engines_containers_are_read_with_their_usage(docker_engine, run):
    busy_id = run("busy", *BUSY, labels=LABELS)
    run("idle", "sleep", "1000", network="host")
    run("over", "true")
    async with Engine(docker_engine.host) as engine:
        await engine.containers()
        await asyncio.sleep(2.0)
        busy, idle, over = await engine.containers()

    assert (busy.id, busy.short_id, busy.name, busy.image) == (
        busy_id,
        busy_id[:12],
        "busy",
        "monitor-test:busybox",
    )
    assert busy.state == "running"
    assert busy.status.startswith("Up ")
    assert busy.labels == LABELS
    assert 1 < busy.cpu_percent < 120  # one core at most, on a machine that others use too
    assert 0 < busy.memory_usage_mb < 64
    assert busy.memory_limit_mb > busy.memory_usage_mb
    assert 0 < busy.memory_percent < 100
    assert busy.net_rx_bytes == 0
    assert idle.cpu_percent < 10
    assert over.state == "exited"
    assert over.status.startswith("Exited (0)")
    assert (over.cpu_percent, over.memory_usage_mb, over.memory_limit_mb) == (0, 0, 0)


async def test_a_stopped_container_stays_listed_and_a_removed_one_does_not(docker_engine, run):
    run("one", "sleep", "1000")
    async with Engine(docker_engine.host) as engine:
        [running] = await engine.containers()
        docker_engine.stop("one")
        [stopped] = await engine.containers()
        docker_engine.remove("one")
        gone = await engine.containers()

    assert (running.state, stopped.state, gone) == ("running", "exited", [])


async def test_containers_may_come_and_go_during_the_rounds(docker_engine, run):
    run("steady", "sleep", "1000")

    async def churn():
        for number in range(4):
            await asyncio.to_thread(run, f"brief-{number}", "sleep", "1000")
            await asyncio.to_thread(docker_engine.remove, f"brief-{number}")

    async with Engine(docker_engine.host) as engine:
        churning = asyncio.create_task(churn())
        rounds = []
        while not churning.done():
            rounds.append(await engine.containers())
            await asyncio.sleep(0.02)
        await churning

    assert len(rounds) > 1
    assert all("steady" in {container.name for container in containers} for containers in rounds)


async def test_thirty_containers_take_one_round_of_seconds(docker_engine, run):
    for number in range(30):
        run(f"c-{number}", "sleep", "1000")
    loop = asyncio.get_running_loop()

    async with Engine(docker_engine.host) as engine:
        start = loop.time()
        containers = await engine.containers()
        seconds = loop.time() - start

    assert len(containers) == 30
    assert all(container.memory_usage_mb > 0 for container in containers)
    assert seconds < 8.0  # one after another they would take up to 30
    print(f"30 containers in {seconds:.2f} s", file=sys.stderr)


async def test_a_dry_run_prints_what_the_real_engine_has(docker_engine, run):
    run("seen", "sleep", "1000")

    code, out, err = await ended("--once", "--dry-run", DOCKER_HOST=docker_engine.host)

    assert code == 0, err
    [container] = json.loads(out)["containers"]
    assert container["name"] == "seen"
    assert container["memoryUsageMB"] > 0
