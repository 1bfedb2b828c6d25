"""One journal with its materialized state, and the part of it that is shown.

A partition's ids or groups are shown once it is read to its end at the start of reading. Earlier records are history:
an id that is open in them may be complete now. Until then, and without permission to read the journal, answers of admin
requests are shown instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from app.core.journals.reading import JournalCounts
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.core.observing.progress import JournalProgress
from app.core.observing.shared_dict import SharedDict
from app.core.observing.snapshot import JournalStatus, ReadingPhase


class Placed(Protocol):
    """A value of one partition of a journal."""

    @property
    def partition(self) -> int: ...


T = TypeVar("T", bound=Placed)


class ShownValues(NamedTuple, Generic[T]):
    """The shown values, by name. still_open: those with an open transaction. names: of all, in order."""

    values: Mapping[str, T]
    still_open: Mapping[str, T]
    names: tuple[str, ...]


class LiveJournal(Generic[T]):
    """Takes records and keeps the shown values. Used by one thread.

    Args:
        reading, values: the materialized state; `apply` and `forget` change it and return the changed names.
        keep: returns a copy of a value that later records do not change.
        is_open: returns True for a value with an open transaction.
    """

    def __init__(
        self,
        topic: str,
        *,
        reading: JournalCounts,
        values: Mapping[str, T],
        apply: Callable[[int, RecordBatch | UnreadableBatch], Collection[str]],
        forget: Callable[[int], Collection[str]],
        keep: Callable[[T], T],
        is_open: Callable[[T], bool] = lambda _: False,
        now_ms: int,
    ) -> None:
        self.topic = topic
        self.progress = JournalProgress(topic, now_ms=now_ms)
        self._reading = reading
        self._values = values
        self._apply = apply
        self._forget = forget
        self._keep = keep
        self._is_open = is_open
        self._stand_ins: dict[str, T] = {}
        self._shown = SharedDict[T]()
        # Kept as values change: with 50,000 ids, a search and a sort for each view cost too much.
        self._open = SharedDict[T]()
        self._names: tuple[str, ...] | None = ()
        self._changed: set[str] = set()
        self._kept_back: defaultdict[int, set[str]] = defaultdict(set)
        self._withdraw()

    def next_offset(self, partition: int) -> int:
        """Return the position; 0 if nothing was read."""
        position = self._reading.positions.get(partition)
        return 0 if position is None else position.next_offset

    def restart(self, partition: int) -> None:
        """The log no longer has the position: start with its first record, as a coordinator does."""
        self._changed.update(self._forget(partition))
        self._kept_back.pop(partition, None)
        self.progress.stop(partition)

    def read(
        self,
        partition: int,
        batches: Iterable[RecordBatch | UnreadableBatch],
        *,
        next_offset: int,
        end: int,
        now_ms: int,
    ) -> None:
        """Apply an answer of the partition's leader; `end` is its high watermark."""
        touched = self._changed if self.progress.is_caught_up(partition) else self._kept_back[partition]
        for batch in batches:
            touched.update(self._apply(partition, batch))
        if self.progress.advance(partition, next_offset=next_offset, end=end, now_ms=now_ms):
            self._release(partition)

    def polled(self, found: Mapping[str, T], *, missing: Collection[str] = (), now_ms: int) -> None:
        """Take the complete answer of the admin requests, as of `now_ms`. `missing`: a sentence for each coordinator
        without one.
        """
        was, self._stand_ins = self._stand_ins, dict(found)
        self._changed.update(name for name in was.keys() | found.keys() if was.get(name) != found.get(name))
        self.progress.note_polled(missing, now_ms=now_ms)

    def not_polled(self, why: str) -> None:
        """The admin requests have no answer; the last one stays."""
        self.progress.note_not_polled(why)

    def enter(self, phase: ReadingPhase, *, problem: str = "", now_ms: int) -> bool:
        """Note the phase, and return True if it is new. Values of an absent or refused journal are not shown."""
        if phase in (ReadingPhase.ABSENT, ReadingPhase.REFUSED) and self.progress.partition_count:
            self.progress.stop()
            self._withdraw()
        if phase is ReadingPhase.LIVE and self._stand_ins:
            # The partition of some of them is not known.
            self._changed.update(self._stand_ins)
            self._stand_ins = {}
        return self.progress.enter(phase, problem=problem, now_ms=now_ms)

    def publish(self) -> bool:
        """Take over the changes; return False if no shown value has changed."""
        is_changed = False
        for name in self._changed:
            value = self._find(name)
            if (value is None) == (name in self._shown):
                self._names = None
            if value is not None:
                self._shown[name] = value
                is_changed = True
            elif self._shown.discard(name):
                is_changed = True
            if value is not None and self._is_open(value):
                self._open[name] = value
            else:
                self._open.discard(name)
        self._changed.clear()
        return is_changed

    def shown(self) -> ShownValues[T]:
        if self._names is None:
            self._names = tuple(sorted(self._shown))
        return ShownValues(self._shown.view(), self._open.view(), self._names)

    def status(self, now_ms: int) -> JournalStatus:
        return self.progress.status(self._reading, now_ms=now_ms)

    def _find(self, name: str) -> T | None:
        value = self._values.get(name)
        if value is not None and self.progress.is_caught_up(value.partition):
            return self._keep(value)
        stand_in = self._stand_ins.get(name)
        return stand_in if stand_in is not None and not self.progress.is_caught_up(stand_in.partition) else None

    def _release(self, partition: int) -> None:
        self._changed |= self._kept_back.pop(partition, set())
        self._changed.update(name for name, one in self._stand_ins.items() if one.partition == partition)

    def _withdraw(self) -> None:
        """Hide everything until its partition is read to its end."""
        for name, value in self._values.items():
            self._kept_back[value.partition].add(name)
        self._changed.update(self._shown)
