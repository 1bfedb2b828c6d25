"""What the loops of a test recorded of their offsets, replayed when they are over."""

from __future__ import annotations

from app.domain.offset_log.events import Teller, Telling
from app.domain.offset_log.replay import replay
from app.domain.offset_log.verdict import Verdict
from workers.transactional.group.ownership import Ownership, Partition
from workers.transactional.telling.offset_recorder import OffsetRecorder

EVERYTHING = 1_000_000


def tellings_of(recorders: list[OffsetRecorder], partition: Partition) -> list[Telling]:
    """Of attempts that are over: nothing is missing that they have not counted."""
    return [
        Telling(
            teller=Teller(run=0, ordinal=ordinal, task=0, lease=0, attempt=0),
            events=recorder.waiting(EVERYTHING).get(partition, ()),
            recorded=recorder.recorded().get(partition, 0),
            is_final=True,
        )
        for ordinal, recorder in enumerate(recorders)
    ]


class Recorders:
    """Stands in for the class while attempts are made, and remembers each of its objects."""

    def __init__(self) -> None:
        self.made: list[OffsetRecorder] = []

    def __call__(self, ownership: Ownership) -> OffsetRecorder:
        self.made.append(OffsetRecorder(ownership))
        return self.made[-1]

    def verdicts(self) -> dict[Partition, Verdict]:
        """Of each partition that any of them recorded."""
        partitions = {partition for recorder in self.made for partition in recorder.recorded()}
        return {partition: replay(tellings_of(self.made, partition)) for partition in sorted(partitions)}
