"""A task: one exactly-once loop inside an instance, as in its heartbeats and in the database."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.runs.bad_records import BadCause, BadMinute
from app.core.runs.instance import InstanceState
from app.core.runs.number_bounds import (
    LARGEST,
    LARGEST_EPOCH,
    LARGEST_INDEX,
    LONGEST_INTERVAL_MS,
    Bound,
    DurationMs,
    Generation,
    Index,
    LatencyMs,
    MomentMs,
)

Offset = Annotated[int | None, Bound(LARGEST, counted_as="partitions.offsets")]
Count = Annotated[int, Bound(LARGEST, counted_as="counters")]
IntervalMs = Annotated[int | None, Bound(LONGEST_INTERVAL_MS, counted_as="intervals")]


class TaskState(StrEnum):
    """
    STARTING ─▶ RUNNING ⇄ PAUSED;  RUNNING ─▶ BACKING_OFF ─▶ STARTING;  any ─▶ DRAINING ─▶ DRAINED
    FENCED ─▶ RUNNING (STARTING without membership) after the ownership check and a new init; ─▶ SUPERSEDED if another
    attempt is current.
    """

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    BACKING_OFF = "backing_off"
    FENCED = "fenced"
    DRAINING = "draining"
    DRAINED = "drained"
    SUPERSEDED = "superseded"
    FAILED = "failed"


class GoneBy(StrEnum):
    """The process whose end ended an attempt in a live application, as reported by Spark, which manages both.

    WORKER: its Python worker, whose pipe to its executor has closed. EXECUTOR: its executor, which has exited.
    An executor that only sends no heartbeats, or is cut off, is neither.
    """

    WORKER = "worker"
    EXECUTOR = "executor"


class EventKind(StrEnum):
    """REBUILT: the ownership check allowed a fenced attempt to initialise its id again; reported before that init."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"
    FENCED = "fenced"
    ABORTED = "aborted"
    OUTCOME_UNKNOWN = "outcome_unknown"
    REBUILT = "rebuilt"
    SUPERSEDED = "superseded"
    BAD_RECORD = "bad_record"
    ERROR = "error"


class DesiredTaskState(StrEnum):
    RUN = "run"
    PAUSE = "pause"
    DRAIN = "drain"


class OutcomeKind(StrEnum):
    """`HOPELESS`: a permanent error (a refused record, a missing secret), which a user must fix.

    `DRILLED`: a drill has killed the driver, or frozen it for so long that another one has its place. It is no failure.
    """

    DRAINED = "drained"
    FAILED = "failed"
    HOPELESS = "hopeless"
    SUPERSEDED = "superseded"
    NO_EXECUTORS = "no_executors"
    DRILLED = "drilled"


class PartitionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One assigned partition. Offsets are the *next* offset to read; `end` is the last known high watermark or LSO.

    With exactly_once each partition has its own producer: its transactional id, producer id and epoch.
    Its offsets have the member's generation, -1 if they are sent for the group alone. All are None otherwise.
    """

    topic: str
    partition: Index
    position: Offset = None
    committed: Offset = None
    end: Offset = None
    transactional_id: str | None = None
    producer_id: Annotated[int | None, Bound(LARGEST, counted_as="partitions.producer")] = None
    producer_epoch: Annotated[int | None, Bound(LARGEST_EPOCH, counted_as="partitions.producer")] = None
    offsets_generation: Generation = None


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Totals since the start of the attempt."""

    records_in: Count = 0
    records_out: Count = 0
    bytes_in: Count = 0
    bytes_out: Count = 0
    records_skipped: Count = 0
    records_dead_lettered: Count = 0
    transactions_committed: Count = 0
    transactions_aborted: Count = 0
    transactions_unknown: Count = 0
    fencings: Count = 0
    events_dropped: Count = 0


