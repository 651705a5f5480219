"""The samples of policies: ``scaling_policy_current_replicas`` and ``…_desired_replicas``.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from monitor.tsdb import influx

if TYPE_CHECKING:
    from monitor.scaling.models import Settings
    from monitor.scaling.state import State


def policy_lines(evaluated: Sequence[tuple[Settings, State]], at_ms: int) -> tuple[bytes, int]:
    """Return a line for each policy that was ever observed, and the number of samples."""
    lines: list[str] = []
    count = 0
    for policy, state in evaluated:
        values = {"current_replicas": state.current_replicas, "desired_replicas": state.desired_replicas}
        fields = [f"{name}={value}" for name, value in values.items() if value is not None]
        if fields:
            tags = {
                "org_id": state.org_id,
                "policy_id": state.policy_id,
                "policy": policy.name,
                "target_ref": policy.target_ref,
                "runtime": policy.runtime,
            }
            named = "".join(f",{name}={influx.escape(value)}" for name, value in tags.items())
            lines.append(f"scaling_policy{named} {','.join(fields)} {at_ms}\n")
            count += len(fields)
    return "".join(lines).encode(), count
