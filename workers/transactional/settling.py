"""Getting whole again after a checkpoint that was not committed: nothing is read, and the member stays one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from confluent_kafka import OFFSET_INVALID, Message

from workers.transactional.errors import AbortableError, RetriableError
from workers.transactional.membership import Hold, Membership
from workers.transactional.ownership import Partition
from workers.transactional.producers import TaskProducer
from workers.transactional.slices import SLICE_S

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 5.0
_BATCH_SIZE = 1_000_000
_SHRINK = 8
_SMALLEST_BATCH_SIZE = 1_000

MakeProducer = Callable[[int | None], TaskProducer]
"""Makes a producer whose batches are at most so many bytes; None: as configured."""
Learn = Callable[[Partition, int | None], None]
"""Told what the group has committed for a partition, as the broker says."""


class Settling:
    """What must be done before records may be read again, done in steps of about a second.

      1. a new producer         where the old one's state or outcome is not known: its init decides whatever is open
      2. back to the committed  of every partition read from (rule 3); asked only after 1, or the answer could be that
                                of an undecided transaction
    Between steps the loop polls, so that rebalances are served; held partitions deliver nothing.
    """

    def __init__(
        self,
        membership: Membership,
        make_producer: MakeProducer,
        *,
        learn: Learn,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._learn = learn
        self._membership = membership
        self._make_producer = make_producer
        self._batch_size: int | None = None
        self._clock = clock
        self._needs_producer = False
        self._needs_rewind = False
        self._starts: dict[Partition, int] = {}
        self._failures_in_a_row = 0
        self._not_before = 0.0
        self._fresh: TaskProducer | None = None

    @property
    def is_needed(self) -> bool:
        return self._needs_producer or self._needs_rewind

    @property
    def needs_producer(self) -> bool:
        return self._needs_producer

    def require(self, *, producer: bool = False, rewind: bool = False) -> None:
        """Ask for it; from here on nothing is read until `step` has done it."""
        self._needs_producer |= producer
        self._needs_rewind |= rewind
        self._membership.hold(Hold.SETTLING)

    def back_off(self) -> float:
        """Wait before the next try, longer each time until `succeeded`; returns for how long."""
        self._failures_in_a_row += 1
        wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (self._failures_in_a_row - 1))
        self._not_before = self._clock() + wait_s
        return wait_s

    def succeeded(self) -> None:
        """A checkpoint was committed."""
        self._failures_in_a_row = 0

    def note_starts(self, messages: Iterable[Message]) -> None:
        """Remember where each partition's first record was: where to go back to while nothing is committed for it."""
        for message in messages:
            partition = (message.topic() or "", message.partition() or 0)
            self._starts.setdefault(partition, message.offset() or 0)

    def forget(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._starts.pop(partition, None)

    def shrink_batches(self) -> None:
        """The broker refuses the batches of this producer though it takes each record: make the next ones smaller."""
        self._batch_size = max(_SMALLEST_BATCH_SIZE, (self._batch_size or _BATCH_SIZE) // _SHRINK)

    def step(self) -> TaskProducer | None:
        """Do the next step; returns the new producer when there is one. Call it until `is_needed` is False.

        Raises:
            FencedError, FatalError: as the init says.
        """
        if self._clock() < self._not_before:
            return None
        if self._needs_producer:
            return self._init()
        try:
            self._rewind()
        except (RetriableError, AbortableError):
            return None
        self._needs_rewind = False
        self._membership.release(Hold.SETTLING)
        return None

    def give_up(self) -> None:
        """Let go of a producer whose init has not been answered."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.discard()

    def _init(self) -> TaskProducer | None:
        if self._fresh is None:
            self._fresh = self._make_producer(self._batch_size)
        try:
            self._fresh.init(SLICE_S)
        except RetriableError:
            return None
        except BaseException:
            self.give_up()
            raise
        fresh, self._fresh = self._fresh, None
        self._needs_producer = False
        if not self._needs_rewind:
            self._membership.release(Hold.SETTLING)
        return fresh

    def _rewind(self) -> None:
        """Seek what has been read from to what is committed. A partition not read from yet starts there by itself."""
        read_from = self._membership.positions()
        if not read_from:
            return
        committed = self._membership.committed(read_from, timeout_s=SLICE_S)
        for partition, found in committed.items():
            start = self._starts.get(partition, OFFSET_INVALID)
            self._membership.seek(partition, start if found.offset is None else found.offset)
            self._learn(partition, found.offset)
