"""From the records of one side to rows for the comparison, and to counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec
from confluent_kafka import Message

from app.core.transforms import field_path
from app.core.wire import file_contents
from app.products.audits.comparison import Comparison
from app.products.audits.result import AuditSide, Example, IdFinding
from app.products.audits.specification import AuditSpecification, Everything, TimeWindow
from workers.audit.collecting import SplitCollector, SplitReport, timestamp_of
from workers.audit.file_collecting import FileCollector, Wanted
from workers.audit.ids import id_in_file, id_of
from workers.audit.splits import Split
from workers.comparison.fields import canonical, leaves_of, time_ms_of
from workers.comparison.rows import BASELINE, NO_PARTITION, OUTPUT, PADDING, WINDOW, ComparedPieces
from workers.transforms.headers import readable

Keyed = tuple[int, bytes]
_MOST_BYTES = 16 << 20
"""The size of rows that a task holds before it hands them to Spark."""


class NoComparisonError(Exception):
    """An order without a comparison came to a comparison; a bug."""


class When(NamedTuple):
    """The place of a record in time. zone: WINDOW or PADDING; at_ms: 0 if everything is compared."""

    zone: int
    at_ms: int


class SideRows:
    """The rows of one side, by its rules.

    Args:
        specification: that of a comparison.
        is_output: the pipeline's side.
        fields: gets the comparison's named fields that a record has.
    """

    def __init__(self, specification: AuditSpecification, *, is_output: bool, buckets: int, fields: set[str]) -> None:
        """Raises FieldPathError for an invalid path."""
        comparison = comparison_of(specification)
        window = specification.window
        self._side = OUTPUT if is_output else BASELINE
        self._window = (window.start_ms, window.end_ms) if isinstance(window, TimeWindow) else None
        self._is_everything = isinstance(window, Everything)
        padding_ms = specification.padding_ms
        # As in an audit: then every output of the padding has its counterpart in what is read.
        self._padding_ms = padding_ms if is_output else 2 * padding_ms
        path = comparison.time_field if is_output else comparison.baseline_time_field
        self._time = None if path is None else field_path.getter(field_path.parse(path))
        self._leaves = leaves_of(comparison, found=fields)
        self.pieces = ComparedPieces(buckets)

    def when(self, at_ms: int | None) -> When | None:
        """Return the zone of a time; None for one beyond window and padding."""
        if self._is_everything:
            return When(WINDOW, 0)
        if self._window is None or at_ms is None:
            return None
        start, end = self._window
        if start <= at_ms < end:
            return When(WINDOW, at_ms)
        return When(PADDING, at_ms) if start - self._padding_ms <= at_ms < end + self._padding_ms else None

    def when_of(self, record: dict[str, Any], kafka_ms: int | None) -> When | None:
        """Return the zone of a record. Raises ValueError if the field of its time has none."""
        if self._time is None or self._is_everything:
            return self.when(kafka_ms)
        at_ms = time_ms_of(self._time(record))
        if at_ms is None:
            raise ValueError("the record has no time")
        return self.when(at_ms)

    def add(
        self, record: dict[str, Any], id_: bytes | None, when: When, number: int, offset: int, file: str | None = None
    ) -> None:
        """Raises ValueError for a record without an id, or with fields that cannot be compared."""
        if id_ is None:
            raise ValueError("the record has no id")
        fields = canonical(self._leaves(record))
        self.pieces.add(id_, self._side | when.zone, number, offset, fields, file, at_ms=when.at_ms)

    def full(self) -> Iterator[Keyed]:
        """Yield the pieces once they are many."""
        if self.pieces.size > _MOST_BYTES:
            yield from self.pieces.drain()


def comparison_of(specification: AuditSpecification) -> Comparison:
    if specification.comparison is None:
        raise NoComparisonError("the order has no comparison; this is a bug in the audit")
    return specification.comparison


def rows_for(specification: AuditSpecification, split: Split, *, buckets: int, fields: set[str]) -> SideRows:
    return SideRows(specification, is_output=split.side is AuditSide.SINK, buckets=buckets, fields=fields)


class TopicCollector(SplitCollector):
    """The records of one range of a topic, of either side."""

    def __init__(self, specification: AuditSpecification, split: Split, *, buckets: int) -> None:
        super().__init__(specification, split, buckets=1)
        self._rows_of_side = rows_for(specification, split, buckets=buckets, fields=self.report.fields)
        self._is_output = split.side is AuditSide.SINK
        place = specification.id if self._is_output else specification.source_id or specification.id
        self._find = id_of(place)

    def keyed(self, batches: Iterable[list[Message]]) -> Iterator[Keyed]:
        """Yield all rows, by bucket; `report` is true at the end."""
        for batch in batches:
            self.report.records += len(batch)
            for message in batch:
                self._take(message)
            yield from self._rows_of_side.full()
        yield from self._rows_of_side.pieces.drain()

    def _take(self, message: Message) -> None:
        rows, value, at_ms = self._rows_of_side, message.value(), timestamp_of(message)
        try:
            # Anything but an object is as unreadable as no JSON.
            record = _decode(value or b"")
            when = rows.when_of(record, at_ms)
        except (ValueError, RecursionError):
            self._not_read(message, rows.when(at_ms))
            return
        if when is None:
            return
        id_ = self._find(value, message.key(), readable(message))
        try:
            rows.add(record, id_, when, self._split.number, message.offset() or 0)
        except ValueError:
            self._not_read(message, when)
            return
        self.report.window_records += when.zone == WINDOW

    def _not_read(self, message: Message, when: When | None) -> None:
        """Count a record without an id, a time or fields. when: by its timestamp in Kafka if nothing else is known."""
        if when is not None and when.zone == WINDOW:
            self.report.window_records += 1
            self._unreadable(message, IdFinding.UNREADABLE_OUTPUT if self._is_output else IdFinding.UNREADABLE_INPUT)


_decode = msgspec.json.Decoder(dict[str, Any]).decode


class OutputFileCollector(FileCollector):
    """The records in the files of the pipeline's references."""

    def __init__(self, specification: AuditSpecification, split: Split, *, buckets: int, **more: Any) -> None:
        super().__init__(specification, split, buckets=1, **more)
        self._rows_of_side = rows_for(specification, split, buckets=buckets, fields=self.report.fields)

    def keyed(self, batches: Iterable[list[Message]]) -> Iterator[Keyed]:
        """Yield all rows, by bucket; `report` is true at the end. Raises AuditReadError."""
        for _ in self.following(batches):
            yield from self._rows_of_side.full()
        yield from self._rows_of_side.pieces.drain()

    def _read(self, wanted: Wanted, content: BinaryIO) -> None:
        rows, report, message = self._rows_of_side, self.report, wanted.message
        at_ms = timestamp_of(message)
        is_any = False
        for record in file_contents.records(wanted.reference, content):
            try:
                when = rows.when_of(record, at_ms)
                id_ = self._find(record)
            except ValueError:
                when, id_ = rows.when(at_ms), None
            if when is None:
                continue
            is_window = when.zone == WINDOW
            is_any = is_any or is_window
            report.window_records += is_window
            try:
                rows.add(record, id_, when, self._split.number, message.offset() or 0)
            except ValueError:
                if is_window:
                    self._unreadable(message, IdFinding.UNREADABLE_OUTPUT, file=wanted.reference.path)
        report.files += is_any


