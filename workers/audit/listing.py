"""The plan for files before they are read: their number, the tasks that read them, and the inputs in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from confluent_kafka import Message

from app.core.wire.file_references import InputRange
from app.products.audits.result import AuditSide, Gap, GapReason, RangeRead
from app.products.audits.specification import AuditSpecification
from workers.audit.bounds import begins
from workers.audit.collecting import deletion_gap
from workers.audit.references import ReferenceScope, partition_name, reference_of
from workers.audit.splits import FileWork, Split, SplitPlan

Span = tuple[int, int]


class FilesListed(msgspec.Struct, kw_only=True):
    """The content of the references of one split.

    pieces: offsets from and up to, of which one task reads the files. records: in all of these. inputs: of each source
    partition, by name, the lowest and the highest offset that is in any of them. reached: the highest that any
    reference of the pipeline names, followed or not.
    """

    number: int
    pieces: list[Span] = msgspec.field(default_factory=list[Span])
    records: int = 0
    inputs: dict[str, Span] = msgspec.field(default_factory=dict[str, Span])
    reached: dict[str, int] = msgspec.field(default_factory=dict[str, int])


def list_files(
    specification: AuditSpecification, scope: ReferenceScope, split: Split, batches: Iterable[Iterable[Message]]
) -> FilesListed:
    """Cut the split by the number of records and of files that one task reads."""
    bounds, name = specification.bounds, partition_name(split.topic, split.partition)
    listed = FilesListed(number=split.number)
    start, files, records = split.start, 0, 0
    for batch in batches:
        for message in batch:
            offset = message.offset() or 0
            try:
                reference = reference_of(message, specification)
            except ValueError:
                # The task that reads the files meets it again, and reports it.
                continue
            if reference is None:
                continue
            for one in reference.inputs:
                at = partition_name(one.topic, one.partition)
                listed.reached[at] = max(listed.reached.get(at, one.last_offset), one.last_offset)
            if not scope.takes(reference, partition=name, offset=offset):
                continue
            if files and (files >= bounds.files_per_task or records + reference.records > bounds.offsets_per_task):
                listed.pieces.append((start, offset))
                start, files, records = offset, 0, 0
            files += 1
            records += reference.records
            listed.records += reference.records
            for one in reference.inputs:
                _widen(listed.inputs, one)
    listed.pieces.append((start, split.end))
    return listed


def with_files(plan: SplitPlan, files: FileWork, listed: Sequence[FilesListed]) -> SplitPlan:
    """The plan with the work for its files: tasks that read them, and all inputs in them.

    So it does not matter how far behind the pipeline was: every output that is found has its input in what is read. Nor
    do unread references matter, once some name inputs behind the window: a partition is processed in its order.
    """
    inputs: dict[str, Span] = {}
    for one in listed:
        for name, (first, last) in one.inputs.items():
            known = inputs.get(name, (first, last))
            inputs[name] = min(known[0], first), max(known[1], last)
    ranges = tuple(_reaching(one, inputs, files.limits) for one in plan.ranges)
    deleted = [
        gap for one in ranges if (gap := _deleted(one, inputs, files.limits)) is not None and gap not in plan.gaps
    ]
    # References themselves answer the questions that their time leaves open.
    topics = {plan.ranges[number].topic for number in files.numbers}
    answered = topics if _is_behind_window(files, listed) else ()
    suspicions = [gap for gap in plan.suspicions if gap.reason is not GapReason.BEGINS and gap.topic not in answered]
    return msgspec.structs.replace(
        plan,
        ranges=ranges,
        gaps=(*plan.gaps, *deleted),
        suspicions=(*suspicions, *(begins(ranges) if plan.tells_pending else ())),
        files=msgspec.structs.replace(
            files,
            pieces=tuple((one.number, start, end) for one in listed for start, end in one.pieces),
            records=sum(one.records for one in listed),
        ),
    )


def _is_behind_window(files: FileWork, listed: Sequence[FilesListed]) -> bool:
    """True if files with inputs behind the window were committed, in each partition that has any."""
    return all(
        start >= end or any(one.reached.get(name, -1) >= end for one in listed)
        for name, (start, end) in files.scope.window.items()
    )


def _widen(inputs: dict[str, Span], one: InputRange) -> None:
    name = partition_name(one.topic, one.partition)
    first, last = inputs.get(name, (one.first_offset, one.last_offset))
    inputs[name] = min(first, one.first_offset), max(last, one.last_offset)


def _reaching(one: RangeRead, inputs: dict[str, Span], limits: dict[str, Span]) -> RangeRead:
    name = partition_name(one.topic, one.partition)
    if one.side is not AuditSide.SOURCE or name not in inputs:
        return one
    (first, last), (begin, end) = inputs[name], limits[name]
    return msgspec.structs.replace(
        one,
        read_start=min(one.read_start, max(first, begin)),
        read_end=max(one.read_end, min(last + 1, end)),
    )


def _deleted(one: RangeRead, inputs: dict[str, Span], limits: dict[str, Span]) -> Gap | None:
    """A gap for inputs of files that are deleted."""
    name = partition_name(one.topic, one.partition)
    if one.side is not AuditSide.SOURCE or name not in inputs or inputs[name][0] >= limits[name][0]:
        return None
    return deletion_gap(one.side, one.topic, one.partition, None, one.read_start)
