"""Server-side apply of what the service wants, against an API server and a service over real HTTP."""

import pytest

from monitor.collector.client import Service
from monitor.collector.failure import AgentStopped, ServiceAway
from monitor.collector.kubernetes.apply import Applier
from monitor.collector.state import Identity
from tests.collector.fakes import TOKEN, answer, served
from tests.collector.kubernetes.fake_api import status
from tests.collector.kubernetes.scaling_service import ScalingService

IDENTITY = Identity("agent_1", TOKEN, "")
WEB = ("shop", "deployments", "web")
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"


@pytest.fixture
async def scaling():
    fake = ScalingService()
    async with served(fake.app()) as url:
        fake.url = url
        yield fake


@pytest.fixture
async def rounds(cluster, scaling):
    """Do a round of an agent that goes on from call to call."""
    applier = Applier(cluster.api)
    async with Service(scaling.url, "test") as service:

        async def do(count=1):
            for _ in range(count):
                await applier.round(service, IDENTITY)

        yield do


async def test_a_manifest_is_applied_as_the_field_manager_monitor_and_reported(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5)

    await rounds()

    assert kube.workloads[WEB]["replicas"] == 5
    [(path, query, body, content_type)] = kube.applied
    assert (path, content_type) == (PATH, "application/apply-patch+yaml")
    assert query == {"fieldManager": "monitor", "force": "false"}
    assert body == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 5},
    }
    assert scaling.reports == [
        [
            {
                "policyId": "scp_1",
                "generation": 1,
                "status": "applied",
                "message": "5 replicas",
                "observedReplicas": 5,
            }
        ]
    ]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Deployment", "deployments"), ("StatefulSet", "statefulsets"), ("ReplicaSet", "replicasets")],
)
async def test_each_kind_of_workload_is_found_where_the_api_has_it(kube, scaling, rounds, kind, plural):
    kube.workloads[("shop", plural, "web")] = {"replicas": 1, "owners": []}
    scaling.wants(0, kind=kind)

    await rounds()

    assert kube.workloads[("shop", plural, "web")]["replicas"] == 0
    assert scaling.told == {"scp_1": ("applied", "0 replicas", 0)}


async def test_what_is_in_place_is_neither_applied_nor_told_again(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5)

    await rounds(4)

    assert len(kube.applied) == 1
    assert len(scaling.reports) == 1
    assert scaling.unchanged == 3


async def test_a_new_generation_is_applied(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5)
    await rounds()
    scaling.wants(3, generation=2)

    await rounds()

    assert kube.workloads[WEB]["replicas"] == 3
    assert scaling.reports[-1][0]["generation"] == 2


async def test_it_is_pending_until_the_workload_has_come_to_it(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "observed": 2, "owners": []}
    scaling.wants(5)
    await rounds()
    assert scaling.told == {"scp_1": ("pending", "2 of 5 replicas", 2)}
    kube.workloads[WEB]["observed"] = 5

    await rounds()

    assert scaling.told == {"scp_1": ("applied", "5 replicas", 5)}
    assert len(kube.applied) == 1


