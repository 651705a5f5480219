"""A live policy, whole: usage in the cluster, our agent, the service, its decision, the ReplicaSet."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.collector.fakes import until
from tests.collector.kubernetes.shapes import STARTED
from tests.kubernetes.test_cluster import SECONDS, deployment, make_node, names, run_pod
from tests.scaling.conftest import LIVE, decisions, evaluate, kubernetes, new_policy, shown

pytestmark = pytest.mark.xdist_group("kubernetes")


@pytest.fixture
def nodes(cluster, kubelet):
    make_node(cluster, "node-1", kubelet.port)
    yield
    cluster.kubectl("delete", "node", "node-1")


async def until_true(ask):
    """Return the first true answer of the coroutine function *ask*."""
    async with asyncio.timeout(SECONDS):
        while not (answer := await ask()):
            await asyncio.sleep(0.2)
    return answer


async def test_a_live_policys_manifest_is_applied_and_the_replica_set_follows(
    app, api, pool, cluster, namespace, kubelet, nodes, scaling_right, agent
):
    cluster.kubectl(
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin=msgspec.json.encode(deployment(namespace, replicas=None)).decode(),
    )
    await until(lambda: names(cluster, namespace, 1), SECONDS)
    [name] = names(cluster, namespace, 1)
    cluster.bind(namespace, name, "node-1")
    run_pod(cluster, namespace, name)
    usage = {"cpu": "3800m", "memory": "1Mi"}  # all that its node can give, as the proxy has no request
    kubelet.pods = [
        {
            "metadata": {"name": name, "namespace": namespace},
            "timestamp": STARTED,
            "window": "15s",
            "containers": [{"name": "app", "usage": usage}],
        }
    ]

    async with agent(url=app.base_url, api_key=api.secret):

        async def listed():
            return [pod for pod in await api.json("/api/v1/pods") if pod.get("cpuPercent")]

        [pod] = await until_true(listed)
        assert (pod["workload"], pod["cpuPercent"]) == ("Deployment/web", 100.0)
        policy = await new_policy(api, kubernetes(**LIVE, cpuTargetPercent=25))
        await evaluate(app, pool, api.org_id)
        assert (await shown(api, policy))["desiredReplicas"] == 4

        async def applied():
            return (await shown(api, policy))["applyHealth"] == "applied"

        await until_true(applied)

    [replica_set] = cluster.get("replicasets", "-n", namespace)["items"]
    assert replica_set["spec"]["replicas"] == 4
    assert len(names(cluster, namespace, 4)) == 4
    rows = [(row["action"], row["fromReplicas"], row["toReplicas"]) for row in await decisions(api)]
    assert rows[0] == ("apply", 1, 4)
