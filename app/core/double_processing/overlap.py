"""Explain the findings of double processing: a sentence, alternatives, and next steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from app.core.journals.double_processing import DoubleProcessing, OverlapGrade, OverlapPattern, ProducerCommit
from app.core.journals.live_groups import LiveGroup
from app.kit.printable import shell_word
from app.kit.storable import moment_of_ms
from app.kit.words import count, moment, number

MARKERS_ONLY = "All these offsets are transaction markers or aborted records."
SET_BACK = "The application itself set its offset back in a transaction, to read again."
OTHER_LOG = "The topic was deleted and created again, or an unclean leader election truncated its log."
SHARED_READER = (
    "One reader uses several producers in turn, for example a pool, and commits positions without new records."
)
NO_TRANSACTIONS = "A consumer of the same group committed without transactions."

_LONGEST_NAME = 100
_ADVERBS = {OverlapGrade.LIKELY: "probably", OverlapGrade.POSSIBLE: "possibly"}
_FENCE = (
    "Pass the consumer's group metadata to sendOffsetsToTransaction (KIP-447), so that brokers refuse the offsets of "
    "stale members."
)


class CommitSide(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of a finding. producer_id None: without a producer. transactional_id None: not known."""

    offset: int
    at: datetime | None
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: str | None

    @property
    def name(self) -> str:
        if self.producer_id is None:
            return "a client without a producer"
        name = self.transactional_id or f"producer {self.producer_id}:{self.producer_epoch}"
        return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"

    @property
    def time(self) -> str:
        return "an unknown time" if self.at is None else f"{self.at:%H:%M:%S} UTC"


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, as REST, pages and commands show it.

    from_offset, to_offset: the offsets from the first one up to the second, which is excluded; from_offset None: not
    known. journal_offset: of the later record in the group's partition of `__consumer_offsets`, which identifies it.
    alternatives: other explanations. advice: the next steps, the most useful first.
    """

    group: str
    topic: str
    partition: int
    pattern: OverlapPattern
    grade: OverlapGrade
    from_offset: int | None
    to_offset: int
    first: CommitSide
    second: CommitSide
    at: datetime | None
    members: int
    journal_partition: int
    journal_offset: int
    sentence: str
    alternatives: tuple[str, ...]
    advice: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.journal_partition}-{self.journal_offset}-{self.topic}-{self.partition}"


def overlaps_of(group: LiveGroup, names: Mapping[int, str]) -> list[Overlap]:
    """Explain a group's findings, newest first. names: transactional ids by producer id, as far as known."""
    return [_explained(group, found, names) for found in reversed(group.watch.findings)]


def producers_of(groups: Iterable[LiveGroup]) -> frozenset[int]:
    """Return the producer ids in the findings of these groups."""
    return frozenset(
        commit.producer_id
        for group in groups
        for found in group.watch.findings
        for commit in (found.first, found.second)
        if commit.producer_id >= 0
    )


def by_group_and_grade(overlaps: Iterable[Overlap]) -> list[list[Overlap]]:
    """Put those together that are one alert and one open problem."""
    found: dict[tuple[str, OverlapGrade], list[Overlap]] = {}
    for one in overlaps:
        found.setdefault((one.group, one.grade), []).append(one)
    return list(found.values())


def sentence_of(some: Sequence[Overlap]) -> str:
    """Describe findings of one group, newest first, by the newest one."""
    more = f" {len(some) - 1} more in this group." if len(some) > 1 else ""
    return f"{some[0].group}: {some[0].sentence}{more}"


def is_recent_problem(group: LiveGroup, *, since: datetime) -> bool:
    """Return True if the group has a proved or likely finding since then."""
    return any(one.grade.is_problem and moment_of_ms(one.newest.at_ms) >= since for one in group.watch.findings)


