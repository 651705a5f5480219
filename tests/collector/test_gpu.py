"""What containers use of GPUs, by a stand-in of NVIDIA's library with its C interface."""

from __future__ import annotations

import ctypes
import struct

import pytest
from msgspec import UNSET
from structlog.testing import capture_logs

from monitor.collector.docker import Engine
from monitor.collector.gpu import Gpus, GpuUse, container_of_process, uses_of, was_given_gpu
from monitor.collector.nvml import NOT_AVAILABLE, NOT_FOUND, NOT_SUPPORTED, DeviceUse, Nvml, NvmlError
from tests.collector.shapes import cgroup_v1, listed

WEB, JOB, IDLE = "a" * 64, "b" * 64, "c" * 64
GIB = 2**30
POINTER = ctypes.POINTER


class Card:
    """A GPU of the stand-in: processes as (pid, bytes), samples as (pid, microseconds, percent)."""

    def __init__(self, processes=(), samples=(), total=0, *, divided=False):
        self.processes = list(processes)
        self.samples = list(samples)
        self.total = total
        self.divided = divided


class Library:
    """``libnvidia-ml.so.1`` as far as it is called: C functions over the memory that its header lays out."""

    def __init__(self, *cards, status=0):
        self.cards = cards
        self.closed = False
        self._status = status
        unsigned, pointer = ctypes.c_uint, ctypes.c_void_p
        self._declare("nvmlInit_v2", lambda: self._status)
        self._declare("nvmlShutdown", self._close)
        self._declare("nvmlDeviceGetCount_v2", self._count, POINTER(unsigned))
        self._declare("nvmlDeviceGetHandleByIndex_v2", self._handle, unsigned, POINTER(pointer))
        for kind in ("Compute", "Graphics"):
            name = f"nvmlDeviceGet{kind}RunningProcesses_v3"
            call = self._compute if kind == "Compute" else self._graphics
            self._declare(name, call, pointer, POINTER(unsigned), pointer)
        self._declare(
            "nvmlDeviceGetProcessUtilization",
            self._utilization,
            *(pointer, pointer, POINTER(unsigned), ctypes.c_ulonglong),
        )
        self._declare("nvmlDeviceGetUtilizationRates", self._rates, pointer, pointer)

    def _declare(self, name, call, *arguments):
        setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(call))

    def _close(self):
        self.closed = True
        return 0

    def _count(self, count):
        count[0] = len(self.cards)
        return 0

    def _handle(self, index, handle):
        handle[0] = index + 1
        return 0

    def _compute(self, handle, count, room):
        return self._fill(self.cards[handle - 1].processes, count, room, "IxxxxQII")

    def _graphics(self, handle, count, room):
        return self._fill([], count, room, "IxxxxQII")

    def _utilization(self, handle, room, count, since):
        card = self.cards[handle - 1]
        if card.divided:
            return NOT_SUPPORTED
        fresh = [one for one in card.samples if one[1] > since]
        return self._fill(fresh, count, room, "IxxxxQIIII") if fresh else NOT_FOUND

    def _rates(self, handle, rates):
        ctypes.cast(rates, POINTER(ctypes.c_uint))[0] = self.cards[handle - 1].total
        return 0

    def _fill(self, rows, count, room, layout):
        """Write rows as the C structs of *layout*, padding and all."""
        if count[0] < len(rows):
            count[0] = len(rows)
            return 7
        count[0] = len(rows)
        size = struct.calcsize(f"@{layout}0Q")
        for number, row in enumerate(rows):
            values = (*row, *[0] * (layout.count("I") + layout.count("Q") - len(row)))
            ctypes.memmove(room + number * size, struct.pack(f"@{layout}0Q", *values), size)
        return 0


def test_processes_and_their_shares_are_read():
    card = Card([(10, 2 * GIB), (11, GIB)], [(10, 1_000, 40), (10, 2_000, 60), (11, 2_000, 7)], total=57)
    library = Library(card, Card())
    nvml = Nvml(library)

    first, second = nvml.devices()

    assert first == DeviceUse({10: 2 * GIB, 11: GIB}, {10: 50.0, 11: 7.0}, 57.0)
    assert second == DeviceUse({}, {}, 0.0)
    card.samples.append((10, 3_000, 90))
    assert nvml.devices()[0].percent == {10: 90.0}
    assert nvml.devices()[0].percent == {}
    nvml.close()
    assert library.closed


def test_more_processes_than_there_is_room_for_at_first():
    processes = [(pid, pid * GIB) for pid in range(1, 201)]
    samples = [(pid, 5, pid % 100) for pid in range(1, 201)]

    [device] = Nvml(Library(Card(processes, samples))).devices()

    assert device.memory_bytes == dict(processes)
    assert device.percent == {pid: float(share) for pid, _, share in samples}


def test_a_divided_gpu_and_an_unknown_memory():
    [device] = Nvml(Library(Card([(10, NOT_AVAILABLE)], total=80, divided=True))).devices()

    assert device == DeviceUse({10: 0}, None, 80.0)


