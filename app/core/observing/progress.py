"""The progress of the reader of one journal, by partition, and the status that follows from it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.core.journals.reading import JournalCounts
from app.core.observing.snapshot import JournalStatus, ReadingPhase, SnapshotSource

SILENT_AFTER_MS = 3_000


class _PartitionProgress(msgspec.Struct):
    """target: the end in the leader's first answer; records before it may be outdated.

    as_of_ms: the last time at which it was read to its end. heard_ms: the leader's last answer.
    """

    position: int
    target: int
    end: int
    as_of_ms: int
    heard_ms: int

    @property
    def is_caught_up(self) -> bool:
        return self.position >= self.target


class JournalProgress:
    """Positions and the phase of one journal. `now_ms` is always by this process's clock."""

    def __init__(self, topic: str, *, now_ms: int) -> None:
        self.topic = topic
        self._expected: dict[int, int] = {}
        self._partitions: dict[int, _PartitionProgress] = {}
        self._phase = ReadingPhase.CONNECTING
        self._phase_since_ms = now_ms
        self._problem = ""
        self._polled_ms = -1
        self._missing: tuple[str, ...] = ()

    @property
    def phase(self) -> ReadingPhase:
        return self._phase

    @property
    def partition_count(self) -> int:
        """The number of partitions to read; 0 while it is not known, or they are not read."""
        return len(self._expected)

    @property
    def is_caught_up_everywhere(self) -> bool:
        return bool(self._expected) and all(self.is_caught_up(number) for number in self._expected)

    def is_caught_up(self, partition: int) -> bool:
        found = self._partitions.get(partition)
        return found is not None and found.is_caught_up

    def expect(self, partitions: Iterable[int], *, now_ms: int) -> None:
        """Add partitions to read."""
        for partition in partitions:
            self._expected.setdefault(partition, now_ms)

    def advance(self, partition: int, *, next_offset: int, end: int, now_ms: int) -> bool:
        """Note an answer of the leader; return True if it reaches the target."""
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = _PartitionProgress(-1, max(end, 0), end, -1, now_ms)
        was_caught_up = found.is_caught_up
        found.position, found.end, found.heard_ms = next_offset, end, now_ms
        if next_offset >= end:
            found.as_of_ms = now_ms
        return found.is_caught_up and not was_caught_up

    def stop(self, partition: int | None = None) -> None:
        """This partition, or every one, is no longer read: its state may be outdated."""
        if partition is None:
            self._partitions.clear()
            self._expected.clear()
        else:
            self._partitions.pop(partition, None)

    def note_polled(self, missing: Iterable[str], *, now_ms: int) -> None:
        """The admin requests have a new answer, except for the missing coordinators."""
        self._polled_ms = now_ms
        self._missing = tuple(missing)

    def note_not_polled(self, why: str) -> None:
        """The admin requests failed; `why` is a sentence part."""
        self._missing = (why,)

    def enter(self, phase: ReadingPhase, *, problem: str = "", now_ms: int) -> bool:
        """Return True if the phase or the problem is new."""
        is_new = (phase, problem) != (self._phase, self._problem)
        if phase is not self._phase:
            self._phase_since_ms = now_ms
        self._phase, self._problem = phase, problem
        return is_new

    def status(self, reading: JournalCounts, *, now_ms: int) -> JournalStatus:
        partitions = self._partitions.values()
        silent = sum(now_ms - self._heard_ms(number) > SILENT_AFTER_MS for number in self._expected)
        is_read = self.is_caught_up_everywhere
        problem = self._problem
        if self._missing and not is_read:
            problem = "; ".join(filter(None, (problem, f"no answer: {', '.join(self._missing)}")))
        if silent and not problem:
            problem = f"the leaders of {silent} of {len(self._expected)} partitions of {self.topic} do not answer"
        return JournalStatus(
            topic=self.topic,
            phase=self._phase,
            phase_since_ms=self._phase_since_ms,
            problem=problem,
            source=self._source(is_read=is_read),
            as_of_ms=min(partition.as_of_ms for partition in partitions) if is_read else self._polled_ms,
            complete_since_ms=_complete_since(reading) if is_read else -1,
            lag_records=sum(max(0, partition.end - partition.position) for partition in partitions),
            partitions=len(self._expected),
            partitions_caught_up=sum(partition.is_caught_up for partition in partitions),
            silent_partitions=silent,
            records_read=reading.records,
            unreadable=dict(reading.unreadable),
        )

    def _heard_ms(self, partition: int) -> int:
        found = self._partitions.get(partition)
        return self._expected[partition] if found is None else found.heard_ms

    def _source(self, *, is_read: bool) -> SnapshotSource:
        # A cluster without the journal has no transactions, which is certain.
        if is_read or self._phase is ReadingPhase.ABSENT:
            return SnapshotSource.JOURNAL
        return SnapshotSource.ADMIN_CALLS if self._polled_ms >= 0 else SnapshotSource.NOTHING


def _complete_since(reading: JournalCounts) -> int | None:
    gaps = [position.whole_ms for position in reading.positions.values() if not position.is_whole]
    return max(gaps) if gaps else None
