"""What services ask of the database about tasks: hot rows, written once a second each, and what is folded from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from app.domain.drills.drill import Drill
from app.domain.page import Page
from app.domain.runs.instance import ENDED, InstanceState
from app.domain.runs.lease_bounds import LeaseBounds
from app.domain.runs.run import DesiredRunState
from app.domain.runs.series import RunSample, RunTotals
from app.domain.runs.task import TaskEventRecord, TaskReport, TaskState, TaskStatus, ZombieSighting
from app.domain.transactions.id_registry import IdCount
from app.domain.transactions.mapping import (
    AssignedId,
    Incarnation,
    Origin,
    OwnershipFilter,
    PartitionMapping,
    PartitionOwner,
    PartitionOwnership,
)


class LeaseContext(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker's message is judged by, read in one statement.

    cluster: its name here; kafka_cluster_id: as the brokers report it.
    lease: the asked one; instance_state and application_id are its. current_lease: the highest of the ordinal.
    bounds: what its messages may speak of. drill: the open one that this lease is meant by.
    newest: the highest (lease, attempt) that was ever heard of this task; own: the last word of the asked attempt.
    """

    pipeline: str
    group: str
    cluster: str
    kafka_cluster_id: str
    desired: DesiredRunState
    run_has_ended: bool
    lease: int
    current_lease: int
    instance_state: InstanceState
    application_id: str | None
    database_epoch: str
    bounds: LeaseBounds
    drill: Drill | None = None
    newest: tuple[int, int] | None = None
    own: TaskStatus | None = None

    @property
    def lease_is_current(self) -> bool:
        """Whether the asked lease is the highest of its ordinal and neither it nor the run has ended."""
        return self.lease == self.current_lease and self.instance_state not in ENDED and not self.run_has_ended

    def attempt_is_newest(self, attempt: int) -> bool:
        return self.newest is None or (self.lease, attempt) >= self.newest


class TaskRepository(Protocol):
    """One row an attempt: a lower attempt writes its own and can overwrite nobody; the highest is the task."""

    async def lease_context(
        self, *, run_id: str, ordinal: int, lease: int, task: int | None = None, attempt: int | None = None
    ) -> LeaseContext | None:
        """None when there is no such lease."""
        ...

    async def record(self, status: TaskStatus, *, is_zombie: bool) -> bool:
        """Write the attempt's row unless it holds a later sequence; whether it was written. A zombie is counted."""
        ...

    async def add_events(self, events: Sequence[TaskEventRecord]) -> None:
        """Store events; those that are stored already are left as they are."""
        ...

    async def states_of_instance(self, *, run_id: str, ordinal: int, lease: int) -> list[TaskState]: ...

    async def producers_of_lease(self, *, run_id: str, ordinal: int, lease: int) -> list[TaskReport]:
        """By task: the last word of its newest attempt that named a transactional id and its producer."""
        ...

    async def reports_of_run(self, run_id: str) -> list[TaskReport]:
        """The last word of every attempt of every lease that is kept."""
        ...

    async def list_statuses(self, run_ids: Sequence[str]) -> list[TaskStatus]:
        """By run, ordinal and task."""
        ...

    async def list_not_progressing(self, run_ids: Sequence[str]) -> list[TaskStatus]:
        """Of these, the tasks that say that they commit nothing, without their partitions."""
        ...

    async def list_events(self, run_id: str, *, after: str | None, limit: int) -> Page[TaskEventRecord]:
        """Newest first."""
        ...

    async def recent_events(self, *, pipeline: str | None, limit: int) -> list[tuple[str, TaskEventRecord]]:
        """(pipeline, event), newest first: all of one pipeline's, or those of all without plain assignments."""
        ...

    async def list_zombies(self, run_id: str) -> list[ZombieSighting]: ...

    async def sample(self, run_id: str, *, now: datetime, fresh_for: timedelta) -> bool:
        """Write the run's sample of this second unless it is there; whether it was written."""
        ...

    async def series(self, run_ids: Sequence[str], *, since: datetime) -> dict[str, list[RunSample]]:
        """Samples by run, oldest first."""
        ...

    async def summed_series(self, run_ids: Sequence[str], *, since: datetime) -> list[RunSample]:
        """Samples of all these runs together, second by second, oldest first; the latency is that of the worst."""
        ...

    async def totals(self, run_ids: Sequence[str]) -> dict[str, RunTotals]:
        """Sums over all attempts, ended ones included."""
        ...


