"""What a policy's settings are after a request: defaults, checks, partial changes.  Pure."""

from __future__ import annotations

import re
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from monitor.errors import BadRequest
from monitor.scaling import targets
from monitor.scaling.models import STRATEGIES, NewPolicy, PolicyChange, Settings
from monitor.tsdb.selector import parse

# Null unsets these; it leaves every other field as it is.
OPTIONAL = frozenset(
    (
        "policy_type",
        "cpu_target_percent",
        "memory_target_percent",
        "node_pressure_target_percent",
        "max_replicas_per_host",
        "lb_pool_ref",
        "agent_id",
        "wake_metric",
        "spot_node_label",
    )
)
# A change of these alone leaves what is known and in force as it is.
COSMETIC = frozenset(("name", "lb_pool_ref"))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def settings_of(new: NewPolicy) -> Settings:
    """Return the settings of a new policy.

    Raises:
        BadRequest: Names the field that is not valid.
    """
    given = {name: value for name, value in _given(new).items() if value is not None}
    settings = Settings(**given)
    _check(settings, new.strategy)
    return settings


def changed(settings: Settings, change: PolicyChange) -> Settings:
    """Return *settings* after a partial change.

    Raises:
        BadRequest: Names the field that is not valid, or cannot be changed.
    """
    if change.runtime is not UNSET and change.runtime not in (None, settings.runtime):
        raise BadRequest("runtime: cannot be changed", field="runtime")
    given = {name: value for name, value in _given(change).items() if value is not None or name in OPTIONAL}
    after = replace(settings, **given)
    _check(after, change.strategy)
    return after


def of_policy(policy: Settings) -> Settings:
    """Return the settings alone of a stored policy."""
    return Settings(**{name: getattr(policy, name) for name in Settings.__struct_fields__})


def differing(before: Settings, after: Settings) -> set[str]:
    """Return the names of the settings that differ."""
    return {name for name, value in asdict(after).items() if value != getattr(before, name)}


def _given(change: PolicyChange) -> dict[str, Any]:
    return {
        name: value
        for name, value in asdict(change).items()
        if name in Settings.__struct_fields__ and value is not UNSET
    }


def _check(settings: Settings, strategy: Any) -> None:
    expected = STRATEGIES[settings.runtime]
    if strategy not in (UNSET, None, expected):
        raise BadRequest(
            f"strategy: is {expected} for {settings.runtime} and cannot be set", field="strategy"
        )
    _check_texts(settings)
    targets.check(settings.runtime, settings.target_ref)
    if settings.cpu_target_percent is None and settings.memory_target_percent is None:
        raise BadRequest("cpuTargetPercent: required, or memoryTargetPercent", field="cpuTargetPercent")
    if settings.min_replicas > settings.max_replicas:
        raise BadRequest(
            f"minReplicas: must not be above maxReplicas ({settings.max_replicas})", field="minReplicas"
        )
    if settings.runtime == "kubernetes" and settings.max_replicas_per_host is not None:
        raise BadRequest("maxReplicasPerHost: is for docker policies", field="maxReplicasPerHost")
    if settings.wake_metric is not None:
        try:
            parse(settings.wake_metric)
        except BadRequest as error:
            raise BadRequest(f"wakeMetric: {error.text}", field="wakeMetric") from None
    if settings.policy_type == "spot_shift" and settings.runtime != "kubernetes":
        raise BadRequest("policyType: spot_shift is for kubernetes policies", field="policyType")


def _check_texts(settings: Settings) -> None:
    texts = {
        "name": settings.name,
        "targetRef": settings.target_ref,
        "lbPoolRef": settings.lb_pool_ref,
        "agentId": settings.agent_id,
        "spotNodeLabel": settings.spot_node_label,
    }
    for field, text in texts.items():
        if text is None:
            continue
        if _CONTROL.search(text):
            raise BadRequest(f"{field}: control characters are not allowed", field=field)
        if not text.strip():
            raise BadRequest(f"{field}: expected string that is not empty", field=field)
