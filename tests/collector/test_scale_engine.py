"""A group of a real engine's containers is brought to its number, and nothing else is touched."""

from __future__ import annotations

import asyncio
import json

import pytest

from monitor.collector.docker import Engine
from monitor.collector.failure import CommandFailed
from monitor.collector.scale.execute import scale_executors
from tests.collector.fakes import API_KEY, until
from tests.collector.test_command import start
from tests.collector.test_executor import command
from tests.docker_engine import IMAGE

pytestmark = pytest.mark.xdist_group("docker")

SLEEP = ("sleep", "100000")
LABELS = {
    "com.docker.compose.project": "shop",
    "com.docker.compose.service": "web",
    "com.docker.compose.oneoff": "False",
}


class Group:
    """The containers of a test, and commands for them."""

    def __init__(self, engine, executors):
        self._engine = engine
        self._executors = executors

    def run(self, name, *command, options=(), labels=None, network="none"):
        arguments = [
            "run",
            "--detach",
            "--stop-signal",
            "KILL",
            "--name",
            name,
            "--network",
            network,
            *options,
        ]
        for key, text in (labels or {}).items():
            arguments += ["--label", f"{key}={text}"]
        return self._engine.call(*arguments, IMAGE, *(command or SLEEP))

    def compose(self, number, *command, options=()):
        labels = LABELS | {"com.docker.compose.container-number": str(number)}
        return self.run(f"shop-web-{number}", *command, options=options, labels=labels)

    def states(self):
        lines = self._engine.call("ps", "--all", "--format", "{{.Names}} {{.State}}").splitlines()
        return dict(sorted(line.split() for line in lines))

    def ids(self):
        lines = self._engine.call("ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.ID}}").splitlines()
        return dict(line.split() for line in lines)

    def inspect(self, name):
        [found] = json.loads(self._engine.call("inspect", name))
        return found

    async def scale(self, replicas, kind="docker.scale", group="web", **more):
        return await self._executors[kind]({"group": group, "replicas": replicas, **more})


@pytest.fixture
async def containers(docker_engine):
    async with Engine(docker_engine.host) as engine:
        yield Group(docker_engine, scale_executors(engine, lambda: None))
    for name in docker_engine.call("ps", "--all", "--format", "{{.Names}}").splitlines():
        docker_engine.remove(name)


async def test_two_become_four_and_two_again_and_no_other_container_is_touched(containers):
    containers.compose(1)
    containers.compose(
        2, options=["--env", "MODE=fast", "--user", "7", "--memory", "32m", "--restart", "always"]
    )
    others = [containers.run("db"), containers.run("web-9", labels={"com.docker.compose.service": "api"})]
    before = containers.ids()

    up = await containers.scale(4, lbPoolRef="front")

    assert up == "2 → 4: started shop-web-3, shop-web-4"
    states = containers.states()
    assert set(states) == {*before, "shop-web-3", "shop-web-4"}
    assert set(states.values()) == {"running"}
    source, made = containers.inspect("shop-web-2"), containers.inspect("shop-web-4")
    for key in ("Env", "User", "Cmd", "Entrypoint", "Image", "WorkingDir", "StopSignal"):
        assert made["Config"][key] == source["Config"][key], key
    for key in ("Memory", "RestartPolicy", "NetworkMode"):
        assert made["HostConfig"][key] == source["HostConfig"][key], key
    assert made["Image"] == source["Image"]
    assert made["Config"]["Hostname"] == made["Id"][:12]
    assert made["Config"]["Labels"] == LABELS | {
        "com.docker.compose.container-number": "4",
        "monitor.scale.added": "true",
        "monitor.scale.lb-pool": "front",
    }

    assert await containers.scale(4) == "4 → 4: nothing to do"

    down = await containers.scale(2)

    assert down.startswith("4 → 2: removed shop-web-")
    assert containers.ids() == before
    assert all(containers.inspect(one)["State"]["Running"] for one in others)


async def test_what_was_there_before_us_is_stopped_and_started_but_never_removed(containers):
    before = {containers.compose(1), containers.compose(2)}
    await containers.scale(3)

    down = await containers.scale(0)

    assert down.startswith("3 → 0: stopped shop-web-")
    assert down.endswith(", removed shop-web-3")
    assert containers.states() == {"shop-web-1": "exited", "shop-web-2": "exited"}

    assert await containers.scale(3) == "0 → 3: started shop-web-1, shop-web-2, shop-web-3"
    assert before < set(containers.ids().values())
    assert len(containers.ids()) == 3


async def test_a_rollback_starts_new_containers_and_not_the_original_ones(containers):
    containers.compose(1)
    containers.compose(2)
    await containers.scale(1)

    assert await containers.scale(2, "docker.rollback") == "1 → 2: started shop-web-3"
    assert containers.states() == {"shop-web-1": "running", "shop-web-2": "exited", "shop-web-3": "running"}


async def test_a_fixed_host_port_is_refused_and_nothing_is_made(containers):
    # A port is only bound where there is a bridge; that it is asked for is what counts.
    containers.run("web-1", options=["--publish", "127.0.0.1:18080:80"])

    with pytest.raises(CommandFailed) as failed:
        await containers.scale(2)

    assert str(failed.value).startswith("1 → 1 of 2: web-1 publishes the fixed host port 18080")
    assert containers.states() == {"web-1": "running"}


async def test_a_container_with_a_fixed_port_is_stopped_and_comes_back_by_rollback(containers):
    containers.run("web-1", options=["--publish", "127.0.0.1:18080:80"])

    assert await containers.scale(0) == "1 → 0: stopped web-1"
    assert await containers.scale(1, "docker.rollback") == "0 → 1: started web-1"


