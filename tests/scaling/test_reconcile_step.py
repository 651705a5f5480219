"""One evaluation as a pure step: what follows for state, log and hosts, time given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.scaling.apply import overrule, settled
from monitor.scaling.live.lines import policy_lines
from monitor.scaling.models import Settings
from monitor.scaling.observe import Host, Seen
from monitor.scaling.render import manifest, placed
from monitor.scaling.spec import Inputs, Memory, Replica
from monitor.scaling.state import State, after_change
from monitor.scaling.step import Ended, concluded, step, wake_value

START = datetime(2030, 1, 1, tzinfo=UTC)
STATE = State("scp_1", "org_1")
LIVE = Settings(
    name="web",
    runtime="docker",
    target_ref="default/web",
    cpu_target_percent=50.0,
    dry_run=False,
    step_size=10,
    cooldown_scale_up_seconds=0,
    cooldown_scale_down_seconds=0,
)


def seen(count: int, cpu: float | None = 100.0) -> Seen:
    """Return one host with so many replicas."""
    replicas = (Replica(cpu=cpu),) * count
    host = Host("agent_1", "host-1", "default", True, replicas, None)
    return Seen(Inputs(agents=("host-1",), replicas=replicas, online_hosts=1), (host,))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stepped(state: State, seconds: float, what: Seen, policy: Settings = LIVE):
    return step(policy, state, what, at(seconds), gpu_allowed=True)


def ordered() -> State:
    """Return the state after a change from two to four was ordered, with the command's id."""
    turn = stepped(STATE, 0, seen(2))
    assert [(row.action, row.to_replicas) for row in turn.rows] == [("apply", 4)]
    assert [(it.agent_id, it.payload["replicas"]) for it in turn.orders] == [("agent_1", 4)]
    return replace(turn.state, open_commands=("cmd_1",))


def test_a_change_under_way_is_not_decided_again():
    turn = stepped(ordered(), 15, seen(3, 66.0))

    assert (turn.rows, turn.orders) == ((), ())
    assert turn.state.desired_replicas == 4


def test_what_was_carried_out_and_does_not_show_is_ordered_again_after_five_minutes():
    state, _ = concluded(ordered(), [Ended("cmd_1", True, "host-1", "")], None)
    assert state.apply_health == "applied"

    early = stepped(state, 299, seen(2))
    late = stepped(early.state, 301, seen(2))

    assert early.rows == ()
    assert [(row.action, row.to_replicas) for row in late.rows] == [("apply", 4)]
    assert late.state.applied_generation == 2


def test_what_failed_waits_twice_as_long_each_time():
    state, waits, now = STATE, [], 0.0
    for number in range(9):
        turn = stepped(state, now, seen(2))
        while not turn.rows:
            now += 15
            turn = stepped(turn.state, now, seen(2))
        waits.append(now)
        state = replace(turn.state, open_commands=(f"cmd_{number}",))
        state, rows = concluded(state, [Ended(f"cmd_{number}", False, "host-1", "no")], turn.rows[0])
        assert [row.action for row in rows] == ["apply_failed"]

    gaps = [after - before for before, after in pairwise(waits)]
    assert gaps == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_hosts_that_may_not_show_the_last_change_yet_are_all_told_their_number():
    hosts = tuple(
        Host(f"agent_{name}", name, "default", True, (Replica(cpu=100.0),) * count, None)
        for name, count in (("a", 2), ("b", 1))
    )
    replicas = tuple(replica for host in hosts for replica in host.replicas)
    both = Seen(Inputs(agents=("a", "b"), replicas=replicas, online_hosts=2), hosts)
    turn = stepped(STATE, 0, both, replace(LIVE, max_replicas=4))
    assert [(it.agent_id, it.payload["replicas"]) for it in turn.orders] == [("agent_b", 2)]

    early, late = (
        overrule(
            LIVE,
            turn.state,
            settled(both, turn.state, at(seconds)),
            at(seconds),
            action="rollback",
            start=4,
            to=3,
            outcome="",
            inputs={},
        )
        for seconds in (10, 151)
    )

    assert [(it.agent_id, it.payload["replicas"]) for it in early.orders] == [("agent_a", 2), ("agent_b", 1)]
    assert '"agent": "a"' in early.rows[0].rendered_manifest
    assert (late.orders, late.state.apply_health) == ((), "applied")


def test_a_success_forgets_the_failures():
    state = replace(ordered(), failures=3)

    state, rows = concluded(state, [Ended("cmd_1", True, "host-1", "2 to 4")], None)

    assert (state.failures, state.apply_health, state.apply_message, rows) == (
        0,
        "applied",
        "host-1: 2 to 4",
        [],
    )


