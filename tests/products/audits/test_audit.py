"""The states of an audit: only transitions of the table, and final ends."""

from __future__ import annotations

import pytest

from app.kit.errors import IllegalTransitionError
from app.products.audits.audit import COUNTED, ENDED, TRANSITIONS, AuditState, counted, moved
from app.products.audits.result import AuditSide, Gap, GapReason
from tests.support.audit_samples import HOUR, NOON, audit, broken_result, result


@pytest.mark.parametrize("state", AuditState)
@pytest.mark.parametrize("to", AuditState)
def test_only_transitions_of_the_table_are_allowed(state: AuditState, to: AuditState) -> None:
    if to not in TRANSITIONS[state]:
        with pytest.raises(IllegalTransitionError, match=f"cannot go from {state} to {to}"):
            moved(audit(state), to, now=NOON)
        return
    after = moved(audit(state), to, now=NOON + HOUR, reason="why")
    assert (after.state, after.since, after.reason) == (to, NOON + HOUR, "why")
    assert (after.ended_at is not None) == (to in ENDED)


def test_every_state_leads_to_an_end() -> None:
    reached = {state: set(after) for state, after in TRANSITIONS.items()}
    for _ in AuditState:
        for after in reached.values():
            after.update(*(reached[state] for state in set(after)))
    assert {state for state, after in reached.items() if after & ENDED} == set(AuditState) - ENDED


def test_audit_counts_under_its_verdict_or_its_end() -> None:
    assert counted(audit(AuditState.SKIPPED)) == {"audits_skipped": 1}
    assert set(counted(audit(AuditState.DONE, result=broken_result()))) < set(COUNTED)
    clean = counted(audit(AuditState.DONE, result=result()))
    assert clean["audits_clean"] == 1
    assert clean["outputs_expected"] == 8
    broken = counted(audit(AuditState.DONE, result=broken_result()))
    assert (broken["audits_broken"], broken["outputs_lost"], broken["outputs_duplicated"]) == (1, 2, 1)
    gap = Gap(side=AuditSide.SOURCE, topic="in", partition=0, reason=GapReason.DELETED, sentence="in-0 begins at 9.")
    assert counted(audit(AuditState.DONE, result=result(gaps=(gap,))))["audits_not_shown"] == 1
