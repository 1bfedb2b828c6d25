"""The verdict of a result, and its serialisation."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kit.storable import storable
from app.products.audits.result import (
    AuditCounts,
    AuditResult,
    AuditSide,
    AuditVerdict,
    AuditVersions,
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

VERSIONS = AuditVersions(fenceline="1", python="3.11", spark="4.2.0", confluent_kafka="2.16.1")
ONE = FindingTally(ids=1, records=1)
A_GAP = Gap(side=AuditSide.SINK, topic="out", partition=None, reason=GapReason.COMPACTED, sentence="out is compacted.")

COUNT = st.integers(0, 2**62)
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20)
TALLIES = st.builds(FindingTally, ids=COUNT, records=COUNT)
PLACES = st.lists(
    st.builds(RecordPlace, topic=TEXT, partition=COUNT, offset=COUNT, timestamp_ms=st.none() | COUNT), max_size=2
).map(tuple)
COUNTS = st.builds(AuditCounts, inputs=COUNT, outputs=COUNT, lost=TALLIES, late=TALLIES, missing=TALLIES)
EXAMPLES = st.builds(
    Example,
    finding=st.sampled_from(IdFinding),
    id=st.none() | TEXT,
    topic=TEXT,
    expected=COUNT,
    found=COUNT,
    inputs=PLACES,
    outputs=PLACES,
)
TALLIED = st.builds(
    PartitionTally,
    side=st.sampled_from(AuditSide),
    topic=TEXT,
    partition=COUNT,
    finding=st.sampled_from(IdFinding),
    records=COUNT,
)
READ = st.builds(
    RangeRead,
    side=st.sampled_from(AuditSide),
    topic=TEXT,
    partition=COUNT,
    read_start=COUNT,
    start=COUNT,
    end=COUNT,
    read_end=COUNT,
    records=COUNT,
)
GAPS = st.builds(
    Gap,
    side=st.sampled_from(AuditSide),
    topic=TEXT,
    partition=st.none() | COUNT,
    reason=st.sampled_from(GapReason),
    start=st.none() | COUNT,
    end=st.none() | COUNT,
    sentence=TEXT,
)


def result(counts: AuditCounts, *gaps: Gap) -> AuditResult:
    return AuditResult(audit_id="a", counts=counts, gaps=gaps, started_at_ms=1, duration_ms=1, versions=VERSIONS)


@given(
    counts=COUNTS,
    examples=st.lists(EXAMPLES, max_size=3).map(tuple),
    partitions=st.lists(TALLIED, max_size=3).map(tuple),
    ranges=st.lists(READ, max_size=3).map(tuple),
    gaps=st.lists(GAPS, max_size=3).map(tuple),
)
def test_result_is_serialised_without_loss(
    counts: AuditCounts,
    examples: tuple[Example, ...],
    partitions: tuple[PartitionTally, ...],
    ranges: tuple[RangeRead, ...],
    gaps: tuple[Gap, ...],
) -> None:
    said = msgspec.structs.replace(result(counts, *gaps), examples=examples, partitions=partitions, ranges=ranges)
    assert msgspec.json.decode(msgspec.json.encode(said), type=AuditResult) == said
    assert storable(said) == said


@pytest.mark.parametrize(
    ("counts", "gaps", "says"),
    [
        (AuditCounts(inputs=2, outputs=2), (), AuditVerdict.CLEAN),
        (AuditCounts(), (), AuditVerdict.EMPTY),
        (AuditCounts(inputs=2, lost=ONE), (), AuditVerdict.BROKEN),
        (AuditCounts(inputs=2, duplicated=ONE), (A_GAP,), AuditVerdict.BROKEN),
        (AuditCounts(outputs=2, unexpected=ONE), (), AuditVerdict.BROKEN),
        (AuditCounts(inputs=2, outputs=2, files=1, dangling=ONE), (), AuditVerdict.BROKEN),
        (AuditCounts(inputs=2, outputs=2, files=1, dangling=ONE), (A_GAP,), AuditVerdict.BROKEN),
        (AuditCounts(inputs=2, outputs=2, files=1), (), AuditVerdict.CLEAN),
        (AuditCounts(inputs=2, outputs=2, late=ONE), (), AuditVerdict.CLEAN),
        (AuditCounts(inputs=2, outputs=2), (A_GAP,), AuditVerdict.NOT_SHOWN),
        (AuditCounts(), (A_GAP,), AuditVerdict.NOT_SHOWN),
        (AuditCounts(inputs=2, missing=ONE), (A_GAP,), AuditVerdict.NOT_SHOWN),
        (AuditCounts(inputs=2, unreadable_input=1), (), AuditVerdict.NOT_SHOWN),
        (AuditCounts(inputs=2, elsewhere=1), (), AuditVerdict.NOT_SHOWN),
    ],
)
def test_verdict_follows_from_counts_and_gaps(counts: AuditCounts, gaps: tuple[Gap, ...], says: AuditVerdict) -> None:
    assert verdict(result(counts, *gaps)) is says
