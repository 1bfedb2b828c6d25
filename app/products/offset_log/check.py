"""Replay of a pipeline's offset log, partition by partition, in the form that pages, CLI and REST show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from app.core.wire.offset_events import (
    Assigned,
    CheckpointOutcome,
    Event,
    GivenUp,
    Positioned,
    RecordedCheckpoint,
    Teller,
)
from app.kit.storable import moment_of_ms
from app.products.offset_log.heard import ReportedOffsets, tellings
from app.products.offset_log.replay import replay
from app.products.offset_log.silence import Attempted, silent
from app.products.offset_log.stretch import OffsetStretch
from app.products.offset_log.verdict import Contradiction, ContradictionKind, Doubt, Figures, OffsetLogStanding, summed

MAX_SIDES = 8
"""Most events shown with one contradiction: those nearest to it."""
MAX_DOUBTS = 20
MAX_FINDINGS = 100
"""Most contradictions shown and kept for one partition: half with the lowest offsets, half with the highest. A loop
that is wrong at every checkpoint causes thousands an hour."""


class OffsetSide(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a contradiction, with the attempt that recorded it."""

    run_id: str
    ordinal: int
    task: int
    lease: int
    attempt: int
    host: str | None
    event: Event

    @property
    def said(self) -> str:
        """The event as a text."""
        return _describe(self.event)

    @property
    def at(self) -> datetime | None:
        """The time by the clock of the attempt's host."""
        return None if self.event.at_ms is None else moment_of_ms(self.event.at_ms)


class OffsetFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A contradiction in one partition, in the offsets from `start` up to and excluding `end`."""

    group: str
    topic: str
    partition: int
    kind: ContradictionKind
    start: int
    end: int | None
    message: str
    sides: tuple[OffsetSide, ...]


class PartitionCheck(msgspec.Struct, frozen=True, kw_only=True):
    """contradictions: their number, of which `findings` has at most MAX_FINDINGS."""

    group: str
    topic: str
    partition: int
    standing: OffsetLogStanding
    figures: Figures
    attempts: int
    contradictions: int = 0
    findings: tuple[OffsetFinding, ...] = ()
    doubts: tuple[Doubt, ...] = ()


class PipelineCheck(msgspec.Struct, frozen=True, kw_only=True):
    """since, until: the time range whose events were replayed; since None: all that is kept."""

    since: datetime | None
    until: datetime
    partitions: tuple[PartitionCheck, ...]

    @property
    def findings(self) -> tuple[OffsetFinding, ...]:
        return tuple(finding for one in self.partitions for finding in one.findings)

    @property
    def contradictions(self) -> int:
        return sum(one.contradictions for one in self.partitions)

    @property
    def figures(self) -> Figures:
        return summed(one.figures for one in self.partitions)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The first MAX_DOUBTS as sentences, each with its partition."""
        said = [f"{one.topic}-{one.partition}: {doubt.message}" for one in self.partitions for doubt in one.doubts]
        return tuple(said[:MAX_DOUBTS])

    @property
    def standing(self) -> OffsetLogStanding | None:
        """The worst of all partitions; None without any event to compare."""
        said = {one.standing for one in self.partitions}
        worst = (OffsetLogStanding.CONTRADICTED, OffsetLogStanding.CANNOT_TELL, OffsetLogStanding.CONSISTENT)
        return next((standing for standing in worst if standing in said), None)


def check(
    heard: Iterable[ReportedOffsets],
    *,
    unheard: Sequence[str],
    attempted: Sequence[Attempted] = (),
    since: datetime | None,
    until: datetime,
) -> PipelineCheck:
    """Replay all given events.

    Args:
        `unheard`: reasons why attempts without any report may have committed (see `hearing`).
        attempted: every attempt with a report, about any partition (see `silence`).
    """
    ordered = sorted(heard, key=lambda one: one.place)
    checked = [
        _of_partition(list(of_one), unheard, attempted) for _, of_one in groupby(ordered, key=lambda one: one.place)
    ]
    return PipelineCheck(since=since, until=until, partitions=tuple(checked))


