"""From the records of one split to rows for the comparison, and to counts without a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from confluent_kafka import Message

from app.core.pipelines.pipeline import FailurePolicy, Identity, Steps
from app.products.audits.result import AuditSide, Example, Gap, GapReason, IdFinding, RecordPlace
from app.products.audits.specification import AuditSpecification
from workers.audit.expecting import Expectations, Fate
from workers.audit.ids import Headers, id_of
from workers.audit.references import partition_name
from workers.audit.rows import (
    EXPECTED,
    FOUND,
    MOST_OFFSETS,
    PADDING,
    WINDOW,
    Pieces,
    TooLargeError,
    base_of,
    sink_bytes,
)
from workers.audit.splits import Split
from workers.loop.records.failures import HEADER_PREFIX
from workers.transforms.carrying import as_they_are
from workers.transforms.headers import has_unreadable_name, readable


class SplitReport(msgspec.Struct, kw_only=True):
    """The counts of one split; all but `records` and `untimed` of the window alone. fates: the inputs with each Fate.

    untimed: expected outputs that have no timestamp of their own. odd_names: records that are not compared, since a
    header name is not UTF-8. files: that were read. dangling: references without such a file, and dangling_records: the
    number of records in these references. fields: in a comparison, those of its named fields that a record has.
    """

    number: int
    records: int = 0
    window_records: int = 0
    pending: int = 0
    fates: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    expected: int = 0
    elsewhere: int = 0
    untimed: int = 0
    odd_names: int = 0
    unreadable: int = 0
    files: int = 0
    dangling: int = 0
    dangling_records: int = 0
    fields: set[str] = msgspec.field(default_factory=set[str])
    examples: list[Example] = msgspec.field(default_factory=list[Example])
    gaps: list[Gap] = msgspec.field(default_factory=list[Gap])


class SplitCollector:
    """Collects one split into `pieces`; `report` is true once all batches have been added."""

    def __init__(self, specification: AuditSpecification, split: Split, *, buckets: int) -> None:
        """Raises the errors of Expectations, and TooLargeError."""
        if split.end > MOST_OFFSETS:
            raise TooLargeError(f"{partition_name(split.topic, split.partition)} has offsets beyond {MOST_OFFSETS}")
        self._specification = specification
        self._split = split
        self._base = base_of(split.number)
        self.pieces = Pieces(buckets)
        self.report = SplitReport(number=split.number)
        self._may_be_native = (
            isinstance(specification.transform, Identity | Steps)
            and specification.files is None
            and specification.comparison is None
        )
        self._sinks = [sink_bytes(number) for number in range(len(specification.sink_topics))]

    def collect(self, batches: Iterable[list[Message]]) -> None:
        if self._split.side is AuditSide.SINK:
            self._outputs(batches)
            return
        expectations = Expectations(self._specification)
        if expectations.is_identity:
            self._unchanged(batches, expectations)
        else:
            self._transformed(batches, expectations)

    def deleted(self, start: int, end: int) -> None:
        """Record offsets that were deleted before they were read."""
        split = self._split
        self.report.gaps.append(
            deletion_gap(split.side, split.topic, split.partition, start, end, is_of_files=split.is_of_files)
        )

    def _outputs(self, batches: Iterable[list[Message]]) -> None:
        specification, split, report = self._specification, self._split, self.report
        errors = specification.errors
        is_letters = errors.policy is FailurePolicy.DEAD_LETTER and split.topic == errors.dead_letter_topic
        # A dead letter is the original input.
        find = id_of((specification.source_id or specification.id) if is_letters else specification.id)
        sink = sink_bytes(specification.sink_topics.index(split.topic))
        add = self.pieces.add
        for message, word, is_window in self._rows(batches, FOUND):
            headers = readable(message)
            if self._is_skipped(headers, is_window=is_window):
                continue
            if is_letters and letter_origin(headers) not in specification.source_topics:
                # A dead letter of another pipeline.
                continue
            id_ = find(message.value(), message.key(), headers)
            report.window_records += is_window
            if id_ is not None:
                add(id_, sink, word)
            elif is_window:
                self._unreadable(message, IdFinding.UNREADABLE_OUTPUT)

    def _unchanged(self, batches: Iterable[list[Message]], expectations: Expectations) -> None:
        find = id_of(self._specification.id)
        sink = sink_bytes(self._specification.sink_topics.index(self._specification.sink_topic))
        add, report = self.pieces.add, self.report
        for batch in batches:
            _, headers, unfit = as_they_are(batch)
            written = 0
            for index, (message, word, is_window) in enumerate(self._rows([batch], EXPECTED)):
                if index in unfit:
                    self._transformed_one(message, word, is_window, expectations)
                    continue
                id_ = find(message.value(), message.key(), headers[index])
                written += is_window
                if id_ is not None:
                    add(id_, sink, word)
                elif is_window:
                    self._unreadable(message, IdFinding.UNREADABLE_INPUT)
            report.window_records += written
            report.expected += written
            report.fates[Fate.WRITTEN.value] = report.fates.get(Fate.WRITTEN.value, 0) + written

    def _transformed(self, batches: Iterable[list[Message]], expectations: Expectations) -> None:
        for message, word, is_window in self._rows(batches, EXPECTED):
            self._transformed_one(message, word, is_window, expectations)

    def _transformed_one(self, message: Message, word: int, is_window: bool, expectations: Expectations) -> None:
        report = self.report
        if self._is_skipped(readable(message), is_window=is_window):
            return
        expected = expectations.of(message)
        report.untimed += expected.untimed
        if is_window:
            report.window_records += 1
            report.fates[expected.fate.value] = report.fates.get(expected.fate.value, 0) + 1
            report.expected += len(expected.ids)
            report.elsewhere += expected.elsewhere
        for number, id_ in expected.ids:
            if id_ is not None:
                self.pieces.add(id_, self._sinks[number], word)
            elif is_window:
                self._unreadable(message, IdFinding.UNREADABLE_INPUT)

    def _is_skipped(self, headers: Headers, *, is_window: bool) -> bool:
        """True for a record that C carries and that is bad for Python: afterwards nothing distinguishes them."""
        if not self._may_be_native or not has_unreadable_name(headers):
            return False
        self.report.odd_names += is_window
        return True

    def _rows(self, batches: Iterable[list[Message]], side: int) -> Iterator[tuple[Message, int, bool]]:
        """Each record with its `word`, and whether it is in the window."""
        split, report, base = self._split, self.report, self._base
        start, end = split.window_start, min(split.window_end, split.committed)
        pending_end = split.window_end if split.committed < split.window_end else end
        for batch in batches:
            report.records += len(batch)
            for message in batch:
                offset: int = message.offset()  # pyright: ignore[reportAssignmentType] - of a record that was read
                is_window = start <= offset < end
                if end <= offset < pending_end and offset >= start:
                    report.pending += 1
                yield message, base | offset << 2 | side | (WINDOW if is_window else PADDING), is_window

    def _unreadable(self, message: Message, finding: IdFinding, *, file: str | None = None) -> None:
        report = self.report
        report.unreadable += 1
        if report.unreadable > self._specification.bounds.examples:
            return
        split = self._split
        place = (
            RecordPlace(
                topic=split.topic,
                partition=split.partition,
                offset=message.offset() or 0,
                timestamp_ms=timestamp_of(message),
                file=file,
            ),
        )
        is_input = split.side is AuditSide.SOURCE
        report.examples.append(
            Example(
                finding=finding,
                id=None,
                topic=self._specification.sink_topic if is_input else split.topic,
                expected=int(is_input),
                found=int(not is_input),
                inputs=place if is_input else (),
                outputs=() if is_input else place,
            )
        )


def timestamp_of(message: Message) -> int | None:
    kind, at_ms = message.timestamp()
    return at_ms if kind else None


def letter_origin(headers: Headers) -> str | None:
    """The source topic of a dead letter, by the header that the loop writes; None: it is no dead letter."""
    for name, value in reversed(headers or ()):
        if name == HEADER_PREFIX + "topic":
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return None


def deletion_gap(
    side: AuditSide, topic: str, partition: int, start: int | None, end: int, *, is_of_files: bool = False
) -> Gap:
    """`start` None: the number of deleted records is not known."""
    what = "references to files" if is_of_files else "records"
    where = partition_name(topic, partition)
    if start is None:
        sentence = f"The {what} of {where} before offset {end} are deleted; some may belong to what is audited."
    else:
        sentence = f"The {what} of {where} from offset {start} to {end - 1} were deleted before they were read."
    return Gap(
        side=side,
        topic=topic,
        partition=partition,
        reason=GapReason.DELETED,
        start=start,
        end=end,
        sentence=sentence,
    )