class BaselineCollector:
    """The records of files and tables that another system wrote."""

    def __init__(self, specification: AuditSpecification, *, buckets: int) -> None:
        """Raises FieldPathError for an id that such records do not have."""
        self.report = SplitReport(number=NO_PARTITION)
        self._rows = SideRows(specification, is_output=False, buckets=buckets, fields=self.report.fields)
        self._find: Callable[[dict[str, Any]], bytes | None] = id_in_file(specification.source_id or specification.id)
        self._most = specification.bounds.examples
        self._topic = specification.sink_topic

    def keyed(self, records: Iterable[tuple[dict[str, Any], str | None]]) -> Iterator[Keyed]:
        """records: each with the file that has it."""
        report, rows = self.report, self._rows
        for record, file in records:
            report.records += 1
            try:
                when = rows.when_of(record, None)
            except ValueError:
                # It may belong to any window.
                when, id_ = When(WINDOW, 0), None
            else:
                id_ = self._find(record)
            if when is None:
                continue
            report.window_records += when.zone == WINDOW
            try:
                rows.add(record, id_, when, NO_PARTITION, 0, file)
            except ValueError:
                if when.zone == WINDOW:
                    self._unreadable(file)
            yield from rows.full()
        yield from rows.pieces.drain()

    def _unreadable(self, file: str | None) -> None:
        self.report.unreadable += 1
        if self.report.unreadable <= self._most:
            self.report.examples.append(
                Example(
                    finding=IdFinding.UNREADABLE_INPUT,
                    id=None,
                    topic=self._topic,
                    expected=1,
                    found=0,
                    baseline_file=file,
                )
            )


class MisplacedTimeError(Exception):
    """The time of a recomputed row lies beyond the event times that its window may have."""


class RecomputedCollector:
    """The rows of the pipeline's query that a batch has recomputed.

    Args:
        specification: its window has the event times of the comparable rows, without padding.
        span: the event times that a row may have: from the first one up to and including the last.
    """

    def __init__(self, specification: AuditSpecification, *, buckets: int, span: tuple[int, int]) -> None:
        self.report = SplitReport(number=NO_PARTITION)
        self._rows = SideRows(specification, is_output=False, buckets=buckets, fields=self.report.fields)
        self._find = id_of(specification.id)
        self._time = field_path.getter(field_path.parse(comparison_of(specification).time_field or ""))
        self._time_field = comparison_of(specification).time_field
        self._span = span

    def keyed(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[Keyed]:
        """records: value and key of each. Raises MisplacedTimeError."""
        report, rows = self.report, self._rows
        for value, key in records:
            report.records += 1
            try:
                record = _decode(value or b"")
                self._check(record)
                when = rows.when_of(record, None)
                if when is None:
                    continue
                rows.add(record, self._find(value, key, None), when, NO_PARTITION, 0)
            except (ValueError, RecursionError):
                report.unreadable += 1
            report.window_records += 1
            yield from rows.full()
        yield from rows.pieces.drain()

    def _check(self, record: dict[str, Any]) -> None:
        at_ms = time_ms_of(self._time(record))
        earliest, latest = self._span
        if at_ms is not None and not earliest <= at_ms <= latest:
            raise MisplacedTimeError(
                f"the field {self._time_field} of a row lies beyond its window. Name a field with its start or end"
            )
