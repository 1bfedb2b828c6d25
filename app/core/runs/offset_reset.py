"""Offset resets of a group: target, changes, and reasons for a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

import msgspec

from app.core.clusters.partition import Partition
from app.kit.errors import Problem
from app.kit.words import count


class OffsetTargetKind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"
    RECORDED = "recorded"


class PartitionOffset(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int


def parse_partition_offset(text: str) -> PartitionOffset | None:
    """Read `TOPIC:PARTITION=OFFSET`; None for any other text."""
    where, _, offset = text.partition("=")
    topic, _, partition = where.rpartition(":")
    if not topic or not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in (partition, offset)):
        return None
    return PartitionOffset(topic=topic, partition=int(partition), offset=int(offset))


class OffsetTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The target of the reset. TIMESTAMP needs `timestamp`; OFFSETS names the next offset of each.

    RECORDED: partitions without a committed offset go to the last one that tasks have confirmed; the others stay.
    """

    kind: OffsetTargetKind
    timestamp: datetime | None = None
    offsets: tuple[PartitionOffset, ...] = ()


class OffsetChange(msgspec.Struct, frozen=True, kw_only=True):
    """One partition: the committed offset now and then. `records` is the number of additional (if negative, skipped)
    ones.

    earliest, end: the offsets that the partition has now; `committed` None: the group has no offset there yet.
    """

    topic: str
    partition: int
    committed: int | None
    target: int
    earliest: int
    end: int

    @property
    def records(self) -> int:
        return (self.end if self.committed is None else self.committed) - self.target


def effects_of(changes: Sequence[OffsetChange]) -> list[str]:
    """Describe what a reset does to outputs, in sentences. Counted are offsets, so markers of transactions, too."""
    again = [one for one in changes if one.committed is not None and one.target < one.committed]
    never = [one for one in changes if one.committed is not None and one.target > one.committed]
    new = [one for one in changes if one.committed is None]
    found: list[str] = []
    if again:
        many = sum(one.records for one in again)
        are, their = ("is", "its") if many == 1 else ("are", "their")
        found.append(
            f"Up to {count(many, 'record')} of {count(len(again), 'partition')} {are} read again: {their} outputs will "
            "be written twice."
        )
    if never:
        many = -sum(one.records for one in never)
        are, they_are = ("is", "it is") if many == 1 else ("are", "they are")
        found.append(
            f"Up to {count(many, 'record')} of {count(len(never), 'partition')} {are} skipped: {they_are} never "
            "processed, without any output."
        )
    if new:
        records = count(sum(one.records for one in new), "record")
        found.append(
            f"{count(len(new), 'partition')} without a committed offset: up to {records} are there to be read. Whether "
            "they were read before is not recorded."
        )
    return found or ["No offset changes."]


class ResetBounds(msgspec.Struct, frozen=True, kw_only=True):
    earliest: int
    end: int


def plan(
    target: OffsetTarget,
    *,
    committed: Mapping[Partition, int],
    bounds: Mapping[Partition, ResetBounds],
    at_timestamp: Mapping[Partition, int],
    recorded: Mapping[Partition, int] = MappingProxyType({}),
) -> list[OffsetChange] | list[Problem]:
    """Return the change of each partition by topic and number, or all problems of the target."""
    # A committed offset may be newer than the record, or set back on purpose: a resume does not change it.
    lost = {at: offset for at, offset in recorded.items() if at not in committed}
    problems = _problems(target, bounds, recorded, lost)
    if problems:
        return problems
    named = {Partition(offset.topic, offset.partition): offset.offset for offset in target.offsets}
    if target.kind is OffsetTargetKind.RECORDED:
        named = lost
    changes: list[OffsetChange] = []
    for at, bound in sorted(bounds.items()):
        match target.kind:
            case OffsetTargetKind.EARLIEST:
                to: int | None = bound.earliest
            case OffsetTargetKind.LATEST:
                to = bound.end
            case OffsetTargetKind.TIMESTAMP:
                to = at_timestamp.get(at, bound.end)
            case OffsetTargetKind.OFFSETS | OffsetTargetKind.RECORDED:
                to = named.get(at)
        if to is not None:
            changes.append(
                OffsetChange(
                    topic=at.topic,
                    partition=at.partition,
                    committed=committed.get(at),
                    target=to,
                    earliest=bound.earliest,
                    end=bound.end,
                )
            )
    return changes


def _problems(
    target: OffsetTarget,
    bounds: Mapping[Partition, ResetBounds],
    recorded: Mapping[Partition, int],
    lost: Mapping[Partition, int],
) -> list[Problem]:
    if target.kind is OffsetTargetKind.RECORDED:
        return _problems_of_recorded(bounds, recorded, lost)
    if target.kind is OffsetTargetKind.TIMESTAMP and target.timestamp is None:
        return [Problem(field="timestamp", message="add the time from which the records are to be read")]
    if target.kind is not OffsetTargetKind.OFFSETS:
        return []
    if not target.offsets:
        return [Problem(field="offsets", message="name at least one partition and its next offset")]
    problems: list[Problem] = []
    for index, offset in enumerate(target.offsets):
        bound = bounds.get(Partition(offset.topic, offset.partition))
        where = f"{offset.topic}-{offset.partition}"
        if bound is None:
            problems.append(Problem(field=f"offsets.{index}", message=f"{where} is not a partition of the pipeline"))
        elif not bound.earliest <= offset.offset <= bound.end:
            problems.append(
                Problem(
                    field=f"offsets.{index}.offset",
                    message=f"{where} holds offsets {bound.earliest} to {bound.end}; {offset.offset} is outside",
                )
            )
    return problems


def _problems_of_recorded(
    bounds: Mapping[Partition, ResetBounds],
    recorded: Mapping[Partition, int],
    lost: Mapping[Partition, int],
) -> list[Problem]:
    if not recorded:
        return [Problem(field="kind", message="no committed offset of these topics is recorded: choose another target")]
    if not lost:
        message = "the group has a committed offset for each recorded partition. To move one of them use --set"
        return [Problem(field="kind", message=message)]
    return [
        Problem(
            field="kind",
            message=f"{at} holds offsets {bound.earliest} to {bound.end}; the recorded {lost[at]} "
            "is outside. Use --set",
        )
        for at, bound in sorted(bounds.items())
        if at in lost and not bound.earliest <= lost[at] <= bound.end
    ]
