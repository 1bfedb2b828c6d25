"""The accepted part of a worker's messages: fields of its own pipeline, with possible numbers.

A message about another lease, or an unknown task of the instance, is refused. In all others an impossible field is
dropped and counted, and the rest is accepted. A refused heartbeat would be repeated for ever, and its offsets and
events would be lost. docs/security.md has the table, field by field.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from app.core.clusters.partition import Partition
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.runs.bad_records import HOUR_MINUTES, LONGEST_ERROR, MOST_REPORTED, BadCause, BadMinute
from app.core.runs.lease_bounds import LeaseBounds
from app.core.runs.number_bounds import LARGEST, LARGEST_EPOCH, LARGEST_INDEX, Sieve, are_storable, numbers_of
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.task import Counters, PartitionProgress, TaskReport
from app.core.wire.heartbeat import DriverHeartbeat, GoneAttempt, TaskEvent, TaskHeartbeat
from app.core.wire.offset_report import Init, OffsetReport, ReportedPartition
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ForbiddenError, InvalidError

MOST_EVENTS = 500
"""In one heartbeat; a worker sends a hundred, and the rest with the next."""
MOST_OF_UNKNOWN = 2_000
"""Partitions of topics without a known partition count, in one heartbeat; their numbers must also be below it."""
WARNED_EVERY = timedelta(minutes=1)

log = logging.getLogger(__name__)

_Producing = TypeVar("_Producing", TaskHeartbeat, PartitionProgress, TaskEvent)


class Facts(NamedTuple):
    """The facts that a message is checked against, beside the lease.

    counts: partitions of the source topics, as far as brokers have reported them. own, foreign: the named ids of the
    pipeline, and those of another one.
    """

    counts: Mapping[str, int] = {}
    own: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()


class Accepted(NamedTuple):
    """dropped: by field. beyond: topics with partitions in the message that are not known (yet)."""

    heartbeat: TaskHeartbeat
    dropped: Counter[str]
    beyond: frozenset[str]


class DroppedFields:
    """Counts dropped fields since this server began, and warns of them once a minute for each pipeline and field."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._warned: dict[tuple[str, str], datetime] = {}

    def note(self, pipeline: str, sender: str, dropped: Mapping[str, int], *, now: datetime) -> None:
        for field, number in dropped.items():
            self.counts[pipeline, field] += number
            before = self._warned.get((pipeline, field))
            if before is None or not timedelta() <= now - before < WARNED_EVERY:
                self._warned[pipeline, field] = now
                log.warning("%s of %s: %s was dropped, it cannot be this pipeline's", sender, pipeline, field)


def refuse_impossible(heartbeat: TaskHeartbeat) -> None:
    """Raise InvalidError for impossible numbers of an attempt."""
    for field, bound, _ in numbers_of(TaskHeartbeat):
        value = getattr(heartbeat, field)
        if bound.is_refused and not bound.least <= value <= bound.most:
            raise InvalidError(f"{field} is {value}: the range is {bound.least} to {bound.most}", field=field)


def refuse_unknown_task(heartbeat: TaskHeartbeat, bounds: LeaseBounds) -> None:
    """Raise ForbiddenError for a task that the instance does not have."""
    if not bounds.has_task(heartbeat.task):
        raise ForbiddenError(
            f"instance {heartbeat.ordinal} of run {heartbeat.run_id} has {bounds.tasks} tasks, "
            f"counted from 0: it has no task {heartbeat.task}"
        )


async def facts_for(
    uow: UnitOfWork,
    heartbeat: TaskHeartbeat,
    bounds: LeaseBounds,
    *,
    kafka_cluster_id: str,
    before: TaskReport | None,
    counts: Mapping[str, int],
) -> Facts:
    """Return the owners of the ids in the message. Only ids that are new since the attempt's last report are read."""
    known = frozenset[str](() if before is None else _ids(before.partitions))
    named = {name for name in _named(heartbeat) if name != bounds.id_of_task(heartbeat.task)} - known
    owners = (
        await uow.of(TransactionalIdStore).owners(kafka_cluster_id=kafka_cluster_id, ids=sorted(named)) if named else []
    )
    own = {one.transactional_id for one in owners if one.pipeline == bounds.pipeline}
    return Facts(counts, known | own, frozenset(one.transactional_id for one in owners) - own)


