"""Which containers a number of replicas means, and how another one like them is made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.collector.failure import CommandFailed
from monitor.collector.listing import EngineContainer
from monitor.collector.scale.clone import LB_POOL_LABEL, clone, fixed_ports
from monitor.collector.scale.execute import Order, order_of
from monitor.collector.scale.group import (
    ADDED_LABEL,
    NUMBER_LABEL,
    ONE_OFF_LABEL,
    PRESENT_STATES,
    Member,
    members_of,
    newest,
    next_number,
    stem_of,
    steps,
)

SOURCE_ID = "a" * 64
VOLUME = "b" * 64


def listed(name, state="running", *, labels=None, created=0):
    return EngineContainer(name.ljust(64, "0"), [f"/{name}"], state=state, created=created, labels=labels)


def group(*containers):
    return members_of(containers, "web")


def ours(name, state="running", created=0):
    return listed(name, state, labels={ADDED_LABEL: "true"}, created=created)


def names(members):
    return [one.name for one in members]


@pytest.mark.parametrize(
    ("container", "is_member"),
    [
        (listed("web-1"), True),
        (listed("web_12"), True),
        (listed("web"), True),
        (listed("shop-web-1", labels={"com.docker.compose.service": "web"}), True),
        (listed("web-1", labels={"com.docker.compose.service": "shop"}), False),
        (listed("shop-web-1"), False),
        (listed("web-1-1"), False),
        (listed("web-1", "removing"), False),
        (listed("web-1", "dead"), False),
    ],
)
def test_a_group_is_the_compose_service_or_the_name_before_its_number(container, is_member):
    assert bool(group(container)) is is_member


@pytest.mark.parametrize(
    ("containers", "replicas", "reuse", "start", "clones", "stop", "remove"),
    [
        ([listed("web-1")], 1, True, [], 0, [], []),
        ([listed("web-1")], 3, True, [], 2, [], []),
        ([listed("web-1"), ours("web-2"), ours("web-3", created=1)], 2, True, [], 0, [], ["web-3"]),
        ([listed("web-1"), ours("web-2"), listed("web-3", created=9)], 2, True, [], 0, [], ["web-2"]),
        ([listed("web-1"), ours("web-2"), listed("web-3", created=9)], 1, True, [], 0, ["web-3"], ["web-2"]),
        ([listed("web-1"), ours("web-2")], 0, True, [], 0, ["web-1"], ["web-2"]),
        ([listed("web-1", "exited")], 2, True, ["web-1"], 1, [], []),
        ([listed("web-1", "exited")], 2, False, [], 2, [], []),
        ([listed("web-1"), listed("web-2", "exited"), ours("web-3", "exited")], 2, True, ["web-2"], 0, [], ["web-3"]),
        ([listed("web-1"), listed("web-2", "exited"), ours("web-3", "exited")], 2, False, ["web-3"], 0, [], []),
        ([listed("web-1"), ours("web-2", "created")], 2, True, [], 1, [], ["web-2"]),
        ([listed("web-1"), ours("web-2", "exited")], 1, True, [], 0, [], ["web-2"]),
        ([listed("web-1"), ours("web-2", "restarting"), ours("web-3", created=5)], 2, True, [], 0, [], ["web-2"]),
        ([listed("web-1"), listed("web-2", "restarting")], 2, True, [], 0, [], []),
        ([listed("web-1"), listed("web-2", labels={ONE_OFF_LABEL: "True"})], 0, True, [], 0, ["web-1"], []),
        ([listed("web-1"), listed("web-2", "exited", labels={ONE_OFF_LABEL: "True"})], 2, True, [], 1, [], []),
    ],
    ids=[
        "as it is",
        "new ones",
        "ours and the newest first",
        "ours before a newer original",
        "then an original, only stopped",
        "zero",
        "a stopped original first",
        "no stopped original in a rollback",
        "an original before ours, what is left of ours goes",
        "one of ours that has stopped",
        "what a crash left half made is made anew",
        "what a crash left half removed",
        "what does not run goes first",
        "a restarting one counts",
        "a single run is not stopped",
        "a single run is not started",
    ],
)  # fmt: skip
def test_the_steps_to_a_number(containers, replicas, reuse, start, clones, stop, remove):
    found = steps(group(*containers), replicas, reuse_stopped=reuse)

    assert (names(found.start), found.clones, names(found.stop), sorted(names(found.remove))) == (
        start,
        clones,
        stop,
        remove,
    )


members_strategy = st.lists(
    st.builds(
        Member,
        id=st.uuids().map(str),
        name=st.just("web"),
        state=st.sampled_from(["running", "paused", "restarting", "created", "exited"]),
        created=st.integers(0, 9),
        number=st.integers(1, 9),
        is_added=st.booleans(),
        is_one_off=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda one: one.id,
)


@given(members_strategy, st.integers(0, 10), st.booleans())
def test_the_steps_always_lead_to_the_number_and_never_remove_what_is_not_ours(members, replicas, reuse):
    todo = steps(members, replicas, reuse_stopped=reuse)

    present = {one.id for one in members if one.state in PRESENT_STATES}
    single = {one.id for one in members if one.is_one_off and one.id in present}
    after = (present | {one.id for one in todo.start}) - {one.id for one in todo.stop + todo.remove}
    assert len(after) + todo.clones == max(replicas, len(single))
    assert all(one.is_added for one in todo.remove)
    assert not any(one.is_one_off for one in todo.start + todo.stop + todo.remove)
    assert not {one.id for one in todo.start} & {one.id for one in todo.remove}
    assert not todo.clones or not todo.stop


def test_the_newest_running_replica_is_copied():
    containers = [
        listed("web-1", created=1),
        listed("web-2", created=2),
        listed("web-3", "exited", created=3),
        listed("web-4", created=4, labels={ONE_OFF_LABEL: "True"}),
    ]
    assert newest(group(*containers)).name == "web-2"
    assert newest(group(containers[2])).name == "web-3"
    assert newest(group(containers[3])) is None


@pytest.mark.parametrize(
    ("name", "stem"), [("shop-web-3", "shop-web-"), ("web_1", "web_"), ("db", "db-"), ("web-2-b", "web-2-b-")]
)
def test_the_stem_of_a_name(name, stem):
    assert stem_of(name) == stem


def test_the_next_number_is_above_names_and_labels():
    members = group(
        listed("web-1"), listed("odd", labels={"com.docker.compose.service": "web", NUMBER_LABEL: "7"})
    )
    assert next_number("web-", ["web-1", "web_50", "other-60", "web-x"], members) == 8
    assert next_number("web-", ["web-9"], members) == 10


def inspected(**changes):
    """What the engine tells of a container of compose, as far as a clone looks at it."""
    given = {
        "Id": SOURCE_ID,
        "Name": "/shop-web-1",
        "Image": "sha256:" + "c" * 64,
        "Config": {
            "Hostname": SOURCE_ID[:12],
            "Domainname": "",
            "User": "33",
            "Env": ["A=1"],
            "Cmd": ["serve"],
            "Entrypoint": ["/entry"],
            "WorkingDir": "/srv",
            "Image": "shop:1",
            "StopTimeout": 5,
            "MacAddress": "02:42:ac:11:00:02",
            "Volumes": {"/scratch": {}},
            "Labels": {
                "com.docker.compose.service": "web",
                NUMBER_LABEL: "1",
                "com.docker.compose.replace": "shop-web-0",
                "traefik.enable": "true",
            },
        },
        "HostConfig": {
            "NetworkMode": "shop_default",
            "Binds": ["shop_data:/data:rw", "/etc/ssl:/etc/ssl:ro", f"{VOLUME}:/cache:rw"],
            "Mounts": [
                {"Type": "volume", "Source": VOLUME, "Target": "/work"},
                {"Type": "tmpfs", "Target": "/t"},
            ],
            "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": ""}]},
            "RestartPolicy": {"Name": "always"},
            "Memory": 64 * 1024 * 1024,
            "ContainerIDFile": "/run/web.cid",
        },
        "NetworkSettings": {
            "Networks": {
                "shop_default": {
                    "NetworkID": "n1",
                    "IPAMConfig": {"IPv4Address": "172.20.0.9"},
                    "IPAddress": "172.20.0.9",
                    "MacAddress": "02:42:ac:11:00:02",
                    "Aliases": ["web", "shop-web-1", SOURCE_ID[:12]],
                    "Links": None,
                },
                "back": {"NetworkID": "n2", "Aliases": None, "DriverOpts": {"x": "y"}},
            }
        },
    }
    for path, value in changes.items():
        given["HostConfig" if path == "NetworkMode" else "Config"][path] = value
    return given


def test_a_clone_takes_over_everything_but_what_is_one_containers_own():
    source = inspected()
    made = clone(source, "shop-web-2", 2, "shop:1", "front")

    body = made.body
    for key in ("User", "Env", "Cmd", "Entrypoint", "WorkingDir", "StopTimeout"):
        assert body[key] == source["Config"][key]
    assert body["Image"] == "shop:1"
    assert not {"Hostname", "MacAddress"} & set(body)
    assert body["Labels"] == {
        "com.docker.compose.service": "web",
        NUMBER_LABEL: "2",
        "traefik.enable": "true",
        ADDED_LABEL: "true",
        LB_POOL_LABEL: "front",
    }
    host = body["HostConfig"]
    assert host["Binds"] == ["shop_data:/data:rw", "/etc/ssl:/etc/ssl:ro"]
    assert host["Mounts"] == [{"Type": "volume", "Target": "/work"}, {"Type": "tmpfs", "Target": "/t"}]
    assert body["Volumes"] == {"/scratch": {}, "/cache": {}}
    assert host["RestartPolicy"] == {"Name": "always"}
    assert host["Memory"] == 64 * 1024 * 1024
    assert "ContainerIDFile" not in host
    assert body["NetworkingConfig"] == {
        "EndpointsConfig": {"shop_default": {"Aliases": ["web", "shop-web-2"]}}
    }
    assert made.networks == {"back": {"Aliases": [], "DriverOpts": {"x": "y"}}}


def test_the_source_of_a_clone_is_not_changed():
    source = inspected()
    clone(source, "shop-web-2", 2, "shop:1", None)
    assert source == inspected()


@pytest.mark.parametrize(
    ("mode", "first", "further", "has_hostname"),
    [
        ("n1", ["shop_default"], ["back"], True),
        ("bridge", [], ["shop_default", "back"], True),
        ("default", [], ["shop_default", "back"], True),
        ("host", [], ["shop_default", "back"], False),
        ("container:" + "d" * 64, [], ["shop_default", "back"], False),
    ],
)
def test_the_network_of_a_clone(mode, first, further, has_hostname):
    made = clone(inspected(NetworkMode=mode, Hostname="chosen"), "shop-web-2", 2, "shop:1", None)

    assert list(made.body["NetworkingConfig"]["EndpointsConfig"]) == first
    assert list(made.networks) == further
    assert ("Hostname" in made.body) is has_hostname


@pytest.mark.parametrize(
    ("bindings", "ports"),
    [
        (None, []),
        ({}, []),
        ({"80/tcp": None}, []),
        ({"80/tcp": [{"HostPort": ""}], "81/tcp": [{"HostPort": "0"}]}, []),
        ({"80/tcp": [{"HostPort": "8000-8010"}]}, []),
        ({"80/tcp": [{"HostPort": "8080"}, {"HostPort": "443"}]}, ["443", "8080"]),
    ],
)
def test_only_a_single_port_of_the_host_is_fixed(bindings, ports):
    assert fixed_ports({"HostConfig": {"PortBindings": bindings}}) == ports


def test_the_payload_of_a_command():
    assert order_of({"group": "web", "replicas": 0, "lbPoolRef": "front"}) == Order("web", 0, "front")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"replicas": 1}, "group"),
        ({"group": "", "replicas": 1}, r"\$\.group"),
        ({"group": "web"}, "replicas"),
        ({"group": "web", "replicas": -1}, r"\$\.replicas"),
        ({"group": "web", "replicas": 1001}, r"\$\.replicas"),
        ({"group": "web", "replicas": 1.5}, r"\$\.replicas"),
        ({"group": "web", "replicas": 1, "lbPoolRef": 5}, r"\$\.lbPoolRef"),
    ],
)
def test_a_payload_that_is_none_names_the_field(payload, text):
    with pytest.raises(CommandFailed, match=text):
        order_of(payload)
