"""Which containers' logs are shipped."""

import pytest

from monitor.collector.logs.select import is_shipped, own_container, this_container

ID = "f996e548e2994cc243399f18b9dfcb81ab972852d68c1f70460c4631666cffde"
OTHER = "0" * 64


@pytest.mark.parametrize(
    ("name", "labels", "exclude", "is_own", "shipped"),
    [
        ("web", {}, [], False, True),
        ("web", {}, [], True, False),
        ("web", {"monitor.logs": "true"}, [], True, True),
        ("web", {"monitor.logs": "false"}, [], False, False),
        ("web", {"monitor.logs": " FALSE "}, [], False, False),
        ("web", {"monitor.logs": "off"}, [], False, False),
        ("web", {"monitor.logs": "what"}, [], False, True),
        ("web", {}, ["web"], False, False),
        ("web-1", {}, ["db-*", "web-?"], False, False),
        ("Web-1", {}, ["web-*"], False, True),
        ("web-1", {"monitor.logs": "true"}, ["web-*"], False, True),
    ],
)
def test_label_then_ourselves_then_names_decide(name, labels, exclude, is_own, shipped):
    assert is_shipped(name, labels, exclude, is_own=is_own) is shipped


HOSTNAME_MOUNT = (
    f"641 627 254:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/vda1 rw"
)
SHM_MOUNT = f"99 25 0:52 / /var/lib/docker/containers/{OTHER}/mounts/shm rw - tmpfs shm rw"


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "hostname", "own"),
    [
        (f"12:cpu:/docker/{ID}\n0::/", "", "host", ID),
        (f"0::/system.slice/docker-{ID}.scope", "", "host", ID),
        (f"4:pids:/docker/{OTHER}/docker/{ID}", "", "host", ID),
        ("0::/", HOSTNAME_MOUNT, "host", ID),
        ("0::/", "", ID[:12], ID[:12]),
        ("0::/system.slice/monitor-agent.service", SHM_MOUNT, "db-host-1", None),
        ("", "", "", None),
    ],
)
def test_our_own_container_is_known_by_cgroup_mount_or_hostname(cgroup, mountinfo, hostname, own):
    assert own_container(cgroup, mountinfo, hostname) == own


def test_what_this_process_runs_in_is_read_without_error():
    assert this_container() is None or len(this_container()) in {12, 64}
