"""Search the events of all attempts on one partition of one group for contradictions.

Committed offsets are compared as ranges, in any order of arrival. In one life of a group each offset is committed in
one checkpoint, and so is every offset between two others. Owners are ordered by the group's generation, and attempts of
one task by lease and attempt. Clocks of different hosts are never compared.

No contradiction:

- an aborted checkpoint that is repeated
- offsets without a record (markers, aborted records, compaction)
- records that retention deleted before they were read
- an attempt that continues beside its successor and is refused

Cannot be verified, and so never a contradiction:

- a gap that an attempt with missing events may have filled. It may also have owned a partition of which it never
  reported, between two known owners.
- a comparison across a point where the group had no committed offsets any more

Run and generation place that point before or after others. The generations of a group that is deleted during a run
begin again, so a gap or an overlap may be reported. Its records are really skipped or processed twice, but the loop is
not the cause.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from app.core.wire.offset_events import Telling
from app.products.offset_log.silence import Age, Silent
from app.products.offset_log.stretch import OffsetStretch, holes
from app.products.offset_log.tenures import Tenure, TenureReading, read
from app.products.offset_log.verdict import Contradiction, ContradictionKind, Doubt, Figures, OffsetLogVerdict, summed


def replay(
    tellings: Iterable[Telling], *, unheard: Sequence[str] = (), silent: Sequence[Silent] = ()
) -> OffsetLogVerdict:
    """Replay all events of one partition.

    Args:
        tellings: those of each attempt with an event of it, in any order.
        `unheard`: reasons why an attempt without any report may have committed (see `hearing`), as sentences.
        `silent`: attempts that may have owned the partition without a report of it.
    """
    contradictions: list[Contradiction] = []
    doubts: list[Doubt] = []
    figures: list[Figures] = []
    by_life = sorted(tellings, key=lambda telling: telling.life)
    for life, of_life in groupby(by_life, key=lambda telling: telling.life):
        readings = [read(telling) for telling in of_life]
        figures += [reading.figures for reading in readings]
        own = [found for reading in readings for found in reading.contradictions]
        contradictions += own
        between, unsure = _across(readings, _Around(own, unheard, [one for one in silent if one.life == life]))
        contradictions += between
        doubts += unsure
    return OffsetLogVerdict(
        contradictions=tuple(sorted(contradictions, key=lambda found: (found.stretch.start, found.kind))),
        doubts=tuple(doubts),
        figures=summed(figures),
    )


class _Around(NamedTuple):
    """Other evidence about a gap than tenures: contradictions within attempts, and attempts without reports."""

    own: list[Contradiction]
    unheard: Sequence[str]
    silent: Sequence[Silent]


def _across(readings: list[TenureReading], around: _Around) -> tuple[list[Contradiction], list[Doubt]]:
    tenures = [tenure for reading in readings for tenure in reading.tenures]
    cuts = sorted({_age(tenure) for tenure in tenures if _splits(tenure, tenures)})
    if not cuts:
        return _judge(tenures, readings, around)
    contradictions: list[Contradiction] = []
    doubts = [
        Doubt(
            None,
            None,
            f"the group had no committed offset when the partition was assigned in generation {cut[1]}: commits "
            "before and after that are not compared",
        )
        for cut in cuts
        if any(tenure.committed and _age(tenure) < cut for tenure in tenures)
    ]
    placed = [tenure for tenure in tenures if tenure.generation is not None]
    elsewhere = [OffsetStretch(*one) for tenure in tenures if tenure.generation is None for one in tenure.committed]
    for section in range(len(cuts) + 1):
        those = [tenure for tenure in placed if bisect_right(cuts, _age(tenure)) == section]
        found, unsure = _judge(those, [*readings, TenureReading(undecided=elsewhere)], around)
        contradictions += found
        doubts += unsure
    if elsewhere:
        doubts.append(Doubt(None, None, "some commits may be from before that or from after it"))
    return contradictions, doubts


def _judge(
    tenures: list[Tenure], readings: list[TenureReading], around: _Around
) -> tuple[list[Contradiction], list[Doubt]]:
    """Judge tenures of one life; the other parts of the readings apply wherever they meet these."""
    overlaps = _overlaps(tenures)
    known = around.own + overlaps
    contradictions = overlaps + [
        found
        for found in _rewinds(tenures)
        if not any(other.kind is not ContradictionKind.GAP and other.stretch.meets(found.stretch) for other in known)
    ]
    doubts: list[Doubt] = []
    for hole in _gaps(tenures, readings):
        if any(found.kind is ContradictionKind.GAP and found.stretch.meets(hole) for found in around.own):
            continue
        message = f"offsets {hole.start} to {(hole.end or 0) - 1} were not committed, but later ones were"
        reasons = list(around.unheard)
        if any(stretch.meets(hole) for reading in readings for stretch in reading.unheard):
            reasons.append("events are missing of an attempt that may have committed them")
        before, after = _owners_around(hole, tenures)
        if any(one.may_lie_between(before, after) for one in around.silent):
            reasons.append("an attempt with missing events may have owned the partition without a report of it")
        if reasons:
            doubts.append(
                Doubt(ContradictionKind.GAP, hole, f"{message}, as far as was reported: {'; '.join(reasons)}")
            )
        else:
            contradictions.append(Contradiction(ContradictionKind.GAP, hole, (), message))
    return contradictions, doubts


def _overlaps(tenures: list[Tenure]) -> list[Contradiction]:
    found: list[Contradiction] = []
    furthest: tuple[int, Tenure] | None = None
    committed = ((start, end, tenure) for tenure in tenures for start, end in tenure.committed if end > start)
    for start, end, tenure in sorted(committed, key=lambda one: one[:2]):
        if furthest is not None and start < furthest[0]:
            both = (furthest[1].teller, tenure.teller)
            stretch = OffsetStretch(start, min(end, furthest[0]))
            message = f"offsets {stretch.start} to {min(end, furthest[0]) - 1} were committed twice"
            found.append(
                Contradiction(ContradictionKind.OVERLAP, stretch, both if both[0] != both[1] else both[:1], message)
            )
        if furthest is None or end > furthest[0]:
            furthest = end, tenure
    return found


def _rewinds(tenures: list[Tenure]) -> list[Contradiction]:
    """Find tenures that began before the end of an earlier one; equal generations have no order."""
    found: list[Contradiction] = []
    reached: dict[int, tuple[int, Tenure]] = {}
    ordered = sorted(
        ((tenure.generation, tenure) for tenure in tenures if tenure.generation is not None), key=lambda pair: pair[0]
    )
    for generation, of_one in groupby(ordered, key=lambda pair: pair[0]):
        those = [tenure for _, tenure in of_one]
        for tenure in those:
            earlier = [far for run, far in reached.items() if run <= tenure.teller.run]
            end, owner = max(earlier, key=lambda far: far[0], default=(0, tenure))
            if tenure.began is not None and tenure.began < end:
                message = (
                    f"generation {generation} began to read at {tenure.began}, but the owner of generation "
                    f"{owner.generation} had committed {end}"
                )
                found.append(
                    Contradiction(
                        ContradictionKind.REWOUND,
                        OffsetStretch(tenure.began, end),
                        (owner.teller, tenure.teller),
                        message,
                    )
                )
        for tenure in those:
            end, run = tenure.end, tenure.teller.run
            if end is not None and (run not in reached or end > reached[run][0]):
                reached[run] = end, tenure
    return found


def _gaps(tenures: list[Tenure], readings: list[TenureReading]) -> list[OffsetStretch]:
    covered = [stretch for tenure in tenures for stretch in tenure.committed]
    # The start of a tenure is the end of the one before, even while it has committed nothing yet.
    covered += [(tenure.began, tenure.began) for tenure in tenures if tenure.began is not None]
    if not covered:
        return []
    low, high = min(start for start, _ in covered), max(end for _, end in covered)
    for reading in readings:
        for stretch in (*reading.undecided, *reading.gone):
            if stretch.end is not None and stretch.meets(OffsetStretch(low, high)):
                covered.append((stretch.start, stretch.end))
    return holes(covered)


def _owners_around(hole: OffsetStretch, tenures: list[Tenure]) -> tuple[Age | None, Age | None]:
    """Return the ages of the owners before and after the hole; None if not known."""
    before = [tenure for tenure in tenures if any(end == hole.start for _, end in tenure.committed)]
    after = [
        tenure
        for tenure in tenures
        if tenure.began == hole.end or any(start == hole.end for start, _ in tenure.committed)
    ]
    return _first_of(before, min), _first_of(after, max)


def _first_of(owners: list[Tenure], order: Callable[[list[Age]], Age]) -> Age | None:
    ages = [(one.teller.run, one.generation) for one in owners if one.generation is not None]
    return order(ages) if ages and len(ages) == len(owners) else None


def _age(tenure: Tenure) -> tuple[int, int, int]:
    """Return the order of a partition's tenures; one generation has one owner, which counts its lost offsets."""
    return tenure.teller.run, -1 if tenure.generation is None else tenure.generation, tenure.forgotten


def _splits(tenure: Tenure, tenures: list[Tenure]) -> bool:
    """Return true if the group had no committed offset at its assignment, and another tenure may be earlier."""
    return (
        tenure.is_forgotten
        and tenure.generation is not None
        and any(_age(other) < _age(tenure) for other in tenures if other is not tenure)
    )