async def test_the_stop_timeout_of_the_container_is_kept(containers):
    trap = "trap 'sleep 2; exit 0' TERM; while :; do sleep 0.1; done"
    containers.run("web-1")
    containers.run("web-2", "sh", "-c", trap, options=["--stop-signal", "TERM", "--stop-timeout", "30"])

    await containers.scale(1)

    state = containers.inspect("web-2")["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 0)  # 137 is a kill


async def test_a_replica_that_ends_at_once_is_told(containers):
    containers.run("web-1", "sh", "-c", "[ -e /ran ] && exit 3; : >/ran; sleep 100000")
    await containers.scale(0)

    with pytest.raises(CommandFailed, match="web-1 did not keep running: exited, exit code 3"):
        await containers.scale(1)


async def test_a_container_that_would_vanish_when_stopped_is_left_alone(containers):
    containers.run("web-1", options=["--rm"])

    with pytest.raises(CommandFailed, match="web-1 was started with --rm"):
        await containers.scale(0)
    assert containers.states() == {"web-1": "running"}


async def test_a_group_that_is_not_there_or_is_the_agents_own_is_refused(containers, docker_engine):
    with pytest.raises(CommandFailed, match="no container of the group web on this host"):
        await containers.scale(1)
    own = containers.run("web-1")
    async with Engine(docker_engine.host) as engine:
        with pytest.raises(CommandFailed, match="this agent's own"):
            await scale_executors(engine, lambda: own[:12])["docker.scale"]({"group": "web", "replicas": 0})
    assert containers.states() == {"web-1": "running"}


async def test_a_name_that_is_taken_is_passed_over(containers):
    containers.run("web-1", labels={"com.docker.compose.service": "web"})
    containers.run("web-2", labels={"com.docker.compose.service": "other"})

    assert await containers.scale(2) == "1 → 2: started web-3"


async def test_what_a_crash_left_half_made_is_made_anew_under_its_name(containers, docker_engine):
    containers.run("web-1")
    half = docker_engine.call(
        "create", "--name", "web-2", "--label", "monitor.scale.added=true", IMAGE, "true"
    )

    assert await containers.scale(3) == "1 → 3: started web-2, web-3"

    assert containers.ids()["web-2"] != half
    assert containers.inspect("web-2")["Config"]["Cmd"] == list(SLEEP)


async def test_a_copy_that_cannot_be_started_is_not_left_behind(containers, docker_engine):
    containers.run("base")
    containers.run("web-1", network="container:base")
    docker_engine.stop("base")

    with pytest.raises(CommandFailed, match="1 → 1 of 2: starting web-2: the engine answered"):
        await containers.scale(2)

    assert containers.states() == {"base": "exited", "web-1": "running"}


async def test_networks_and_their_names_are_taken_over(containers, docker_engine):
    for network in ("front", "back"):
        docker_engine.call("network", "create", "--internal", network)
    try:
        containers.run("web-1", network="front", options=["--network-alias", "web"])
        docker_engine.call("network", "connect", "back", "web-1")

        await containers.scale(2)

        networks = containers.inspect("web-2")["NetworkSettings"]["Networks"]
        assert set(networks) == {"front", "back"}
        assert "web" in networks["front"]["Aliases"]
        addresses = {
            containers.inspect(name)["NetworkSettings"]["Networks"]["front"]["IPAddress"]
            for name in ("web-1", "web-2")
        }
        assert len(addresses) == 2
    finally:
        for name in ("web-1", "web-2"):
            docker_engine.remove(name)
        for network in ("front", "back"):
            docker_engine.call("network", "rm", network)


async def test_volumes_are_shared_and_anonymous_ones_are_its_own(containers, docker_engine):
    containers.run("web-1", options=["--volume", "named:/data", "--volume", "/scratch"])

    await containers.scale(2)

    def volumes(name):
        return {mount["Destination"]: mount["Name"] for mount in containers.inspect(name)["Mounts"]}

    first, second = volumes("web-1"), volumes("web-2")
    assert first["/data"] == second["/data"] == "named"
    assert first["/scratch"] != second["/scratch"]
    await containers.scale(1)
    left = docker_engine.call("volume", "ls", "--quiet").split()
    assert first["/scratch"] in left
    assert second["/scratch"] not in left
    docker_engine.remove("web-1")
    docker_engine.call("volume", "rm", "named", first["/scratch"])


@pytest.mark.parametrize("seen", ["shop-web-3", "shop-web-5"])
async def test_an_agent_killed_in_the_midst_goes_on_to_the_same_number(
    service, containers, docker_engine, tmp_path, seen
):
    """The service hands a command out again that it has no result of."""
    containers.compose(1)
    containers.compose(2)
    options = [
        *("--url", service.url, "--docker-host", docker_engine.host, "--state-dir", str(tmp_path / "state")),
        *("--interval", "60s", "--no-logs"),
    ]
    order = command("cmd_1", payload={"group": "web", "replicas": 6})
    agent = await start(*options, MONITOR_API_KEY=API_KEY)
    await service.commands.put(order)
    async with asyncio.timeout(60.0):
        while seen not in await asyncio.to_thread(containers.states):
            await asyncio.sleep(0.01)
    agent.kill()
    await agent.communicate()
    made = len(containers.states())

    agent = await start(*options)
    try:
        await service.commands.put(order)
        await until(lambda: service.results)
        await service.commands.put(order)
        await until(lambda: len(service.results) == 2)
    finally:
        agent.terminate()
        await agent.communicate()

    assert made < 6
    assert containers.states() == {f"shop-web-{number}": "running" for number in range(1, 7)}
    assert {body["status"] for _, body in service.results} == {"succeeded"}
    assert service.results[0] == service.results[1]
