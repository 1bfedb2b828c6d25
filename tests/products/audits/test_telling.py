"""The sentences about an audit: proven findings with their figures."""

from __future__ import annotations

import pytest

from app.products.audits.audit import AuditState
from app.products.audits.result import AuditCounts, AuditSide, FindingTally, Gap, GapReason
from app.products.audits.telling import audit_sentence, figure, verdict_sentence
from tests.support.audit_samples import audit, broken_result, dangling_result, result

DELETED = Gap(
    side=AuditSide.SOURCE,
    topic="in",
    partition=0,
    reason=GapReason.DELETED,
    start=0,
    end=9,
    sentence="in-0 begins at 9.",
)


def test_clean_result_has_its_figures() -> None:
    assert (
        verdict_sentence(result())
        == "Every output exists once: 8 expected and found, 10 records in, 8 out, 2 filtered out."
    )


def test_broken_result_has_the_proven_findings() -> None:
    assert verdict_sentence(broken_result()) == "2 outputs lost (of 1 id) and 1 output duplicated, of 9 expected."


def test_gap_is_never_reported_as_nothing_lost() -> None:
    missing = result(
        gaps=(DELETED,), counts=AuditCounts(inputs=10, expected=8, outputs=6, missing=FindingTally(ids=2, records=2))
    )
    sentence = verdict_sentence(missing)
    assert sentence == (
        "Not shown: in-0 begins at 9. Read: 10 records in, 6 out, with 2 outputs missing, "
        "which unread records may explain."
    )


def test_proven_finding_is_reported_with_a_gap() -> None:
    lost = result(gaps=(DELETED,), counts=AuditCounts(inputs=1, expected=1, lost=FindingTally(ids=1, records=1)))
    assert verdict_sentence(lost) == (
        "1 output lost, of 1 expected. Not all could be compared, so there may be more: in-0 begins at 9."
    )


def test_result_of_files_names_files_and_references() -> None:
    clean = result(counts=AuditCounts(inputs=10, expected=8, outputs=8, dropped=2, files=3))
    assert verdict_sentence(clean) == (
        "Every output exists once, in files that match their references: 8 expected and found, 10 records in, "
        "8 out in 3 files, 2 filtered out."
    )
    assert verdict_sentence(dangling_result()) == (
        "4 outputs lost and 1 reference to a file that is missing or differs (of 4 records), of 8 expected."
    )
    alone = result(
        counts=AuditCounts(inputs=1, expected=1, outputs=1, files=1, dangling=FindingTally(ids=2, records=9))
    )
    assert verdict_sentence(alone) == (
        "2 references to files that are missing or differ (of 9 records), of 1 expected."
    )


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        (
            AuditCounts(inputs=2, files=1, unreadable_output=1),
            "1 output without an id, or records of the sink topic that are no references",
        ),
        (AuditCounts(inputs=2, unreadable_input=1), "1 expected output without an id"),
        (AuditCounts(inputs=2, unreadable_output=3), "3 outputs without an id"),
        (AuditCounts(inputs=2, elsewhere=2), "2 outputs in topics that were not read"),
        (AuditCounts(inputs=2, stopping=1), "the transform fails for 1 record that the pipeline has passed"),
    ],
)
def test_records_that_cannot_be_compared_give_not_shown(counts: AuditCounts, why: str) -> None:
    assert verdict_sentence(result(counts=counts)).startswith(f"Not shown: {why}.")


def test_records_that_cannot_be_compared_are_reported_with_proven_findings() -> None:
    lost = result(counts=AuditCounts(inputs=2, expected=2, unreadable_output=3, lost=FindingTally(ids=1, records=1)))
    assert verdict_sentence(lost).endswith("so there may be more: 3 outputs without an id.")


def test_empty_window_is_reported_as_empty() -> None:
    assert verdict_sentence(result(counts=AuditCounts())) == "Nothing was read or written in the window."


def test_unprocessed_input_is_reported() -> None:
    waiting = verdict_sentence(result(counts=AuditCounts(pending=7)))
    assert waiting == "Nothing was processed or written in the window: 7 records not processed yet."
    assert "1 record in, 1 out, 7 more not processed yet" in verdict_sentence(
        result(counts=AuditCounts(inputs=1, expected=1, outputs=1, pending=7))
    )


def test_zero_figure_is_unknown_unless_all_is_compared() -> None:
    assert figure(result(), FindingTally()) == 0
    assert figure(result(gaps=(DELETED,)), FindingTally()) is None
    assert figure(result(counts=AuditCounts(inputs=1, stopping=1)), FindingTally()) is None
    assert figure(result(gaps=(DELETED,)), FindingTally(ids=1, records=3)) == 3


@pytest.mark.parametrize("state", [AuditState.SKIPPED, AuditState.STOPPED, AuditState.FAILED])
def test_end_without_a_result_has_no_verdict(state: AuditState) -> None:
    sentence = audit_sentence(audit(state, reason="Java 17 was not found"))
    assert "has no verdict" in sentence
    assert sentence.endswith(": Java 17 was not found.")
