"""A model of loops on one partition with their offset events: correct loops, and loops with one fault.

The model's broker has one committed offset, an owner of the partition, and a log in which some offsets have no record.
A loop's events are lost if it dies before their delivery, or if its store is full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from app.core.wire.offset_events import (
    Assigned,
    CheckpointOutcome,
    Event,
    GivenUp,
    PartitionLeaving,
    Positioned,
    RecordedCheckpoint,
    StartReason,
    Teller,
    Telling,
)

Make = Callable[[int], Event]


@dataclass(eq=False)
class Loop:
    """One attempt. `position` is the client's, `polled` the records of the open checkpoint."""

    teller: Teller
    life: int
    number: int = 0
    generation: int = 0
    owns: bool = False
    is_frozen: bool = False
    is_over: bool = False
    position: int | None = None
    began: int | None = None
    under: int = 0
    polled: list[int] = field(default_factory=list[int])
    delivered: list[Event] = field(default_factory=list[Event])
    waiting: list[Event] = field(default_factory=list[Event])
    recorded: int = 0
    is_dead: bool = False

    def record(self, make: Make) -> None:
        self.waiting.append(make(self.recorded))
        self.recorded += 1

    def deliver(self) -> None:
        self.delivered += self.waiting
        self.waiting = []

    def forget(self) -> None:
        """End the checkpoint."""
        self.polled, self.began = [], None

    def telling(self) -> Telling:
        # The last report of a dead loop may be older than its events.
        known = self.recorded if not self.is_dead else len(self.delivered)
        return Telling(
            teller=self.teller,
            events=tuple(self.delivered),
            recorded=known,
            is_final=not self.is_dead and not self.waiting,
            life=self.life,
        )


