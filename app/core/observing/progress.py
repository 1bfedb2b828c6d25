"""How far the reader of one journal has come, partition by partition, and what may be said by that."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.core.journals.reading import Reading
from app.core.observing.snapshot import JournalStatus, Phase, Source

SILENT_AFTER_MS = 3_000


class _Partition(msgspec.Struct):
    """target: the end at the leader's first answer; what lies before it may be older than what is so now.

    as_of_ms: when it was last known to be read to its end. heard_ms: the leader's last answer.
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
    """Positions and the phase of one journal. `now_ms` is always our own clock."""

    def __init__(self, topic: str, *, now_ms: int) -> None:
        self.topic = topic
        self._expected: dict[int, int] = {}
        self._partitions: dict[int, _Partition] = {}
        self._phase = Phase.CONNECTING
        self._phase_since_ms = now_ms
        self._problem = ""
        self._polled_ms = -1
        self._missing: tuple[str, ...] = ()

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def partition_count(self) -> int:
        """How many are to be read; 0 while nobody said it, or they are not read."""
        return len(self._expected)

    @property
    def is_caught_up_everywhere(self) -> bool:
        return bool(self._expected) and all(self.is_caught_up(number) for number in self._expected)

    def is_caught_up(self, partition: int) -> bool:
        found = self._partitions.get(partition)
        return found is not None and found.is_caught_up

    def expect(self, partitions: Iterable[int], *, now_ms: int) -> None:
        """These are to be read from now on."""
        for partition in partitions:
            self._expected.setdefault(partition, now_ms)

    def advance(self, partition: int, *, next_offset: int, end: int, now_ms: int) -> bool:
        """An answer of the leader was folded; True when it is the one that caught up."""
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = _Partition(-1, max(end, 0), end, -1, now_ms)
        was_caught_up = found.is_caught_up
        found.position, found.end, found.heard_ms = next_offset, end, now_ms
        if next_offset >= end:
            found.as_of_ms = now_ms
        return found.is_caught_up and not was_caught_up

    def stop(self, partition: int | None = None) -> None:
        """This partition, or none at all, is read any more: what was folded may be out of date."""
        if partition is None:
            self._partitions.clear()
            self._expected.clear()
        else:
            self._partitions.pop(partition, None)

    def note_polled(self, missing: Iterable[str], *, now_ms: int) -> None:
        """The admin calls have just said what is so, but for the missing coordinators."""
        self._polled_ms = now_ms
        self._missing = tuple(missing)

    def note_not_polled(self, why: str) -> None:
        """They were asked, and say nothing; `why` in a sentence's words."""
        self._missing = (why,)

    def enter(self, phase: Phase, *, problem: str = "", now_ms: int) -> bool:
        """True when this is another phase or problem than before."""
        is_new = (phase, problem) != (self._phase, self._problem)
        if phase is not self._phase:
            self._phase_since_ms = now_ms
        self._phase, self._problem = phase, problem
        return is_new

    def status(self, reading: Reading, *, now_ms: int) -> JournalStatus:
        partitions = self._partitions.values()
        silent = sum(now_ms - self._heard_ms(number) > SILENT_AFTER_MS for number in self._expected)
        is_read = self.is_caught_up_everywhere
        problem = self._problem
        if self._missing and not is_read:
            problem = "; ".join(filter(None, (problem, f"not answered: {', '.join(self._missing)}")))
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

    def _source(self, *, is_read: bool) -> Source:
        # A cluster without the journal has no transaction, and that is known.
        if is_read or self._phase is Phase.ABSENT:
            return Source.JOURNAL
        return Source.ADMIN_CALLS if self._polled_ms >= 0 else Source.NOTHING


def _complete_since(reading: Reading) -> int | None:
    gaps = [position.whole_ms for position in reading.positions.values() if not position.is_whole]
    return max(gaps) if gaps else None
