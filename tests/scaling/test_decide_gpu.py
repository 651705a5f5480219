"""The GPU-aware policies."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from monitor.scaling.decide import decide
from monitor.scaling.gpu import percentile, woken
from monitor.scaling.spec import Decision, Inputs, Memory, PolicySpec, Replica, Stay, taken

NOW = 1_900_000_020.0  # a slot of a window begins
SLEEPY = PolicySpec(
    runtime="kubernetes",
    target_ref="shop/model",
    dry_run=False,
    cpu_target_percent=50.0,
    min_replicas=2,
    max_replicas=20,
    policy_type="scale_to_zero_on_idle",
    idle_minutes=30,
    cooldown_scale_down_seconds=0,
    wake_metric="queue_length",
)
SIZED = replace(SLEEPY, policy_type="rightsize", wake_metric=None, window_minutes=60, gpu_target_percent=80.0)
SPOT = replace(
    SLEEPY, policy_type="spot_shift", wake_metric=None, spot_node_label="spot", max_spot_percent=50.0
)
IDLE = Memory(idle_since=NOW - 1800)


def seen(*gpu: float | None, **fields: Any) -> Inputs:
    """Return inputs with a replica for each GPU percent; their cpu is at its target."""
    return Inputs(agents=("a",), replicas=tuple(Replica(cpu=50, gpu=value) for value in gpu), **fields)


def decided(policy: PolicySpec, inputs: Inputs, memory: Memory, now: float = NOW) -> Decision:
    made = decide(policy, inputs, memory, now)
    assert isinstance(made, Decision), made
    return made


def stayed(policy: PolicySpec, inputs: Inputs, memory: Memory, now: float = NOW) -> Stay:
    made = decide(policy, inputs, memory, now)
    assert isinstance(made, Stay), made
    return made


def test_a_policy_goes_to_zero_when_every_gpu_was_idle_for_long_enough():
    memory = Memory()
    for minute in range(30):
        memory = stayed(SLEEPY, seen(5, 0), memory, NOW + 60 * minute).memory
    made = decided(SLEEPY, seen(5, 0), memory, NOW + 1800)

    assert (made.from_replicas, made.to_replicas, made.trigger_metric) == (2, 0, "gpu")
    assert (made.trigger_value, made.threshold) == (5, 5)
    assert made.reason == ("Down from 2 to 0: no GPU was above 5 % for 30 min, the busiest is at 5 %.")


@pytest.mark.parametrize(
    ("inputs", "memory"),
    [
        (seen(5.1, 0), IDLE),  # one works
        (seen(0, None), IDLE),  # one told nothing
        (seen(0, 0, wake=1), IDLE),  # somebody waits
        (seen(0, 0), Memory(idle_since=NOW - 1799)),
        (seen(0, 0), Memory()),
    ],
)
def test_anything_else_keeps_it_awake(inputs: Inputs, memory: Memory):
    assert stayed(SLEEPY, inputs, memory).current_replicas == 2


def test_a_replica_on_an_offline_host_keeps_it_awake():
    policy = replace(SLEEPY, runtime="docker", target_ref="default/model")

    stayed(policy, seen(0, 0, offline_replicas=1, online_hosts=1), IDLE)


def test_work_ends_idleness():
    memory = stayed(SLEEPY, seen(50, 0), IDLE).memory

    assert memory.idle_since is None
    assert stayed(SLEEPY, seen(0, 0), memory, NOW + 15).memory.idle_since == NOW + 15


def test_the_cooldown_holds_the_way_into_sleep():
    policy = replace(SLEEPY, cooldown_scale_down_seconds=300)

    stayed(policy, seen(0, 0), replace(IDLE, scaled_down_at=NOW - 299))
    decided(policy, seen(0, 0), replace(IDLE, scaled_down_at=NOW - 300))


def test_an_awake_policy_follows_its_other_targets():
    busy = Inputs(agents=("a",), replicas=(Replica(cpu=100, gpu=90), Replica(cpu=100, gpu=90)))

    assert decided(SLEEPY, busy, Memory()).trigger_metric == "cpu"


@pytest.mark.parametrize(("wake", "wakes"), [(None, False), (0, False), (-1, False), (0.5, True)])
def test_the_wake_metric_ends_the_sleep(wake: float | None, wakes: bool):
    made = decide(SLEEPY, seen(wake=wake), Memory(scaled_up_at=NOW - 1), NOW)

    assert isinstance(made, Decision) == wakes
    if isinstance(made, Decision):
        assert (made.from_replicas, made.to_replicas, made.trigger_metric) == (0, 2, "gpu")
        assert made.reason == "Up from 0 to 2: wakeMetric is 0.5."
        assert isinstance(decide(SLEEPY, seen(wake=wake), taken(made), NOW + 15), Stay)


@pytest.mark.parametrize(("low", "high", "replicas"), [(0, 5, 1), (3, 5, 3), (0, 0, 0)])
def test_it_wakes_to_its_minimum_and_to_one_at_least(low: int, high: int, replicas: int):
    assert woken(replace(SLEEPY, min_replicas=low, max_replicas=high)) == replicas


def after(policy: PolicySpec, gpu: list[float], replicas: int) -> Decision | Stay:
    """Return what is decided after *gpu* was the mean of each minute."""
    memory = Memory()
    for minute, value in enumerate(gpu):
        made = decide(policy, seen(*[value] * replicas), memory, NOW + 60 * minute)
        memory = made.memory
    return made


@pytest.mark.parametrize(
    ("gpu", "replicas", "expected"),
    [
        ([20.0] * 60, 8, 2),
        ([20.0] * 57 + [90.0] * 3, 8, 2),  # 5 % of the time is not looked at
        ([20.0] * 56 + [90.0] * 4, 8, 9),
        ([100.0] * 60, 4, 5),
        ([1.0] * 60, 4, 2),  # minReplicas
    ],
)
def test_rightsize_recommends_what_the_95th_percentile_needs(gpu: list[float], replicas: int, expected: int):
    made = after(SIZED, gpu, replicas)

    assert isinstance(made, Decision)
    assert (made.from_replicas, made.to_replicas, made.recommends) == (replicas, expected, True)


@pytest.mark.parametrize(
    ("gpu", "told"),
    [([20.0] * 30, "watched for 29 of 60 min"), ([80.0] * 60, "the target is 80 %")],
)
def test_rightsize_waits_for_a_whole_window_and_for_something_to_say(gpu: list[float], told: str):
    made = after(SIZED, gpu, 4)

    assert isinstance(made, Stay)
    assert told in made.reason


def test_rightsize_says_when_no_gpu_is_told():
    assert "no replica tells its GPU usage" in stayed(SIZED, seen(None, None), Memory()).reason


def test_rightsize_recommends_once():
    made = after(SIZED, [20.0] * 60, 8)
    assert isinstance(made, Decision)

    stayed(SIZED, seen(*[20.0] * 8), taken(made), NOW + 3600)


def on_spot(*spot: bool | None) -> Inputs:
    return Inputs(agents=("a",), replicas=tuple(Replica(gpu=50, spot=value) for value in spot))


@pytest.mark.parametrize(
    ("spot", "most", "expected"),
    [
        ((False, False, False, False), 50.0, (0, 2)),
        ((True, True, True, False), 50.0, (3, 2)),
        ((False, False, False), 50.0, (0, 1)),
        ((True, False), 0.0, (1, 0)),
        (tuple([False] * 100), 29.0, (0, 29)),
    ],
)
def test_spot_shift_counts_the_replicas_on_spot_nodes(spot: Any, most: float, expected: tuple[int, int]):
    made = decided(replace(SPOT, max_spot_percent=most), on_spot(*spot), Memory())

    assert (made.from_replicas, made.to_replicas) == expected
    assert made.recommends


@pytest.mark.parametrize("spot", [(True, False), (None, False)])
def test_spot_shift_has_nothing_to_say_when_all_is_well_or_not_known(spot: Any):
    stayed(SPOT, on_spot(*spot), Memory())


@pytest.mark.parametrize(("count", "expected"), [(1, 0), (19, 18), (20, 18), (21, 19), (60, 56), (100, 94)])
def test_a_percentile_is_one_of_the_values(count: int, expected: int):
    assert percentile([float(it) for it in range(count)]) == expected
