"""What NVIDIA's management library tells of the GPUs of this machine, if it is there.

A thin binding of the few calls that are needed; ``libnvidia-ml.so.1`` comes with the
driver.  https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from msgspec import Struct

LIBRARY = "libnvidia-ml.so.1"
SUCCESS, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 3, 6, 7
NOT_AVAILABLE = 2**64 - 1  # in place of a number of bytes
FIRST_ROOM = 64  # processes of a device; there is room for more where it says so
ROOM_ATTEMPTS = 4  # processes may start between two calls


class NvmlError(Exception):
    """A call failed; the text names it and its status."""


class ProcessInfo(ctypes.Structure):
    """``nvmlProcessInfo_t``."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class ProcessSample(ctypes.Structure):
    """``nvmlProcessUtilizationSample_t``; utilizations are percents."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("timestamp", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


class Utilization(ctypes.Structure):
    """``nvmlUtilization_t``, in percent."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class DeviceUse(Struct, frozen=True):
    """What uses one GPU.

    Attributes:
        memory_bytes: By process.
        percent: By process, the mean since the previous reading; None where the GPU cannot tell.
        total_percent: Of the GPU by all processes; None where it cannot tell.
    """

    memory_bytes: dict[int, int]
    percent: dict[int, float] | None
    total_percent: float | None


class Nvml:
    """The library, initialized.

    Args:
        library: As ctypes loads it.

    Raises:
        NvmlError: There is no driver, or it does not answer.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._seen: dict[int, int] = {}  # the newest sample of each device, in microseconds
        self._call("nvmlInit_v2")

    def close(self) -> None:
        """Give the library back."""
        self._library.nvmlShutdown()

    def devices(self) -> list[DeviceUse]:
        """Return what uses each GPU.

        Raises:
            NvmlError: The GPUs cannot be listed, or one has fallen off its bus.
        """
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [self._device(index) for index in range(count.value)]

    def _device(self, index: int) -> DeviceUse:
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        memory: dict[int, int] = {}
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"):
            for info in self._processes(name, handle):
                known = 0 if info.used_memory == NOT_AVAILABLE else info.used_memory
                memory[info.pid] = max(memory.get(info.pid, 0), known)
        return DeviceUse(memory, self._percent(index, handle), self._total(handle))

    def _processes(self, name: str, handle: ctypes.c_void_p) -> list[ProcessInfo]:
        def fill(room: Any, count: Any) -> int:
            return int(getattr(self._library, name)(handle, ctypes.byref(count), room))

        return self._filled(name, ProcessInfo, fill)

    def _percent(self, index: int, handle: ctypes.c_void_p) -> dict[int, float] | None:
        name = "nvmlDeviceGetProcessUtilization"
        since = ctypes.c_ulonglong(self._seen.get(index, 0))

        def fill(room: Any, count: Any) -> int:
            return int(getattr(self._library, name)(handle, room, ctypes.byref(count), since))

        try:
            samples = self._filled(name, ProcessSample, fill)
        except NvmlUnsupported:
            return None
        found: dict[int, list[int]] = {}
        for sample in samples:
            if sample.timestamp > since.value:
                found.setdefault(sample.pid, []).append(sample.sm)
                self._seen[index] = max(self._seen.get(index, 0), sample.timestamp)
        return {pid: sum(values) / len(values) for pid, values in found.items()}

    def _total(self, handle: ctypes.c_void_p) -> float | None:
        use = Utilization()
        try:
            self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(use))
        except NvmlUnsupported:
            return None
        return float(use.gpu)

    def _filled(self, name: str, kind: Any, fill: Callable[[Any, Any], int]) -> list[Any]:
        """Return the elements that a call writes into an array with room enough."""
        room = FIRST_ROOM
        for _ in range(ROOM_ATTEMPTS):
            array, count = (kind * room)(), ctypes.c_uint(room)
            status = fill(array, count)
            if status == INSUFFICIENT_SIZE:
                room = max(2 * room, count.value)
                continue
            if status == NOT_FOUND:  # no process has used it
                return []
            _check(name, status)
            return list(array[: count.value])
        raise NvmlError(f"{name}: its processes change all the time")

    def _call(self, name: str, *arguments: Any) -> None:
        _check(name, int(getattr(self._library, name)(*arguments)))


class NvmlUnsupported(NvmlError):
    """A GPU does not know a call, as when it is divided (MIG)."""


def _check(name: str, status: int) -> None:
    if status == NOT_SUPPORTED:
        raise NvmlUnsupported(f"{name}: not supported")
    if status != SUCCESS:
        raise NvmlError(f"{name}: status {status}")


def load() -> Nvml | None:
    """Return the library; None where there is none.

    Raises:
        NvmlError: It is there, but its driver does not answer.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    return Nvml(library)
