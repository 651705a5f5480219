"""Turn the engine's raw stats of a container into its usage.

Pure: the counters of a round and the previous CPU sample go in, numbers as
``docker stats`` prints them come out.  https://docs.docker.com/reference/api/engine/
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

BYTES_PER_MB = 1_048_576  # the API's "MB" are mebibytes, as in docker stats


class CpuUsage(Struct, frozen=True):
    """CPU time in nanoseconds since the container's start."""

    total_usage: int = 0
    percpu_usage: list[int] | None = None


class CpuStats(Struct, frozen=True):
    """CPU counters; ``system_cpu_usage`` is the host's, over all its cores, in nanoseconds."""

    cpu_usage: CpuUsage = CpuUsage()
    system_cpu_usage: int | None = None
    online_cpus: int | None = None


class MemoryStats(Struct, frozen=True):
    """Memory in bytes; ``stats`` is the cgroup's memory.stat."""

    usage: int = 0
    limit: int = 0
    stats: dict[str, int] | None = None


class NetworkStats(Struct, frozen=True):
    """Byte counters of one interface."""

    rx_bytes: int = 0
    tx_bytes: int = 0


class BlkioEntry(Struct, frozen=True):
    """Bytes moved by one operation on one device; cgroup v1 says ``Read``, v2 ``read``."""

    op: str = ""
    value: int = 0


class BlkioStats(Struct, frozen=True):
    """Block device counters, null or empty where the kernel counts none."""

    io_service_bytes_recursive: list[BlkioEntry] | None = None


class EngineStats(Struct, frozen=True):
    """The answer of ``/containers/{id}/stats``, as far as it is used."""

    read: Annotated[datetime, Meta(tz=True)] | None = None
    cpu_stats: CpuStats = CpuStats()
    memory_stats: MemoryStats = MemoryStats()
    blkio_stats: BlkioStats | None = None
    networks: dict[str, NetworkStats] | None = None


class CpuSample(Struct, frozen=True):
    """CPU counters of one round, in nanoseconds, and when the engine read them."""

    total: int
    system: int | None
    read_at: datetime


class Usage(Struct, frozen=True):
    """Usage of a container; one core is 100 percent CPU, counters are bytes."""

    cpu_percent: float = 0.0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    memory_percent: float = 0.0
    net_rx_bytes: int = 0
    net_tx_bytes: int = 0
    blk_read_bytes: int = 0
    blk_write_bytes: int = 0


def usage_of(stats: EngineStats, previous: CpuSample | None) -> tuple[Usage, CpuSample] | None:
    """Return the usage and the CPU sample to keep for the next round.

    None for the empty stats that the engine gives of a container that has just
    stopped: their ``read`` is the zero time.
    """
    if stats.read is None or stats.read.year <= 1:
        return None
    sample = CpuSample(stats.cpu_stats.cpu_usage.total_usage, stats.cpu_stats.system_cpu_usage, stats.read)
    memory = working_set_bytes(stats.memory_stats)
    limit = stats.memory_stats.limit
    networks = (stats.networks or {}).values()
    usage = Usage(
        cpu_percent=cpu_percent(sample, previous, _core_count(stats.cpu_stats)),
        memory_bytes=memory,
        memory_limit_bytes=limit,
        memory_percent=100 * memory / limit if limit > 0 else 0.0,
        net_rx_bytes=sum(network.rx_bytes for network in networks),
        net_tx_bytes=sum(network.tx_bytes for network in networks),
        blk_read_bytes=_blkio_bytes(stats.blkio_stats, "read"),
        blk_write_bytes=_blkio_bytes(stats.blkio_stats, "write"),
    )
    return usage, sample


def cpu_percent(sample: CpuSample, previous: CpuSample | None, cores: int) -> float:
    """Return the CPU usage between two samples; 0 without a previous one or when counters fell.

    Where the engine does not tell the host's CPU time (Podman), the wall clock
    stands for one core.
    """
    if previous is None:
        return 0.0
    used = sample.total - previous.total
    if sample.system is not None and previous.system is not None:
        available = (sample.system - previous.system) / cores
    else:
        available = (sample.read_at - previous.read_at).total_seconds() * 1e9
    if used < 0 or available <= 0:
        return 0.0
    return 100 * used / available


def working_set_bytes(memory: MemoryStats) -> int:
    """Return the memory in use without the page cache that the kernel may drop at once."""
    counters = memory.stats or {}
    # cgroup v1 has both names, and only the total_ one counts child cgroups too.
    cache = counters.get("total_inactive_file", counters.get("inactive_file", 0))
    return memory.usage - cache if cache < memory.usage else memory.usage


def _core_count(cpu: CpuStats) -> int:
    return cpu.online_cpus or len(cpu.cpu_usage.percpu_usage or ()) or 1


def _blkio_bytes(blkio: BlkioStats | None, operation: str) -> int:
    entries = (blkio.io_service_bytes_recursive if blkio else None) or ()
    return sum(entry.value for entry in entries if entry.op.lower() == operation)
