"""The timeline of a drill: views of the pipeline, reduced to events and recovery times.

The recovery time of a partition is the longest time between two commits of its offset. Only partitions with commits
before the order are measured, since one without input has none. It is measured between consecutive views only. For a
time without observation, only the number of committed records is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

MAX_ENTRIES = 400
FLOWS_WITHIN = timedelta(seconds=5)
LOOKS_FOLLOW_WITHIN = timedelta(seconds=3)


class EntryKind(StrEnum):
    """DRILL: a step of the drill. ACT: an action on a target. The others are effects."""

    DRILL = "drill"
    ACT = "act"
    GROUP = "group"
    EPOCH = "epoch"
    TASK = "task"
    RECORDS = "records"
    FENCING = "fencing"
    UNSEEN = "unseen"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """fencing_id: id of the fencing event that it is about."""

    at: datetime
    kind: EntryKind
    sentence: str
    fencing_id: str | None = None


class PartitionLook(msgspec.Struct, frozen=True, kw_only=True):
    """committed_at: time by the brokers' clock if their journal is read; else None, and the view's time counts.

    at_end_at: newest time at which its owner reported no lag, so that no commit was due until then.
    """

    committed: int
    committed_at: datetime | None = None
    at_end_at: datetime | None = None


class TaskLook(msgspec.Struct, frozen=True, kw_only=True):
    attempt: int
    lease: int
    state: str
    is_running: bool


class FencingLook(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    at: datetime
    sentence: str


class DrillLook(msgspec.Struct, frozen=True, kw_only=True):
    """The known state at one moment. generation: None if unknown. tasks: by `ordinal/task`. epochs: by id."""

    at: datetime
    generation: int | None
    members: int | None
    partitions: Mapping[str, PartitionLook]
    epochs: Mapping[str, str]
    tasks: Mapping[str, TaskLook]
    fencings: tuple[FencingLook, ...] = ()


class PartitionWatched(msgspec.Struct, frozen=True, kw_only=True):
    """longest_s: longest observed time between consecutive commits. since: time of the last commit.

    at_end_at: newest time without lag.
    """

    committed: int
    since: datetime
    flowed: bool
    longest_s: float = 0.0
    is_told: bool = False
    at_end_at: datetime | None = None

    @property
    def stands_since(self) -> datetime:
        """The last commit, or the last time without lag if that is newer."""
        return self.since if self.at_end_at is None else max(self.since, self.at_end_at)


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The result of all views so far. at: time of the last one, None before the first.

    rebalances: None while the group's generation is not known. committed: None before the first view.
    unseen_s: time without observation; committed_unseen: records committed in that time.
    """

    at: datetime | None = None
    generation: int | None = None
    rebalances: int | None = None
    partitions: dict[str, PartitionWatched] = {}
    epochs: dict[str, str] = {}
    tasks: dict[str, TaskLook] = {}
    fencings: tuple[str, ...] = ()
    unseen_s: float = 0.0
    committed_unseen: int = 0
    committed: int | None = None

    @property
    def measured(self) -> dict[str, PartitionWatched]:
        return {name: one for name, one in self.partitions.items() if one.flowed}

    @property
    def longest(self) -> tuple[str, float] | None:
        """The partition with the longest recovery time, with that time; None if no partition is measured."""
        measured = self.measured
        if not measured:
            return None
        name = max(measured, key=lambda one: measured[one].longest_s)
        return name, measured[name].longest_s


STANDS_STILL_S = 2.0
"""Time without a commit after which an entry is written."""


def follow(before: Watched, look: DrillLook, *, commits_every_s: float = 0.0) -> tuple[Watched, list[Entry]]:
    """Return the state after the view, and its new events in the order of their kinds."""
    if before.at is None:
        # Targets may have acted before the first view; all these fencing events are later than the order.
        return _first(look, commits_every_s), _fencings(look.fencings)
    entries: list[Entry] = []
    pause_s = (look.at - before.at).total_seconds()
    unseen = pause_s > LOOKS_FOLLOW_WITHIN.total_seconds()
    partitions, advanced = _follow_partitions(before, look, entries, unseen=unseen)
    if unseen:
        entries.append(
            Entry(
                at=look.at,
                kind=EntryKind.UNSEEN,
                sentence=f"no observation for {pause_s:.1f} s, in which {advanced:,} records were committed",
            )
        )
    generation, rebalances = _follow_group(before, look, entries)
    _follow_epochs(before, look, entries)
    _follow_tasks(before, look, entries)
    new = [one for one in look.fencings if one.id not in before.fencings]
    entries += _fencings(new)
    return (
        replace(
            before,
            at=look.at,
            generation=generation,
            rebalances=rebalances,
            partitions=partitions,
            epochs={**before.epochs, **look.epochs},
            tasks={**before.tasks, **look.tasks},
            fencings=(*before.fencings, *(one.id for one in new)),
            unseen_s=before.unseen_s + (pause_s if unseen else 0.0),
            committed_unseen=before.committed_unseen + (advanced if unseen else 0),
            committed=(before.committed or 0) + advanced,
        ),
        entries,
    )


