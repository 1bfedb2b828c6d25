"""One view of a drilled pipeline, from the brokers' journals and the tasks' heartbeats."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.core.fencing.record import FencingFilter
from app.core.fencing.store import FencingStore
from app.core.journals import group_records
from app.core.journals.query_marker import marker_of
from app.core.observing.snapshot import Snapshot, SnapshotSource
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskState, TaskStatus
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.storable import moment_of_ms
from app.products.drills.drill import Drill
from app.products.drills.timeline import DrillLook, FencingLook, PartitionLook, TaskLook

HEARD_WITHIN = timedelta(seconds=3)
FENCINGS_AT_MOST = 50
_BUMPS_WITH_EVERY_COMMIT = 2
"""From this transaction version (KIP-890) on, every commit bumps the epoch."""


async def look_at(uow: UnitOfWork, snapshot: Snapshot, drill: Drill, *, now: datetime) -> DrillLook:
    """Return a view with offsets and epochs from the journals if they are read, else from heartbeats."""
    statuses = await uow.of(TaskStore).list_statuses([drill.run_id])
    fencings = await uow.of(FencingStore).list(
        FencingFilter(pipeline=drill.pipeline, since=drill.ordered_at), after=None, limit=FENCINGS_AT_MOST
    )
    group = snapshot.groups.get(drill.plan.group)
    said = [status.last.generation for status in statuses if status.last.generation is not None]
    from_journal = group is not None and snapshot.group_journal.source is SnapshotSource.JOURNAL
    return DrillLook(
        at=now,
        generation=group.generation if from_journal and group is not None else max(said, default=None),
        members=group.member_count if group is not None else None,
        partitions=_partitions(snapshot, drill, statuses, now=now),
        epochs=_epochs(snapshot, statuses),
        tasks={_name(status): _task(status, now=now) for status in statuses},
        fencings=tuple(
            FencingLook(id=one.id, at=one.event.at, sentence=one.event.verdict.sentence)
            for one in reversed(fencings.items)
        ),
    )


def markers_of(snapshot: Snapshot, drill: Drill) -> dict[int, int] | None:
    """Return the newest batch of each writer of a query, by its marker; None if the group's journal is not read."""
    group = snapshot.groups.get(drill.plan.group)
    if group is None or snapshot.group_journal.source is not SnapshotSource.JOURNAL:
        return None
    found = {
        writer: marker_of(one.commit.offset, one.commit.metadata)
        for (topic, writer), one in group.offsets.items()
        if topic == drill.plan.marker_topic and writer < drill.plan.tasks
    }
    return {writer: marker.batch for writer, marker in found.items() if marker is not None}


def _partitions(
    snapshot: Snapshot, drill: Drill, statuses: list[TaskStatus], *, now: datetime
) -> dict[str, PartitionLook]:
    at_end = _at_end(statuses, now=now)
    group = snapshot.groups.get(drill.plan.group)
    if group is not None and snapshot.group_journal.source is SnapshotSource.JOURNAL:
        return {
            f"{topic}-{number}": PartitionLook(
                committed=one.commit.offset,
                committed_at=None
                if one.commit.commit_ms < 0
                else moment_of_ms(snapshot.clocks.ours_ms(group_records.TOPIC, group.partition, one.commit.commit_ms)),
                at_end_at=at_end.get(f"{topic}-{number}"),
            )
            for (topic, number), one in group.offsets.items()
            # The group of a query has markers, too, which are no positions.
            if topic in drill.plan.topics or not drill.plan.topics
        }
    reported: dict[str, int] = {}
    for status in statuses:
        for one in status.last.partitions:
            if one.committed is not None:
                name = f"{one.topic}-{one.partition}"
                reported[name] = max(one.committed, reported.get(name, 0))
    return {name: PartitionLook(committed=offset, at_end_at=at_end.get(name)) for name, offset in reported.items()}


def _at_end(statuses: list[TaskStatus], *, now: datetime) -> dict[str, datetime]:
    """Return the newest time at which the owner of each partition reported no lag, for owners with heartbeats."""
    return {
        f"{one.topic}-{one.partition}": status.received_at
        for status in statuses
        if now - status.received_at <= HEARD_WITHIN
        for one in status.last.partitions
        if one.committed is not None and one.end is not None and one.committed >= one.end
    }


def _epochs(snapshot: Snapshot, statuses: list[TaskStatus]) -> dict[str, str]:
    epochs: dict[str, str] = {}
    of_tasks = {status.last.transactional_id for status in statuses}
    of_partitions = {one.transactional_id for status in statuses for one in status.last.partitions}
    for name in (of_tasks | of_partitions) - {None}:
        live = snapshot.transactions.get(name or "")
        if live is not None and live.state.client_transaction_version < _BUMPS_WITH_EVERY_COMMIT:
            epochs[live.transactional_id] = f"{live.state.producer_id}:{live.state.producer_epoch}"
    return epochs


def _task(status: TaskStatus, *, now: datetime) -> TaskLook:
    heard = now - status.received_at <= HEARD_WITHIN
    return TaskLook(
        attempt=status.attempt,
        lease=status.lease,
        state=str(status.last.state) if heard else "without heartbeats",
        is_running=heard and status.last.state is TaskState.RUNNING,
    )


def _name(status: TaskStatus) -> str:
    return f"{status.ordinal}/{status.task}"
