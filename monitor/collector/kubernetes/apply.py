"""Give workloads the replicas that the service wants, by server-side apply, and tell what came of it.

Nothing but ``spec.replicas`` is ever written.  Whoever else owns that field keeps it, and is
named in the report, until an annotation of the workload hands it over; a
HorizontalPodAutoscaler keeps it even then.  https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Literal

import msgspec
import structlog
from msgspec import Meta, Struct

from monitor.collector.client import Service
from monitor.collector.failure import BodyRefused, EngineAway
from monitor.collector.kubernetes.api import Api, Refused, Status
from monitor.collector.kubernetes.desired import fetch_desired, report_statuses
from monitor.collector.state import Identity
from monitor.wire import scaling

log = structlog.get_logger(__name__)

ROUND_SECONDS = 15.0  # the service decides as often
FIELD_MANAGER = "monitor"
APPLY_TYPE = "application/apply-patch+yaml"  # JSON is YAML
PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets"}
CONFLICT = 409
ANNOTATION, TAKE_OVER = "monitor.scaling", "force"
AUTOSCALER = "kube-controller-manager"  # would set it back within seconds, for ever
# The API server's answers that may be others in the next round.
PASSING = frozenset({401, 408, 429})

_OWNER = re.compile(r'conflicts? with "([^"]+)"')

# A DNS name: what else it may be would lead to another path of the API.
DnsName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]


class Metadata(Struct, frozen=True):
    """Which workload."""

    name: DnsName
    namespace: DnsName


class Spec(Struct, frozen=True):
    """How many."""

    replicas: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Manifest(Struct, frozen=True, rename="camel"):
    """All that is read of a manifest, and all that is applied: the service can change nothing else."""

    api_version: Literal["apps/v1"]
    kind: Literal["Deployment", "StatefulSet", "ReplicaSet"]
    metadata: Metadata
    spec: Spec

    @property
    def path(self) -> str:
        """Where the workload is in the API."""
        return f"apis/apps/v1/namespaces/{self.metadata.namespace}/{PLURALS[self.kind]}/{self.metadata.name}"

    @property
    def text(self) -> str:
        """The workload, for people."""
        return f"{self.kind} {self.metadata.namespace}/{self.metadata.name}"


class WorkloadStatus(Struct, frozen=True):
    """How many pods there are."""

    replicas: int = 0


class WorkloadSpec(Struct, frozen=True):
    """How many there should be; the API fills it in."""

    replicas: int | None = None


class WorkloadMeta(Struct, frozen=True):
    """What people say about a workload."""

    annotations: dict[str, str] | None = None


class Workload(Struct, frozen=True):
    """A workload, as far as it is used."""

    metadata: WorkloadMeta = WorkloadMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class Applier:
    """Brings a cluster to the manifests that the service has for this agent."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._etag = ""
        self._desired: list[scaling.Desired] = []
        self._applied: dict[str, int] = {}  # generation by policy
        self._reported: dict[str, scaling.Status] = {}

    async def round_and_pause(self, service: Service, identity: Identity) -> None:
        """Do a round, then wait for the next.

        Raises:
            AgentStopped, ServiceAway: As ``Service.push``.
        """
        await self.round(service, identity)
        await asyncio.sleep(ROUND_SECONDS)

    async def round(self, service: Service, identity: Identity) -> None:
        """Fetch the manifests, apply what is not in place, and report what is new about them.

        Raises:
            AgentStopped, ServiceAway: As ``Service.push``.
        """
        fetched = await fetch_desired(service, identity, self._etag)
        if fetched is not None:
            self._etag, self._desired = fetched
        present = {one.policy_id for one in self._desired}
        self._reported = {key: status for key, status in self._reported.items() if key in present}
        self._applied = {key: number for key, number in self._applied.items() if key in present}
        statuses = [await self._status_of(one) for one in self._desired]
        new = [one for one in statuses if one is not None and self._reported.get(one.policy_id) != one]
        if not new:
            return
        for status in new:
            log.info("manifest", policy=status.policy_id, status=status.status, message=status.message or "")
        try:
            await report_statuses(service, identity, scaling.StatusReport(new))
        except BodyRefused as error:
            log.error("status of manifests refused", error=str(error))
        self._reported |= {status.policy_id: status for status in new}

    async def _status_of(self, desired: scaling.Desired) -> scaling.Status | None:
        """Return what became of a manifest; None if that is not known in this round."""
        try:
            manifest = msgspec.json.decode(desired.manifest, type=Manifest)
        except ValueError as error:
            return _failed(desired, f"not a manifest that this agent applies: {error}")
        try:
            workload = await self._applied_to(desired, manifest)
        except Refused as error:
            if error.status in PASSING or error.status >= 500:
                log.warning("manifest not applied yet", workload=manifest.text, error=str(error))
                return None
            return _failed(desired, refusal(manifest, error))
        except EngineAway as error:
            log.warning("manifest not applied yet", workload=manifest.text, error=str(error))
            return None
        wanted, observed = manifest.spec.replicas, workload.status.replicas
        if observed == wanted:
            return scaling.Status(
                desired.policy_id, desired.generation, "applied", f"{wanted} replicas", observed
            )
        message = f"{observed} of {wanted} replicas"
        return scaling.Status(desired.policy_id, desired.generation, "pending", message, observed)

    async def _applied_to(self, desired: scaling.Desired, manifest: Manifest) -> Workload:
        """Return the workload with the manifest in place.

        Raises:
            Refused: It is not there, or belongs to somebody else, or is not ours to change.
            EngineAway: The API server cannot be reached.
        """
        # Applied to nothing, a manifest would be taken for a new workload.
        workload = await self._api.get(manifest.path, Workload)
        is_in_place = workload.spec.replicas == manifest.spec.replicas
        if is_in_place and self._applied.get(desired.policy_id) == desired.generation:
            return workload
        try:
            applied = await self._apply(manifest, force=False)
        except Refused as error:
            if error.status != CONFLICT or not is_handed_over(workload, owners_of(error.told)):
                raise
            log.info("replicas taken over", workload=manifest.text, owners=owners_of(error.told))
            applied = await self._apply(manifest, force=True)
        self._applied[desired.policy_id] = desired.generation
        return applied

    async def _apply(self, manifest: Manifest, *, force: bool) -> Workload:
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._api.patch(
            manifest.path, msgspec.json.encode(manifest), APPLY_TYPE, query, Workload
        )


