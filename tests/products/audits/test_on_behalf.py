"""The audit of a drill, as the drill sees it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from app.products.audits.audit import Audit, AuditState
from app.products.audits.plan import time_window
from app.products.audits.result import AuditCounts, AuditResult, AuditSide, AuditVersions, FindingTally, Gap, GapReason
from app.products.audits.service.on_behalf import figures_of, word_of
from app.products.audits.specification import JsonField

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RESULT = AuditResult(
    audit_id="a1",
    counts=AuditCounts(inputs=100, expected=40, outputs=40),
    started_at_ms=0,
    duration_ms=1,
    versions=AuditVersions(fenceline="1", python="3.11", spark="4.2.0", confluent_kafka="2.16.1"),
)
GAP = Gap(
    side=AuditSide.SOURCE, topic="in", partition=0, reason=GapReason.DELETED, sentence="the beginning of in-0 is gone"
)


def an_audit(state: AuditState, *, result: AuditResult | None = None, reason: str | None = None) -> Audit:
    return Audit(
        id="a1",
        pipeline="flights",
        cluster="demo",
        revision=1,
        state=state,
        since=NOW,
        asked_at=NOW,
        asked_by="drills",
        is_scheduled=True,
        window=time_window(NOW - timedelta(minutes=1), NOW),
        id_place=JsonField(path="id"),
        source_id_place=None,
        padding_s=60,
        wait_until=NOW,
        result=result,
        reason=reason,
    )


@pytest.mark.parametrize("state", [AuditState.PENDING, AuditState.SUBMITTING, AuditState.RUNNING])
def test_drill_waits_for_an_audit_that_has_not_ended(state: AuditState) -> None:
    word = word_of(an_audit(state))
    assert (word.audit_id, word.is_through) == ("a1", False)


@pytest.mark.parametrize("state", [AuditState.FAILED, AuditState.STOPPED, AuditState.SKIPPED])
def test_audit_without_a_result_gives_the_reason(state: AuditState) -> None:
    word = word_of(an_audit(state, reason="as the test said"))
    assert (word.figures, word.no_audit) == (None, f"its audit is {state}: as the test said")


def test_clean_audit_gives_its_figures() -> None:
    figures = word_of(an_audit(AuditState.DONE, result=RESULT)).figures
    assert figures is not None
    assert (figures.read, figures.expected, figures.lost, figures.duplicated, figures.incomplete) == (100, 40, 0, 0, "")


@pytest.mark.parametrize("finding", ["lost", "duplicated", "unexpected", "dangling"])
def test_broken_findings_are_counted(finding: str) -> None:
    counts = replace(RESULT.counts, **{finding: FindingTally(ids=3, records=4)})
    assert getattr(figures_of(replace(RESULT, counts=counts)), finding) == 3


def test_gap_and_empty_window_are_incomplete() -> None:
    assert "the beginning of in-0 is gone" in figures_of(replace(RESULT, gaps=(GAP,))).incomplete
    assert figures_of(replace(RESULT, counts=AuditCounts())).incomplete