class Group:
    """The brokers' side, and every loop so far."""

    def __init__(self, *, empty: frozenset[int] = frozenset(), is_first_known: bool = True) -> None:
        self.empty = empty
        """Offsets without a record: markers, aborted records, compaction."""
        self.log_start = 0
        self.log_end = 0
        self.committed: int | None = None if is_first_known else 0
        self.generation = 0
        self.loops: list[Loop] = []
        self.run = 0
        self.life = 0

    @property
    def owner(self) -> Loop | None:
        return next((loop for loop in self.loops if loop.owns and not loop.is_frozen and not loop.is_dead), None)

    def living(self) -> list[Loop]:
        return [loop for loop in self.loops if not loop.is_dead and not loop.is_over]

    def append(self, count: int) -> None:
        self.log_end += count

    def free_ordinal(self) -> int:
        """Return the first ordinal without a live loop."""
        taken = {loop.teller.ordinal for loop in self.living()}
        return next(ordinal for ordinal in range(len(taken) + 1) if ordinal not in taken)

    def start(self, ordinal: int) -> Loop:
        before = [loop for loop in self.loops if loop.teller.run == self.run and loop.teller.ordinal == ordinal]
        loop = Loop(Teller(self.run, ordinal, 0, len(before), 0), self.life)
        self.loops.append(loop)
        return loop

    def assign(self, loop: Loop) -> None:
        """Assign the partition to a live member; a live owner releases it first."""
        owner = self.owner
        if owner is not None:
            self.revoke(owner)
        self.generation += 1
        loop.owns, loop.generation = True, self.generation
        loop.number += 1
        number, generation = loop.number, loop.generation
        loop.record(lambda index: Assigned(index=index, number=number, generation=generation))
        self._begin(loop)

    def _begin(self, loop: Loop) -> None:
        number, start, committed = loop.number, self.log_start, self.committed
        if committed is None or committed < start:
            found = StartReason.NOTHING_COMMITTED if committed is None else StartReason.GONE_UNREAD
            loop.record(
                lambda index: Positioned(index=index, number=number, offset=start, found=found, gone_from=committed)
            )
            self.committed = start
            loop.number += 1
            again, generation = loop.number, loop.generation
            loop.record(lambda index: Assigned(index=index, number=again, generation=generation))
        self.go_back(loop)

    def go_back(self, loop: Loop, *, to: int | None = None) -> None:
        offset, number = self.committed if to is None else to, loop.number
        assert offset is not None
        loop.forget()
        loop.position = offset
        loop.record(lambda index: Positioned(index=index, number=number, offset=offset))

    def poll(self, loop: Loop, count: int) -> None:
        assert loop.position is not None
        if loop.position < self.log_start:
            # The log does not have this offset any more: the client stops there, and the loop begins again.
            if not loop.polled:
                self._begin(loop)
            return
        until = min(self.log_end, loop.position + count)
        if until == loop.position:
            return
        if loop.began is None:
            loop.began, loop.under = loop.position, loop.number
        loop.polled += [offset for offset in range(loop.position, until) if offset not in self.empty]
        loop.position = until

    def end(self, loop: Loop, outcome: CheckpointOutcome, *, has_landed: bool = False) -> None:
        """End the checkpoint of a loop. The broker refuses a loop that is not the owner any more."""
        if loop.began is None or loop.position is None:
            return
        if loop.is_frozen:
            outcome = CheckpointOutcome.ABORTED
        self.tell_checkpoint(loop, outcome)
        if outcome is CheckpointOutcome.COMMITTED or (outcome is CheckpointOutcome.UNKNOWN and has_landed):
            self.committed = loop.position
        loop.forget()
        if outcome is not CheckpointOutcome.COMMITTED and not loop.is_frozen:
            self.go_back(loop)

    def tell_checkpoint(self, loop: Loop, outcome: CheckpointOutcome) -> None:
        begins, following, number, polled = loop.began, loop.position, loop.under, list(loop.polled)
        assert following is not None
        loop.record(
            lambda index: RecordedCheckpoint(
                index=index,
                number=number,
                begins=begins,
                first=polled[0] if polled else None,
                last=polled[-1] if polled else None,
                next=following,
                records=len(polled),
                outcome=outcome,
            )
        )

    def revoke(self, loop: Loop) -> None:
        self.end(loop, CheckpointOutcome.COMMITTED)
        self._give_up(loop, PartitionLeaving.REVOKED)

    def wake(self, loop: Loop) -> None:
        """Thaw a loop after its session timeout: its requests are refused, then it loses the partition."""
        self.end(loop, CheckpointOutcome.ABORTED)
        loop.is_frozen = False
        self._give_up(loop, PartitionLeaving.LOST)

    def _give_up(self, loop: Loop, how: PartitionLeaving) -> None:
        if not loop.owns:
            return
        loop.owns = False
        loop.number += 1
        number = loop.number
        loop.forget()
        loop.record(lambda index: GivenUp(index=index, number=number, how=how))

    def leave(self, loop: Loop) -> None:
        self.revoke(loop)
        loop.is_over = True
        loop.deliver()

    def delete_before(self, offset: int) -> None:
        self.log_start = max(self.log_start, min(offset, self.log_end))

    def reset(self, offset: int) -> None:
        """Stop all loops, reset the offsets, start a new run."""
        self._empty()
        self.committed = offset
        self.run += 1
        self.life += 1

    def forget(self, *, is_deleted: bool) -> None:
        """Delete the group's offsets between two runs; a deleted group begins its generations again."""
        self._empty()
        self.run += 1
        self.committed = None
        if is_deleted:
            self.generation = 0

    def make_anew(self) -> None:
        """Recreate the topic within one generation of the group; the owner's client stops at the end."""
        owner = self.owner
        if owner is None:
            return
        self.end(owner, CheckpointOutcome.ABORTED)
        self.committed, self.log_start, self.log_end = None, 0, 0
        self._begin(owner)

    def _empty(self) -> None:
        for loop in self.living():
            if loop.is_frozen:
                self.wake(loop)
            self.leave(loop)

    def tellings(self) -> list[Telling]:
        """Return the server's events after all live loops have reported."""
        for loop in self.living():
            loop.deliver()
        return [loop.telling() for loop in self.loops]
