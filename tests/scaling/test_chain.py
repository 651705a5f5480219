"""The chain through the decision log: what a check finds, and names."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.scaling.chain import (
    GENESIS,
    Checked,
    Head,
    Row,
    Stored,
    closed,
    inputs_of,
    next_hash,
    recompute,
    row_of,
    row_text,
    verify,
)
from monitor.scaling.decide import decide
from monitor.scaling.spec import Decision, Inputs, Memory, PolicySpec, Replica

NOW = 1_900_000_000.0
POLICY = PolicySpec(runtime="docker", target_ref="default/web", cpu_target_percent=50.0, step_size=9)


def decision_row(number: int, replicas: int = 2) -> Row:
    """Return a row that ``decide`` made: *replicas* at twice their target."""
    inputs = Inputs(agents=("a",), replicas=tuple(Replica(cpu=100.0) for _ in range(replicas)))
    made = decide(POLICY, inputs, Memory(), NOW)
    assert isinstance(made, Decision)
    return Row(
        org_id="org_1",
        id=number,
        policy_id="scp_1",
        ts="2030-03-17T17:46:40Z",
        runtime="docker",
        trigger_metric=made.trigger_metric,
        trigger_value=made.trigger_value,
        threshold=made.threshold,
        direction=made.direction,
        from_replicas=made.from_replicas,
        to_replicas=made.to_replicas,
        action="apply",
        dry_run=False,
        rendered_manifest='{"replicas": 4}\n',
        outcome=made.reason,
        inputs=inputs_of(made.evidence),
        limited_by=made.limited_by,
        decide_version=made.decide_version,
    )


def rollback_row(number: int) -> Row:
    return replace(
        decision_row(number), action="rollback", to_replicas=2, inputs=msgspec.Raw(b"{}"), decide_version=0
    )


def chain(*rows: Row) -> list[Stored]:
    stored, prev = [], GENESIS
    for row in rows:
        text = row_text(row)
        stored.append(Stored(row.id, row.policy_id, text, prev, next_hash(prev, text)))
        prev = stored[-1].hash
    return stored


def rewritten(stored: list[Stored], number: int, row: Row) -> list[Stored]:
    """Return the chain with another row in the place *number*, and all later hashes computed anew."""
    return chain(*(row if at == number else row_of(it.body) for at, it in enumerate(stored)))


LOG = chain(decision_row(1), decision_row(2, 3), rollback_row(3), decision_row(4))
HEAD = Head(4, LOG[-1].hash)


def test_a_row_reads_back_as_it_was_written():
    row = decision_row(1)
    text = row_text(row)

    assert row_of(text) == row
    assert row_text(row_of(text)) == text
    assert json.loads(text)["inputs"]["inputs"]["replicas"] == [{"cpu": 100.0}, {"cpu": 100.0}]
    assert json.loads(text)["toReplicas"] == 4


def test_the_hash_is_plain_sha256_that_anybody_can_compute():
    assert next_hash(GENESIS, "text") == hashlib.sha256(b"0" * 64 + b"\ntext").hexdigest()


def test_a_good_chain_ends_at_its_head():
    checked = closed(verify("org_1", LOG), HEAD)

    assert checked == Checked(rows=4, last_id=4, hash=LOG[-1].hash, recomputed=3)


def test_a_chain_may_be_checked_in_parts():
    part = verify("org_1", LOG[:2])

    assert verify("org_1", LOG[2:], part) == verify("org_1", LOG)


def test_an_empty_log_has_no_head():
    assert closed(verify("org_1", []), None) == Checked()


def changed(number: int, **fields: Any) -> list[Stored]:
    return [replace(it, **fields) if it.id == number else it for it in LOG]


BODY = LOG[1].body
FORGED = BODY.replace('"toReplicas":6', '"toReplicas":9')


@pytest.mark.parametrize(
    ("stored", "bad", "found"),
    [
        (changed(2, body=FORGED), 2, "its text was changed"),
        (changed(2, hash="f" * 64), 2, "its text was changed"),
        (changed(2, prev_hash="f" * 64), 2, "its prevHash is ffff"),
        (changed(2, body=FORGED, hash=next_hash(LOG[0].hash, FORGED)), 2, "its inputs lead to 6 replicas, it says 9"),
        (changed(2, policy_id="scp_2"), 2, "its policyId is scp_2, its text says scp_1"),
        ([LOG[0], *LOG[2:]], 3, "row 2 is missing before it"),
        (LOG[1:], 2, "row 1 is missing before it"),
        ([LOG[1], LOG[0], *LOG[2:]], 2, "row 1 is missing before it"),
        ([LOG[0], LOG[0], *LOG[1:]], 1, "row 2 is missing before it"),
        (LOG[:-1], 4, "rows are missing at the end: the log ends at 3, its head at 4"),
        ([], 1, "rows are missing at the end: the log ends at 0, its head at 4"),
        (
            [*LOG, *chain(*(row_of(it.body) for it in LOG), rollback_row(5))[4:]],
            5,
            "rows were added past the head, which is 4",
        ),
        (rewritten(LOG, 3, replace(decision_row(4), outcome="all is well.")), 4, "the head's is"),
        (
            rewritten(LOG, 1, replace(decision_row(2), decide_version=99)),
            2,
            "it cannot be decided again: decideVersion 99 is not known",
        ),
        (
            rewritten(LOG, 1, replace(decision_row(2), inputs=msgspec.Raw(b'{"policy":{}}'))),
            2,
            "it cannot be decided again: inputs: ",
        ),
        (rewritten(LOG, 1, replace(decision_row(2), org_id="org_2")), 2, "its orgId is org_1, its text says org_2"),
        (
            [Stored(1, "scp_1", "{}", GENESIS, next_hash(GENESIS, "{}"))],
            1,
            "its text cannot be read: ",
        ),
    ],
)  # fmt: skip
def test_the_first_bad_row_is_named_with_what_was_found(stored: list[Stored], bad: int, found: str):
    fault = closed(verify("org_1", stored), HEAD).fault

    assert fault is not None
    assert fault.id == bad
    assert found in fault.found


def test_inputs_that_lead_to_no_change_are_a_fault():
    calm = json.loads(bytes(decision_row(1).inputs))
    calm["inputs"]["replicas"] = [{"cpu": 50.0}]
    row = replace(decision_row(1), inputs=msgspec.Raw(json.dumps(calm).encode()))

    fault = verify("org_1", chain(row)).fault

    assert fault is not None
    assert fault.found == "its inputs lead to no change, it says 4"


def test_what_people_did_is_not_decided_again():
    assert verify("org_1", chain(rollback_row(1))).recomputed == 0
    with pytest.raises(ValueError, match="decideVersion 0 is not known"):
        recompute(rollback_row(1))


@given(st.integers(0, 3), st.data())
def test_no_character_of_the_log_can_be_changed_unseen(number, data):
    body = LOG[number].body
    at = data.draw(st.integers(0, len(body) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda it: it != body[at]))

    forged = [*LOG]
    forged[number] = replace(LOG[number], body=body[:at] + other + body[at + 1 :])

    fault = verify("org_1", forged).fault
    assert fault is not None
    assert fault.id == number + 1
