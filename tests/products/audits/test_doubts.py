"""Gaps of a window that are known before it is read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from app.core.pipelines.pipeline import (
    ByField,
    ErrorHandling,
    FailurePolicy,
    FileSink,
    Identity,
    PipelineDefinition,
    PythonFunction,
    StartPosition,
)
from app.core.pipelines.pipeline_record import Revision
from app.products.audits.doubts import InForce, doubts_of, revision_to_judge_by, span_in_force
from app.products.audits.plan import time_window
from app.products.audits.result import GapReason
from app.products.audits.specification import Everything, OffsetRange, OffsetWindow, Window
from tests.support.audit_samples import HOUR, NOON

LAST_HOUR = time_window(NOON - HOUR, NOON)
OFFSETS = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=0, end=9),))
REASON = GapReason.REVISION_CHANGED
FUNCTION = PythonFunction(function="f", file_name="f.py", sha256="0" * 64)


def revision(number: int, *, source_sha256: str | None = None, **fields: Any) -> Revision:
    defaults: dict[str, Any] = {"cluster": "c", "source_topics": ("in",), "group_id": "g", "sink_topic": "out"}
    return Revision(
        pipeline="flights",
        number=number,
        definition=PipelineDefinition(**{**defaults, **fields}),
        definition_sha256=str(number),
        transform_source_sha256=source_sha256,
        created_at=NOON,
        created_by="anna",
    )


def reasons(window: Window, in_force: InForce, judged_by: Revision, *others: Revision) -> list[GapReason]:
    return [gap.reason for gap in doubts_of(window, in_force, judged_by=judged_by, others=others)]


@pytest.mark.parametrize(
    "other",
    [
        revision(1, transform=FUNCTION),
        revision(1, sink_topic="elsewhere"),
        revision(1, source_topics=("in", "more")),
        revision(1, errors=ErrorHandling(policy=FailurePolicy.SKIP)),
        revision(1, source_sha256="other"),
        revision(1, files=FileSink(root="file:///data")),
    ],
)
def test_change_of_the_expected_outputs_is_a_gap(other: Revision) -> None:
    assert reasons(LAST_HOUR, InForce(revisions=(2, 1)), revision(2), other) == [REASON]


def test_change_of_the_records_of_files_is_a_gap_and_change_of_their_place_is_none() -> None:
    files = FileSink(root="file:///data")
    judged, moved = revision(2, files=files), revision(1, files=replace(files, root="s3://bucket", rotate_ms=1_000))
    stricter = revision(1, files=replace(files, partition_by=(ByField(name="user", field="user"),)))
    assert reasons(LAST_HOUR, InForce(revisions=(2, 1)), judged, moved) == []
    assert reasons(LAST_HOUR, InForce(revisions=(2, 1)), judged, stricter) == [REASON]


def test_gap_names_both_revisions_and_the_next_step() -> None:
    (gap,) = doubts_of(
        LAST_HOUR,
        InForce(revisions=(2, 1)),
        judged_by=revision(2),
        others=[revision(1, sink_topic="elsewhere")],
    )
    assert gap.sentence == (
        "The audit uses revision 2, but revision 1 with other expected outputs ran in the same time: "
        "audit the windows before and after the change separately."
    )


def test_change_of_the_execution_is_no_gap() -> None:
    other = revision(1, transform=Identity(), instances=7, commit_interval_ms=500)
    assert reasons(LAST_HOUR, InForce(revisions=(2, 1)), revision(2), other) == []


def test_audit_judges_by_a_revision_in_force() -> None:
    assert revision_to_judge_by(InForce(revisions=(4, 3)), current=4) == 4
    assert revision_to_judge_by(InForce(revisions=(3, 2)), current=4) == 3
    assert revision_to_judge_by(InForce(), current=4) == 4


def test_window_is_processed_within_its_padding() -> None:
    assert span_in_force(LAST_HOUR, padding_s=3600) == (NOON - 3 * HOUR, NOON + HOUR)
    assert span_in_force(Everything(), padding_s=3600) == (None, None)


@pytest.mark.parametrize(
    ("window", "begun_at", "is_in_doubt"),
    [
        (LAST_HOUR, NOON, True),
        (LAST_HOUR, None, False),
        (Everything(), None, True),
        (OFFSETS, NOON, False),
    ],
)
def test_records_before_a_start_at_the_end_are_a_gap(window: Window, begun_at: Any, *, is_in_doubt: bool) -> None:
    begun = InForce(revisions=(1,), begun_at=begun_at)
    latest, earliest = (revision(1, start_position=at) for at in (StartPosition.LATEST, StartPosition.EARLIEST))
    assert reasons(window, begun, latest) == [GapReason.NOT_BEGUN] * is_in_doubt
    assert reasons(window, begun, earliest) == []
