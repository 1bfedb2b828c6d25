"""What needs a person's look, in sentences."""

from __future__ import annotations

from app.domain.offset_log.check import MAX_FINDINGS
from app.domain.runs.needs import Severity, broken_audit_need, contradiction_need


def test_audits_that_proved_something_wrong_are_counted() -> None:
    once, often = broken_audit_need("flights", 1), broken_audit_need("flights", 3)
    assert once.sentence == "an audit has proven outputs lost, duplicated or unexpected"
    assert often.sentence == "3 audits have proven outputs lost, duplicated or unexpected"
    assert once.severity is Severity.WRONG


def test_contradictions_of_which_only_so_many_are_kept_are_at_least_so_many() -> None:
    few, many = contradiction_need("flights", MAX_FINDINGS - 1), contradiction_need("flights", MAX_FINDINGS)
    assert "contradicts itself 99 times" in few.sentence
    assert "contradicts itself at least 100 times" in many.sentence
