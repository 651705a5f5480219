"""What a decision would have applied, as text: a manifest for Kubernetes, commands for Docker.

Kubernetes manifests are documents for server-side apply that own ``spec.replicas`` alone;
JSON, which is YAML too, in the same order every time so that two can be compared by line.
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from monitor.scaling import targets

FIELD_MANAGER: Final = "monitor"  # who owns the applied fields
API_VERSION: Final = "apps/v1"
SPOT_WEIGHT: Final = 100  # the strongest preference: a scheduler may still choose otherwise

CommandName = Literal["docker.scale", "docker.rollback"]


def kubernetes_manifest(target_ref: str, replicas: int) -> str:
    """Return the document that gives the workload of *target_ref* its *replicas*."""
    return _text(_document(target_ref, {"replicas": replicas}))


def spot_manifest(target_ref: str, spot_node_label: str) -> str:
    """Return the document that makes the pods of *target_ref* prefer nodes with the label.

    Args:
        target_ref: Of the policy.
        spot_node_label: ``key`` or ``key=value``.
    """
    key, equals, value = spot_node_label.partition("=")
    expression: dict[str, Any] = {"key": key, "operator": "In" if equals else "Exists"}
    if equals:
        expression["values"] = [value]
    preferred = [{"weight": SPOT_WEIGHT, "preference": {"matchExpressions": [expression]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return _text(_document(target_ref, {"template": {"spec": {"affinity": affinity}}}))


def command_payload(group: str, replicas: int, lb_pool_ref: str | None) -> dict[str, Any]:
    """Return the payload of ``docker.scale`` and ``docker.rollback``; *replicas* are those of one host."""
    payload: dict[str, Any] = {"group": group, "replicas": replicas}
    if lb_pool_ref is not None:
        payload["lbPoolRef"] = lb_pool_ref
    return payload


def docker_manifest(
    name: CommandName, target_ref: str, hosts: Mapping[str, int], lb_pool_ref: str | None = None
) -> str:
    """Return the commands, one for each host.

    Args:
        name: Of the commands.
        target_ref: Of the policy.
        hosts: Replicas that each host shall have, by the name of its agent.
        lb_pool_ref: Of the policy.
    """
    group = targets.group(target_ref).name
    commands = [
        {"agent": agent, "type": name, "payload": command_payload(group, replicas, lb_pool_ref)}
        for agent, replicas in sorted(hosts.items())
    ]
    return _text({"commands": commands})


def _document(target_ref: str, spec: dict[str, Any]) -> dict[str, Any]:
    workload = targets.workload(target_ref)
    kind, _, name = workload.text.partition("/")
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": workload.namespace},
        "spec": spec,
    }


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
