"""What everybody derives alike from a pushed container or pod (contract 3).

Samples, alerts, scaling and the agent itself must agree on these, so they stand
beside the structs.  Pure.
"""

from __future__ import annotations

import re

from monitor.wire.push import Container, Pod

COMPOSE_SERVICE = "com.docker.compose.service"
_DIGITS = "0123456789"
# <w>-<replicaset hash>-<5 characters>.  A hash has a digit or no vowel, which tells it from the
# words of a name: kube-proxy-x7k2p belongs to a DaemonSet, not to a Deployment called kube.
_OF_DEPLOYMENT = re.compile(
    r"(?P<name>.+)-(?:(?=[a-z]*[0-9])[a-z0-9]{4,10}|[bcdfghjklmnpqrstvwxz]{4,10})-[a-z0-9]{5}"
)
_OF_STATEFUL_SET = re.compile(r"(?P<name>.+)-[0-9]+")


def group_of(container: Container) -> str:
    """Return the compose service, else the name without a trailing ``-<n>`` or ``_<n>``."""
    if container.labels and (service := container.labels.get(COMPOSE_SERVICE)):
        return service
    name = container.name
    stem = name.rstrip(_DIGITS)
    numbered = len(stem) < len(name) and len(stem) > 1 and stem[-1] in "-_"
    return stem[:-1] if numbered else name


def workload_of(pod: Pod) -> str:
    """Return ``Kind/name``: the one sent, else the one that the pod's name tells, else ``""``."""
    if pod.workload:
        return pod.workload
    if match := _OF_DEPLOYMENT.fullmatch(pod.name):
        return f"Deployment/{match['name']}"
    if match := _OF_STATEFUL_SET.fullmatch(pod.name):
        return f"StatefulSet/{match['name']}"
    return ""


def is_running(container: Container) -> bool:
    """Tell whether the engine calls the container running."""
    return container.state == "running"


def stats_failed(container: Container) -> bool:
    """Tell whether the container's numbers are no measurement.

    The agent says so (``statsOk: false``), or the container runs with cpu, memory
    and network all exactly zero, which is what agents send when a stats call
    failed (api.md).  Such zeros must never be taken for idleness.
    """
    if container.stats_ok is False:
        return True
    return container.state == "running" and not (
        container.memory_usage_mb or container.cpu_percent or container.net_rx_bytes or container.net_tx_bytes
    )
