"""What is said of an audit: what is proven with its figures, and never more."""

from __future__ import annotations

import pytest

from app.products.audits.audit import AuditState
from app.products.audits.result import AuditCounts, Gap, GapReason, Side, Tally
from app.products.audits.telling import audit_sentence, figure, verdict_sentence
from tests.support.audit_samples import audit, broken_result, dangling_result, result

DELETED = Gap(
    side=Side.SOURCE, topic="in", partition=0, reason=GapReason.DELETED, start=0, end=9, sentence="in-0 begins at 9."
)


def test_a_clean_result_says_so_with_its_figures() -> None:
    assert (
        verdict_sentence(result())
        == "Every output is there, once: 8 expected and found, 10 records in, 8 out, 2 dropped on purpose."
    )


def test_a_broken_result_says_what_is_proven() -> None:
    assert verdict_sentence(broken_result()) == "2 outputs lost (of 1 id) and 1 output duplicated, of 9 expected."


def test_what_could_not_be_read_is_never_told_as_nothing_lost() -> None:
    missing = result(
        gaps=(DELETED,), counts=AuditCounts(inputs=10, expected=8, outputs=6, missing=Tally(ids=2, records=2))
    )
    sentence = verdict_sentence(missing)
    assert sentence == (
        "Not shown: in-0 begins at 9. What was read holds 10 records in, 6 out, with 2 outputs missing, "
        "which may be only what was not read."
    )


def test_what_is_proven_is_said_beside_what_could_not_be_read() -> None:
    lost = result(gaps=(DELETED,), counts=AuditCounts(inputs=1, expected=1, lost=Tally(ids=1, records=1)))
    assert verdict_sentence(lost) == (
        "1 output lost, of 1 expected. Not all could be compared, so there may be more: in-0 begins at 9."
    )


def test_of_files_it_is_said_that_they_are_files() -> None:
    clean = result(counts=AuditCounts(inputs=10, expected=8, outputs=8, dropped=2, files=3))
    assert verdict_sentence(clean) == (
        "Every output is there, once, in files that are as their references say: 8 expected and found, 10 records in, "
        "8 out in 3 files, 2 dropped on purpose."
    )
    assert verdict_sentence(dangling_result()) == (
        "4 outputs lost and 1 reference to a file that is missing or another one (of 4 records), of 8 expected."
    )
    alone = result(counts=AuditCounts(inputs=1, expected=1, outputs=1, files=1, dangling=Tally(ids=2, records=9)))
    assert verdict_sentence(alone) == (
        "2 references to files that are missing or other ones (of 9 records), of 1 expected."
    )


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        (
            AuditCounts(inputs=2, files=1, unreadable_output=1),
            "1 output without an id, or of the sink topic and no reference",
        ),
        (AuditCounts(inputs=2, unreadable_input=1), "1 expected output without an id"),
        (AuditCounts(inputs=2, unreadable_output=3), "3 outputs without an id"),
        (AuditCounts(inputs=2, elsewhere=2), "2 outputs in topics that were not read"),
        (AuditCounts(inputs=2, stopping=1), "the transform fails for 1 record that the pipeline has passed"),
    ],
)
def test_records_that_cannot_be_compared_leave_it_not_shown(counts: AuditCounts, why: str) -> None:
    assert verdict_sentence(result(counts=counts)).startswith(f"Not shown: {why}.")


def test_records_that_cannot_be_compared_are_said_beside_what_is_proven() -> None:
    lost = result(counts=AuditCounts(inputs=2, expected=2, unreadable_output=3, lost=Tally(ids=1, records=1)))
    assert verdict_sentence(lost).endswith("so there may be more: 3 outputs without an id.")


def test_an_empty_window_is_told_as_empty() -> None:
    assert verdict_sentence(result(counts=AuditCounts())) == "Nothing was read or written in the window."


def test_input_that_waits_is_not_passed_over_in_silence() -> None:
    waiting = verdict_sentence(result(counts=AuditCounts(pending=7)))
    assert waiting == "Nothing was processed or written in the window: 7 records wait to be."
    assert "1 record in, 1 out, 7 more not processed yet" in verdict_sentence(
        result(counts=AuditCounts(inputs=1, expected=1, outputs=1, pending=7))
    )


def test_a_figure_is_unknown_where_none_was_found_and_not_all_compared() -> None:
    assert figure(result(), Tally()) == 0
    assert figure(result(gaps=(DELETED,)), Tally()) is None
    assert figure(result(counts=AuditCounts(inputs=1, stopping=1)), Tally()) is None
    assert figure(result(gaps=(DELETED,)), Tally(ids=1, records=3)) == 3


@pytest.mark.parametrize("state", [AuditState.SKIPPED, AuditState.STOPPED, AuditState.FAILED])
def test_an_end_without_a_result_says_that_nothing_is_shown(state: AuditState) -> None:
    sentence = audit_sentence(audit(state, reason="Java 17 was not found"))
    assert "nothing is shown" in sentence
    assert sentence.endswith(": Java 17 was not found.")
