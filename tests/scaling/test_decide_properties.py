"""What holds for every policy and everything that may be observed."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.scaling.decide import decide, recomputed
from monitor.scaling.hpa import TOLERANCE
from monitor.scaling.limits import least
from monitor.scaling.spec import Decision, Evidence, Inputs, Memory, PolicySpec, Replica, taken

NOW = 1_900_000_000.0

percents = st.floats(0, 2_000)
targets = st.floats(1, 1_000)
seconds = st.integers(0, 900)
stamps = st.none() | st.floats(NOW - 1_000, NOW)


@st.composite
def policies(draw: Any, **fixed: Any) -> PolicySpec:
    low = draw(st.integers(0, 20))
    values = {
        "runtime": "docker",
        "target_ref": "default/web",
        "dry_run": draw(st.booleans()),
        "min_replicas": low,
        "max_replicas": draw(st.integers(low, 40)),
        "step_size": draw(st.integers(1, 10)),
        "cooldown_scale_up_seconds": draw(seconds),
        "cooldown_scale_down_seconds": draw(seconds),
        "cpu_target_percent": draw(targets),
        "memory_target_percent": draw(st.none() | targets),
        "node_pressure_target_percent": draw(st.none() | targets),
        "max_replicas_per_host": draw(st.none() | st.integers(1, 10)),
        "policy_type": draw(
            st.none() | st.sampled_from(["scale_to_zero_on_idle", "rightsize", "spot_shift"])
        ),
        "spot_node_label": "spot",
    }
    return PolicySpec(**{**values, **fixed})


replicas = st.builds(
    Replica,
    cpu=st.none() | percents,
    memory=st.none() | percents,
    gpu=st.none() | st.floats(0, 100),
    ready=st.booleans(),
    spot=st.none() | st.booleans(),
)
observed = st.builds(
    Inputs,
    agents=st.just(("a", "b")),
    replicas=st.lists(replicas, max_size=30).map(tuple),
    offline_replicas=st.integers(0, 5),
    online_hosts=st.integers(0, 10),
    node_pressure=st.lists(st.none() | percents, max_size=5).map(tuple),
    wake=st.none() | st.floats(-1, 10),
)
memories = st.builds(
    Memory,
    recommendations=st.lists(st.tuples(st.floats(NOW - 1_000, NOW), st.integers(0, 60)), max_size=5)
    .map(sorted)
    .map(tuple),
    scaled_up_at=stamps,
    scaled_down_at=stamps,
    asked=st.none() | st.tuples(st.integers(0, 20), st.integers(0, 20)),
    idle_since=stamps,
    gpu_window=st.lists(st.tuples(st.floats(NOW - 5_000, NOW), st.floats(0, 100)), max_size=5)
    .map(sorted)
    .map(tuple),
)


def result(policy: PolicySpec, inputs: Inputs, memory: Memory) -> int:
    made = decide(policy, inputs, memory, NOW)
    return made.to_replicas if isinstance(made, Decision) else made.current_replicas


def room(policy: PolicySpec, inputs: Inputs) -> int:
    """Return the fewest replicas that offline hosts leave."""
    if not inputs.offline_replicas:
        return 0
    return inputs.offline_replicas + min(len(inputs.replicas), least(policy))


@given(policies(), observed, memories)
def test_the_stored_evidence_makes_the_same_decision_again(policy, inputs, memory):
    made = decide(policy, inputs, memory, NOW)

    assert decide(policy, inputs, memory, NOW) == made
    evidence = msgspec.json.encode(Evidence(policy, inputs, memory, NOW))
    expected = made.to_replicas if isinstance(made, Decision) else None
    assert recomputed(evidence, 1) == expected
    if isinstance(made, Decision):
        assert recomputed(msgspec.json.encode(made.evidence), made.decide_version) == made.to_replicas
        assert msgspec.json.decode(msgspec.json.encode(taken(made)), type=Memory) == taken(made)


@given(policies(), observed, memories)
def test_a_decision_changes_something_and_says_so(policy, inputs, memory):
    made = decide(policy, inputs, memory, NOW)

    assert made.reason.endswith(".")
    if isinstance(made, Decision):
        assert made.to_replicas != made.from_replicas
        assert (made.direction == "up") == (made.to_replicas > made.from_replicas)
        assert made.reason.startswith(
            f"{made.direction.capitalize()} from {made.from_replicas} to {made.to_replicas}: "
        )


@given(policies(policy_type=None), observed, memories)
def test_a_decision_is_within_the_bounds(policy, inputs, memory):
    made = decide(policy, inputs, memory, NOW)

    if isinstance(made, Decision):
        low, high = policy.min_replicas, policy.max_replicas
        if policy.max_replicas_per_host is not None:
            high = min(high, policy.max_replicas_per_host * inputs.online_hosts + inputs.offline_replicas)
        kept = room(policy, inputs)
        assert made.to_replicas <= max(high, kept)
        assert made.to_replicas >= min(low, high)
        assert made.to_replicas >= min(kept, inputs.current)  # never from hosts that are offline


@given(policies(policy_type=None), observed, memories)
def test_usage_moves_a_step_at_most(policy, inputs, memory):
    made = decide(policy, inputs, memory, NOW)

    bounds = {"min_replicas", "max_replicas", "max_replicas_per_host", "offline_hosts"}
    if isinstance(made, Decision) and not bounds & set(made.limited_by):
        assert abs(made.to_replicas - made.from_replicas) <= policy.step_size


@given(policies(policy_type=None), observed, memories)
def test_usage_moves_nothing_within_a_cooldown(policy, inputs, memory):
    made = decide(policy, inputs, memory, NOW)

    bounds = {"min_replicas", "max_replicas", "max_replicas_per_host"}
    if isinstance(made, Decision) and not bounds & set(made.limited_by):
        up = made.direction == "up"
        last = memory.scaled_up_at if up else memory.scaled_down_at
        cooldown = policy.cooldown_scale_up_seconds if up else policy.cooldown_scale_down_seconds
        assert last is None or NOW - last >= cooldown


@given(policies(policy_type=None, min_replicas=0, max_replicas=1_000), observed, memories)
def test_nothing_goes_below_what_was_needed_within_the_window(policy, inputs, memory):
    inputs = replace(inputs, online_hosts=1_000)
    made = decide(policy, inputs, memory, NOW)

    if isinstance(made, Decision) and made.direction == "down":
        oldest = NOW - policy.cooldown_scale_down_seconds
        needed = [count for at, count in memory.recommendations if oldest <= at < NOW]
        if policy.cooldown_scale_down_seconds and needed:
            assert made.to_replicas >= min(max(needed), made.from_replicas)


@given(policies(policy_type=None), observed, memories, st.lists(st.floats(0, 500), min_size=30, max_size=30))
def test_more_usage_never_means_fewer_replicas(policy, inputs, memory, more):
    # What was asked for before decides whether an action is new, not how many replicas are right.
    memory = replace(memory, asked=None)
    busier = tuple(
        replica if replica.cpu is None else replace(replica, cpu=replica.cpu + extra)
        for replica, extra in zip(inputs.replicas, more, strict=False)
    )

    assert result(policy, replace(inputs, replicas=busier), memory) >= result(policy, inputs, memory)


@given(
    policies(policy_type=None, min_replicas=0, max_replicas=1_000, max_replicas_per_host=None),
    st.lists(st.floats(1 - TOLERANCE, 1 + TOLERANCE), min_size=1, max_size=30),
    memories,
)
def test_nothing_moves_within_the_tolerance(policy, shares, memory):
    policy = replace(policy, memory_target_percent=None, node_pressure_target_percent=None)
    usage = tuple(Replica(cpu=policy.cpu_target_percent * share) for share in shares)

    assert result(policy, Inputs(agents=("a",), replicas=usage), memory) == len(shares)


@given(policies(policy_type=None, min_replicas=0), observed, memories)
def test_without_any_metric_usage_moves_nothing(policy, inputs, memory):
    untold = tuple(Replica() for _ in inputs.replicas)
    inputs = replace(inputs, replicas=untold, node_pressure=(), online_hosts=1_000)
    policy = replace(policy, max_replicas=1_000)

    assert result(policy, inputs, memory) == inputs.current
    assert decide(policy, inputs, memory, NOW).memory.recommendations == memory.recommendations


@given(
    policies(cooldown_scale_down_seconds=120),
    st.lists(st.lists(percents, min_size=1, max_size=4), max_size=40),
)
def test_the_memory_stays_small(policy, course):
    memory = Memory()
    for number, cpu in enumerate(course):
        inputs = Inputs(agents=("a",), replicas=tuple(Replica(cpu=it, gpu=it % 100) for it in cpu))
        made = decide(policy, inputs, memory, NOW + 15 * number)
        memory = taken(made) if isinstance(made, Decision) else made.memory

    counts = [count for _, count in memory.recommendations]
    assert counts == sorted(set(counts), reverse=True)
    assert len(counts) <= 9  # of 120 s
    assert len(memory.gpu_window) <= 60