async def test_a_conflict_names_the_owner_and_forces_nothing(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": ["kubectl-client-side-apply", "argocd"]}
    scaling.wants(5)

    await rounds(3)

    assert kube.workloads[WEB]["replicas"] == 2
    assert {query["force"] for _, query, _, _ in kube.applied} == {"false"}
    [[report]] = scaling.reports  # told once
    assert report["status"] == "failed"
    assert report["observedReplicas"] is None
    assert (
        'spec.replicas of Deployment shop/web is owned by "kubectl-client-side-apply" and "argocd"'
        in report["message"]
    )


@pytest.mark.parametrize(
    ("annotations", "owners", "replicas"),
    [
        ({"monitor.scaling": "force"}, ["kubectl"], 5),
        ({"monitor.scaling": "no"}, ["kubectl"], 2),
        (None, ["kubectl"], 2),
        ({"monitor.scaling": "force"}, ["kube-controller-manager"], 2),
        ({"monitor.scaling": "force"}, ["kubectl", "kube-controller-manager"], 2),
    ],
)
async def test_an_annotation_hands_the_field_over_but_never_that_of_an_autoscaler(
    kube, scaling, rounds, annotations, owners, replicas
):
    kube.workloads[WEB] = {"replicas": 2, "owners": owners, "annotations": annotations}
    scaling.wants(5)

    await rounds(2)

    assert kube.workloads[WEB]["replicas"] == replicas
    assert scaling.told["scp_1"][0] == ("applied" if replicas == 5 else "failed")
    assert kube.applied[0][1]["force"] == "false"
    assert len(scaling.reports) == 1


async def test_a_conflict_that_is_over_is_applied(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": ["kubectl"]}
    scaling.wants(5)
    await rounds()
    kube.workloads[WEB]["owners"].clear()

    await rounds()

    assert scaling.told == {"scp_1": ("applied", "5 replicas", 5)}


async def test_what_somebody_changes_afterwards_is_applied_again_or_told(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5)
    await rounds()
    kube.workloads[WEB] = {"replicas": 1, "owners": ["kubectl"]}

    await rounds()

    assert kube.workloads[WEB]["replicas"] == 1
    assert scaling.told["scp_1"][0] == "failed"


async def test_a_missing_workload_is_told_and_not_made(kube, scaling, rounds):
    scaling.wants(5)

    await rounds()

    assert kube.applied == []
    assert scaling.told == {"scp_1": ("failed", "Deployment shop/web does not exist", None)}


async def test_missing_rights_are_told_with_what_gives_them(kube, scaling, rounds):
    kube.refuse[PATH] = status(403, "Forbidden", 'deployments.apps "web" is forbidden')
    scaling.wants(5)

    await rounds()

    [(outcome, message, _)] = scaling.told.values()
    assert outcome == "failed"
    assert "deploy/kubernetes/scaling.yaml" in message


@pytest.mark.parametrize(("code", "reason"), [(500, "InternalError"), (429, "TooManyRequests"), (503, "x")])
async def test_a_passing_trouble_of_the_cluster_is_no_failure(kube, scaling, rounds, code, reason):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    kube.refuse[PATH] = status(code, reason, "not now")
    scaling.wants(5)
    await rounds(2)
    assert scaling.reports == []
    kube.refuse.clear()

    await rounds()

    assert scaling.told == {"scp_1": ("applied", "5 replicas", 5)}


async def test_one_manifest_that_fails_holds_up_no_other(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(9, policy="scp_2", name="gone")
    scaling.wants(5)

    await rounds()

    assert {policy: told[0] for policy, told in scaling.told.items()} == {
        "scp_1": "applied",
        "scp_2": "failed",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "Secret"},
        {"apiVersion": "v1"},
        {"spec": {"replicas": -1}},
        {"spec": {}},
        {"spec": {"replicas": "5"}},
        {"metadata": {"name": "../../../api/v1/secrets", "namespace": "shop"}},
        {"metadata": {"name": "web", "namespace": "Shop"}},
        {"metadata": {"name": "web"}},
    ],
)
async def test_nothing_else_is_applied_than_replicas_of_a_workload(kube, scaling, rounds, changes):
    scaling.wants(5)
    kind = changes.pop("kind", "Deployment")
    scaling.wants(5, kind=kind, **changes)

    await rounds()

    assert kube.applied == []
    assert scaling.told["scp_1"][0] == "failed"
    assert "not a manifest that this agent applies" in scaling.told["scp_1"][1]


async def test_what_else_a_manifest_says_does_not_reach_the_cluster(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5, spec={"replicas": 5, "template": {"spec": {"hostNetwork": True}}})

    await rounds()

    [(_, _, body, _)] = kube.applied
    assert body["spec"] == {"replicas": 5}


async def test_a_report_that_was_not_taken_is_made_again(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5)
    scaling.report_answers = [answer(503)]
    with pytest.raises(ServiceAway):
        await rounds()
    assert scaling.reports == []

    await rounds()

    assert scaling.told == {"scp_1": ("applied", "5 replicas", 5)}
    assert len(kube.applied) == 1


async def test_a_service_that_is_away_changes_nothing(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5)
    scaling.desired_answers = [answer(503), answer(404, "not_found")]
    for _ in range(2):
        with pytest.raises(ServiceAway):
            await rounds()
    assert kube.applied == []

    await rounds()

    assert scaling.told["scp_1"][0] == "applied"


async def test_a_manifest_that_is_withdrawn_is_forgotten(kube, scaling, rounds):
    kube.workloads[WEB] = {"replicas": 2, "owners": []}
    scaling.wants(5)
    await rounds()
    scaling.manifests = []
    await rounds()
    kube.workloads[WEB] = {"replicas": 1, "owners": []}

    await rounds(2)

    assert kube.workloads[WEB]["replicas"] == 1
    assert len(scaling.reports) == 1


async def test_a_deleted_agent_applies_nothing_any_more(kube, scaling, rounds):
    scaling.desired_answers = [answer(401, "unauthorized")]

    with pytest.raises(AgentStopped):
        await rounds()