def accepted(heartbeat: TaskHeartbeat, bounds: LeaseBounds, facts: Facts, *, before: TaskReport | None) -> Accepted:
    """Return the heartbeat without fields that cannot be its pipeline's.

    before: the last report of the same attempt; its counters never fall.
    """
    words = _Words(bounds, facts, heartbeat.task)
    taken = replace(
        _with_whole_producer(words.sieve.bounded(heartbeat)),
        transactional_id=words.own_task_id(heartbeat.transactional_id),
        partitions=words.partitions(heartbeat.partitions),
        counters=words.counters(heartbeat.counters, None if before is None else before.counters),
        confirmed=words.confirmed(heartbeat.confirmed),
        bad_records=words.bad_records(heartbeat.bad_records),
        bad_minutes=words.bad_minutes(heartbeat.bad_minutes),
        events=words.events(heartbeat.events),
        offsets=None if heartbeat.offsets is None else words.offsets(heartbeat.offsets),
    )
    if taken.transactional_id is None and heartbeat.transactional_id is not None:
        taken = replace(taken, producer_id=None, producer_epoch=None)
    return Accepted(taken, +words.sieve.dropped, frozenset(words.beyond))


def accepted_driver(heartbeat: DriverHeartbeat, bounds: LeaseBounds) -> tuple[DriverHeartbeat, Counter[str]]:
    """The same for a driver's: possible numbers of cores, and one attempt of each task of the instance."""
    sieve = Sieve()
    gone: dict[int, GoneAttempt] = {}
    for one in heartbeat.gone:
        if not bounds.has_task(one.task) or not 0 <= one.attempt <= LARGEST_INDEX or one.task in gone:
            sieve.dropped["gone"] += 1
        else:
            gone[one.task] = one
    return replace(sieve.bounded(heartbeat), gone=tuple(gone.values())), sieve.dropped


def refuse_no_process(*pids: int | None) -> None:
    """Raise InvalidError for an impossible process id: a search for that process would fail for every pipeline."""
    for pid in pids:
        if pid is not None and not 0 < pid <= LARGEST_INDEX:
            raise InvalidError(f"{pid} is not a process id: the range is 1 to {LARGEST_INDEX}")