def test_a_driver_that_does_not_answer_is_told_and_costs_nothing_else():
    with pytest.raises(NvmlError, match="nvmlInit_v2: status 9"):
        Nvml(Library(status=9))

    with capture_logs() as logs:
        gpus = Gpus(lambda: Nvml(Library(status=9)))

    assert not gpus.present
    assert [entry["event"] for entry in logs] == ["no figures of GPUs"]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([], {}),
        ([DeviceUse({1: 5}, {1: 40.0}, 40.0)], {WEB: GpuUse(40.0, 5)}),
        ([DeviceUse({1: 5, 2: 6}, {1: 40.0, 2: 10.0}, 50.0)], {WEB: GpuUse(50.0, 11)}),
        ([DeviceUse({1: 5, 3: 7}, {1: 40.0}, 50.0)], {WEB: GpuUse(40.0, 5), JOB: GpuUse(0.0, 7)}),
        ([DeviceUse({1: 5}, {1: 90.0}, 90.0), DeviceUse({2: 6}, {2: 80.0}, 80.0)], {WEB: GpuUse(170.0, 11)}),
        ([DeviceUse({9: 5}, {9: 90.0}, 90.0)], {}),
        ([DeviceUse({1: 5, 2: 6}, None, 70.0)], {WEB: GpuUse(70.0, 11)}),
        ([DeviceUse({1: 5, 3: 6}, None, 70.0)], {WEB: GpuUse(None, 5), JOB: GpuUse(None, 6)}),
        ([DeviceUse({1: 5, 9: 6}, None, 70.0)], {WEB: GpuUse(None, 5)}),
        ([DeviceUse({1: 5}, None, None), DeviceUse({1: 5}, {1: 3.0}, 3.0)], {WEB: GpuUse(None, 10)}),
    ],
    ids=[
        "nothing",
        "one process",
        "two of one container",
        "two containers",
        "two GPUs",
        "a process of the host",
        "alone on a divided GPU",
        "two on a divided GPU",
        "beside a process of the host",
        "unknown on one GPU",
    ],
)
def test_shares_are_summed_by_container(devices, expected):
    assert uses_of(devices, {1: WEB, 2: WEB, 3: JOB}.get) == expected


@pytest.mark.parametrize(
    ("text", "container"),
    [
        (f"0::/system.slice/docker-{WEB}.scope\n", WEB),
        (f"4:memory:/docker/{WEB}\n1:cpu:/docker/{WEB}\n", WEB),
        (f"0::/docker/{JOB}/docker/{WEB}\n", WEB),
        ("0::/user.slice\n", None),
        (None, None),
    ],
)
def test_the_container_of_a_process_is_that_of_its_cgroup(tmp_path, text, container):
    if text is not None:
        (tmp_path / "42").mkdir()
        (tmp_path / "42" / "cgroup").write_text(text)

    assert container_of_process(42, tmp_path) == container


@pytest.mark.parametrize(
    ("inspected", "given"),
    [
        (b'{"HostConfig":{"DeviceRequests":[{"Driver":"","Count":-1,"Capabilities":[["gpu"]]}]}}', True),
        (b'{"HostConfig":{"DeviceRequests":[{"Driver":"nvidia","Capabilities":null}]}}', True),
        (b'{"HostConfig":{"Runtime":"nvidia","DeviceRequests":null}}', True),
        (b'{"HostConfig":{"Runtime":"runc","DeviceRequests":[{"Driver":"cdi"}]}}', False),
        (b"{}", False),
    ],
)
def test_a_container_may_have_been_given_a_gpu(inspected, given):
    assert was_given_gpu(inspected) is given


async def test_containers_are_pushed_with_what_they_use(engine, monkeypatch):
    monkeypatch.setattr("monitor.collector.gpu.container_of_process", {10: WEB}.get)
    engine.containers = [
        listed(WEB, "web"),
        listed(JOB, "job") | {"Gpu": True},
        listed(IDLE, "idle"),
        listed("d" * 64, "over", state="exited") | {"Gpu": True},
    ]
    engine.stats = {WEB: cgroup_v1(), JOB: cgroup_v1(), IDLE: cgroup_v1()}
    library = Library(Card([(10, 2 * GIB)], [(10, 1_000, 40)], total=40))
    async with Engine(engine.host, Gpus(lambda: Nvml(library))) as reader:
        containers = {one.name: one for one in await reader.containers()}
        again = {one.name: one for one in await reader.containers()}

    assert (containers["web"].gpu_percent, containers["web"].gpu_memory_bytes) == (40.0, 2 * GIB)
    assert (containers["job"].gpu_percent, containers["job"].gpu_memory_bytes) == (0.0, 0)
    for name in ("idle", "over"):
        assert containers[name].gpu_percent is UNSET
    assert again["web"].gpu_percent == 0.0
    assert library.closed


async def test_a_driver_that_fails_later_costs_its_figures_alone(engine):
    library = Library(Card([(10, GIB)]))
    async with Engine(engine.host, Gpus(lambda: Nvml(library))) as reader:
        library._declare("nvmlDeviceGetCount_v2", lambda count: 15, POINTER(ctypes.c_uint))
        with capture_logs() as logs:
            [web] = await reader.containers()

    assert web.memory_usage_mb > 0
    assert [entry["error"] for entry in logs if entry["event"] == "GPUs not read"] == [
        "nvmlDeviceGetCount_v2: status 15"
    ]
