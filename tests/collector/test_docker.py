"""Reading an engine, over HTTP with recorded shapes."""

import asyncio

import msgspec
import pytest
from aiohttp import web

from monitor.collector import docker
from monitor.collector.docker import Engine
from monitor.collector.failure import EngineAway
from monitor.collector.listing import EngineContainer, container_of, pushed_labels, sorted_ports
from monitor.collector.usage import Usage
from tests.collector.fakes import FakeEngine, served
from tests.collector.shapes import cgroup_v1, listed, stopped

WEB = "a" * 64
DB = "b" * 64
ZEROS = (
    "cpuPercent",
    "memoryUsageMB",
    "memoryLimitMB",
    "memoryPercent",
    "netRxBytes",
    "netTxBytes",
    "blkReadBytes",
    "blkWriteBytes",
)


async def read(engine):
    async with Engine(engine.host) as reader:
        return msgspec.to_builtins(await reader.containers())


async def test_a_running_container_is_read_with_all_its_fields(engine):
    ports = [{"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}]
    engine.containers = [listed(WEB, "web", ports=ports, labels={"com.docker.compose.service": "web"})]

    [container] = await read(engine)

    assert container == {
        "id": WEB,
        "shortId": "a" * 12,
        "name": "web",
        "image": "monitor-test:busybox",
        "status": "Up 3 minutes",
        "state": "running",
        "created": "2026-11-21T00:08:58Z",
        "source": "docker",
        "cpuPercent": 0.0,
        "memoryUsageMB": 80.0,
        "memoryLimitMB": 400.0,
        "memoryPercent": 20.0,
        "netRxBytes": 0,
        "netTxBytes": 0,
        "blkReadBytes": 0,
        "blkWriteBytes": 0,
        "ports": ports,
        "labels": {"com.docker.compose.service": "web"},
    }


async def test_cpu_comes_with_the_second_round(engine):
    async with Engine(engine.host) as reader:
        await reader.containers()
        engine.stats[WEB] = cgroup_v1(total=1_551_707_019, system=1_471_400_000_000)
        [container] = await reader.containers()

    assert container.cpu_percent == pytest.approx(50.0)


async def test_the_cpu_of_a_container_that_was_away_starts_anew(engine):
    async with Engine(engine.host) as reader:
        await reader.containers()
        present, engine.containers = engine.containers, []
        assert await reader.containers() == []
        engine.containers = present
        engine.stats[WEB] = cgroup_v1(total=1_551_707_019, system=1_471_400_000_000)
        [container] = await reader.containers()

    assert container.cpu_percent == 0.0


async def test_a_failed_round_keeps_the_earlier_cpu_sample(engine):
    async with Engine(engine.host) as reader:
        await reader.containers()
        engine.stats[WEB] = stopped()
        await reader.containers()
        engine.stats[WEB] = cgroup_v1(total=1_551_707_019, system=1_471_400_000_000)
        [container] = await reader.containers()

    assert container.cpu_percent == pytest.approx(50.0)


@pytest.mark.parametrize("state", ["exited", "created", "restarting", "dead", "removing"])
async def test_a_container_that_does_not_run_is_listed_with_zeros_and_not_asked_for_stats(engine, state):
    engine.containers = [listed(WEB, "web", state=state)]

    [container] = await read(engine)

    assert {container[field] for field in ZEROS} == {0}
    assert "statsOk" not in container
    assert [path for path in engine.requests if "stats" in path] == []


async def broken():
    return web.json_response({"message": "driver failed"}, status=500)


async def garbage():
    return web.Response(text="<html>")


@pytest.mark.parametrize("stats", [broken, garbage, stopped()])
async def test_failed_stats_are_zeros_that_say_so(engine, stats):
    engine.containers = [listed(DB, "db"), listed(WEB, "web")]
    engine.stats = {WEB: cgroup_v1(), DB: stats}

    db, other = await read(engine)

    assert db["name"] == "db"
    assert db["statsOk"] is False
    assert {db[field] for field in ZEROS} == {0}
    assert other["memoryUsageMB"] == 80.0


async def test_stats_that_hang_cost_one_deadline_however_many_they_are(engine, monkeypatch):
    monkeypatch.setattr(docker, "STATS_SECONDS", 0.3)
    monkeypatch.setattr(docker, "STATS_CONCURRENCY", 2)
    forever = asyncio.Event()
    engine.containers = [listed(f"{number:064}", f"c{number}") for number in range(6)]
    engine.stats = {container["Id"]: forever.wait for container in engine.containers}
    start = asyncio.get_running_loop().time()

    containers = await read(engine)

    assert [container["statsOk"] for container in containers] == [False] * 6
    assert asyncio.get_running_loop().time() - start < 2.0
    assert engine.busiest == 2
    forever.set()


async def test_all_stats_are_asked_for_at_once(engine):
    async def slow():
        await asyncio.sleep(0.2)
        return web.json_response(cgroup_v1())

    engine.containers = [listed(f"{number:064}", f"c{number}") for number in range(20)]
    engine.stats = {container["Id"]: slow for container in engine.containers}

    await read(engine)

    assert engine.busiest == 20


async def test_a_container_that_vanishes_before_its_stats_is_left_out(engine):
    engine.containers = [listed(WEB, "web"), listed(DB, "db")]

    assert [container["name"] for container in await read(engine)] == ["web"]


@pytest.mark.parametrize(
    ("engine_api", "asked", "one_shot"),
    [("1.41", "1.41", True), ("1.40", "1.40", False), ("1.99", "1.47", True), ("1.9", "1.9", False)],
)
async def test_the_api_version_is_the_lower_one_of_both_sides(engine, engine_api, asked, one_shot):
    engine.api = engine_api

    [container] = await read(engine)

    assert engine.requests[0] == f"/v{asked}/containers/json?all=1"
    assert engine.requests[1].startswith(f"/v{asked}/containers/{WEB}/stats?stream=false")
    assert ("one-shot=true" in engine.requests[1]) is one_shot
    assert container["memoryUsageMB"] == 80.0


async def test_an_upgraded_engine_is_asked_in_its_new_version(engine):
    async with Engine(engine.host) as reader:
        await reader.containers()
        engine.api = "1.45"
        await reader.containers()

    assert engine.requests[-2] == "/v1.45/containers/json?all=1"


def list_error():
    return web.json_response({"message": "daemon is shutting down"}, status=503)


def list_garbage():
    return web.json_response({"containers": []})


@pytest.mark.parametrize(
    ("containers", "text"), [(list_error, "503: .*daemon is shutting down"), (list_garbage, "cannot be read")]
)
async def test_an_engine_that_cannot_list_is_away(engine, containers, text):
    engine.containers = containers

    with pytest.raises(EngineAway, match=text):
        await read(engine)


async def test_something_else_at_the_address_is_told_apart_from_an_engine(engine):
    engine.api = ""

    with pytest.raises(EngineAway, match="not as a Docker engine"):
        await read(engine)


async def test_an_engine_that_is_not_there_is_away(tmp_path):
    async with Engine(f"unix://{tmp_path}/none.sock") as reader:
        with pytest.raises(EngineAway, match=r"none\.sock cannot be read"):
            await reader.containers()


async def test_an_engine_is_read_over_tcp_as_docker_host_writes_it():
    fake = FakeEngine()
    async with served(fake.app()) as url, Engine(url.replace("http", "tcp")) as reader:
        [container] = await reader.containers()

    assert container.name == "web"


@pytest.mark.parametrize(
    ("names", "name"),
    [(["/other/alias", "/web"], "web"), (["/web"], "web"), ([], "a" * 12), (None, "a" * 12)],
)
def test_the_name_is_the_containers_own_without_its_slash(names, name):
    raw = listed(WEB, "x") | {"Names": names}

    container = container_of(msgspec.convert(raw, EngineContainer), Usage())

    assert container.name == name


def test_null_ports_and_labels_are_empty():
    raw = listed(WEB, "web") | {"Ports": None, "Labels": None}

    container = container_of(msgspec.convert(raw, EngineContainer), Usage())

    assert (container.ports, container.labels) == ([], {})


def test_ports_come_in_one_order_whatever_the_engines_is():
    ports = [
        {"PrivatePort": 53, "Type": "udp"},
        {"IP": "::", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"},
        {"IP": "0.0.0.0", "PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"},
        {"PrivatePort": 53, "Type": "tcp"},
    ]

    assert sorted_ports(ports) == sorted_ports(ports[::-1]) == [ports[3], ports[0], ports[2], ports[1]]


def test_labels_that_the_service_would_refuse_stay_here():
    labels = {"a": "1", "k" * 1025: "1", "b": "v" * 1025, "c": "ü" * 513, "d": "\0", "e": "v" * 1024}

    assert pushed_labels(labels) == {"a": "1", "e": "v" * 1024}


def test_of_many_labels_those_of_compose_are_kept():
    labels = {f"a{number:03}": "x" for number in range(100)} | {"com.docker.compose.service": "web"}

    kept = pushed_labels(labels)

    assert len(kept) == 64
    assert kept["com.docker.compose.service"] == "web"
    assert "a062" in kept
    assert "a063" not in kept