class MappingRepository(Protocol):
    async def take(
        self, mappings: Sequence[PartitionMapping], *, heard: datetime | None = None
    ) -> frozenset[tuple[str, int]]:
        """Make the mappings' one owner the owner, and close the stretches before; what it got.

        All are of one group, owner, generation and moment. A partition that a newer owner holds stays with it. A
        stretch goes on while nothing about it has changed; what was not known of it is filled in.
        heard: when the owner was heard before, which is how far its stretches that change now are vouched for.
        """
        ...

    async def held_by(self, owner: TaskReport) -> frozenset[tuple[str, int]]:
        """Topics and partitions that this very attempt of the task holds, as it is committed; waits for nobody."""
        ...

    async def assign(
        self,
        *,
        pipeline: str,
        kafka_cluster_id: str,
        group: str,
        ids: Sequence[AssignedId],
        origin: Origin,
        now: datetime,
    ) -> None:
        """Assign partitions their ids, which the pipeline owns already. ConflictError rather than replacing one."""
        ...

    async def unassign(self, *, pipeline: str, origin: Origin) -> int:
        """Take from the pipeline's partitions what they were assigned; how many had one."""
        ...

    async def release(
        self,
        *,
        owner_of: TaskReport,
        keep: Sequence[tuple[str, int]],
        now: datetime,
        heard: datetime | None = None,
    ) -> None:
        """End the ownership of all partitions of this task (any attempt up to this one) that are not in `keep`.

        heard: as of `take`.
        """
        ...

    async def release_instance(self, *, run_id: str, ordinal: int, lease: int, now: datetime) -> None:
        """End every ownership of an instance that has ended."""
        ...

    async def of_group(self, *, kafka_cluster_id: str, group: str) -> list[PartitionMapping]:
        """By topic and partition, with the offsets that the owner last reported."""
        ...

    async def unowned(self, pipelines: Sequence[str]) -> dict[str, list[PartitionMapping]]:
        """By pipeline: the partitions that somebody held and nobody holds now, by topic and partition."""
        ...

    async def of_cluster(self, *, kafka_cluster_id: str) -> list[PartitionMapping]:
        """By group, topic and partition; without offsets."""
        ...

    async def holders(self, *, kafka_cluster_id: str, ids: Collection[str]) -> dict[str, PartitionOwner]:
        """By id: who holds a partition under it now."""
        ...

    async def history(
        self, wanted: OwnershipFilter, *, kafka_cluster_id: str, after: str | None, limit: int
    ) -> Page[PartitionOwnership]:
        """Newest first."""
        ...

    async def incarnations(self, *, kafka_cluster_id: str) -> list[Incarnation]:
        """What tasks told last of their producers, under ids that are owned."""
        ...


class IdCountRepository(Protocol):
    """How many transactional ids a cluster had: one a minute, after six hours one an hour, for 90 days."""

    async def add(self, count: IdCount, *, kafka_cluster_id: str) -> None: ...

    async def series(self, *, kafka_cluster_id: str, since: datetime) -> list[IdCount]:
        """Oldest first."""
        ...


class RetentionRepository(Protocol):
    async def thin_samples(self, *, now: datetime) -> int:
        """Reduce samples older than an hour to one a minute; how many were removed."""
        ...

    async def expire(self, *, now: datetime) -> dict[str, int]:
        """Remove what nobody needs any more (idempotency keys, sessions, links, old events); rows by table."""
        ...


class IdentityRepository(Protocol):
    async def database_epoch(self) -> str:
        """Which database this is; it differs after a restore or a failover."""
        ...

    async def is_fresh(self) -> bool:
        """Whether no token was ever made: the first start."""
        ...