class _Words:
    """The parts of one heartbeat, checked against its lease."""

    def __init__(self, bounds: LeaseBounds, facts: Facts, task: int) -> None:
        self.sieve = Sieve()
        self.beyond: set[str] = set()
        self._bounds = bounds
        self._facts = facts
        self._id_of_task = bounds.id_of_task(task)

    def own_task_id(self, name: str | None) -> str | None:
        if name is None or name == self._id_of_task:
            return name
        self.sieve.dropped["transactional_id"] += 1
        return None

    def partitions(self, told: Iterable[PartitionProgress]) -> tuple[PartitionProgress, ...]:
        taken: dict[Partition, PartitionProgress] = {}
        of_unknown = 0
        for one in told:
            place = Partition(one.topic, one.partition)
            of_unknown += one.topic not in self._facts.counts
            if place in taken or of_unknown > MOST_OF_UNKNOWN or not self._is_read(*place):
                self.sieve.dropped["partitions"] += 1
                continue
            taken[place] = self._partition(one)
        return tuple(taken.values())

    def _is_input(self, topic: str, partition: int) -> bool:
        """Accept a report that is sent once without its partition count, which may be older than new partitions."""
        return topic in self._bounds.source_topics and 0 <= partition <= LARGEST_INDEX

    def _is_read(self, topic: str, partition: int) -> bool:
        if not self._is_input(topic, partition):
            return False
        count = self._facts.counts.get(topic)
        if count is None or partition >= count:
            self.beyond.add(topic)
        # Without a bound each heartbeat could name other partitions, and the stored ones would grow for ever.
        return partition < (MOST_OF_UNKNOWN if count is None else count)

    def _partition(self, one: PartitionProgress) -> PartitionProgress:
        taken, name = _with_whole_producer(self.sieve.bounded(one)), one.transactional_id
        if name is None or self._is_own(name, of_partition=self._bounds.id_of_partition(*_place(one))):
            return taken
        self.sieve.dropped["partitions.transactional_id"] += 1
        return replace(taken, transactional_id=None, producer_id=None, producer_epoch=None)

    def _is_own(self, name: str, *, of_partition: str | None = None) -> bool:
        """Return whether the id is this task's or a partition's: assigned, or by the formula if no other pipeline owns
        it.

        of_partition: the formula's id of the only possible partition; None: any partition that the pipeline reads.
        """
        if name in self._facts.foreign:
            return False
        is_formula = self._bounds.is_by_formula(name) if of_partition is None else name == of_partition
        return name == self._id_of_task or name in self._facts.own or is_formula

    def counters(self, told: Counters, before: Counters | None) -> Counters:
        taken = asdict(self.sieve.bounded(told))
        if before is not None:
            # Two threads report, and the later report may have been read first: a total that falls is an older one.
            taken = {name: max(number, min(getattr(before, name), LARGEST)) for name, number in taken.items()}
        return Counters(**taken)

    def confirmed(self, told: tuple[RecordedOffset, ...]) -> tuple[RecordedOffset, ...]:
        """Every heartbeat repeats it: an unknown partition is accepted once brokers have reported it."""
        taken: dict[Partition, RecordedOffset] = {}
        for one in told:
            place = Partition(one.topic, one.partition)
            if place not in taken and self._is_read(*place) and are_storable(_numbers(one), least=-1):
                taken[place] = one
        self.sieve.dropped["confirmed"] += len(told) - len(taken)
        return tuple(taken.values())

    def bad_records(self, told: tuple[BadCause, ...]) -> tuple[BadCause, ...]:
        taken = [one for one in told[:MOST_REPORTED] if self._is_input(one.topic, one.partition)]
        self.sieve.dropped["bad_records"] += len(told) - len(taken)
        return tuple(replace(self.sieve.bounded(one), error=one.error[:LONGEST_ERROR]) for one in taken)

    def bad_minutes(self, told: tuple[BadMinute, ...]) -> tuple[BadMinute, ...]:
        """Each minute counts once: a worker sends those of an hour."""
        taken = {one.minute: self.sieve.bounded(one) for one in told[: HOUR_MINUTES + 1]}
        self.sieve.dropped["bad_minutes"] += len(told) - len(taken)
        return tuple(taken.values())

    def events(self, told: tuple[TaskEvent, ...]) -> tuple[TaskEvent, ...]:
        if len(told) > MOST_EVENTS:
            self.sieve.dropped["events"] += len(told) - MOST_EVENTS
        return tuple(self._event(event) for event in told[:MOST_EVENTS])

    def _event(self, event: TaskEvent) -> TaskEvent:
        partitions = tuple(text for text in event.partitions if self._bounds.names_partition(text))
        self.sieve.dropped["events.partitions"] += len(event.partitions) - len(partitions)
        taken = replace(_with_whole_producer(self.sieve.bounded(event)), partitions=partitions)
        if event.transactional_id is None or self._is_own(event.transactional_id):
            return taken
        self.sieve.dropped["events.transactional_id"] += 1
        return replace(taken, transactional_id=None, producer_id=None, producer_epoch=None)

    def offsets(self, told: OffsetReport) -> OffsetReport:
        inits = tuple(init for init in told.inits if self._is_init(init))
        partitions = tuple(one for one in told.partitions if self._is_told_rightly(one))
        self.sieve.dropped["offsets"] += len(told.inits) + len(told.partitions) - len(inits) - len(partitions)
        return replace(self.sieve.bounded(told), inits=inits, partitions=partitions)

    def _is_init(self, init: Init) -> bool:
        is_own = init.transactional_id is None or self._is_own(init.transactional_id)
        return is_own and 0 <= init.producer_id <= LARGEST and 0 <= init.epoch <= LARGEST_EPOCH

    def _is_told_rightly(self, told: ReportedPartition) -> bool:
        return (
            self._is_input(told.topic, told.partition)
            and 0 <= told.recorded < LARGEST
            and all(are_storable(_numbers(event)) for event in told.events)
        )


def _with_whole_producer(message: _Producing) -> _Producing:
    """Keep id and epoch, or neither: one alone has no meaning."""
    if message.producer_id is None or message.producer_epoch is None:
        return replace(message, producer_id=None, producer_epoch=None)
    return message


def _place(one: PartitionProgress) -> Partition:
    return Partition(one.topic, one.partition)


def _numbers(event: msgspec.Struct) -> list[int]:
    return [value for name in event.__struct_fields__ if type(value := getattr(event, name)) is int]


def _ids(partitions: Iterable[PartitionProgress]) -> list[str]:
    return [one.transactional_id for one in partitions if one.transactional_id is not None]


def _named(heartbeat: TaskHeartbeat) -> Iterable[str]:
    yield from _ids(heartbeat.partitions)
    yield from (event.transactional_id for event in heartbeat.events if event.transactional_id is not None)
    if heartbeat.offsets is not None:
        yield from (init.transactional_id for init in heartbeat.offsets.inits if init.transactional_id is not None)
