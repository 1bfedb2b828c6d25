"""The report about a gate whose evidence is incomplete."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fault_suite.migration.proven import unproven

Json = dict[str, Any]


def proof(**changes: Any) -> Json:
    known = {"transactional_id": "fl.p.g.in.0", "producer_epoch": 3, "offset": 7, "journal_at": "2026-01-02T03:04:05Z"}
    return {**known, "pid": 12, "fenced_in": None, **changes}


def gate(sentence: str = "on to verify", **changes: Any) -> Json:
    clause = {"name": "all_v2", "standing": "open", "seen": "all 3 are v2"}
    known: Json = {"stage": "second_bounce", "sentence": sentence, "step": None, "clauses": [clause]}
    return {**known, "proofs": [proof()], **changes}


STEP = gate("began: bounce instance 0 to v2", step=1, clauses=[{"name": "moved", "standing": "closed", "seen": "no"}])


def test_gates_with_open_conditions_and_ids_that_are_held_or_fenced_are_proven() -> None:
    fenced = gate("done", proofs=[proof(pid=None, fenced_in=4), proof()])
    assert unproven([STEP, gate(), fenced], gates=2) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clauses": []}, "no condition"),
        ({"proofs": []}, "no id"),
        ({"clauses": [{"name": "all_v2", "standing": "unknown", "seen": ""}]}, "all_v2 is unknown"),
        ({"proofs": [proof(offset=-1)]}, "fl.p.g.in.0 at epoch 3 has no record of the journal"),
        ({"proofs": [proof(journal_at=None)]}, "fl.p.g.in.0 at epoch 3 has no record of the journal"),
        ({"proofs": [proof(pid=None)]}, "fl.p.g.in.0 at epoch 3 is of no live task, and not fenced by us"),
    ],
)
def test_missing_evidence_is_reported(changes: Json, said: str) -> None:
    assert unproven([gate(**changes), gate("done")], gates=2) == [f"second_bounce, on to verify: {said}"]


def test_a_gate_that_has_not_opened_is_missing() -> None:
    assert unproven([gate()], gates=2) == ["1 gates have opened, not 2", "the last gate says on to verify"]
