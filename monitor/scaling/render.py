"""The manifest of a change, and the hosts that it concerns.  Pure."""

from __future__ import annotations

from collections import Counter

from monitor.scaling.manifest import (
    CommandName,
    docker_manifest,
    kubernetes_manifest,
    spot_manifest,
)
from monitor.scaling.models import Settings
from monitor.scaling.observe import Host, Seen
from monitor.scaling.spread import spread


def manifest(policy: Settings, seen: Seen, replicas: int, command: CommandName = "docker.scale") -> str:
    """Return what would be applied to bring the workload to *replicas*."""
    if policy.runtime == "docker":
        names = Counter(host.name for host in seen.hosts)
        hosts = {
            host.name if names[host.name] == 1 else f"{host.name} ({host.agent_id})": count
            for host, count in placed(policy, seen, replicas)
        }
        return docker_manifest(command, policy.target_ref, hosts, policy.lb_pool_ref)
    if policy.policy_type == "spot_shift" and policy.spot_node_label is not None:
        return spot_manifest(policy.target_ref, policy.spot_node_label)
    return kubernetes_manifest(policy.target_ref, replicas)


def placed(policy: Settings, seen: Seen, replicas: int) -> list[tuple[Host, int]]:
    """Return the hosts that change, with the replicas that each shall have; all hosts while unsettled.

    Replicas on offline hosts stay where they are and count.  But nobody knows whether they
    work: while there are some, of those online ``minReplicas``, one at least, are left
    unless fewer are wanted altogether.
    """
    running = {host.agent_id: host.running for host in seen.hosts}
    online, offline = replicas, seen.inputs.offline_replicas
    if offline:
        left = min(sum(running.values()), max(1, policy.min_replicas), replicas)
        online = max(left, replicas - offline)
    wanted = spread(running, online, policy.max_replicas_per_host)
    return [
        (host, wanted[host.agent_id])
        for host in seen.hosts
        if not seen.settled or wanted[host.agent_id] != host.running
    ]
