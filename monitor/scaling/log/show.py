"""Rows of the decision log as the API shows them.  Pure."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict

from monitor.scaling.chain import Stored, row_of
from monitor.scaling.models import Decision


def shown(stored: Stored) -> Decision:
    """Return what a row says, with the hashes that chain it."""
    values = asdict(row_of(stored.body))
    del values["org_id"]
    inputs = msgspec.json.decode(values.pop("inputs"))
    limited_by = list(values.pop("limited_by"))
    return Decision(
        **values, inputs=inputs, limited_by=limited_by, prev_hash=stored.prev_hash, hash=stored.hash
    )
