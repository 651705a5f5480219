"""What a policy decides: the autoscaler's figures, then each limit by itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from monitor.scaling.decide import decide
from monitor.scaling.hpa import recommend
from monitor.scaling.models import Settings
from monitor.scaling.spec import (
    Decision,
    Inputs,
    Memory,
    PolicySpec,
    Replica,
    Stay,
    approved,
    failed,
    overruled,
    taken,
)

NOW = 1_900_000_000.0
WEB = PolicySpec(
    runtime="kubernetes",
    target_ref="shop/web",
    cpu_target_percent=50.0,
    max_replicas=100,
    step_size=100,
    cooldown_scale_up_seconds=60,
    cooldown_scale_down_seconds=0,
)
DOCKER = replace(WEB, runtime="docker", target_ref="default/web")


def seen(*cpu: float | None, **fields: Any) -> Inputs:
    """Return inputs with a replica for each cpu percent."""
    return Inputs(agents=("a",), replicas=tuple(Replica(cpu=value) for value in cpu), **fields)


def to(policy: PolicySpec, inputs: Inputs, memory: Memory | None = None, now: float = NOW) -> int:
    """Return the replicas after what is decided."""
    made = decide(policy, inputs, memory or Memory(), now)
    return made.to_replicas if isinstance(made, Decision) else made.current_replicas


def decided(policy: PolicySpec, inputs: Inputs, memory: Memory | None = None, now: float = NOW) -> Decision:
    made = decide(policy, inputs, memory or Memory(), now)
    assert isinstance(made, Decision), made
    return made


def stayed(policy: PolicySpec, inputs: Inputs, memory: Memory | None = None, now: float = NOW) -> Stay:
    made = decide(policy, inputs, memory or Memory(), now)
    assert isinstance(made, Stay), made
    return made


@pytest.mark.parametrize(
    ("current", "values", "target", "wanted"),
    [
        # The documentation: 200m where 100m is wanted doubles, 50m halves, a tenth is tolerated.
        (1, [200], 100, 2),
        (2, [200, 200], 100, 4),
        (2, [50, 50], 100, 1),
        (4, [50] * 4, 100, 2),
        (10, [110] * 10, 100, 10),
        (10, [90] * 10, 100, 10),
        (10, [111] * 10, 100, 12),
        (10, [89] * 10, 100, 9),
        # Its walkthrough: one replica at 305 % of 50 % becomes seven; an idle one is no replica.
        (1, [305], 50, 7),
        (7, [0] * 7, 50, 0),
        # The autoscaler's own tests.
        (3, [30, 50, 70], 30, 5),
        (5, [10, 30, 50, 25, 25], 50, 3),
        (3, [112.2, 103, 92.7], 100, 3),
        # Missing figures count as the target when fewer are wanted, and as 0 when more are.
        (4, [40, 9.5, None, None], 100, 3),
        (2, [100, None], 100, 2),
        (2, [190, None], 100, 2),
        (2, [60, None], 100, 2),
        (4, [200, 200, 200, None], 100, 6),
        (2, [500, None], 100, 5),
        (4, [120, None, None, None], 100, 4),
        (4, [None, None, None, 95], 100, 4),
        (2, [None, None], 100, None),
        (0, [], 100, None),
        # No replica more for what only the last bit of a float says.
        (3, [70.0] * 3, 70.0, 3),
        (5, [84.0] * 5, 70.0, 6),
        (3, [0.3] * 3, 0.1, 9),
        (7, [77.0] * 7, 70.0, 7),
    ],
)
def test_the_figures_are_those_of_the_autoscaler(
    current: int, values: Any, target: float, wanted: int | None
):
    assert recommend(current, values, target) == wanted


def test_the_target_that_asks_for_most_wins():
    policy = replace(WEB, memory_target_percent=80.0, node_pressure_target_percent=60.0)
    replicas = tuple(Replica(cpu=60, memory=160) for _ in range(3))  # cpu asks for 4, memory for 6

    made = decided(policy, Inputs(agents=("a",), replicas=replicas, node_pressure=(75.0, 70.0)))

    assert (made.from_replicas, made.to_replicas, made.trigger_metric) == (3, 6, "memory")
    assert (made.trigger_value, made.threshold) == (160, 80)
    assert made.values == {"cpu": 60, "memory": 160, "node_pressure": 72.5}


def test_the_pressure_of_nodes_is_a_target_of_its_own():
    policy = replace(WEB, node_pressure_target_percent=40.0)

    made = decided(policy, seen(50, 50, node_pressure=(90.0, None, 70.0)))

    # (90 + 0 + 70) / 3 of 40: the node that told nothing counts against the change.
    assert (made.to_replicas, made.trigger_metric, made.trigger_value) == (3, "node_pressure", 80)


def test_nothing_is_scaled_down_without_one_of_the_metrics():
    policy = replace(WEB, memory_target_percent=80.0)

    made = stayed(policy, seen(5, 5, 5))

    assert made.limited_by == ("missing_metrics",)
    assert "memory" in made.reason
    assert made.memory.recommendations == ()  # what is not known recommends nothing
    assert to(policy, seen(100, 100, 100)) == 6  # but up goes on what is known


def test_a_replica_that_is_not_ready_counts_as_missing():
    replicas = (Replica(cpu=200), Replica(cpu=200), Replica(cpu=400, ready=False))

    assert to(WEB, Inputs(agents=("a",), replicas=replicas)) == 8  # (200 + 200 + 0) / 50


@pytest.mark.parametrize(
    ("policy", "inputs", "memory", "expected", "limited_by"),
    [
        (replace(WEB, step_size=2), seen(*[200] * 4), Memory(), 6, ("step_size",)),
        (replace(WEB, step_size=2), seen(*[1] * 9), Memory(), 7, ("step_size",)),
        (replace(WEB, max_replicas=5), seen(*[200] * 4), Memory(), 5, ("max_replicas",)),
        (replace(WEB, min_replicas=3), seen(*[1] * 4), Memory(), 3, ("min_replicas",)),
        (WEB, seen(0, 0, 0), Memory(), 1, ("min_replicas",)),  # usage never takes the last one
        (replace(WEB, min_replicas=0), seen(0, 0, 0), Memory(), 1, ("min_replicas",)),
        # Bounds hold without metrics, steps and cooldowns.
        (replace(WEB, min_replicas=5, step_size=1), seen(None, None), Memory(), 5, ("min_replicas",)),
        (replace(WEB, max_replicas=3, step_size=1), seen(*[None] * 9), Memory(), 3, ("max_replicas",)),
        (replace(WEB, min_replicas=4), seen(50, 50), Memory(scaled_up_at=NOW - 1), 4, ("min_replicas",)),
        (replace(WEB, max_replicas=0), seen(50, 50), Memory(), 0, ("max_replicas",)),
        # Of two limits in the same direction the tighter one explains the result.
        (replace(WEB, step_size=2, max_replicas=5), seen(*[200] * 4), Memory(), 5, ("max_replicas",)),
        (replace(WEB, step_size=1, max_replicas=5), seen(*[200] * 4), Memory(), 5, ("step_size",)),
        # Docker hosts.
        (
            replace(DOCKER, max_replicas_per_host=2),
            seen(*[200] * 3, online_hosts=2),
            Memory(),
            4,
            ("max_replicas_per_host",),
        ),
        (
            replace(DOCKER, max_replicas_per_host=1),
            seen(*[50] * 3, online_hosts=2),
            Memory(),
            2,
            ("max_replicas_per_host",),
        ),
        # Four online at a tenth of the target, three offline: down to minReplicas of those online.
        (
            replace(DOCKER, min_replicas=2),
            seen(*[5] * 4, offline_replicas=3, online_hosts=1),
            Memory(),
            5,
            ("offline_hosts",),
        ),
    ],
)
def test_each_limit_that_makes_the_result_is_named(
    policy: PolicySpec, inputs: Inputs, memory: Memory, expected: int, limited_by: Any
):
    made = decided(policy, inputs, memory)

    assert (made.to_replicas, made.limited_by) == (expected, limited_by)


@pytest.mark.parametrize(
    ("policy", "inputs", "memory", "limited_by", "told"),
    [
        (WEB, seen(200), Memory(scaled_up_at=NOW - 59), ("cooldown",), "scaled up 59 s ago"),
        (
            replace(WEB, cooldown_scale_down_seconds=300),
            seen(1, 1, 1),
            Memory(scaled_down_at=NOW - 299),
            ("cooldown",),
            "scaled down 299 s ago",
        ),
        (
            replace(WEB, cooldown_scale_down_seconds=300),
            seen(1, 1, 1),
            Memory(recommendations=((NOW - 300, 9), (NOW - 30, 2))),
            ("stabilization",),
            "9 replicas were needed 300 s ago",
        ),
        (replace(WEB, max_replicas=2), seen(200, 200), Memory(), ("max_replicas",), "maxReplicas is 2"),
        (
            replace(DOCKER, min_replicas=2),
            seen(1, 1, offline_replicas=1, online_hosts=1),
            Memory(),
            ("offline_hosts",),
            "1 replica on offline hosts",
        ),
    ],
)
def test_what_holds_everything_back_is_told(
    policy: PolicySpec, inputs: Inputs, memory: Memory, limited_by: Any, told: str
):
    made = stayed(policy, inputs, memory)

    assert made.limited_by == limited_by
    assert told in made.reason


def test_a_cooldown_ends_and_holds_its_own_direction_alone():
    assert to(WEB, seen(200), Memory(scaled_up_at=NOW - 60)) == 4
    assert to(WEB, seen(200), Memory(scaled_down_at=NOW - 1)) == 4


def test_the_highest_recommendation_of_the_window_holds_the_way_down():
    policy = replace(WEB, cooldown_scale_down_seconds=300)
    memory = Memory(recommendations=((NOW - 301, 9), (NOW - 200, 4), (NOW - 15, 2)))

    made = decided(policy, seen(*[1] * 6), memory)

    assert (made.to_replicas, made.limited_by) == (4, ("stabilization",))


def test_a_recommendation_is_kept_as_long_as_it_may_be_the_highest():
    policy = replace(WEB, cooldown_scale_down_seconds=60)
    memory = Memory()
    for number, cpu in enumerate((150, 100, 200, 50, 100)):  # asks for 3, 2, 4, 1, 2 replicas
        memory = decide(policy, seen(cpu), memory, NOW + 15 * number).memory

    assert memory.recommendations == ((NOW + 30, 4), (NOW + 60, 2))


def test_load_on_the_online_hosts_adds_replicas_there_however_many_are_offline():
    made = decided(DOCKER, seen(100, 100, offline_replicas=2, online_hosts=1))

    assert (made.from_replicas, made.to_replicas) == (4, 6)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (Inputs(), "No online agent reports shop/web."),
        (Inputs(agents=("a",)), "No pod of shop/web is reported"),
        (
            Inputs(agents=("a", "b"), replicas=(Replica(cpu=500),)),
            "2 agents report shop/web (a, b): set agentId",
        ),
    ],
)
def test_what_is_not_clear_is_left_alone(inputs: Inputs, told: str):
    assert told in stayed(replace(WEB, min_replicas=2), inputs).reason


def test_two_agents_of_a_pool_are_one_group():
    assert to(DOCKER, Inputs(agents=("a", "b"), replicas=(Replica(cpu=100), Replica(cpu=100)))) == 4


@pytest.mark.parametrize(("least", "expected"), [(0, 0), (1, 1), (3, 3)])
def test_a_stopped_docker_group_starts_only_below_its_minimum(least: int, expected: int):
    assert to(replace(DOCKER, min_replicas=least), Inputs(agents=("a",), online_hosts=1)) == expected


def test_a_bound_that_acts_by_itself_is_the_trigger():
    made = decided(replace(WEB, min_replicas=4), seen(1, 1))

    assert (made.trigger_metric, made.trigger_value, made.threshold) == ("manual", 2, 4)
    assert made.direction == "up"


def test_a_bound_in_the_direction_of_usage_leaves_the_trigger_to_it():
    made = decided(replace(WEB, max_replicas=3), seen(200, 200))

    assert (made.trigger_metric, made.trigger_value, made.threshold) == ("cpu", 200, 50)


def test_a_dry_run_says_each_new_action_once():
    first = decided(WEB, seen(100, 100))
    memory = taken(first)

    again = stayed(WEB, seen(100, 100), memory, NOW + 600)
    more = decided(WEB, seen(150, 150), again.memory, NOW + 1200)
    over = stayed(WEB, seen(50, 50), again.memory, NOW + 1200)
    anew = decided(WEB, seen(100, 100), over.memory, NOW + 1800)

    assert (first.from_replicas, first.to_replicas) == (2, 4)
    assert again.reason.startswith("2 to 4 was logged 600 s ago and would still be done.")
    assert (more.from_replicas, more.to_replicas) == (2, 6)
    assert over.memory.asked is None
    assert (anew.from_replicas, anew.to_replicas) == (2, 4)


def test_what_was_asked_for_is_not_asked_again_while_it_comes():
    live = replace(WEB, dry_run=False, min_replicas=4)
    memory = taken(decided(live, seen(None, None)))

    for count in (2, 3):  # one is there already
        waiting = stayed(live, seen(*[None] * count), memory, NOW + 15)
        assert waiting.reason.startswith(f"4 replicas were asked for 15 s ago, {count} are there so far.")
    assert decided(live, seen(None, None), failed(memory), NOW + 15).to_replicas == 4


def test_a_cooldown_does_not_forget_what_was_asked_for():
    memory = taken(decided(WEB, seen(100, 100)))

    held = stayed(WEB, seen(100, 100), memory, NOW + 15)
    later = stayed(WEB, seen(100, 100), held.memory, NOW + 75)

    assert held.limited_by == ("cooldown",)
    assert "was logged" in later.reason


def test_a_step_the_other_way_ends_what_was_asked_for():
    memory = taken(decided(WEB, seen(100, 100)))

    down = decided(WEB, seen(10, 10), memory, NOW + 600)

    assert (down.from_replicas, down.to_replicas) == (2, 1)
    assert taken(down) == Memory(scaled_up_at=NOW, scaled_down_at=NOW + 600, asked=(2, 1))


def test_an_approval_and_an_overruling_start_their_cooldowns():
    memory = Memory(recommendations=((NOW - 1, 3),), idle_since=NOW)

    assert approved(memory, (2, 3), NOW) == replace(memory, asked=(2, 3), scaled_up_at=NOW)
    assert approved(memory, (3, 2), NOW) == replace(memory, asked=(3, 2), scaled_down_at=NOW)
    assert overruled(memory, (3, 2), NOW) == Memory(asked=(3, 2), scaled_up_at=NOW, scaled_down_at=NOW)


@pytest.mark.parametrize(
    ("policy", "inputs", "memory", "told"),
    [
        (
            replace(WEB, step_size=1),
            seen(175, 175),
            Memory(),
            "Up from 2 to 3: cpu is at 175 % of a target of 50 %, which asks for 7 replicas."
            " One step is 1 replica.",
        ),
        (
            WEB,
            seen(52, 52),
            Memory(),
            "Stays at 2: cpu is at 52 % of a target of 50 %, within its tolerance of 10 %.",
        ),
        (
            WEB,
            seen(10, None),
            Memory(),
            "Stays at 2: cpu is at 10 % of a target of 50 %; counting 1 replica that told none"
            " against the change, it asks for 2 replicas.",
        ),
        (WEB, seen(None), Memory(), "Stays at 1: cpu is not known."),
    ],
)
def test_reasons_are_sentences(policy: PolicySpec, inputs: Inputs, memory: Memory, told: str):
    assert decide(policy, inputs, memory, NOW).reason == told


def test_a_simulated_or_stored_policy_is_read_from_its_settings():
    settings = Settings(name="web", runtime="docker", target_ref="default/web", min_replicas=3, step_size=2)

    assert convert(settings, PolicySpec, from_attributes=True) == PolicySpec(
        runtime="docker", target_ref="default/web", min_replicas=3, step_size=2
    )


def test_every_setting_that_decides_can_be_set():
    assert set(PolicySpec.__struct_fields__) <= set(Settings.__struct_fields__)
