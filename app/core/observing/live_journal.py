"""One journal, folded, and what of it is shown.

A partition's ids or groups are shown once it is read to the end that it had when reading began: what a journal says
before is history, and an id that it calls open may long be closed. Until then, and where the journal may not be read,
what the admin calls said stands in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from app.core.journals.reading import Reading
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.core.observing.progress import JournalProgress
from app.core.observing.snapshot import JournalStatus, Phase


class Placed(Protocol):
    """What one partition of a journal tells."""

    @property
    def partition(self) -> int: ...


T = TypeVar("T", bound=Placed)


class LiveJournal(Generic[T]):
    """Takes what was read, keeps what is shown. Used by one thread.

    Args:
        reading, values: the fold's own; `apply` and `forget` change them and say which names they touched.
        keep: makes of a folded value one that later records do not change.
    """

    def __init__(
        self,
        topic: str,
        *,
        reading: Reading,
        values: Mapping[str, T],
        apply: Callable[[int, RecordBatch | UnreadableBatch], Collection[str]],
        forget: Callable[[int], Collection[str]],
        keep: Callable[[T], T],
        now_ms: int,
    ) -> None:
        self.topic = topic
        self.progress = JournalProgress(topic, now_ms=now_ms)
        self._reading = reading
        self._values = values
        self._apply = apply
        self._forget = forget
        self._keep = keep
        self._stand_ins: dict[str, T] = {}
        self._shown: dict[str, T] = {}
        self._changed_at: dict[str, int] = {}
        self._changed: set[str] = set()
        self._kept_back: defaultdict[int, set[str]] = defaultdict(set)
        self._withdraw()

    def next_offset(self, partition: int) -> int:
        """Where the fold goes on; 0 where it has read nothing."""
        position = self._reading.positions.get(partition)
        return 0 if position is None else position.next_offset

    def restart(self, partition: int) -> None:
        """The log does not have what follows our position any more: as a coordinator does, begin with what it has."""
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
        """Fold an answer of the partition's leader; `end` is the high watermark that it told."""
        touched = self._changed if self.progress.is_caught_up(partition) else self._kept_back[partition]
        for batch in batches:
            touched.update(self._apply(partition, batch))
        if self.progress.advance(partition, next_offset=next_offset, end=end, now_ms=now_ms):
            self._release(partition)

    def polled(self, found: Mapping[str, T], *, missing: Collection[str] = (), now_ms: int) -> None:
        """The admin calls' whole answer, as of `now_ms`. `missing`: a sentence for each coordinator without one."""
        was, self._stand_ins = self._stand_ins, dict(found)
        self._changed.update(name for name in was.keys() | found.keys() if was.get(name) != found.get(name))
        self.progress.note_polled(missing, now_ms=now_ms)

    def not_polled(self, why: str) -> None:
        """The admin calls have no answer; what they said last stays."""
        self.progress.note_not_polled(why)

    def enter(self, phase: Phase, *, problem: str = "", now_ms: int) -> bool:
        """Note how the reading is; True when that is news. An absent or refused journal's word is not shown."""
        if phase in (Phase.ABSENT, Phase.REFUSED) and self.progress.partition_count:
            self.progress.stop()
            self._withdraw()
        if phase is Phase.LIVE and self._stand_ins:
            # Of some nobody knew which partition would tell them.
            self._changed.update(self._stand_ins)
            self._stand_ins = {}
        return self.progress.enter(phase, problem=problem, now_ms=now_ms)

    def publish(self, number: int) -> bool:
        """Take over what has changed; False when nothing that is shown has."""
        is_changed = False
        for name in self._changed:
            value = self._find(name)
            if value is not None:
                self._shown[name] = value
                self._changed_at[name] = number
                is_changed = True
            elif self._shown.pop(name, None) is not None:
                del self._changed_at[name]
                is_changed = True
        self._changed.clear()
        return is_changed

    def shown(self) -> tuple[dict[str, T], dict[str, int]]:
        """Copies: the values, and the number with which each was published."""
        return self._shown.copy(), self._changed_at.copy()

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
        """Everything is kept back until its partition has caught up."""
        for name, value in self._values.items():
            self._kept_back[value.partition].add(name)
        self._changed.update(self._shown)
