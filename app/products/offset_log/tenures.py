"""One attempt's events of a partition, in its own order: tenures, contradictions within them, and missing events."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.core.wire.offset_events import (
    Assigned,
    CheckpointOutcome,
    Event,
    GivenUp,
    Positioned,
    RecordedCheckpoint,
    StartReason,
    Teller,
    Telling,
    checkpoints_of,
)
from app.products.offset_log.stretch import OffsetStretch
from app.products.offset_log.verdict import Contradiction, ContradictionKind, Figures


@dataclass(eq=False)
class Tenure:
    """The ownership of a partition from one assignment to the next change.

    generation: None if the assignment is missing or has none.
    began: the first position in it. is_forgotten: the group had no committed offset then.
    forgotten: how often its attempt had found no committed offset by then; a topic may be recreated in one generation.
    committed: the ranges that its checkpoints committed, as (start, end), in their order.
    """

    teller: Teller
    number: int
    generation: int | None = None
    began: int | None = None
    is_forgotten: bool = False
    forgotten: int = 0
    committed: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @property
    def end(self) -> int | None:
        """The highest offset that it committed."""
        return max((end for _, end in self.committed), default=None)


@dataclass
class TenureReading:
    """The replay of one attempt's events of a partition.

    undecided: checkpoints of unknown outcome. gone: deleted unread, or before the group's first offset.
    `unheard`: ranges with missing events, in which it may have committed. Each begins at the offset reached before and
        ends at the next known position, since committed offsets only grow in one life of a group.
    """

    tenures: list[Tenure] = field(default_factory=list[Tenure])
    undecided: list[OffsetStretch] = field(default_factory=list[OffsetStretch])
    gone: list[OffsetStretch] = field(default_factory=list[OffsetStretch])
    unheard: list[OffsetStretch] = field(default_factory=list[OffsetStretch])
    contradictions: list[Contradiction] = field(default_factory=list[Contradiction])
    figures: Figures = field(default_factory=Figures)


def read(telling: Telling) -> TenureReading:
    """Replay the events of one attempt."""
    reader = _TenureReader(telling.teller)
    for event in sorted({event.index: event for event in telling.events}.values(), key=lambda event: event.index):
        reader.take(event)
    reader.finish(recorded=telling.recorded, is_final=telling.is_final)
    return reader.reading


class _TenureReader:
    def __init__(self, teller: Teller) -> None:
        self.reading = TenureReading()
        self._teller = teller
        self._tenure: Tenure | None = None
        self._next_index = 0
        self._last: Event | None = None
        self._expected: int | None = None
        """The client's position at which the next checkpoint must begin; None if not known."""
        self._reached = 0
        self._forgotten = 0
        self._missing_from: int | None = None

    def take(self, event: Event) -> None:
        if event.index != self._next_index or self._has_unheard_growth(event):
            self._note_hole(event)
        self._next_index, self._last = event.index + 1, event
        match event:
            case Assigned():
                self._enter(Tenure(self._teller, event.number, event.generation, forgotten=self._forgotten))
            case GivenUp():
                self._tenure = self._expected = None
            case Positioned():
                self._position(event)
            case RecordedCheckpoint():
                self._end_checkpoint(event)

    def finish(self, *, recorded: int, is_final: bool) -> None:
        if self._missing_from is not None:
            self.reading.unheard.append(OffsetStretch(self._missing_from, None))
        elif recorded > self._next_index or not is_final:
            self.reading.unheard.append(OffsetStretch(self._reached, None))

    def _has_unheard_growth(self, event: Event) -> bool:
        """Return true if the previous event arrived only in an earlier state, before it had grown to its end."""
        return self._last is not None and event.follows is not None and event.follows > checkpoints_of(self._last)

    def _note_hole(self, event: Event) -> None:
        if self._missing_from is None:
            self._missing_from = self._reached
        self._expected = None
        if isinstance(event, Positioned | RecordedCheckpoint) and (
            self._tenure is None or self._tenure.number != event.number
        ):
            self._enter(Tenure(self._teller, event.number, forgotten=self._forgotten))

    def _heard_again(self, offset: int) -> None:
        if self._missing_from is not None:
            if offset > self._missing_from:
                self.reading.unheard.append(OffsetStretch(self._missing_from, offset))
            self._missing_from = None

    def _enter(self, tenure: Tenure) -> None:
        self._tenure, self._expected = tenure, None
        self.reading.tenures.append(tenure)

    def _position(self, event: Positioned) -> None:
        self._heard_again(event.offset)
        tenure = self._tenure
        is_forgotten = event.found is StartReason.NOTHING_COMMITTED
        if tenure is None or tenure.number != event.number:
            if is_forgotten:
                # The group begins there for every owner of the partition, so no task reads the offsets before it.
                self.reading.gone.append(OffsetStretch(0, event.offset))
            return
        if is_forgotten:
            self._forgotten += 1
            if tenure.began is not None:
                tenure = Tenure(self._teller, tenure.number, tenure.generation)
                self._enter(tenure)
            tenure.forgotten = self._forgotten
        if tenure.began is None:
            tenure.began, tenure.is_forgotten = event.offset, is_forgotten
        if event.found is StartReason.GONE_UNREAD and event.gone_from is not None:
            self.reading.gone.append(OffsetStretch(event.gone_from, event.offset))
        end = tenure.end
        if end is not None and event.offset < end:
            self._contradict(
                ContradictionKind.REWOUND,
                OffsetStretch(event.offset, end),
                f"it rewound to {event.offset}, but had committed {end}",
            )
        self._expected = event.offset
        self._reached = event.offset if is_forgotten else max(self._reached, event.offset)

    def _end_checkpoint(self, event: RecordedCheckpoint) -> None:
        start = next((at for at in (event.begins, self._expected, event.first) if at is not None), event.next)
        self._heard_again(start)
        if event.begins is None and self._expected is None and start > self._reached:
            # The first offset that it read is not known: perhaps the end of the previous owner.
            self.reading.unheard.append(OffsetStretch(self._reached, start))
        self._count(event, start)
        if event.outcome is CheckpointOutcome.UNKNOWN:
            self.reading.undecided.append(OffsetStretch(start, max(start, event.next)))
        elif event.outcome is CheckpointOutcome.COMMITTED:
            self._commit(event, start)

    def _commit(self, event: RecordedCheckpoint, start: int) -> None:
        tenure = self._tenure
        if tenure is None or tenure.number != event.number:
            had = "did not own the partition" if tenure is None else "had lost the partition and regained it"
            self._contradict(
                ContradictionKind.WITHOUT_OWNERSHIP,
                OffsetStretch(start, event.next),
                f"it committed {event.next}, but {had}",
            )
            tenure = self._tenure_of(event.number)
        else:
            if self._expected is not None and start > self._expected:
                self._contradict(
                    ContradictionKind.GAP,
                    OffsetStretch(self._expected, start),
                    f"its checkpoint begins at {start}, but its position was {self._expected}",
                )
            self._expected = event.next
        self._check_records(event, start)
        tenure.committed.append((start, max(start, event.next)))
        self._reached = max(self._reached, event.next)

    def _tenure_of(self, number: int) -> Tenure:
        """Return the tenure of this number, which may be over, or a new one if its events are missing."""
        for tenure in reversed(self.reading.tenures):
            if tenure.number == number:
                return tenure
        unknown = Tenure(self._teller, number, forgotten=self._forgotten)
        self.reading.tenures.append(unknown)
        return unknown

    def _check_records(self, event: RecordedCheckpoint, start: int) -> None:
        """Check that the records of a checkpoint lie within it, and are no more than its offsets."""
        if event.next < start:
            self._contradict(
                ContradictionKind.REWOUND,
                OffsetStretch(event.next, start),
                f"it read from {start}, but committed {event.next}",
            )
        if event.first is None or event.last is None:
            return
        if event.first < start:
            self._contradict(
                ContradictionKind.OVERLAP,
                OffsetStretch(event.first, start),
                f"it read from {start}, but processed {event.first}",
            )
        if event.last >= event.next:
            self._contradict(
                ContradictionKind.OVERLAP,
                OffsetStretch(event.next, event.last + 1),
                f"it processed {event.last}, but committed {event.next}, so {event.last} is processed again",
            )
        span = event.last + 1 - event.first
        if event.records is not None and event.records > span:
            self._contradict(
                ContradictionKind.OVERLAP,
                OffsetStretch(event.first, event.last + 1),
                f"it processed {event.records} records in {span} offsets",
            )

    def _count(self, event: RecordedCheckpoint, start: int) -> None:
        figures, count, outcome = self.reading.figures, event.checkpoints, event.outcome
        is_counted = outcome is CheckpointOutcome.COMMITTED and event.records is not None
        records = event.records or 0
        self.reading.figures = Figures(
            records=figures.records + (records if is_counted else 0),
            committed=figures.committed + (count if outcome is CheckpointOutcome.COMMITTED else 0),
            aborted=figures.aborted + (count if outcome is CheckpointOutcome.ABORTED else 0),
            unknown=figures.unknown + (count if outcome is CheckpointOutcome.UNKNOWN else 0),
            offsets_without_record=figures.offsets_without_record
            + (max(0, event.next - start - records) if is_counted else 0),
        )

    def _contradict(self, kind: ContradictionKind, stretch: OffsetStretch, message: str) -> None:
        self.reading.contradictions.append(Contradiction(kind, stretch, (self._teller,), message))
