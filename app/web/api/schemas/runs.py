"""Runs, instances, tasks and offsets at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.runs.instance import InstanceState
from app.domain.runs.run import DesiredRunState, RunEnd, RunState
from app.domain.runs.task import EventKind, TaskState
from app.domain.transactions.mapping import IdKind, Origin
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.words import Why


class Reason(Body):
    why: Why = None


class StartGiven(Body):
    """switch_at_once: also from group_only to v2 or back, which may process records twice; it takes a `why`."""

    switch_at_once: bool = False
    why: Why = None


class RestartGiven(Body):
    """rolling: one instance at a time; else all drain and the next run starts."""

    rolling: bool = True
    why: Why = None


class InstanceOutcome(Answer):
    """How the application said that it ended."""

    kind: str
    message: str
    at: datetime


class Instance(Answer):
    """One lease of one ordinal of a run: one Spark application.

    failures: how many leases of the ordinal failed in a row before it. tasks_crashing: tasks that fail again and again.
    """

    run_id: str
    ordinal: int
    lease: int
    revision: int
    state: InstanceState
    since: datetime
    leased_at: datetime
    reason: str | None
    application_id: str | None
    host: str | None
    jvm_pid: int | None
    python_pid: int | None
    process_started_at: datetime | None
    submitted_at: datetime | None
    claimed_at: datetime | None
    executors: int | None
    tasks_running: int | None
    tasks_waiting: int | None
    last_heartbeat_at: datetime | None
    missing_since: datetime | None
    drain_signalled_at: datetime | None
    killed_at: datetime | None
    outcome: InstanceOutcome | None
    failures: int
    tasks_crashing: int


class Run(Answer):
    """One start of a pipeline. `instances` has the current lease of each ordinal.

    targets: the revision of the next lease of those ordinals that a migration leads elsewhere.
    """

    id: str
    pipeline: str
    cluster: str
    kafka_cluster_id: str
    revision: int
    desired: DesiredRunState
    state: RunState
    started_at: datetime
    started_by: str
    bounce_requested_at: datetime | None
    targets: dict[int, int]
    starts_again: bool
    ended_at: datetime | None
    end: RunEnd | None
    end_reason: str | None
    instances: list[Instance]


class RunPage(Answer):
    items: list[Run]
    next_cursor: str | None


class PartitionProgress(Answer):
    """Offsets are the next offset to read. With exactly_once each partition has a producer of its own.

    offsets_generation: what its offsets are sent with, -1 for the group alone.
    """

    topic: str
    partition: int
    position: int | None
    committed: int | None
    end: int | None
    transactional_id: str | None
    producer_id: int | None
    producer_epoch: int | None
    offsets_generation: int | None


class Counters(Answer):
    """Totals since the attempt began."""

    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    records_skipped: int
    records_dead_lettered: int
    transactions_committed: int
    transactions_aborted: int
    transactions_unknown: int
    fencings: int
    events_dropped: int


class TaskRates(Answer):
    """Per second. `over_ms`: the time that they are an average of: of a task that commits less often than each second,
    from commit to commit."""

    records_in_per_s: float | None
    records_out_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    commits_per_s: float | None
    aborts_per_s: float | None
    over_ms: int | None


class TaskReport(Answer):
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    sequence: int
    sent_at_ms: int
    host: str
    pid: int
    state: TaskState
    transactional_id: str | None
    producer_id: int | None
    producer_epoch: int | None
    member_id: str | None
    generation: int | None
    partitions: list[PartitionProgress]
    counters: Counters
    commit_latency_p50_ms: float | None
    commit_latency_p99_ms: float | None
    open_transaction_age_ms: int | None
    last_error: str | None
    commits_every_ms: int | None
    uploads_within_ms: int | None
    not_progressing_ms: int | None


class TaskStatus(Answer):
    """The last report of the highest (lease, attempt) of a task; `received_at` is the server's clock."""

    last: TaskReport
    received_at: datetime
    state_since: datetime
    rates: TaskRates


class TaskList(Answer):
    items: list[TaskStatus]


class TaskEvent(Answer):
    run_id: str
    event_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    kind: EventKind
    at: datetime
    message: str
    partitions: list[str]
    generation: int | None
    received_at: datetime


class TaskEventPage(Answer):
    items: list[TaskEvent]
    next_cursor: str | None


class PartitionOwner(Answer):
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str


class Archived(Answer):
    """Given up for good: fenced by a migration, and initialised by nobody since. `migration`: null once forgotten."""

    since: datetime
    migration: str | None


class PartitionMapping(Answer):
    """An input partition and the transactional id under which it is read; `owner` is null while nobody holds it.

    `transactional_id` is what its owner told last, `assigned_id` what it is read under in `exactly_once`; `archived`
    says that a migration to `exactly_once_v2` gave that one up.
    """

    pipeline: str
    kafka_cluster_id: str
    group: str
    topic: str
    partition: int
    transactional_id: str | None
    owner: PartitionOwner | None
    producer_id: int | None
    epoch: int | None
    generation: int | None
    since: datetime
    position: int | None
    committed: int | None
    end: int | None
    assigned_id: str | None
    origin: Origin | None
    archived: Archived | None
    lag_records: Annotated[int | None, Field(description="Records between what is committed and the end.")]


class MappingList(Answer):
    items: list[PartitionMapping]


class PartitionOwnership(Answer):
    """One stretch of time in which one attempt held one partition by one producer, epoch and generation.

    `until` is null while it lasts; what the owner never told is null. `heard_until`: when the owner was heard the last
    time before the end (null: not known). It ended between then and `until`, which is when somebody else was heard, or
    the owner was given up.
    """

    pipeline: str
    kafka_cluster_id: str
    group: str
    topic: str
    partition: int
    transactional_id: str | None
    owner: PartitionOwner
    generation: int | None
    since: datetime
    until: datetime | None
    producer_id: int | None
    epoch: int | None
    heard_until: datetime | None


class OwnershipPage(Answer):
    items: list[PartitionOwnership]
    next_cursor: str | None


class TransactionalIdOwner(Answer):
    """The one pipeline that owns a transactional id on a Kafka cluster; `ordinal` and `task` of a task's id only.

    `archived`: a migration of the pipeline gave it up.
    """

    kafka_cluster_id: str
    transactional_id: str
    pipeline: str
    kind: IdKind
    ordinal: int | None
    task: int | None
    archived: Archived | None


class TransactionalIdList(Answer):
    items: list[TransactionalIdOwner]


class InstanceList(Answer):
    items: list[Instance]
