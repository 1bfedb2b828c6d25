"""The offset events of the loops of a test, replayed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.core.clusters.partition import Partition
from app.core.wire.offset_events import Event, Teller, Telling
from app.core.wire.offset_report import ReportedPartition
from app.products.offset_log.replay import replay
from app.products.offset_log.verdict import OffsetLogVerdict
from workers.loop.group.ownership import Ownership
from workers.loop.telling.offset_recorder import OffsetRecorder

EVERYTHING = 1_000_000

Reports = Sequence[Iterable[ReportedPartition]]
"""The reports of each attempt, by attempt."""


def replayed(reports: Reports) -> dict[Partition, OffsetLogVerdict]:
    """Replay each partition that any of these attempts reported. They are over, so missing events never happened."""
    tellings: dict[Partition, list[Telling]] = {}
    for ordinal, report in enumerate(reports):
        events: dict[Partition, dict[int, Event]] = {}
        recorded: dict[Partition, int] = {}
        for told in report:
            name = Partition(told.topic, told.partition)
            events.setdefault(name, {}).update({event.index: event for event in told.events})
            recorded[name] = told.recorded
        for name, count in recorded.items():
            tellings.setdefault(name, []).append(
                Telling(
                    teller=Teller(run=0, ordinal=ordinal, task=0, lease=0, attempt=0),
                    events=tuple(events[name].values()),
                    recorded=count,
                    is_final=True,
                )
            )
    return {name: replay(of_one) for name, of_one in sorted(tellings.items())}


class Recorders:
    """Stands in for the class while attempts are made in this process, and remembers each of its objects."""

    def __init__(self) -> None:
        self.made: list[OffsetRecorder] = []

    def __call__(self, ownership: Ownership, *, is_on: bool) -> OffsetRecorder:
        self.made.append(OffsetRecorder(ownership, is_on=is_on))
        return self.made[-1]

    def verdicts(self, *others: Iterable[ReportedPartition]) -> dict[Partition, OffsetLogVerdict]:
        """The replay of each partition that any of them recorded, or any of `others`, the reports of processes."""
        return replayed([recorder.untold(EVERYTHING) for recorder in self.made] + list(others))

    def found(self, *others: Iterable[ReportedPartition]) -> list[str]:
        """Contradictions and ranges that cannot be verified, as sentences."""
        return [
            f"{topic}-{number}: {said.kind}: {said.message}"
            for (topic, number), verdict in self.verdicts(*others).items()
            for said in (*verdict.contradictions, *verdict.doubts)
        ]
