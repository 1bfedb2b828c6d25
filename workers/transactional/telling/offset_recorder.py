"""What this attempt records of its offsets, for the check that replays it (app/domain/offset_log)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from app.domain.offset_log.events import Assigned, Checkpoint, Event, Found, GivenUp, Leaving, Outcome, Positioned
from workers.transactional.group.ownership import Ownership, Partition

KEPT = 2000
"""Events that wait to be sent; beyond it the oldest go. Their numbers stay used, so the hole is seen."""


@dataclass
class _Told:
    """Of one partition: what waits to be sent, how many there were, and up to which one nothing may be added to."""

    waiting: deque[Event] = field(default_factory=deque[Event])
    recorded: int = 0
    sealed: int = 0


class OffsetRecorder:
    """Keeps the events of one attempt. The loop's thread records, another one may send.

    Committed checkpoints that follow on each other without a seam are one event until it is sent, so that what waits
    grows with rebalances and aborts, not with commits.

    Where a checkpoint begins is the client's position before the first poll whose records are in it (`stands_at`), not
    the end of the checkpoint before: what was polled and is in no checkpoint lies between the two.
    """

    def __init__(self, ownership: Ownership, *, kept: int = KEPT) -> None:
        self._ownership = ownership
        self._kept = kept
        self._told: dict[Partition, _Told] = {}
        self._waiting = 0
        self._stands: dict[Partition, int] = {}
        self._stood: dict[Partition, int | None] = {}
        self._open: list[tuple[Partition, Checkpoint]] = []
        self._lock = threading.Lock()

    # What the loop records

    def assigned(self, partitions: Iterable[Partition], *, generation: int | None) -> None:
        """Taken, under the ownership numbers of now. A negative generation is that of nobody's member."""
        known = generation if generation is not None and generation >= 0 else None
        for name in partitions:
            self._forget_place(name)
            self._record(name, Assigned(index=0, number=self._ownership.number(name), generation=known))

    def given_up(self, partitions: Iterable[Partition], how: Leaving) -> None:
        for name in partitions:
            self._forget_place(name)
            self._record(name, GivenUp(index=0, number=self._ownership.number(name), how=how))

    def positioned(
        self, name: Partition, offset: int, found: Found = Found.COMMITTED, *, gone_from: int | None = None
    ) -> None:
        """Reading begins at `offset`, or goes back there."""
        self._forget_place(name)
        self._stands[name] = offset
        number = self._ownership.number(name)
        self._record(name, Positioned(index=0, number=number, offset=offset, found=found, gone_from=gone_from))

    def begins(self, name: Partition, committed: int) -> None:
        """The client reads by itself from what is committed, and has delivered something of it or is about to."""
        number = self._ownership.number(name)
        self._record(name, Positioned(index=0, number=number, offset=committed))

    def stands_at(self, positions: Mapping[Partition, int]) -> None:
        """The client's positions after a poll that brought records; asked for once a poll, before the next one."""
        for name, offset in positions.items():
            before = self._stands.get(name)
            if before != offset:
                self._stood[name] = before
                self._stands[name] = offset

    def add(self, positions: Mapping[Partition, int], *, records: int, span: tuple[int, int] | None = None) -> None:
        """A batch is made part of the open checkpoint, as in Checkpoint.add.

        Args:
            span: offsets of its first and last record, if they are known to be of one partition.
        """
        is_alone = len(positions) == 1
        known = records if is_alone or not records else None
        first, last = span if span is not None and is_alone else (None, None)
        for name, position in positions.items():
            begins = self._stood.pop(name) if name in self._stood else self._stands.get(name)
            self._stands[name] = position
            share = Checkpoint(
                index=0,
                number=self._ownership.number(name),
                begins=begins,
                first=first,
                last=last,
                next=position,
                records=known,
                outcome=Outcome.UNKNOWN,
            )
            self._grow(name, share)

    def ended(self, outcome: Outcome) -> None:
        """The open checkpoint is over."""
        shares, self._open = self._open, []
        for name, share in shares:
            self._record(name, msgspec.structs.replace(share, outcome=outcome))

    # What is sent

    def waiting(self, limit: int) -> dict[Partition, tuple[Event, ...]]:
        """The oldest events of each partition, up to `limit` in all; nothing is added to them from now on."""
        found: dict[Partition, tuple[Event, ...]] = {}
        with self._lock:
            for name, told in self._told.items():
                taken = tuple(event for _, event in zip(range(limit), told.waiting, strict=False))
                if taken:
                    found[name] = taken
                    told.sealed = max(told.sealed, taken[-1].index + 1)
                    limit -= len(taken)
        return found

    def recorded(self) -> dict[Partition, int]:
        """How many events there were of each partition, dropped ones included."""
        with self._lock:
            return {name: told.recorded for name, told in self._told.items()}

    def forget(self, stored: Mapping[Partition, int]) -> None:
        """These are stored: of each partition all before the event of this number."""
        with self._lock:
            for name, before in stored.items():
                waiting = self._told[name].waiting if name in self._told else deque[Event]()
                while waiting and waiting[0].index < before:
                    waiting.popleft()
                    self._waiting -= 1

    def _forget_place(self, name: Partition) -> None:
        self._stands.pop(name, None)
        self._stood.pop(name, None)

    def _grow(self, name: Partition, share: Checkpoint) -> None:
        for at, (known, whole) in enumerate(self._open):
            if known == name and whole.number == share.number and whole.next == share.begins:
                self._open[at] = name, _joined(whole, share)
                return
        self._open.append((name, share))

    def _record(self, name: Partition, event: Event) -> None:
        with self._lock:
            told = self._told.setdefault(name, _Told())
            last = told.waiting[-1] if told.waiting else None
            if (
                isinstance(last, Checkpoint)
                and isinstance(event, Checkpoint)
                and last.index >= told.sealed
                and _follows(last, event)
            ):
                told.waiting[-1] = _joined(last, event, checkpoints=last.checkpoints + event.checkpoints)
                return
            told.waiting.append(msgspec.structs.replace(event, index=told.recorded))
            told.recorded += 1
            self._waiting += 1
            if self._waiting > self._kept:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Of the partition that has most of them, so that a quiet one keeps what little it has."""
        max(self._told.values(), key=lambda told: len(told.waiting)).waiting.popleft()
        self._waiting -= 1


def _follows(last: Checkpoint, event: Checkpoint) -> bool:
    """Whether both are committed, and nothing lies between them."""
    return (
        last.outcome is event.outcome is Outcome.COMMITTED and last.number == event.number and last.next == event.begins
    )


def _joined(whole: Checkpoint, share: Checkpoint, *, checkpoints: int = 1) -> Checkpoint:
    """Two that follow on each other, as one. What one of them does not say is not said of both."""
    return msgspec.structs.replace(
        whole,
        first=share.first if whole.first is None else whole.first,
        last=whole.last if share.last is None else share.last,
        next=share.next,
        records=None if whole.records is None or share.records is None else whole.records + share.records,
        checkpoints=checkpoints,
    )
