"""The issue of broken audits."""

from __future__ import annotations

from app.core.runs.needs import NeedSeverity
from app.products.audits.needs import broken_audit_need


def test_broken_audits_are_counted() -> None:
    once, often = broken_audit_need("flights", 1), broken_audit_need("flights", 3)
    assert once.sentence == "an audit has proven outputs lost, duplicated, unexpected or different"
    assert often.sentence == "3 audits have proven outputs lost, duplicated, unexpected or different"
    assert once.severity is NeedSeverity.WRONG
