"""The judgement of pushes: cases, and the remembered bounds against judging everything anew."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerts.evaluate import Judged, judge, judge_down
from monitor.alerts.models import Operator
from monitor.alerts.rules import CROSSES, RuleSet, RuleText, prepared
from monitor.alerts.watch import AgentAt, Key, OpenAlert, Opened, Plan, Resolved, Watch, message_of
from monitor.tsdb.selector import parse, series_text
from monitor.wire.push import Push
from tests.alerts.conftest import CPU, container

AGENT = AgentAt("org_1", "agent_1", "host 1", 1, 1, 1)
NOW_MS = 1_900_000_000_000
RATE = "container_network_receive_bytes_per_second"


def plan_of(*rules: tuple[str, Operator, float]) -> Plan:
    texts = [RuleText(f"rule_{n}", metric, operator, at) for n, (metric, operator, at) in enumerate(rules)]
    return Plan(RuleSet([prepared(text) for text in texts]))


def watch_of(open_: dict[Key, OpenAlert] | None = None) -> Watch:
    return Watch(1, 1, 1, open_ or {}, {}, {})


def judged(plan: Plan, watch: Watch, body: dict[str, Any], rates: Any = None, **options: Any) -> Judged:
    ids = (f"alert_{number}" for number in itertools.count())
    defaults = {"at_ms": NOW_MS, "now_ms": NOW_MS, "late": False, "allowlist": ()} | options
    push = msgspec.convert(body, Push)
    return judge(plan, watch, AGENT, push, rates=rates, new_id=lambda: next(ids), **defaults)


def named(changes: list[Any]) -> list[tuple[str, str, str]]:
    """Return what happened to which resource of which metric."""
    found = [
        ("open", change.resource_id, change.metric["__name__"])
        if isinstance(change, Opened)
        else (change.by, "", change.alert.metric)
        for change in changes
    ]
    return sorted(found)


@pytest.mark.parametrize(
    ("operator", "value", "fires"),
    [
        ("gt", 80, False),
        ("gt", 80.00001, True),
        ("gte", 80, True),
        ("gte", 79.99999, False),
        ("lt", 80, False),
        ("lt", 79, True),
        ("lte", 80, True),
        ("lte", 80.1, False),
        ("eq", 80, True),
        ("eq", 80.0000001, False),
        ("eq", 79.9999999, False),
    ],
)
def test_an_operator_compares_as_it_says(operator: Operator, value: float, fires: bool):
    plan = plan_of((CPU, operator, 80))

    first = judged(plan, watch_of(), {"containers": [container("a", value)]})
    again = judged(plan, first.watch, {"containers": [container("a", value)]})

    assert bool(first.changes) is fires
    assert again.changes == []
    assert again.watch is first.watch


@pytest.mark.parametrize(
    ("selector", "fires"),
    [
        ('{container="web-1"}', True),
        ('{container="web"}', False),
        ('{container=~"web-.*"}', True),
        ('{container=~"web"}', False),  # anchored
        ('{container=~"WEB-1"}', False),
        ('{container!="web-1"}', False),
        ('{container!~"db.*"}', True),
        ('{missing=""}', True),
        ('{missing!=""}', False),
        ('{missing=~".*"}', True),
        ('{missing=~".+"}', False),
        ('{agent="host 1"}', True),
        ('{group="web",image="nginx:1"}', True),
        ('{image=""}', False),
    ],
)
def test_matchers_mean_what_they_mean_in_victoriametrics(selector: str, fires: bool):
    plan = plan_of((f"{CPU}{selector}", "gt", 80))

    found = judged(plan, watch_of(), {"containers": [container("web-1", 95, image="nginx:1")]})

    assert bool(found.changes) is fires


@pytest.mark.parametrize(
    ("selector", "metrics"),
    [
        ('{__name__=~"container_.*usage_percent"}', {CPU, "container_memory_usage_percent"}),
        ('{container="web-1",__name__!~".*cpu.*"}', {"container_memory_usage_percent", "container_running"}),
        ('{__name__="container_running"}', {"container_running"}),
        ("agent_up", {"agent_up"}),
        ("agent_containers", {"agent_containers"}),
        ("agent_containers_cpu_usage_percent", {"agent_containers_cpu_usage_percent"}),
    ],
)
def test_a_selector_may_leave_the_name_open(selector: str, metrics: set[str]):
    plan = plan_of((selector, "gt", 0))
    body = {"containers": [{**container("web-1", 95, memoryPercent=50), "memoryUsageMB": None}]}

    found = judged(plan, watch_of(), body)

    assert {metric for _, _, metric in named(found.changes)} == metrics


KUBERNETES = {
    "pods": [{"name": "web-0", "namespace": "shop", "phase": "Pending", "restarts": 3, "ready": False}],
    "nodes": [
        {
            "name": "n1",
            "status": "NotReady",
            "allocatable": {"cpu": "4", "memory": "1Gi"},
            "usage": {"cpuCores": 3.8, "cpuSystemReservedCores": 0.5},
        }
    ],
}


@pytest.mark.parametrize(
    ("selector", "operator", "threshold", "resource"),
    [
        ('kube_pod_status_phase{phase="Pending"}', "eq", 1, ("pod", "shop/web-0", "web-0")),
        ('kube_pod_status_phase{phase="Running"}', "eq", 1, None),
        ('kube_pod_restarts_total{workload="StatefulSet/web"}', "gt", 2, ("pod", "shop/web-0", "web-0")),
        ("kube_pod_ready", "lt", 1, ("pod", "shop/web-0", "web-0")),
        ("kube_node_ready", "eq", 0, ("node", "n1", "n1")),
        ("kube_node_cpu_usage_percent", "gt", 90, ("node", "n1", "n1")),
        ('kube_node_status_allocatable{resource="cpu",unit="core"}', "lte", 4, ("node", "n1", "n1")),
        ('kube_node_status_capacity{resource="cpu"}', "gte", 0, None),  # not sent
        ('kube_node_reserved{kind="system"}', "gt", 0.4, ("node", "n1", "n1")),
        ("kube_cluster_nodes_ready", "lt", 1, ("agent", "agent_1", "host 1")),
        ('kube_cluster_pods{phase="Pending"}', "gt", 0, ("agent", "agent_1", "host 1")),
        ('kube_cluster_pods{phase="Failed"}', "gt", 0, None),
        ("agent_pods", "lt", 2, ("agent", "agent_1", "host 1")),
        ("agent_containers", "gte", 0, None),  # not reported
    ],
)
def test_pods_nodes_and_clusters_are_judged(
    selector: str, operator: Operator, threshold: float, resource: tuple[str, str, str] | None
):
    found = judged(plan_of((selector, operator, threshold)), watch_of(), KUBERNETES)

    resources = [
        (it.resource_type, it.resource_id, it.resource_name) for it in found.changes if isinstance(it, Opened)
    ]
    assert resources == ([resource] if resource else [])


FAILED = [
    container("f", 0, statsOk=False, memoryUsageMB=0),
    container("f", 0, memoryUsageMB=0, netRxBytes=0, netTxBytes=0),
    {"id": "id-of-f", "name": "f", "state": "running"},
]


@pytest.mark.parametrize("sent", FAILED)
@pytest.mark.parametrize(
    "metric", [CPU, "container_memory_working_set_bytes", "container_gpu_usage_percent", RATE]
)
def test_a_failed_stats_call_neither_fires_nor_resolves(sent: dict[str, Any], metric: str):
    low, high = plan_of((metric, "lte", 0)), plan_of((metric, "gt", 50))
    alive = container("f", 95, memoryUsageMB=100, gpuPercent=95, netRxBytes=1)

    fired = judged(high, watch_of(), {"containers": [alive]}, [95.0, 0.0, 0.0, 0.0])
    found = judged(high, fired.watch, {"containers": [sent]}, [None] * 4)
    again = judged(high, found.watch, {"containers": [sent]}, [None] * 4)

    assert judged(low, watch_of(), {"containers": [sent]}, [None] * 4).changes == []
    assert len(fired.changes) == 1
    assert found.changes == again.changes == []


def test_a_sum_over_a_failed_stats_call_is_not_judged_and_running_is():
    body = {"containers": [FAILED[0], container("a", 1)]}

    found = judged(
        plan_of(("agent_containers_cpu_usage_percent", "lt", 50), ("container_running", "eq", 1)),
        watch_of(),
        body,
    )

    assert named(found.changes) == [
        ("open", "id-of-a", "container_running"),
        ("open", "id-of-f", "container_running"),
    ]


def test_a_rate_is_judged_when_there_is_one_and_its_absence_changes_nothing():
    plan = plan_of((RATE, "gt", 100))
    body = {"containers": [container("a", 1, netRxBytes=5)]}

    first = judged(plan, watch_of(), body, [None] * 4)
    fired = judged(plan, first.watch, body, [500.0, None, None, None])
    reset = judged(plan, fired.watch, body, [None] * 4)
    calm = judged(plan, reset.watch, body, [5.0, None, None, None])

    assert [len(it.changes) for it in (first, fired, reset, calm)] == [0, 1, 0, 1]
    assert isinstance(calm.changes[0], Resolved)


GONE = [
    ("the container is gone", {"containers": [container("other", 1)]}),
    ("all containers are gone", {"containers": []}),
    ("the field is no longer sent", {"containers": [container("a")]}),
    ("another name is another series", {"containers": [{**container("a", 95), "name": "b"}]}),
    ("another image is another series", {"containers": [container("a", 95, image="new")]}),
]


@pytest.mark.parametrize(("why", "body"), GONE, ids=[why for why, _ in GONE])
def test_a_series_that_is_no_longer_made_is_gone(why: str, body: dict[str, Any]):
    plan = plan_of((CPU, "gt", 80))
    fired = judged(plan, watch_of(), {"containers": [container("a", 95)]})

    found = judged(plan, fired.watch, body)

    assert ("gone", "", CPU) in named(found.changes)
    assert len(found.watch.open) == len([it for it in found.changes if isinstance(it, Opened)])


def test_a_former_phase_is_gone_and_a_kind_that_is_not_reported_stays():
    plan = plan_of(("kube_pod_status_phase", "eq", 1), ("agent_pods", "gt", 0))
    fired = judged(plan, watch_of(), KUBERNETES)
    running = {"pods": [{**KUBERNETES["pods"][0], "phase": "Running"}]}

    absent = judged(plan, fired.watch, {"containers": []})
    found = judged(plan, fired.watch, running)
    empty = judged(plan, fired.watch, {"pods": []})

    assert absent.changes == []
    assert named(found.changes) == [
        ("gone", "", "kube_pod_status_phase"),
        ("open", "shop/web-0", "kube_pod_status_phase"),
    ]
    assert named(empty.changes) == [("gone", "", "kube_pod_status_phase"), ("recovered", "", "agent_pods")]


@pytest.mark.parametrize(
    ("at_ms", "late", "fires"),
    [
        (NOW_MS, False, True),
        (NOW_MS - 300_000, False, True),
        (NOW_MS - 300_001, False, False),
        (NOW_MS, True, False),
    ],
)
def test_old_and_late_snapshots_are_not_judged(at_ms: int, late: bool, fires: bool):
    plan = plan_of((CPU, "gt", 80))

    found = judged(plan, watch_of(), {"containers": [container("a", 95)]}, at_ms=at_ms, late=late)

    assert bool(found.changes) is fires


def sample(
    value: float, seconds_ago: float | None = None, metric: str = "queue_length", **labels: str
) -> Any:
    at = {} if seconds_ago is None else {"timestamp": NOW_MS / 1000 - seconds_ago}
    return {"metric": metric, "value": value, "labels": {"queue": "mail", **labels}, **at}


@pytest.mark.parametrize(
    ("samples", "open_after"),
    [
        ([sample(95)], 1),
        ([sample(5)], 0),
        ([sample(95), sample(5, queue="other")], 1),
        ([sample(95), sample(95, queue="other")], 2),
        ([sample(95, 10), sample(5, 5)], 0),
        ([sample(5, 5), sample(95, 10)], 0),  # in the order of their times
        ([sample(5, 10), sample(95, 5)], 1),
        ([sample(95, 299)], 1),
        ([sample(95, 301)], 0),
        ([sample(95, metric="other")], 0),
        ([sample(95, org_id="x")], 1),
    ],
)
def test_pushed_samples_are_judged_by_their_own_times(samples: list[Any], open_after: int):
    found = judged(plan_of(("queue_length", "gt", 80)), watch_of(), {"samples": samples})

    assert len(found.watch.open) == len(found.changes) == open_after
    assert all("org_id" not in it.metric for it in found.changes if isinstance(it, Opened))


def test_a_sample_older_than_the_newest_of_its_series_changes_nothing():
    plan = plan_of(("queue_length", "gt", 80))
    calm = judged(plan, watch_of(), {"samples": [sample(5, 10)]})
    fired = judged(plan, watch_of(), {"samples": [sample(95, 10)]})

    assert judged(plan, calm.watch, {"samples": [sample(95, 20)]}).changes == []
    assert judged(plan, fired.watch, {"samples": [sample(5, 20)]}).changes == []
    assert judged(plan, fired.watch, {"samples": [sample(5, 20, queue="other")]}).changes == []
    assert named(judged(plan, fired.watch, {"samples": [sample(5, 9)]}, late=True).changes) == [
        ("recovered", "", "queue_length")
    ]


def test_series_of_samples_stay_open_until_they_come_again():
    plan = plan_of(("queue_length", "gt", 80))
    fired = judged(plan, watch_of(), {"samples": [sample(95)], "containers": []})

    assert judged(plan, fired.watch, {"containers": [container("a", 1)], "samples": []}).changes == []


def test_an_agent_that_is_offline_is_down_until_its_next_push():
    plan = plan_of(("agent_up", "lt", 1), (CPU, "gt", 80))
    fired = judged(plan, watch_of(), {"containers": [container("a", 95)]})

    down = judge_down(plan, fired.watch, AGENT, "agent_up", lambda: "alert_down")
    still = judge_down(plan, down.watch, AGENT, "agent_up", lambda: "alert_down")
    back = judged(plan, down.watch, {})

    assert named(down.changes) == [("open", "agent_1", "agent_up")]
    assert still.changes == []
    assert named(back.changes) == [("recovered", "", "agent_up")]
    assert len(back.watch.open) == 1


@pytest.mark.parametrize(
    ("value", "threshold", "text"),
    [
        (95.0, 80.0, f"{CPU} of web-1 is 95, above 80"),
        (95.25, 0.1, f"{CPU} of web-1 is 95.25, above 0.1"),
        (1234567890.0, 80.0, f"{CPU} of web-1 is 1234567890, above 80"),
    ],
)
def test_a_message_says_what_is_wrong(value: float, threshold: float, text: str):
    found = judged(plan_of((CPU, "gt", threshold)), watch_of(), {"containers": [container("web-1", value)]})

    [opened] = found.changes
    assert isinstance(opened, Opened)
    assert message_of(opened) == text


def test_an_alert_that_nobody_resolved_but_is_not_known_as_open_fires_again():
    """What a manual resolve leaves: the condition holds, and no alert is open."""
    plan = plan_of((CPU, "gt", 80))
    body = {"containers": [container("a", 95)]}
    judged(plan, watch_of(), body)

    assert len(judged(plan, watch_of(), body).changes) == 1


NAMES = ("a", "b", "c")
METRICS = (CPU, "container_memory_usage_percent", "container_running", RATE, "agent_containers", "agent_up")
SELECTORS = [
    *METRICS,
    *(f'{CPU}{{container="{name}"}}' for name in NAMES),
    f'{CPU}{{container=~"a|b"}}',
    '{container!="a",agent!=""}',
    '{__name__=~".*percent"}',
    "queue_length",
]
VALUES = st.sampled_from([None, 0, 1, 2, 2.5, 3, math.nextafter(2, 3), math.nextafter(2, 1)])
RULES = st.lists(
    st.tuples(
        st.sampled_from(SELECTORS),
        st.sampled_from(["gt", "gte", "lt", "lte", "eq"]),
        st.sampled_from([0, 1, 2, 2.5]),
    ),
    min_size=1,
    max_size=6,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from(NAMES), "name": st.sampled_from(NAMES)},
        optional={
            "cpuPercent": VALUES,
            "memoryPercent": VALUES,
            "memoryUsageMB": st.sampled_from([0, 5]),
            "netRxBytes": st.sampled_from([None, 0, 7]),
            "statsOk": st.booleans(),
            "state": st.sampled_from(["running", "exited"]),
        },
    ),
    max_size=3,
    unique_by=lambda it: it["id"],
)
STEPS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "containers": st.none() | CONTAINERS,
                "samples": st.lists(
                    st.builds(
                        sample,
                        st.sampled_from([0, 2, 3]),
                        st.sampled_from([None, 0, 100, 400]),
                        queue=st.sampled_from(NAMES),
                    ),
                    max_size=3,
                ),
            },
        ),
        st.lists(VALUES, min_size=3, max_size=3),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(RULES, STEPS)
def test_what_is_remembered_never_hides_a_change(rules: Any, steps: Any):
    """Each push is judged with the bounds of those before, and once more with the open alerts alone."""
    plan, watch = plan_of(*rules), watch_of()
    for body, rates in steps:
        increase = [rates[number] for _ in range(4) for number in range(len(body.get("containers") or ()))]
        bare = Watch(1, 1, 1, watch.open, {}, watch.times)

        found, anew = judged(plan, watch, body, increase), judged(plan, bare, body, increase)

        assert {(type(it), getattr(it, "series", None) or it.alert) for it in found.changes} == {
            (type(it), getattr(it, "series", None) or it.alert) for it in anew.changes
        }
        assert found.watch.open.keys() == anew.watch.open.keys()
        _check_consistent(rules, found.watch.open, body, increase)
        watch = found.watch


def _check_consistent(rules: Any, open_: dict[Key, OpenAlert], body: Any, increase: list[Any]) -> None:
    """Hold what is open after a push to the conditions, looked at one by one."""
    containers = body.get("containers")
    if containers is None:
        return
    for row, sent in enumerate(containers):
        if sent.get("statsOk") is False or not sent.get("memoryUsageMB"):
            continue
        labels = {
            "agent": "host 1",
            "agent_id": "agent_1",
            "container": sent["name"],
            "container_id": sent["id"],
        }
        values = {
            CPU: sent.get("cpuPercent"),
            "container_memory_usage_percent": sent.get("memoryPercent"),
            RATE: increase[row],
        }
        for metric, value in values.items():
            full = {**labels, "group": sent["name"], "__name__": metric}
            for number, (selector, operator, threshold) in enumerate(rules):
                rule_id, selected = f"rule_{number}", parse(selector).matches(full)
                if value is not None and selected:
                    crosses = CROSSES[operator](value, threshold)
                    assert ((rule_id, series_text(full)) in open_) is crosses, (selector, full, value)


def test_the_selectors_of_these_tests_are_valid():
    for selector in SELECTORS:
        parse(selector)