def is_handed_over(workload: Workload, owners: list[str]) -> bool:
    """Tell whether the workload's annotation takes ``spec.replicas`` from its *owners*."""
    annotations = workload.metadata.annotations or {}
    return annotations.get(ANNOTATION) == TAKE_OVER and AUTOSCALER not in owners


def refusal(manifest: Manifest, error: Refused) -> str:
    """Return why a manifest is not applied, in words that say what to do."""
    told = error.told.message
    if error.status == 404:
        return f"{manifest.text} does not exist"
    if error.status == CONFLICT and (owners := owners_of(error.told)):
        names = " and ".join(f'"{owner}"' for owner in owners)
        return f"spec.replicas of {manifest.text} is owned by {names}, which keeps it" + (
            "" if AUTOSCALER in owners else f"; the annotation {ANNOTATION}={TAKE_OVER} hands it over"
        )
    if error.status == 403:
        return f"this agent may not scale {manifest.text} (deploy/kubernetes/scaling.yaml gives the right): {told}"
    return f"{manifest.text}: the API server answered {error.status}: {told}"


def owners_of(told: Status) -> list[str]:
    """Return the field managers that a conflict names, in its order."""
    causes = told.details.causes if told.details else None
    texts = [cause.message for cause in causes or ()] or [told.message]
    return list(dict.fromkeys(owner for text in texts for owner in _OWNER.findall(text)))


def _failed(desired: scaling.Desired, message: str) -> scaling.Status:
    return scaling.Status(desired.policy_id, desired.generation, "failed", message)
