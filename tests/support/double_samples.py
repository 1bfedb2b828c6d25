"""Findings of double processing for pages without a broker, one of each pattern."""

from __future__ import annotations

from app.core.double_processing.overlap import Overlap, overlaps_of
from app.core.journals.double_processing import (
    CommitWatch,
    DoubleProcessing,
    OverlapGrade,
    OverlapPattern,
    ProducerCommit,
)
from app.core.journals.live_groups import LiveGroup
from tests.support.page_samples import NOW

_EACH = (
    (OverlapPattern.RESET, OverlapGrade.INTENDED, 8_000, 9_500),
    (OverlapPattern.INTERLEAVED, OverlapGrade.POSSIBLE, 9_400, 9_500),
    (OverlapPattern.SAME_END, OverlapGrade.LIKELY, 9_100, 9_500),
    (OverlapPattern.REWOUND, OverlapGrade.PROVED, 9_100, 9_500),
)


def overlaps(
    *, group: str = "billing", topic: str = "orders", names: tuple[str, str] = ("bill-1", "bill-2")
) -> list[Overlap]:
    """Return a finding of each pattern, the newest and strongest first."""
    now_ms = int(NOW.timestamp() * 1000)
    found = tuple(
        DoubleProcessing(
            pattern=pattern,
            grade=grade,
            topic=topic,
            partition=3,
            from_offset=begin,
            to_offset=end,
            first=ProducerCommit(end, now_ms - 300_000 + number * 60_000, 10 * number, 4_012, 3),
            second=ProducerCommit(
                end if pattern is OverlapPattern.SAME_END else begin,
                now_ms - 292_000 + number * 60_000,
                10 * number + 4,
                -1 if pattern is OverlapPattern.RESET else 4_013,
                -1 if pattern is OverlapPattern.RESET else 0,
            ),
            members=2,
        )
        for number, (pattern, grade, begin, end) in enumerate(_EACH)
    )
    live = LiveGroup(group, partition=7, watch=CommitWatch(findings=found))
    return overlaps_of(live, {4_012: names[0], 4_013: names[1]})