def _explained(group: LiveGroup, found: DoubleProcessing, names: Mapping[int, str]) -> Overlap:
    first, second = _side(found.first, names), _side(found.second, names)
    newest = _side(found.newest, names)
    return Overlap(
        group=group.group,
        topic=found.topic,
        partition=found.partition,
        pattern=found.pattern,
        grade=found.grade,
        from_offset=None if found.from_offset < 0 else found.from_offset,
        to_offset=found.to_offset,
        first=first,
        second=second,
        at=newest.at,
        members=found.members,
        journal_partition=group.partition,
        journal_offset=found.second.journal_offset,
        sentence=_sentence(found, first, second, newest),
        alternatives=_alternatives(found),
        advice=_advice(found),
    )


def _side(commit: ProducerCommit, names: Mapping[int, str]) -> CommitSide:
    has_producer = commit.producer_id >= 0
    return CommitSide(
        offset=commit.offset,
        at=moment(commit.at_ms),
        producer_id=commit.producer_id if has_producer else None,
        producer_epoch=commit.producer_epoch if has_producer else None,
        transactional_id=names.get(commit.producer_id),
    )


def offsets_text(found: DoubleProcessing) -> str:
    """Return the range in words: `offsets 100 to 109`, `offset 100`, or `offsets below 110`."""
    last = found.to_offset - 1
    if found.from_offset < 0:
        return f"offsets below {number(found.to_offset)}"
    if found.from_offset >= last:
        return f"offset {number(last)}"
    return f"offsets {number(found.from_offset)} to {number(last)}"


def _sentence(found: DoubleProcessing, first: CommitSide, second: CommitSide, newest: CommitSide) -> str:
    where, range_of_it = f"{found.topic}-{found.partition}", offsets_text(found)
    if found.grade is OverlapGrade.PROVED:
        return (
            f"{range_of_it.capitalize()} of {where} were committed by {first.name} at {first.time} and again by "
            f"{newest.name} at {newest.time}: their outputs are duplicates."
        )
    match found.pattern:
        case OverlapPattern.REWOUND:
            return (
                f"{second.name} committed offset {number(second.offset)} of {where} at {second.time}, below "
                f"{number(first.offset)}, which {first.name} had committed at {first.time}. Its reader did not begin "
                f"at the group's offset. A reader that starts there repeats {range_of_it}."
            )
        case OverlapPattern.SAME_END:
            return (
                f"{first.name} committed offset {number(first.offset)} of {where} at {first.time}, and {second.name} "
                f"the same at {second.time}. {_membership(found)} Both {_ADVERBS[found.grade]} processed "
                f"{range_of_it}."
            )
        case OverlapPattern.INTERLEAVED:
            return (
                f"{second.name} committed {where} again, up to {number(second.offset)} at {second.time}, after "
                f"{first.name} at {first.time}. {_membership(found)} Either both own it, or one reader uses both."
            )
        case OverlapPattern.RESET:
            return (
                f"The offset of {where} was set back from {number(first.offset)} to {number(second.offset)} at "
                f"{second.time}, without a producer. Processing {range_of_it} again is intended."
            )


def _membership(found: DoubleProcessing) -> str:
    if not found.members:
        return "The group has no members, so the journal does not show an owner."
    return f"The group of {count(found.members, 'member')} did not change in between."


def _alternatives(found: DoubleProcessing) -> tuple[str, ...]:
    match found.pattern:
        case OverlapPattern.REWOUND:
            return SET_BACK, OTHER_LOG, MARKERS_ONLY
        case OverlapPattern.SAME_END:
            return SHARED_READER, MARKERS_ONLY
        case OverlapPattern.INTERLEAVED:
            return (SHARED_READER,)
        case OverlapPattern.RESET:
            return (NO_TRANSACTIONS,)


def _advice(found: DoubleProcessing) -> tuple[str, ...]:
    start = max(0, found.from_offset if found.from_offset >= 0 else found.to_offset - 1)
    look = f"See the records: fenceline log {shell_word(found.topic)} {found.partition} --from {start}"
    if not found.grade.is_problem:
        return (look,)
    return (
        look,
        "Compare the outputs of both producers, and remove those of the second one where consumers need each once.",
        _FENCE,
    )