def test_one_host_that_failed_makes_the_change_failed_whatever_comes_after():
    change = stepped(STATE, 0, seen(2)).rows[0]
    state = replace(ordered(), open_commands=("cmd_1", "cmd_2", "cmd_3"))

    state, first = concluded(state, [Ended("cmd_2", False, "host-2", "no")], change)
    state, second = concluded(
        state, [Ended("cmd_1", True, "", ""), Ended("cmd_3", False, "", "gone")], change
    )

    assert (state.apply_health, state.failures, state.open_commands) == ("failed", 1, ())
    assert [row.outcome for row in (*first, *second)] == ["Failed: host-2: no", "Failed: gone"]


@pytest.mark.parametrize(
    ("replicas", "offline", "low", "wanted"),
    [
        (4, 0, 1, [2, 2]),
        (4, 3, 1, [0, 1]),
        (2, 3, 1, [0, 1]),
        (2, 3, 2, [1, 1]),
        (0, 3, 2, [0, 0]),
        (2, 0, 4, [1, 1]),
    ],
)
def test_hosts_that_are_gone_take_nothing_from_those_that_are_there(replicas, offline, low, wanted):
    running = (Replica(cpu=1.0),) * 3
    hosts = tuple(Host(f"agent_{name}", "host", "default", True, running, None) for name in "ab")
    inputs = Inputs(agents=("host", "host"), replicas=running * 2, offline_replicas=offline, online_hosts=2)

    policy = replace(LIVE, min_replicas=low)

    assert [count for _, count in placed(policy, Seen(inputs, hosts), replicas)] == wanted
    assert manifest(policy, Seen(inputs, hosts), replicas).count('"agent": "host (agent_') == 2


@pytest.mark.parametrize(("age", "value"), [(0, 3.0), (60, 3.0), (61, None)])
def test_an_old_wake_metric_counts_no_more(age, value):
    assert wake_value(replace(STATE, wake=3.0, wake_at=START), at(age)) == value


@pytest.mark.parametrize(
    ("differing", "keeps"),
    [
        (set(), True),
        ({"name", "enabled"}, True),
        ({"cpu_target_percent"}, False),
        ({"dry_run"}, False),
        ({"target_ref"}, False),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_what_a_change_of_settings_keeps(differing, keeps):
    policy = replace(LIVE, approval_required=True)
    state = stepped(STATE, 0, seen(2), policy).state
    assert state.pending is not None

    assert (after_change(state, differing, policy) == state) is keeps


def test_going_live_keeps_the_recommendations_and_no_stamps():
    memory = Memory(((1.0, 5),), scaled_up_at=1.0, scaled_down_at=2.0, asked=(1, 2))

    after = after_change(replace(STATE, memory=memory), {"dry_run"}, LIVE)

    assert after.memory == Memory(((1.0, 5),))


COURSE = st.lists(st.tuples(st.integers(0, 12), st.none() | st.floats(0, 400)), min_size=1, max_size=40)


@given(COURSE, st.integers(0, 3), st.integers(3, 12), st.integers(1, 4), st.booleans(), st.booleans())
def test_whatever_comes_rows_orders_and_state_agree(course, low, high, size, dry, approval):
    policy = replace(
        LIVE,
        min_replicas=low,
        max_replicas=high,
        step_size=size,
        dry_run=dry,
        approval_required=approval,
        cooldown_scale_up_seconds=30,
    )
    state = STATE
    for number, (count, cpu) in enumerate(course):
        before = state
        turn = stepped(state, 15 * number, seen(count, cpu), policy)
        state = turn.state
        assert state.generation >= before.generation
        assert state.evaluated_at == at(15 * number)
        assert bool(turn.orders) <= bool(turn.rows)
        for row in turn.rows:
            assert row.action == ("dry_run" if dry else "apply")
            assert row.from_replicas == count
            assert low <= row.to_replicas <= high or abs(row.to_replicas - count) <= size
            assert row.direction == ("up" if row.to_replicas > count else "down")
        if dry or approval:
            assert (turn.orders, state.applied_generation) == ((), None)
        elif turn.rows:
            assert state.applied_generation == before.generation + 1
            assert sum(it.payload["replicas"] for it in turn.orders) == turn.rows[0].to_replicas
        assert (state.pending is None) or approval


def test_the_samples_of_policies_are_those_of_the_catalogue():
    state = replace(STATE, current_replicas=2, desired_replicas=4)

    lines, count = policy_lines([(replace(LIVE, name="a b"), state), (LIVE, STATE)], 1000)

    assert count == 2
    assert lines.decode() == (
        "scaling_policy,org_id=org_1,policy_id=scp_1,policy=a\\ b,target_ref=default/web,runtime=docker"
        " current_replicas=2,desired_replicas=4 1000\n"
    )
