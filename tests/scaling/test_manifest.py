"""What a decision would apply, as text."""

from __future__ import annotations

import json

import pytest
import yaml

from monitor.scaling.manifest import (
    command_payload,
    docker_manifest,
    kubernetes_manifest,
    spot_manifest,
)


@pytest.mark.parametrize(
    ("target_ref", "kind"),
    [
        ("shop/web", "Deployment"),
        ("shop/StatefulSet/web", "StatefulSet"),
        ("shop/ReplicaSet/web", "ReplicaSet"),
    ],
)
def test_a_kubernetes_manifest_owns_the_replicas_alone(target_ref: str, kind: str):
    document = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 5},
    }

    assert json.loads(kubernetes_manifest(target_ref, 5)) == document
    assert yaml.safe_load(kubernetes_manifest(target_ref, 5)) == document


def test_two_manifests_differ_in_the_line_that_changed():
    before, after = (kubernetes_manifest("shop/web", count).splitlines() for count in (2, 3))

    differing = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert differing == [('    "replicas": 2', '    "replicas": 3')]


@pytest.mark.parametrize(
    ("label", "expression"),
    [
        ("node.example/spot", {"key": "node.example/spot", "operator": "Exists"}),
        ("lifecycle=spot", {"key": "lifecycle", "operator": "In", "values": ["spot"]}),
    ],
)
def test_a_shift_to_spot_nodes_is_a_preference(label: str, expression: dict[str, object]):
    document = json.loads(spot_manifest("shop/web", label))

    affinity = document["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [preferred] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred == {"weight": 100, "preference": {"matchExpressions": [expression]}}
    assert document["spec"].keys() == {"template"}


def test_a_docker_manifest_is_a_command_for_each_host():
    text = docker_manifest("docker.scale", "default/web", {"host 2": 1, "host 1": 3}, "pool-a")

    assert json.loads(text) == {
        "commands": [
            {
                "agent": host,
                "type": "docker.scale",
                "payload": {"group": "web", "replicas": replicas, "lbPoolRef": "pool-a"},
            }
            for host, replicas in (("host 1", 3), ("host 2", 1))
        ]
    }


def test_a_payload_names_a_load_balancer_only_if_there_is_one():
    assert command_payload("web", 2, None) == {"group": "web", "replicas": 2}
