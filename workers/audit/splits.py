"""The ranges to read, cut into one split for each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from app.products.audits.result import AuditSide, Gap, RangeRead
from workers.audit.references import ReferenceScope, partition_name

NOT_LIMITED = 1 << 62


class FileWork(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts about the files that an audit reads; the first three fields before their references are read.

    numbers: of the partitions that hold references, among all that are read. scope: the references that are read.
    limits: of each source partition, by name: the first and the last existing offset.
    pieces: the references whose files one task reads: the partition's number, offsets from and up to.
    records: the number of records in all files.
    """

    numbers: frozenset[int]
    scope: ReferenceScope
    limits: dict[str, tuple[int, int]]
    pieces: tuple[tuple[int, int, int], ...] = ()
    records: int = 0


class SplitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of every partition, and their gaps.

    suspicions: gaps that may explain a finding; without a finding they are none.
    committed: the end of the processed range of each source partition, by topic and partition.
    tells_pending: whether input that is not processed yet belongs to the window all the same.
    files: None: outputs are records of topics.
    """

    ranges: tuple[RangeRead, ...]
    gaps: tuple[Gap, ...] = ()
    suspicions: tuple[Gap, ...] = ()
    committed: dict[str, int] = {}
    tells_pending: bool = True
    files: FileWork | None = None

    @property
    def offsets(self) -> int:
        """The number of offsets to read; for files, of their records."""
        of_topics = sum(one.read_end - one.read_start for one in self.ranges)
        return of_topics + (0 if self.files is None else self.files.records)


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets from `start` up to `end` of one partition, the window being from `window_start` to `window_end`.

    number: of the partition, among all that are read. committed: inputs from here on are not processed yet.
    is_of_files: the offsets hold references.
    """

    number: int
    side: AuditSide
    topic: str
    partition: int
    start: int
    end: int
    window_start: int
    window_end: int
    committed: int = NOT_LIMITED
    is_of_files: bool = False


def splits_of(plan: SplitPlan, *, offsets_per_task: int) -> Iterator[Split]:
    """Every offset of the plan in one split. A partition's splits are as large as can be, and of about one size.

    For references they are the pieces of the plan (workers/audit/listing.py).
    """
    numbers: frozenset[int] = frozenset() if plan.files is None else plan.files.numbers
    for number, one in enumerate(plan.ranges):
        if number not in numbers:
            for start, end in _cut(one.read_start, one.read_end, offsets_per_task):
                yield _split(plan, number, start, end)
    if plan.files is not None:
        for number, start, end in plan.files.pieces:
            yield _split(plan, number, start, end)


def splits_of_references(plan: SplitPlan, *, references_per_task: int) -> Iterator[Split]:
    """The splits that list references before files are read."""
    if plan.files is None:
        return
    for number in sorted(plan.files.numbers):
        one = plan.ranges[number]
        for start, end in _cut(one.read_start, one.read_end, references_per_task):
            yield _split(plan, number, start, end)


def _split(plan: SplitPlan, number: int, start: int, end: int) -> Split:
    one = plan.ranges[number]
    return Split(
        number=number,
        side=one.side,
        topic=one.topic,
        partition=one.partition,
        start=start,
        end=end,
        window_start=one.start,
        window_end=one.end,
        committed=plan.committed.get(partition_name(one.topic, one.partition), NOT_LIMITED)
        if one.side is AuditSide.SOURCE
        else NOT_LIMITED,
        is_of_files=plan.files is not None and number in plan.files.numbers,
    )


def _cut(start: int, end: int, most: int) -> Iterable[tuple[int, int]]:
    pieces = -(-(end - start) // most)
    size = -(-(end - start) // pieces) if pieces else 0
    return ((at, min(at + size, end)) for at in range(start, end, size)) if pieces else ()
