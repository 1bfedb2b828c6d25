"""The batches around a wrong record: of the source, of the sink and of both journals."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from app.core.journals import group_records, transaction_state
from app.core.journals.group_records import GroupRecordKey, RecordType
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.record_batch import BatchRecord, Marker, RecordBatch, read_marker, read_records
from tests.fault_suite.judging import Input, Where, identity_of

Logs = Callable[[str], Iterator[tuple[int, RecordBatch]]]
"""All batches of a topic with their partitions, each partition in order."""

_BATCHES = 8
_NEAR_MS = 1_000


class Topics(NamedTuple):
    """The topics of one pipeline, and the group that reads it."""

    source: str
    sink: str
    group: str


@dataclass(slots=True)
class Cut:
    """lines: by partition of a topic. times_ms: when what is about it was ended, by the brokers' clock."""

    lines: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    times_ms: set[int] = field(default_factory=set[int])

    def __str__(self) -> str:
        return "\n".join(f"## {name}\n" + "\n".join(lines) + "\n" for name, lines in self.lines.items())


def cut(where: Where, logs: Logs, topics: Topics) -> Cut:
    """The batches that hold the wrong record, its input, all of its copies, the ends of their transactions, and the
    offsets that passed its input. Each comes with a few batches before and after, and with the coordinators' records
    about their producers at that time."""
    cutting = _Cutting(where, logs, topics)
    cutting.source()
    cutting.sink()
    cutting.group_journal()
    cutting.coordinators_journal()
    return cutting.cut


class _Around:
    """The marked batches of one topic, and a few before and after them."""

    def __init__(self, topic: str, cut: Cut) -> None:
        self._topic = topic
        self._cut = cut
        self._before: defaultdict[int, deque[str]] = defaultdict(lambda: deque(maxlen=_BATCHES))
        self._left: defaultdict[int, int] = defaultdict(int)

    def saw(self, partition: int, line: Callable[[], str], *, is_marked: bool) -> None:
        name = f"{self._topic}-{partition}"
        if is_marked:
            kept = self._cut.lines.setdefault(name, [])
            kept += [*self._before.pop(partition, ()), f"> {line()}"]
            self._left[partition] = _BATCHES
        elif self._left[partition]:
            self._left[partition] -= 1
            self._cut.lines[name].append(f"  {line()}")
        else:
            self._before[partition].append(f"  {line()}")