def _of_partition(
    heard: list[ReportedOffsets], unheard: Sequence[str], attempted: Sequence[Attempted]
) -> PartitionCheck:
    newest_at = max((one.newest_at for one in heard if one.newest_at is not None), default=None)
    silent_here = silent(attempted, told=(one.teller for one in heard), newest_at=newest_at)
    verdict = replay(tellings(heard), unheard=unheard, silent=silent_here)
    group, topic, partition = heard[0].place
    shown = verdict.contradictions
    if len(shown) > MAX_FINDINGS:
        shown = (*shown[: MAX_FINDINGS // 2], *shown[-(MAX_FINDINGS // 2) :])
    return PartitionCheck(
        group=group,
        topic=topic,
        partition=partition,
        standing=verdict.standing,
        figures=verdict.figures,
        attempts=len(heard),
        contradictions=len(verdict.contradictions),
        findings=tuple(
            OffsetFinding(
                group=group,
                topic=topic,
                partition=partition,
                kind=found.kind,
                start=found.stretch.start,
                end=found.stretch.end,
                message=found.message,
                sides=_sides(found, heard),
            )
            for found in shown
        ),
        doubts=verdict.doubts,
    )


def _sides(found: Contradiction, heard: Sequence[ReportedOffsets]) -> tuple[OffsetSide, ...]:
    """Return the events that touch the contradiction's offsets, ordered by their own clocks.

    They are those of the attempts that prove it, or of all attempts. For a commit without ownership, the preceding
    loss of the partition is included.
    """
    sides: list[OffsetSide] = []
    for one in heard:
        if found.tellers and one.teller not in found.tellers:
            continue
        touching = {event.index for event in one.events if _touches(event, found.stretch)}
        if found.kind is ContradictionKind.WITHOUT_OWNERSHIP:
            moves = [event.index for event in one.events if isinstance(event, Assigned | GivenUp)]
            touching |= {max((at for at in moves if at < index), default=index) for index in touching}
        sides += [_side(one, event) for event in one.events if event.index in touching]
    sides.sort(key=lambda side: (side.event.at_ms or 0, side.event.index))
    return tuple(sides[-MAX_SIDES:])


def _touches(event: Event, stretch: OffsetStretch) -> bool:
    """Return true if the event lies in these offsets, or borders on them."""
    match event:
        case Positioned(offset=offset):
            return stretch.start <= offset and (stretch.end is None or offset <= stretch.end)
        case RecordedCheckpoint():
            start = next((at for at in (event.begins, event.first) if at is not None), event.next)
            return event.next >= stretch.start and (stretch.end is None or start <= stretch.end)
        case _:
            return False


def _side(one: ReportedOffsets, event: Event) -> OffsetSide:
    teller: Teller = one.teller
    return OffsetSide(
        run_id=one.run_id,
        ordinal=teller.ordinal,
        task=teller.task,
        lease=teller.lease,
        attempt=teller.attempt,
        host=one.host,
        event=event,
    )


def _describe(event: Event) -> str:
    match event:
        case Assigned(generation=generation):
            return "was assigned the partition" + ("" if generation is None else f" in generation {generation}")
        case GivenUp(how=how):
            return f"released the partition: {how}"
        case Positioned(offset=offset, found=found):
            return f"began to read at {offset}: {found.replace('_', ' ')}"
        case RecordedCheckpoint():
            start = next((at for at in (event.begins, event.first) if at is not None), None)
            span = f"up to {event.next}" if start is None else f"from {start} up to {event.next}"
            several = f" in {event.checkpoints} checkpoints" if event.checkpoints > 1 else ""
            word = "unknown outcome" if event.outcome is CheckpointOutcome.UNKNOWN else str(event.outcome)
            return f"{word} {span}{several}"