class CounterReading(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of an attempt, and the time of the report, by its clock."""

    at_ms: int
    counters: Counters


class TaskRates(msgspec.Struct, frozen=True, kw_only=True):
    """Per second, of one attempt; None without an earlier report to compare with (app/core/runs/rates.py).

    over_ms: the time of which they are the average. since: the totals to compare the next report with.
    """

    records_in_per_s: float | None = None
    records_out_per_s: float | None = None
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    commits_per_s: float | None = None
    aborts_per_s: float | None = None
    over_ms: int | None = None
    since: CounterReading | None = None


class LoopStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The loop's report of itself, in each snapshot, heartbeat and report (docs/loop.md).

    not_progressing_ms: for how long every checkpoint has failed, once that is several timeouts; else None.
    record_source: `native` if C holds the records, else `python` and the reason; None: of an older release.
    bad_records: since the start of the attempt, by cause. bad_minutes: the minutes of the last hour with bad records.
    """

    state: TaskState
    member_id: str | None = None
    generation: Generation = None
    partitions: tuple[PartitionProgress, ...] = ()
    counters: Counters = Counters()
    commit_latency_p50_ms: LatencyMs = None
    commit_latency_p99_ms: LatencyMs = None
    open_transaction_age_ms: DurationMs = None
    last_error: str | None = None
    producer_id: Annotated[int | None, Bound(LARGEST, counted_as="producer")] = None
    producer_epoch: Annotated[int | None, Bound(LARGEST_EPOCH, counted_as="producer")] = None
    not_progressing_ms: DurationMs = None
    record_source: str | None = None
    bad_records: tuple[BadCause, ...] = ()
    bad_minutes: tuple[BadMinute, ...] = ()


class TaskReport(LoopStatus, frozen=True, kw_only=True):
    """The part of a heartbeat that describes one attempt, without the wire's protocol version and events.

    commits_every_ms: the longest time that a checkpoint stays open; None: the worker is of an older release.
    uploads_within_ms: the longest time of its uploads after that; None without uploads.
    """

    run_id: str
    ordinal: Index
    lease: Index
    task: Annotated[int, Bound(LARGEST_INDEX, is_refused=True)]
    attempt: Annotated[int, Bound(LARGEST_INDEX, is_refused=True)]
    sequence: Annotated[int, Bound(LARGEST, is_refused=True)]
    sent_at_ms: MomentMs
    host: str
    pid: Index
    transactional_id: str | None = None
    commits_every_ms: IntervalMs = None
    uploads_within_ms: IntervalMs = None


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last report of the highest (lease, attempt) of a task; `received_at` is by the server's clock."""

    last: TaskReport
    received_at: datetime
    state_since: datetime
    rates: TaskRates = TaskRates()

    @property
    def run_id(self) -> str:
        return self.last.run_id

    @property
    def ordinal(self) -> int:
        return self.last.ordinal

    @property
    def lease(self) -> int:
        return self.last.lease

    @property
    def task(self) -> int:
        return self.last.task

    @property
    def attempt(self) -> int:
        return self.last.attempt


class TaskEventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a task, stored once even if it is delivered repeatedly."""

    run_id: str
    event_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    kind: EventKind
    at: datetime
    message: str
    partitions: tuple[str, ...] = ()
    generation: int | None = None
    received_at: datetime


class ZombieSighting(msgspec.Struct, frozen=True, kw_only=True):
    """Heartbeats of an attempt that was not current any more; they are evidence and change no state."""

    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str
    pid: int
    state: TaskState
    first_seen_at: datetime
    last_seen_at: datetime
    heartbeats: int


_WORKING = frozenset({TaskState.RUNNING, TaskState.FENCED})


def instance_state_by_tasks(current: InstanceState, tasks: Collection[TaskState]) -> InstanceState:
    """Return the state of a live instance from the reports of its tasks.

    | tasks that still live        | STARTING, RUNNING, PAUSED | UNREACHABLE           | others    |
    |------------------------------|---------------------------|-----------------------|-----------|
    | none, or all starting        | unchanged                 | STARTING if any lives | unchanged |
    | all paused (or starting)     | PAUSED                    | PAUSED                | unchanged |
    | any draining                 | unchanged                 | DRAINING              | unchanged |
    | any running or fenced        | RUNNING                   | RUNNING               | unchanged |
    | any backing off              | unchanged if STARTING, else RUNNING | RUNNING     | unchanged |

    DRAINING ends with the outcome, never with a task that has not received the order yet.
    """
    if current not in _MOVED_BY_TASKS:
        return current
    living = [state for state in tasks if state not in _ENDED]
    if not living:
        return current
    unreachable = current is InstanceState.UNREACHABLE
    if TaskState.DRAINING in living:
        return InstanceState.DRAINING if unreachable else current
    if any(state in _WORKING for state in living):
        return InstanceState.RUNNING
    if TaskState.BACKING_OFF in living and current is not InstanceState.STARTING:
        # An instance that has never worked is not called running.
        return InstanceState.RUNNING
    if TaskState.PAUSED in living:
        return InstanceState.PAUSED
    return InstanceState.STARTING if unreachable else current


_ENDED = frozenset({TaskState.DRAINED, TaskState.SUPERSEDED, TaskState.FAILED})
_MOVED_BY_TASKS = frozenset(
    {InstanceState.STARTING, InstanceState.RUNNING, InstanceState.PAUSED, InstanceState.UNREACHABLE}
)