class _Cutting:
    """In this order: each part uses the results of those before it."""

    def __init__(self, where: Where, logs: Logs, topics: Topics) -> None:
        self.cut = Cut()
        self._where = where
        self._logs = logs
        self._topics = topics
        self._input: Input | None = None
        self._producers: set[int] = set() if where.writer is None else {where.writer.producer_id}

    def source(self) -> None:
        if self._where.source is None:
            return
        around = _Around(self._topics.source, self.cut)
        number, offset = self._where.source
        for partition, batch in self._logs(self._topics.source):
            is_it = partition == number and batch.base_offset <= offset <= batch.last_offset
            if is_it:
                found = [identity_of(record.value) for record in _records(batch) if record.offset == offset]
                self._input = next(iter(found), None)
            if partition == number:
                around.saw(partition, lambda batch=batch: _line_of_outputs(batch), is_marked=is_it)

    def sink(self) -> None:
        around = _Around(self._topics.sink, self.cut)
        ends = _Ends(self.cut)
        # Where nothing else is known of it: the first that the producer has written to the partition.
        looks_for_writer = self._where.source is None and self._where.sink is None
        written: set[int] = set()
        for partition, batch in self._logs(self._topics.sink):
            if batch.is_control:
                is_it = ends.is_meant(partition, batch)
            elif looks_for_writer:
                is_it = batch.producer_id in self._producers and partition not in written
                written |= {partition} if is_it else set()
            else:
                is_it = self._holds(partition, batch)
            if is_it and not batch.is_control:
                ends.wait_for(partition, batch)
                self._producers.add(batch.producer_id)
            around.saw(partition, lambda batch=batch: _line_of_outputs(batch), is_marked=is_it)

    def _holds(self, partition: int, batch: RecordBatch) -> bool:
        at = self._where.sink
        if at is not None and at[0] == partition and batch.base_offset <= at[1] <= batch.last_offset:
            return True
        return self._input is not None and any(identity_of(record.value) == self._input for record in _records(batch))

    def group_journal(self) -> None:
        """The first commit of each producer past the input; without an input, the first one of the producer."""
        around = _Around(group_records.TOPIC, self.cut)
        ends = _Ends(self.cut)
        passed: set[int] = set()
        for partition, batch in self._logs(group_records.TOPIC):
            if batch.is_control:
                is_it = ends.is_meant(partition, batch)
                around.saw(partition, lambda batch=batch: _line(batch), is_marked=is_it)
                continue
            commits = dict(self._commits(batch))
            is_it = batch.producer_id not in passed and self._passes(batch, commits)
            if is_it:
                passed.add(batch.producer_id)
                self._producers.add(batch.producer_id)
                ends.wait_for(partition, batch)
            around.saw(partition, lambda batch=batch, commits=commits: f"{_line(batch)}: {commits}", is_marked=is_it)

    def _commits(self, batch: RecordBatch) -> Iterator[tuple[int, int]]:
        for record in _records(batch):
            key = group_records.decode_key(record.key or b"")
            if (
                isinstance(key, GroupRecordKey)
                and key.type is RecordType.OFFSET_COMMIT
                and (key.group, key.topic) == (self._topics.group, self._topics.source)
            ):
                value = group_records.decode_value(key.type, record.value)
                if isinstance(value, OffsetCommit):
                    yield key.partition, value.offset

    def _passes(self, batch: RecordBatch, commits: dict[int, int]) -> bool:
        if self._where.source is None:
            return bool(commits) and batch.producer_id in self._producers
        number, offset = self._where.source
        return commits.get(number, -1) > offset

    def coordinators_journal(self) -> None:
        producers = self._producers - {-1}
        for partition, batch in self._logs(transaction_state.TOPIC) if producers else ():
            if not _is_near(batch.max_timestamp_ms, self.cut.times_ms):
                continue
            for record in _records(batch):
                state = transaction_state.decode_value(record.value)
                if isinstance(state, transaction_state.TransactionState) and state.producer_id in producers:
                    said = (
                        f"  {record.offset} {transaction_state.decode_key(record.key or b'')}: {state.status.word}, "
                        f"producer {state.producer_id} epoch {state.producer_epoch} at {record.timestamp_ms}: "
                        f"{', '.join(state.partition_names)}"
                    )
                    self.cut.lines.setdefault(f"{transaction_state.TOPIC}-{partition}", []).append(said)


class _Ends:
    """The next marker of each producer that was seen; a batch outside of a transaction is its own end."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._awaited: set[tuple[int, int]] = set()

    def wait_for(self, partition: int, batch: RecordBatch) -> None:
        if batch.is_transactional:
            self._awaited.add((partition, batch.producer_id))
        else:
            self._cut.times_ms.add(batch.max_timestamp_ms)

    def is_meant(self, partition: int, marker: RecordBatch) -> bool:
        at = partition, marker.producer_id
        if at not in self._awaited:
            return False
        self._awaited.remove(at)
        self._cut.times_ms.add(marker.max_timestamp_ms)
        return True


def _is_near(at_ms: int, times_ms: Collection[int]) -> bool:
    return any(abs(at_ms - time_ms) <= _NEAR_MS for time_ms in times_ms)


def _records(batch: RecordBatch) -> list[BatchRecord]:
    found = read_records(batch)
    # The judge has read all of it before.
    assert isinstance(found, list), found
    return found


def _line_of_outputs(batch: RecordBatch) -> str:
    if batch.is_control:
        return _line(batch)
    ids = [str(identity_of(record.value)) for record in _records(batch)]
    return f"{_line(batch)}: {ids[0]}" + (f" to {ids[-1]}" if len(ids) > 1 else "")


def _line(batch: RecordBatch) -> str:
    if batch.is_control:
        marker = read_marker(batch)
        kind = marker.type.name if isinstance(marker, Marker) else str(marker)
    else:
        kind = "transactional" if batch.is_transactional else "plain"
    return (
        f"{batch.base_offset}..{batch.last_offset} {kind} producer {batch.producer_id} epoch {batch.producer_epoch} "
        f"at {batch.max_timestamp_ms}"
    )
