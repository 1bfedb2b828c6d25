"""What is to be read, cut into what one task reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from app.domain.audits.result import Gap, RangeRead, Side

NOT_LIMITED = 1 << 62


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of every partition, and what could not be had of them.

    suspicions: what may explain something that is found; where nothing is, they are no gaps.
    committed: up to where the pipeline has processed each source partition, by topic and partition.
    tells_pending: whether input that is not processed yet belongs to the window all the same.
    """

    ranges: tuple[RangeRead, ...]
    gaps: tuple[Gap, ...] = ()
    suspicions: tuple[Gap, ...] = ()
    committed: dict[str, int] = {}
    tells_pending: bool = True

    @property
    def offsets(self) -> int:
        return sum(one.read_end - one.read_start for one in self.ranges)


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets from `start` up to `end` of one partition, the window being from `window_start` to `window_end`.

    number: of the partition, among all that are read. committed: inputs from here on are not processed yet.
    """

    number: int
    side: Side
    topic: str
    partition: int
    start: int
    end: int
    window_start: int
    window_end: int
    committed: int = NOT_LIMITED


def splits_of(plan: Plan, *, offsets_per_task: int) -> Iterator[Split]:
    """Every offset of the plan in one split. A partition's splits are as large as can be, and of about one size."""
    for number, one in enumerate(plan.ranges):
        for start, end in _cut(one.read_start, one.read_end, offsets_per_task):
            yield Split(
                number=number,
                side=one.side,
                topic=one.topic,
                partition=one.partition,
                start=start,
                end=end,
                window_start=one.start,
                window_end=one.end,
                committed=plan.committed.get(partition_name(one.topic, one.partition), NOT_LIMITED)
                if one.side is Side.SOURCE
                else NOT_LIMITED,
            )


def _cut(start: int, end: int, most: int) -> Iterable[tuple[int, int]]:
    pieces = -(-(end - start) // most)
    size = -(-(end - start) // pieces) if pieces else 0
    return ((at, min(at + size, end)) for at in range(start, end, size)) if pieces else ()
