"""The arithmetic of usage, on recorded stats."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from monitor.collector.usage import CpuSample, EngineStats, cpu_percent, usage_of, working_set_bytes
from tests.collector.shapes import MIB, cgroup_v1, cgroup_v2, stopped

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECOND = 1_000_000_000


def decoded(stats):
    return msgspec.convert(stats, EngineStats)


def measured(stats, previous=None):
    result = usage_of(decoded(stats), previous)
    assert result is not None
    return result


def test_the_first_round_has_memory_and_no_cpu():
    usage, sample = measured(cgroup_v1())

    assert usage.cpu_percent == 0.0
    assert (sample.total, sample.system) == (1_051_707_019, 1_469_400_000_000)
    assert usage.memory_bytes == 80 * MIB  # without total_inactive_file, which counts child groups too
    assert usage.memory_limit_bytes == 400 * MIB
    assert usage.memory_percent == 20.0


def test_cgroup_v2_memory_is_without_inactive_file():
    usage, _ = measured(cgroup_v2())

    assert usage.memory_bytes == 48 * MIB
    assert usage.memory_percent == 50.0


def test_networks_and_devices_are_summed_and_operations_read_in_any_case():
    usage, _ = measured(cgroup_v2())

    assert (usage.net_rx_bytes, usage.net_tx_bytes) == (1100, 11)
    assert (usage.blk_read_bytes, usage.blk_write_bytes) == (4097, 8194)


@pytest.mark.parametrize("entries", [[], None])
def test_a_container_without_network_and_block_io_has_zeros(entries):
    stats = cgroup_v1()
    stats["blkio_stats"]["io_service_bytes_recursive"] = entries

    usage, _ = measured(stats)

    assert (usage.net_rx_bytes, usage.net_tx_bytes, usage.blk_read_bytes, usage.blk_write_bytes) == (0,) * 4


def test_absent_block_io_is_zero():
    usage, _ = measured(cgroup_v1() | {"blkio_stats": None})

    assert usage.blk_read_bytes == 0


def test_one_busy_core_of_two_is_100_percent():
    _, before = measured(cgroup_v1())

    usage, _ = measured(
        cgroup_v1(total=1_051_707_019 + SECOND, system=1_469_400_000_000 + 2 * SECOND), before
    )

    assert usage.cpu_percent == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("used", "system", "cores", "percent"),
    [
        (2 * SECOND, 4 * SECOND, 4, 200.0),
        (0, SECOND, 1, 0.0),
        (-SECOND, SECOND, 1, 0.0),  # the container was restarted
        (SECOND, 0, 1, 0.0),
        (SECOND, -SECOND, 1, 0.0),  # the host was
    ],
)
def test_cpu_is_the_share_of_the_hosts_time_times_its_cores(used, system, cores, percent):
    before = CpuSample(10 * SECOND, 100 * SECOND, NOON)
    after = CpuSample(10 * SECOND + used, 100 * SECOND + system, NOON + timedelta(seconds=1))

    assert cpu_percent(after, before, cores) == pytest.approx(percent)


def test_without_the_hosts_time_the_wall_clock_counts():
    before = CpuSample(SECOND, None, NOON)
    after = CpuSample(4 * SECOND, None, NOON + timedelta(seconds=2))

    assert cpu_percent(after, before, 8) == pytest.approx(150.0)


def test_the_wall_clock_standing_still_gives_no_cpu():
    assert cpu_percent(CpuSample(4, None, NOON), CpuSample(1, None, NOON), 8) == 0.0


def test_cores_are_counted_where_the_engine_does_not_tell_their_number():
    _, before = measured(cgroup_v1())
    stats = cgroup_v1(total=1_051_707_019 + SECOND, system=1_469_400_000_000 + 2 * SECOND)
    del stats["cpu_stats"]["online_cpus"]

    usage, _ = measured(stats, before)

    assert usage.cpu_percent == pytest.approx(100.0)


def test_a_cache_above_the_usage_is_not_subtracted():
    stats = decoded({"memory_stats": {"usage": 10, "stats": {"inactive_file": 11}}})

    assert working_set_bytes(stats.memory_stats) == 10


def test_memory_without_a_limit_has_no_percent():
    stats = cgroup_v1()
    del stats["memory_stats"]["limit"]

    usage, _ = measured(stats)

    assert (usage.memory_limit_bytes, usage.memory_percent) == (0, 0.0)


@pytest.mark.parametrize("stats", [stopped(), {}])
def test_empty_stats_are_no_usage(stats):
    assert usage_of(decoded(stats), None) is None
