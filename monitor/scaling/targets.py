"""What a policy points at: ``namespace/name``, ``namespace/Kind/name`` or ``pool/group``.  Pure."""

from __future__ import annotations

import re

from msgspec import Struct

from monitor.errors import BadRequest
from monitor.scaling.spec import Runtime

DEFAULT_KIND = "Deployment"
KINDS = (DEFAULT_KIND, "ReplicaSet", "StatefulSet")  # of apps/v1, those that have spec.replicas

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Workload(Struct, frozen=True):
    """A Kubernetes workload; ``text`` is ``Kind/name``, as pods tell it."""

    namespace: str
    text: str


class Group(Struct, frozen=True):
    """A group of containers on the hosts of a pool; ``pool`` may also be an agent's name."""

    pool: str
    name: str


def workload(target_ref: str) -> Workload:
    """Return the workload of a Kubernetes policy.

    Raises:
        BadRequest: The text is no reference of a workload.
    """
    parts = target_ref.split("/")
    if len(parts) == 2:
        parts.insert(1, DEFAULT_KIND)
    if len(parts) != 3:
        raise _refused("expected namespace/name or namespace/Kind/name")
    namespace, kind, name = parts
    if kind not in KINDS:
        raise _refused(f"expected one of {', '.join(KINDS)} as kind")
    if not _NAMESPACE.fullmatch(namespace) or not _NAME.fullmatch(name):
        raise _refused("expected names as Kubernetes has them: lower-case letters, digits and -")
    return Workload(namespace, f"{kind}/{name}")


def group(target_ref: str) -> Group:
    """Return the group of a Docker policy; the last slash ends the pool.

    Raises:
        BadRequest: The text is no reference of a group.
    """
    pool, _, name = target_ref.rpartition("/")
    if not pool.strip() or not name.strip() or _CONTROL.search(target_ref):
        raise _refused("expected pool/group")
    return Group(pool, name)


def check(runtime: Runtime, target_ref: str) -> None:
    """Refuse a reference that *runtime* cannot have.

    Raises:
        BadRequest: Says what was expected.
    """
    if runtime == "kubernetes":
        workload(target_ref)
    else:
        group(target_ref)


def _refused(text: str) -> BadRequest:
    return BadRequest(f"targetRef: {text}", field="targetRef")
