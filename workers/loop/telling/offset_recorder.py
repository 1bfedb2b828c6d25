"""The offset events of this attempt, for the check that replays them (app/products/offset_log)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from app.core.clusters.partition import Partition
from app.core.wire.offset_events import (
    Assigned,
    CheckpointOutcome,
    Event,
    GivenUp,
    PartitionLeaving,
    Positioned,
    RecordedCheckpoint,
    StartReason,
    checkpoints_of,
)
from app.core.wire.offset_report import Init, ReportedPartition
from workers.loop.group.ownership import Ownership

KEPT = 2000
"""The limit of events not stored yet; beyond it the oldest are dropped. Their numbers stay used, so the gap shows."""
KEPT_INITS = 100
"""The limit for each transactional id; the newest are kept, with the highest epoch that this attempt held."""
GROWS_FOR_MS = 600_000
"""The longest time that one event of committed checkpoints covers: the resolution of commit times."""


@dataclass
class _Told:
    """The events of one partition that are not stored yet, and their number so far.

    newest: the number of checkpoints in the newest event, stored or not.
    stored: the newest event that is stored. It stays in `waiting` if it may grow; grown, it is another object.
    `said`: `recorded` and whether a checkpoint was open, as they are stored.
    """

    waiting: deque[Event] = field(default_factory=deque[Event])
    recorded: int = 0
    newest: int | None = None
    stored: Event | None = None
    said: tuple[int, bool] | None = None


class OffsetRecorder:
    """Keeps the events of one attempt. The loop's thread records, another one reports.

    Consecutive committed checkpoints with nothing between them are one event, which also grows after it was reported.
    So the reported and stored data grow with rebalances, aborts and time, not with commits.

    A checkpoint begins at the client's position before the first poll whose records are in it (`stands_at`), not at the
    end of the checkpoint before. Records that were polled and are in no checkpoint lie between the two.
    """

    def __init__(
        self,
        ownership: Ownership,
        *,
        is_on: bool = True,
        kept: int = KEPT,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`is_on` False: nothing is recorded, for a guarantee under which committed offsets may go back."""
        self.is_on = is_on
        self._ownership = ownership
        self._kept = kept
        self._now_ms = now_ms
        self._told: dict[Partition, _Told] = {}
        self._inits: dict[str | None, dict[Init, None]] = {}
        self._waiting = 0
        self._stands: dict[Partition, int] = {}
        self._stood: dict[Partition, int | None] = {}
        self._polled: dict[Partition, tuple[int, int]] = {}
        self._open: dict[Partition, list[RecordedCheckpoint]] = {}
        self._lock = threading.Lock()

    # Recorded by the loop

    def assigned(self, partitions: Iterable[Partition], *, generation: int | None) -> None:
        """Record an assignment, under the current ownership numbers. A negative generation means no member."""
        known = generation if generation is not None and generation >= 0 else None
        for name in partitions:
            self._forget_place(name)
            self._record(name, Assigned(index=0, number=self._ownership.number(name), generation=known))

    def given_up(self, partitions: Iterable[Partition], how: PartitionLeaving) -> None:
        for name in partitions:
            self._forget_place(name)
            self._record(name, GivenUp(index=0, number=self._ownership.number(name), how=how))

    def positioned(
        self, name: Partition, offset: int, found: StartReason = StartReason.COMMITTED, *, gone_from: int | None = None
    ) -> None:
        """Record that reading begins at `offset`, or rewinds to it."""
        self._forget_place(name)
        self._stands[name] = offset
        number = self._ownership.number(name)
        self._record(name, Positioned(index=0, number=number, offset=offset, found=found, gone_from=gone_from))

    def begun_for_others(self, name: Partition, offset: int) -> None:
        """Record that the group begins at `offset` in a partition of another task, or without an owner yet."""
        number = self._ownership.number(name)
        self._record(name, Positioned(index=0, number=number, offset=offset, found=StartReason.NOTHING_COMMITTED))

    def begins(self, name: Partition, committed: int) -> None:
        """Record that the client reads by itself from the committed offset, and has delivered or is about to."""
        number = self._ownership.number(name)
        self._record(name, Positioned(index=0, number=number, offset=committed))

    def stands_at(self, positions: Mapping[Partition, int]) -> None:
        """Record the client's positions after a poll with records; call it once a poll, before the next one."""
        if not self.is_on:
            return
        for name, offset in positions.items():
            before = self._stands.get(name)
            if before != offset:
                self._stood[name] = before
                self._stands[name] = offset
                self._polled[name] = offset, self._ownership.number(name)

    def add(self, positions: Mapping[Partition, int], *, records: int, span: tuple[int, int] | None = None) -> None:
        """Add a batch to the open checkpoint, as in Checkpoint.add.

        Args:
            span: offsets of its first and last record, if they are known to be of one partition.
        """
        if not self.is_on:
            return
        is_alone = len(positions) == 1
        known = records if is_alone or not records else None
        first, last = span if span is not None and is_alone else (None, None)
        for name, position in positions.items():
            number = self._ownership.number(name)
            if records:
                # After a rebalance, a batch's records still count under the ownership before it.
                reached, polled_under = self._polled.get(name, (position, number))
                number = polled_under if reached == position else number
            begins = self._stood.pop(name) if name in self._stood else self._stands.get(name)
            self._stands[name] = position
            share = RecordedCheckpoint(
                index=0,
                number=number,
                begins=begins,
                first=first,
                last=last,
                next=position,
                records=known,
                outcome=CheckpointOutcome.UNKNOWN,
            )
            shares = self._open.get(name)
            if shares is None:
                with self._lock:
                    self._open[name] = [share]
            elif shares[-1].number == share.number and shares[-1].next == share.begins:
                shares[-1] = _joined(shares[-1], share)
            else:
                shares.append(share)

    def ended(self, outcome: CheckpointOutcome, partitions: Collection[Partition] | None = None) -> None:
        """End the open checkpoint, or that of these partitions. The reporting thread sees it open or recorded."""
        if not self._open:
            return
        with self._lock:
            for name in list(self._open) if partitions is None else partitions:
                for share in self._open.pop(name, ()):
                    self._append(name, msgspec.structs.replace(share, outcome=outcome))

    def initialised(self, init: Init) -> None:
        """Record the coordinator's answer to a producer's init."""
        of_its_id = self._inits.get(init.transactional_id, {})
        if self.is_on and init not in of_its_id:
            with self._lock:
                of_its_id[init] = None
                self._inits[init.transactional_id] = of_its_id
                while len(of_its_id) > KEPT_INITS:
                    del of_its_id[next(iter(of_its_id))]

    # Reported

    @property
    def has_news(self) -> bool:
        """True if there is more to report than the growth of checkpoints."""
        with self._lock:
            return any(
                told.said is None or told.said[0] != told.recorded or len(told.waiting) > 1
                for told in self._told.values()
            )

    def inits(self) -> tuple[Init, ...]:
        with self._lock:
            return tuple(init for of_its_id in self._inits.values() for init in of_its_id)

    def untold(self, limit: int) -> tuple[ReportedPartition, ...]:
        """The partitions with events that are not stored yet; of their events the oldest, up to `limit` in all."""
        found: list[ReportedPartition] = []
        with self._lock:
            for name, told in self._told.items():
                fresh = [event for event in told.waiting if event is not told.stored][:limit]
                limit -= len(fresh)
                is_open = name in self._open
                if fresh or told.said != (told.recorded, is_open):
                    found.append(
                        ReportedPartition(
                            topic=name.topic,
                            partition=name.partition,
                            recorded=told.recorded,
                            is_open=is_open,
                            events=tuple(fresh),
                        )
                    )
        return tuple(found)

    def stored(self, report: Iterable[ReportedPartition]) -> None:
        """Record that the events of `untold` are stored. Later or grown events stay in the queue."""
        with self._lock:
            for entry in report:
                told = self._told[Partition(entry.topic, entry.partition)]
                told.said = entry.recorded, entry.is_open
                if not entry.events:
                    continue
                told.stored = last = entry.events[-1]
                waiting = told.waiting
                while waiting and (waiting[0].index < last.index or (waiting[0] is last and not _may_grow(waiting))):
                    waiting.popleft()
                    self._waiting -= 1

    def server_forgot(self) -> None:
        """The server has an older database now, so stored events may be gone. Report the queue again, and the number
        of all earlier events, so that lost ones show as a gap."""
        with self._lock:
            for told in self._told.values():
                told.stored = told.said = None

    def _forget_place(self, name: Partition) -> None:
        self._stands.pop(name, None)
        self._stood.pop(name, None)

    def _record(self, name: Partition, event: Event) -> None:
        if self.is_on:
            with self._lock:
                self._append(name, event)

    def _append(self, name: Partition, event: Event) -> None:
        told = self._told.setdefault(name, _Told())
        now_ms = self._now_ms()
        last = told.waiting[-1] if told.waiting else None
        if (
            isinstance(last, RecordedCheckpoint)
            and isinstance(event, RecordedCheckpoint)
            and _follows(last, event, now_ms)
        ):
            told.newest = last.checkpoints + event.checkpoints
            told.waiting[-1] = _joined(last, event, checkpoints=told.newest, until_ms=now_ms)
            return
        told.waiting.append(msgspec.structs.replace(event, index=told.recorded, follows=told.newest, at_ms=now_ms))
        told.recorded, told.newest = told.recorded + 1, checkpoints_of(event)
        self._waiting += 1
        if self._waiting > self._kept:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop from the partition that has most, so that a quiet one keeps its few events."""
        max(self._told.values(), key=lambda told: len(told.waiting)).waiting.popleft()
        self._waiting -= 1


def _may_grow(waiting: deque[Event]) -> bool:
    only = waiting[0]
    return len(waiting) == 1 and isinstance(only, RecordedCheckpoint) and only.outcome is CheckpointOutcome.COMMITTED


def _follows(last: RecordedCheckpoint, event: RecordedCheckpoint, now_ms: int) -> bool:
    """True if both are committed, nothing lies between them, and one event may cover the time of both."""
    return (
        last.outcome is event.outcome is CheckpointOutcome.COMMITTED
        and last.number == event.number
        and last.next == event.begins
        and (last.at_ms is None or now_ms - last.at_ms < GROWS_FOR_MS)
    )


def _joined(
    whole: RecordedCheckpoint, share: RecordedCheckpoint, *, checkpoints: int = 1, until_ms: int | None = None
) -> RecordedCheckpoint:
    """Join two consecutive checkpoints. A field that one of them lacks is missing in the result."""
    return msgspec.structs.replace(
        whole,
        first=share.first if whole.first is None else whole.first,
        last=whole.last if share.last is None else share.last,
        next=share.next,
        records=None if whole.records is None or share.records is None else whole.records + share.records,
        checkpoints=checkpoints,
        until_ms=until_ms,
    )
