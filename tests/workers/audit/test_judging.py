"""Findings are summed exactly, and are not called proven where not all could be read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy, FileSink, SchemaConflict
from app.products.audits.result import (
    AuditResult,
    AuditSide,
    AuditVerdict,
    Example,
    FindingTally,
    Gap,
    GapReason,
    IdFinding,
    PartitionTally,
    RangeRead,
    RecordPlace,
    verdict,
)
from app.products.audits.specification import Everything, TimeWindow, Window
from tests.support.audits import VERSIONS, a_specification
from workers.audit.collecting import SplitReport
from workers.audit.comparing import BucketReport, Deviation
from workers.audit.judging import judge, places
from workers.audit.rows import base_of
from workers.audit.splits import SplitPlan

RANGES = tuple(
    RangeRead(side=side, topic=topic, partition=0, read_start=0, start=0, end=100, read_end=100)
    for side, topic in ((AuditSide.SOURCE, "in"), (AuditSide.SINK, "out"))
)
FOUND = {"lost": 2, "duplicated": 1, "unexpected": 4, "late": 8}


def bucket(*, repeated: int = 0, first: int = 0) -> BucketReport:
    deviations = [
        Deviation(
            finding=IdFinding(name),
            key=b"0" * 16,
            sink=0,
            expected=1,
            found=0,
            records=1,
            inputs=(base_of(0) | first << 2,),
        )
        for name in FOUND
    ]
    return BucketReport(
        repeated=repeated,
        ids=dict(FOUND),
        records={name: 10 * number for name, number in FOUND.items()},
        partitions={name: {0: number} for name, number in FOUND.items()},
        deviations=deviations,
    )


def dangles(offset: int) -> Example:
    place = RecordPlace(topic="out", partition=0, offset=offset, file=f"{offset}.avro")
    return Example(
        finding=IdFinding.DANGLING, id=None, topic="out", expected=2, found=0, outputs=(place,), why="is not there"
    )


def describe(deviations: Sequence[Deviation]) -> list[Example]:
    return [
        Example(finding=one.finding, id="a", topic="out", expected=1, found=0, inputs=places(one.inputs, RANGES))
        for one in deviations
    ]


def result(
    *gaps: Gap,
    buckets: Sequence[BucketReport] = (),
    splits: Sequence[SplitReport] = (),
    tells_pending: bool = True,
    committed: dict[str, int] | None = None,
    doubts: tuple[Gap, ...] = (),
    suspicions: tuple[Gap, ...] = (),
    window: Window | None = None,
    files: FileSink | None = None,
    errors: ErrorHandling | None = None,
) -> AuditResult:
    plan = SplitPlan(
        ranges=RANGES, gaps=gaps, suspicions=suspicions, tells_pending=tells_pending, committed=committed or {}
    )
    return judge(
        a_specification(
            "in",
            "out",
            doubts=doubts,
            window=window or Everything(),
            files=files,
            errors=errors or ErrorHandling(),
        ),
        plan,
        splits,
        buckets or [bucket()],
        describe=describe,
        started_at_ms=0,
        duration_ms=lambda: 0,
        versions=VERSIONS,
    )


def gap(side: AuditSide, reason: GapReason) -> Gap:
    return Gap(side=side, topic="t", partition=0, reason=reason, sentence="It is so.")


def test_buckets_are_summed_and_the_first_examples_of_all_kept() -> None:
    summed = result(buckets=[bucket(first=number) for number in range(30, 0, -1)])
    assert summed.counts.lost == FindingTally(ids=60, records=600)
    assert [one.inputs[0].offset for one in summed.examples if one.finding is IdFinding.LOST] == list(range(1, 21))
    lost = [one for one in summed.partitions if one.finding is IdFinding.LOST]
    assert lost == [PartitionTally(side=AuditSide.SOURCE, topic="in", partition=0, finding=IdFinding.LOST, records=60)]


@pytest.mark.parametrize(
    "reason", [GapReason.DELETED, GapReason.COMPACTED, GapReason.OPEN_TRANSACTION, GapReason.NOT_ADMITTED]
)
def test_a_gap_in_the_sink_makes_lost_missing_and_nothing_else(reason: GapReason) -> None:
    said = result(gap(AuditSide.SINK, reason))
    assert (said.counts.lost, said.counts.missing) == (FindingTally(), FindingTally(ids=2, records=20))
    assert (said.counts.unexpected.ids, said.counts.duplicated.ids) == (4, 1)
    assert {one.finding for one in said.examples} == {
        IdFinding.MISSING, IdFinding.DUPLICATED, IdFinding.UNEXPECTED, IdFinding.LATE
    }  # fmt: skip


@pytest.mark.parametrize("reason", [GapReason.DELETED, GapReason.COMPACTED, GapReason.NOT_ADMITTED])
def test_a_gap_in_the_source_makes_unexpected_unexplained(reason: GapReason) -> None:
    said = result(gap(AuditSide.SOURCE, reason))
    assert (said.counts.unexpected, said.counts.unexplained) == (FindingTally(), FindingTally(ids=4, records=40))
    assert (said.counts.lost.ids, said.counts.duplicated.ids) == (2, 1)


def test_with_a_gap_in_the_source_one_too_many_proves_nothing_of_ids_that_come_again() -> None:
    said = result(gap(AuditSide.SOURCE, GapReason.DELETED), buckets=[bucket(repeated=1)])
    assert (said.counts.duplicated, said.counts.unexplained) == (FindingTally(), FindingTally(ids=5, records=50))
    assert {(one.finding, one.records) for one in said.partitions if one.finding is IdFinding.UNEXPLAINED} == {
        (IdFinding.UNEXPLAINED, 5)
    }


def test_outputs_that_another_revision_may_require_prove_nothing() -> None:
    doubt = gap(AuditSide.SINK, GapReason.REVISION_CHANGED)
    said = result(doubts=(doubt,))
    assert (said.counts.lost, said.counts.unexpected, said.counts.duplicated) == (
        FindingTally(),
        FindingTally(),
        FindingTally(),
    )
    assert (said.counts.missing.ids, said.counts.unexplained.ids) == (2, 5)
    assert said.gaps == (doubt,)
    assert verdict(said) is AuditVerdict.NOT_SHOWN


def test_inputs_from_before_the_pipeline_began_are_missing_and_not_lost() -> None:
    said = result(doubts=(gap(AuditSide.SOURCE, GapReason.NOT_BEGUN),))
    assert (said.counts.lost, said.counts.missing.ids) == (FindingTally(), 2)
    assert (said.counts.unexpected.ids, said.counts.duplicated.ids) == (4, 1)


def test_open_records_of_the_source_have_no_output_to_explain() -> None:
    said = result(gap(AuditSide.SOURCE, GapReason.OPEN_TRANSACTION))
    assert said.counts.unexpected.ids == 4


@pytest.mark.parametrize(("tells_pending", "gaps"), [(True, [(40, 100)]), (False, [])])
def test_input_that_is_not_processed_is_a_gap_of_a_window_and_the_end_of_everything(
    tells_pending: bool, gaps: list[tuple[int, int]]
) -> None:
    said = result(
        splits=[SplitReport(number=0, records=90, window_records=40, pending=50), SplitReport(number=1, records=7)],
        tells_pending=tells_pending,
        committed={"in-0": 40},
    )
    assert [(one.start, one.end) for one in said.gaps if one.reason is GapReason.NOT_PROCESSED] == gaps
    assert (said.counts.inputs, said.counts.pending) == (40, 50)
    assert [one.records for one in said.ranges] == [90, 7]
    assert said.counts.lost.ids == 2


SUSPECTED = (gap(AuditSide.SOURCE, GapReason.TIME_OF_WRITING), gap(AuditSide.SINK, GapReason.TIME_OF_WRITING))


def test_a_suspicion_takes_the_proof_from_a_finding_that_it_may_explain() -> None:
    source, sink = SUSPECTED
    of_before = result(suspicions=(source,))
    assert of_before.gaps == (source,)
    assert (of_before.counts.unexpected, of_before.counts.unexplained.ids) == (FindingTally(), 4)
    assert (of_before.counts.lost.ids, of_before.counts.duplicated.ids) == (2, 1)
    of_behind = result(suspicions=(sink,))
    assert (of_behind.counts.lost, of_behind.counts.missing.ids) == (FindingTally(), 2)
    assert of_behind.counts.unexpected.ids == 4
    both = result(suspicions=SUSPECTED)
    assert (both.gaps, both.counts.lost, both.counts.unexpected) == (SUSPECTED, FindingTally(), FindingTally())


def test_where_nothing_was_found_that_it_may_explain_a_suspicion_is_no_gap() -> None:
    clean = result(buckets=[BucketReport()], suspicions=SUSPECTED)
    assert clean.gaps == ()
    only_lost = BucketReport(ids={"lost": 1}, records={"lost": 1})
    assert result(buckets=[only_lost], suspicions=SUSPECTED[:1]).counts.lost.ids == 1
    deleted = gap(AuditSide.SOURCE, GapReason.DELETED)
    assert result(deleted, suspicions=SUSPECTED[:1]).gaps == (deleted,), "it is explained already"


WINDOW = TimeWindow(start_ms=0, end_ms=1)


def test_outputs_without_a_timestamp_are_missing_and_not_lost_in_a_window_of_time() -> None:
    splits = [SplitReport(number=0, expected=9, untimed=1)]
    judged = result(splits=splits, window=WINDOW)
    assert [one.reason for one in judged.gaps] == [GapReason.TIME_OF_WRITING] * 2
    assert (judged.counts.missing.ids, judged.counts.unexplained.ids) == (2, 4)
    assert result(splits=splits).gaps == (), "everything is not found by time"
    assert result(splits=splits, buckets=[BucketReport()], window=WINDOW).gaps == ()


def test_a_topic_that_begins_in_the_window_and_of_which_all_is_lost_may_be_another() -> None:
    begins = msgspec.structs.replace(gap(AuditSide.SOURCE, GapReason.BEGINS), topic="in", partition=None)
    all_lost = BucketReport(ids={"lost": 3}, records={"lost": 3}, partitions={"lost": {0: 3}})

    def judged(expected: int, *suspicions: Gap) -> AuditResult:
        splits = [SplitReport(number=0, expected=expected)]
        return result(splits=splits, buckets=[all_lost], suspicions=suspicions, window=WINDOW)

    assert [one.reason for one in judged(3, begins).gaps] == [GapReason.MADE_ANEW]
    assert judged(3, begins).counts.lost == FindingTally()
    assert judged(4, begins).counts.lost.ids == 3, "some of it was processed"
    assert judged(3).counts.lost.ids == 3, "it is older than the window"


FILES = FileSink(root="file:///data")


def test_files_and_dangling_references_are_summed_and_break_an_otherwise_clean_audit() -> None:
    splits = [
        SplitReport(number=1, window_records=5, files=2, dangling=1, dangling_records=2, examples=[dangles(9)]),
        SplitReport(number=1, window_records=7, files=3, dangling=2, dangling_records=4, examples=[dangles(3)]),
    ]
    judged = result(splits=splits, buckets=[BucketReport()], files=FILES)
    assert (judged.counts.files, judged.counts.outputs) == (5, 12)
    assert judged.counts.dangling == FindingTally(ids=3, records=6)
    assert [one.outputs[0].offset for one in judged.examples] == [3, 9]
    assert judged.partitions == (
        PartitionTally(side=AuditSide.SINK, topic="out", partition=0, finding=IdFinding.DANGLING, records=6),
    )
    assert verdict(judged) is AuditVerdict.BROKEN
    assert result(buckets=[BucketReport()]).counts.files is None, "its outputs are records"


def test_outputs_that_files_refuse_for_their_types_without_dead_letters_are_not_called_lost() -> None:
    picky = msgspec.structs.replace(FILES, conflict=SchemaConflict.BAD_RECORD)
    skips = ErrorHandling(policy=FailurePolicy.SKIP)
    judged = result(files=picky, errors=skips)
    assert [one.reason for one in judged.gaps] == [GapReason.TYPES_REFUSED]
    assert (judged.counts.lost, judged.counts.missing.ids) == (FindingTally(), 2)
    assert result(files=picky, errors=skips, buckets=[BucketReport()]).gaps == (), "nothing is missing"
    letters = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="letters")
    assert result(files=picky, errors=letters).counts.lost.ids == 2
    assert result(files=FILES, errors=skips).counts.lost.ids == 2
