"""What the containers of this host use of its GPUs.

One GPU is 100 percent, as one core is for the CPU.  Processes are found by their
cgroup, so an agent in a container needs the host's process ids (``pid: host``).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import structlog
from msgspec import UNSET, Struct

from monitor.collector import nvml
from monitor.collector.nvml import DeviceUse, Nvml, NvmlError
from monitor.wire.push import Container

log = structlog.get_logger(__name__)

READ_SECONDS = 5.0  # a driver that needs longer hangs
_ID = re.compile(r"[0-9a-f]{64}")


class GpuUse(Struct, frozen=True):
    """What a container uses; ``percent`` is None where its GPU cannot tell containers apart."""

    percent: float | None = 0.0
    memory_bytes: int = 0


class _DeviceRequest(Struct, frozen=True, rename="pascal"):
    driver: str = ""
    capabilities: list[list[str]] | None = None


class _HostConfig(Struct, frozen=True, rename="pascal"):
    runtime: str = ""
    device_requests: list[_DeviceRequest] | None = None


class _Inspected(Struct, frozen=True, rename="pascal"):
    host_config: _HostConfig = _HostConfig()


class Gpus:
    """The GPUs of this host; without a driver it has none.

    Attributes:
        present: Whether there is a driver that answers.
    """

    def __init__(self, load: Callable[[], Nvml | None] = nvml.load) -> None:
        try:
            self._nvml = load()
        except NvmlError as error:
            self._nvml = None
            log.warning("no figures of GPUs", error=str(error))

    @property
    def present(self) -> bool:
        """Whether there is a driver that answers."""
        return self._nvml is not None

    async def uses(self) -> dict[str, GpuUse]:
        """Return what each container uses, by its id; those that use nothing are not there."""
        if self._nvml is None:
            return {}
        try:
            async with asyncio.timeout(READ_SECONDS):
                devices = await asyncio.to_thread(self._nvml.devices)
        except (NvmlError, TimeoutError) as error:
            log.warning("GPUs not read", error=str(error))
            if isinstance(error, TimeoutError):
                self._nvml = None  # its thread is stuck: another one would be too
            return {}
        return uses_of(devices, container_of_process)

    def close(self) -> None:
        """Give the driver's library back."""
        if self._nvml is not None:
            self._nvml.close()


def uses_of(devices: Iterable[DeviceUse], container_of: Callable[[int], str | None]) -> dict[str, GpuUse]:
    """Return what each container uses of all GPUs together.

    Where a GPU cannot tell its processes' shares, all of it is the container's that alone uses it.
    """
    uses: dict[str, GpuUse] = {}
    for device in devices:
        pids = device.memory_bytes.keys() | (device.percent or {}).keys()
        owners = {pid: id_ for pid in pids if (id_ := container_of(pid)) is not None}
        everyone = {container_of(pid) for pid in pids}
        for id_ in set(owners.values()):
            own = [pid for pid, owner in owners.items() if owner == id_]
            percent = device.total_percent if everyone == {id_} else None
            if device.percent is not None:
                percent = sum(device.percent.get(pid, 0.0) for pid in own)
            before = uses.get(id_, GpuUse())
            together = None if percent is None or before.percent is None else before.percent + percent
            memory = sum(device.memory_bytes.get(pid, 0) for pid in own)
            uses[id_] = GpuUse(together, before.memory_bytes + memory)
    return uses


def with_gpu(container: Container, use: GpuUse) -> Container:
    """Return *container* with its figures of GPUs."""
    return msgspec.structs.replace(
        container,
        gpu_percent=UNSET if use.percent is None else use.percent,
        gpu_memory_bytes=use.memory_bytes,
    )


def was_given_gpu(inspected: bytes) -> bool:
    """Return whether a container was started with a GPU, by the engine's JSON of it."""
    host = msgspec.json.decode(inspected, type=_Inspected).host_config
    return host.runtime == "nvidia" or any(
        one.driver == "nvidia" or any("gpu" in names for names in one.capabilities or ())
        for one in host.device_requests or ()
    )


def container_of_process(pid: int, proc: Path = Path("/proc")) -> str | None:
    """Return the id of the container that a process runs in; None for one of the host, or that is gone."""
    try:
        text = (proc / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    found = _ID.findall(text)
    return str(found[-1]) if found else None
