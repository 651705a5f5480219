"""The chain through an organization's decision log: the exact text of a row, its hash, and the check.

A row is one text, stored and hashed as it is: ``hash = SHA-256(hash of the row before,
newline, text)``, in hex, from ``GENESIS`` on.  Whoever changes, removes or inserts a row
must change every later hash; whoever kept an earlier head sees that.  Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from monitor.scaling.decide import recomputed
from monitor.scaling.spec import Evidence

GENESIS: Final = "0" * 64  # the hash before the first row
NOT_DECIDED: Final = 0  # decideVersion of rows that people or agents caused
CANNOT_PROVE: Final = (
    "That nothing was rewritten as a whole: whoever may write the table can compute all hashes anew."
    " A head that was kept elsewhere, as it is logged daily, shows it.",
    "That the newest rows are all there, if the stored head was put back together with them.",
    "That what was observed was true, or that what was decided was carried out:"
    " the chain holds what the service was told.",
)

Action = Literal["dry_run", "apply", "rollback", "apply_failed"]


class Row(Struct, frozen=True, rename="camel"):
    """What a row of the log says; fields as in the API.

    Attributes:
        id: Counts the organization's rows from 1.
        ts: RFC 3339 in UTC.
        inputs: JSON of the decision's ``Evidence``; of rows that ``decide`` did not make
            any object.
        decide_version: NOT_DECIDED for rows that ``decide`` did not make.
    """

    org_id: str
    id: int
    policy_id: str
    ts: str
    runtime: str
    trigger_metric: str
    trigger_value: float
    threshold: float
    direction: str
    from_replicas: int
    to_replicas: int
    action: Action
    dry_run: bool
    rendered_manifest: str
    outcome: str
    inputs: msgspec.Raw
    limited_by: tuple[str, ...] = ()
    decide_version: int = NOT_DECIDED


class Stored(Struct, frozen=True):
    """A row as it stands in the table: ``body`` is its text."""

    id: int
    policy_id: str
    body: str
    prev_hash: str
    hash: str


class Head(Struct, frozen=True):
    """The newest row, as it is kept beside the log, or was kept elsewhere."""

    last_id: int
    hash: str


class Fault(Struct, frozen=True, rename="camel"):
    """The first row that is not as it was written, and what was found there."""

    id: int
    found: str


class Checked(Struct, frozen=True, rename="camel"):
    """How far a chain has been checked.

    Attributes:
        rows: How many rows are good.
        last_id: That of the last good row, 0 at the start.
        hash: That of the last good row.
        recomputed: How many of them were decided again, with the same result.
        fault: What ended the check.
    """

    rows: int = 0
    last_id: int = 0
    hash: str = GENESIS
    recomputed: int = 0
    fault: Fault | None = None


_row = msgspec.json.Decoder(Row)


def row_text(row: Row) -> str:
    """Return the text of *row* to be stored and hashed."""
    return msgspec.json.encode(row).decode()


def row_of(text: str) -> Row:
    """Return what the stored *text* says.

    Raises:
        ValueError: It is no row.
    """
    try:
        return _row.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def inputs_of(evidence: Evidence) -> msgspec.Raw:
    """Return the ``inputs`` of the row of a decision."""
    return msgspec.Raw(msgspec.json.encode(evidence))


def next_hash(prev: str, text: str) -> str:
    """Return the hash (hex) of a row with *text* after one with the hash *prev*."""
    return hashlib.sha256(f"{prev}\n{text}".encode()).hexdigest()


def recompute(row: Row) -> int | None:
    """Return the replicas that the stored inputs of *row* lead to, None if they lead to no change.

    Raises:
        ValueError: They cannot be read, or the row's ``decideVersion`` is not known.
    """
    return recomputed(bytes(row.inputs), row.decide_version)


def verify(org_id: str, rows: Iterable[Stored], so_far: Checked | None = None) -> Checked:
    """Return how far the chain is good, over *rows* in the order of their ids.

    A long log is checked in parts, each with what the part before came to.  The last one
    goes through ``closed``.
    """
    checked = so_far or Checked()
    for stored in rows:
        if checked.fault is not None:
            break
        found, again = _fault(org_id, stored, checked)
        if found:
            return replace(checked, fault=Fault(stored.id, found))
        checked = Checked(checked.rows + 1, stored.id, stored.hash, checked.recomputed + again)
    return checked


def closed(checked: Checked, head: Head | None) -> Checked:
    """Return *checked*, of all rows, with a fault if it does not end at *head*; None is an empty log."""
    last = head or Head(0, GENESIS)
    if checked.fault is not None or (checked.last_id, checked.hash) == (last.last_id, last.hash):
        return checked
    if checked.last_id < last.last_id:
        found = f"rows are missing at the end: the log ends at {checked.last_id}, its head at {last.last_id}"
        return replace(checked, fault=Fault(checked.last_id + 1, found))
    if checked.last_id > last.last_id:
        found = f"rows were added past the head, which is {last.last_id}"
        return replace(checked, fault=Fault(last.last_id + 1, found))
    return replace(
        checked, fault=Fault(last.last_id, f"its hash is {checked.hash}, the head's is {last.hash}")
    )


def _fault(org_id: str, stored: Stored, before: Checked) -> tuple[str, bool]:
    """Return what is wrong with a row, empty if nothing is; and whether it was decided again."""
    if stored.id != before.last_id + 1:
        return f"row {before.last_id + 1} is missing before it", False
    if stored.prev_hash != before.hash:
        return f"its prevHash is {stored.prev_hash}, the hash of the row before is {before.hash}", False
    computed = next_hash(stored.prev_hash, stored.body)
    if stored.hash != computed:
        return f"its text was changed: its hash is {stored.hash}, its text has {computed}", False
    try:
        row = row_of(stored.body)
    except ValueError as error:
        return f"its text cannot be read: {error}", False
    for name, told, column in (
        ("orgId", row.org_id, org_id),
        ("id", row.id, stored.id),
        ("policyId", row.policy_id, stored.policy_id),
    ):
        if told != column:
            return f"its {name} is {column}, its text says {told}", False
    if row.decide_version == NOT_DECIDED:
        return "", False
    try:
        again = recompute(row)
    except ValueError as error:
        return f"it cannot be decided again: {error}", False
    if again != row.to_replicas:
        result = "no change" if again is None else f"{again} replicas"
        return f"its inputs lead to {result}, it says {row.to_replicas}", False
    return "", True
