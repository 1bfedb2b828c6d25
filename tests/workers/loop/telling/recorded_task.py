"""A task's calls to its recorder."""

from __future__ import annotations

from app.core.clusters.partition import Partition
from app.core.wire.offset_events import (
    CheckpointOutcome,
    Event,
    PartitionLeaving,
)
from app.products.offset_log.verdict import OffsetLogVerdict
from tests.support.offset_log import EVERYTHING, replayed
from workers.loop.group.ownership import Ownership
from workers.loop.telling.offset_recorder import OffsetRecorder

P = Partition("orders", 0)


Q = Partition("orders", 1)


class Task:
    """The loop's calls to its recorder, in the loop's order."""

    def __init__(self, *, kept: int = 100) -> None:
        self.ownership = Ownership()
        self.now_ms = 7
        self.recorder = OffsetRecorder(self.ownership, kept=kept, now_ms=lambda: self.now_ms)

    def take(self, *partitions: Partition, generation: int = 1, committed: int | None = 0) -> None:
        self.ownership.assigned(partitions)
        self.recorder.assigned(partitions, generation=generation)
        if committed is not None:
            for partition in partitions:
                self.recorder.begins(partition, committed)

    def give_up(self, *partitions: Partition, how: PartitionLeaving = PartitionLeaving.REVOKED) -> None:
        self.ownership.given_up(partitions)
        self.recorder.given_up(partitions, how)

    def poll(self, to: int, partition: Partition = P) -> None:
        self.recorder.stands_at({partition: to})

    def process(self, first: int, to: int, partition: Partition = P) -> None:
        self.poll(to, partition)
        self.recorder.add({partition: to}, records=to - first, span=(first, to - 1))

    def commit(self) -> None:
        self.recorder.ended(CheckpointOutcome.COMMITTED)

    def verdict(self) -> OffsetLogVerdict:
        return replayed([self.recorder.untold(EVERYTHING)])[P]

    def untold(self) -> dict[Partition, tuple[Event, ...]]:
        return {Partition(told.topic, told.partition): told.events for told in self.recorder.untold(EVERYTHING)}

    def tell(self) -> dict[Partition, tuple[Event, ...]]:
        """The events that are reported now, and stored."""
        told = self.untold()
        self.recorder.stored(self.recorder.untold(EVERYTHING))
        return told