def flows(watched: Watched, *, now: datetime, within: timedelta) -> bool:
    """Return true if every measured partition has a commit, or no lag, within this time."""
    return all(now - one.stands_since <= within for one in watched.measured.values())


def _fencings(found: Iterable[FencingLook]) -> list[Entry]:
    return [Entry(at=one.at, kind=EntryKind.FENCING, sentence=one.sentence, fencing_id=one.id) for one in found]


def _first(look: DrillLook, commits_every_s: float) -> Watched:
    flows_within = max(FLOWS_WITHIN, timedelta(seconds=2 * commits_every_s))
    return Watched(
        at=look.at,
        generation=look.generation,
        rebalances=None if look.generation is None else 0,
        committed=0,
        partitions={
            name: PartitionWatched(
                committed=one.committed,
                since=one.committed_at or look.at,
                # Without the brokers' time of the commit, it is measured from the first observed commit on.
                flowed=one.committed_at is not None and look.at - one.committed_at <= flows_within,
                at_end_at=one.at_end_at,
            )
            for name, one in look.partitions.items()
        },
        epochs=dict(look.epochs),
        tasks=dict(look.tasks),
        fencings=tuple(one.id for one in look.fencings),
    )


def _follow_partitions(
    before: Watched, look: DrillLook, entries: list[Entry], *, unseen: bool
) -> tuple[dict[str, PartitionWatched], int]:
    partitions = dict(before.partitions)
    advanced = 0
    for name, now in look.partitions.items():
        known = partitions.get(name)
        if known is None:
            partitions[name] = PartitionWatched(
                committed=now.committed, since=now.committed_at or look.at, flowed=False
            )
            continue
        if now.at_end_at is not None:
            known = replace(known, at_end_at=now.at_end_at)
        if now.committed > known.committed:
            advanced += now.committed - known.committed
            at = max(now.committed_at or look.at, known.since)
            stood_s = max(0.0, (at - known.stands_since).total_seconds())
            if known.is_told:
                sentence = f"{name} has commits again after {stood_s:.1f} s"
                entries.append(Entry(at=at, kind=EntryKind.RECORDS, sentence=sentence))
            is_first = now.committed_at is None and not known.flowed
            longest_s = known.longest_s if unseen or is_first else max(known.longest_s, stood_s)
            partitions[name] = replace(
                known,
                committed=now.committed,
                since=at,
                longest_s=longest_s,
                is_told=False,
                flowed=known.flowed or is_first,
            )
            continue
        stood_s = (look.at - known.stands_since).total_seconds()
        if unseen or not known.flowed:
            partitions[name] = known
            continue
        is_new = stood_s >= STANDS_STILL_S and not known.is_told
        if is_new:
            sentence = f"{name} has no commits since offset {known.committed:,}"
            entries.append(Entry(at=look.at, kind=EntryKind.RECORDS, sentence=sentence))
        partitions[name] = replace(known, longest_s=max(known.longest_s, stood_s), is_told=known.is_told or is_new)
    return partitions, advanced


def _follow_group(before: Watched, look: DrillLook, entries: list[Entry]) -> tuple[int | None, int | None]:
    """Return the newest generation, and the number of rebalances; both None while it is not known."""
    if look.generation is None or look.generation == before.generation:
        return before.generation, before.rebalances
    if before.generation is None:
        return look.generation, 0
    members = "" if look.members is None else f", now with {look.members} member{'' if look.members == 1 else 's'}"
    sentence = f"the group rebalances: generation {before.generation} → {look.generation}{members}"
    entries.append(Entry(at=look.at, kind=EntryKind.GROUP, sentence=sentence))
    return look.generation, (before.rebalances or 0) + max(1, look.generation - before.generation)


def _follow_epochs(before: Watched, look: DrillLook, entries: list[Entry]) -> None:
    for name, epoch in sorted(look.epochs.items()):
        known = before.epochs.get(name)
        if known is not None and known != epoch:
            sentence = f"{name}: producer:epoch {known} → {epoch}"
            entries.append(Entry(at=look.at, kind=EntryKind.EPOCH, sentence=sentence))


def _follow_tasks(before: Watched, look: DrillLook, entries: list[Entry]) -> None:
    for name, task in sorted(look.tasks.items()):
        known = before.tasks.get(name)
        if known is None:
            sentence = f"task {name} is {task.state}"
        elif (known.lease, known.attempt) != (task.lease, task.attempt):
            sentence = f"task {name} begins attempt {task.attempt} (lease {task.lease}): {task.state}"
        elif known.state != task.state:
            sentence = f"task {name} is {task.state}, it was {known.state}"
        else:
            continue
        entries.append(Entry(at=look.at, kind=EntryKind.TASK, sentence=sentence.replace("_", " ")))
