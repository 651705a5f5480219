"""Manifests that an agent applies, and what became of them (contract 8)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Desired(Struct, frozen=True, rename="camel"):
    """A manifest that the agent should apply: a server-side-apply document as JSON text.

    ``generation`` grows with each change of the policy's.
    """

    policy_id: str
    target_ref: str
    generation: int
    manifest: str


class DesiredList(Struct, frozen=True, rename="camel"):
    """Reply to ``GET …/scaling/desired``."""

    manifests: list[Desired]


class Status(Struct, frozen=True, rename="camel"):
    """What became of one manifest.

    ``pending``: the API server has it, and the workload has not come to it yet.
    """

    policy_id: str
    generation: int
    status: Literal["applied", "pending", "failed"]
    message: str | None = None
    observed_replicas: int | None = None


class StatusReport(Struct, frozen=True, rename="camel"):
    """Body of ``POST …/scaling/status``."""

    statuses: list[Status]
