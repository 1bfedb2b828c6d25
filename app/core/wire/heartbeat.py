"""The reports of tasks and drivers to the server, once a second, and its answers.
HTTP on the workers' listener, JSON bodies, `Authorization: Bearer <run token>`:
  POST /workers/v1/claim          Claim           -> ClaimAnswer    409 when the lease is not current
  GET  /workers/v1/specification                  -> InstanceSpecification (app/core/wire/specification.py)
  POST /workers/v1/heartbeat      TaskHeartbeat   -> HeartbeatAnswer
  POST /workers/v1/driver         DriverHeartbeat -> DriverAnswer
  POST /workers/v1/outcome        Outcome         -> {}
  POST /workers/v1/drill          DrillReport     -> DrillAnswer            (app/core/wire/drill.py)
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from app.core.runs.number_bounds import LARGEST, LARGEST_EPOCH, LATEST_MS, Bound, Generation, Index, MomentMs
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.task import (
    Counters,
    DesiredTaskState,
    EventKind,
    GoneBy,
    OutcomeKind,
    PartitionProgress,
    TaskReport,
    TaskState,
)
from app.core.wire import protocol
from app.core.wire.drill import DrillOrder
from app.core.wire.offset_report import OffsetReport

__all__ = [
    "Claim",
    "ClaimAnswer",
    "Counters",
    "DesiredTaskState",
    "DriverAnswer",
    "DriverHeartbeat",
    "EventKind",
    "GoneAttempt",
    "GoneBy",
    "HeartbeatAnswer",
    "OutcomeKind",
    "PartitionProgress",
    "ReportedOutcome",
    "TaskEvent",
    "TaskHeartbeat",
    "TaskState",
]


class TaskEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a task. `event_id` is unique, so that a delivery may be repeated.

    error: Kafka's name of the received error. producer_id, producer_epoch: of its producer then, if it knew them.
    transactional_id: that producer's, if the task has several; None: the task's own.
    """

    event_id: str
    kind: EventKind
    at_ms: Annotated[int, Bound(LATEST_MS, counted_as="events.at_ms")]
    message: str
    partitions: tuple[str, ...] = ()
    generation: Generation = None
    error: str | None = None
    producer_id: Annotated[int | None, Bound(LARGEST, counted_as="events.producer")] = None
    producer_epoch: Annotated[int | None, Bound(LARGEST_EPOCH, counted_as="events.producer")] = None
    transactional_id: str | None = None


class TaskHeartbeat(TaskReport, frozen=True, kw_only=True):
    """confirmed: committed offsets of the attempt, also of partitions that it has released.
    asks_recorded: requests the recorded offsets of the group in the answer.
    """

    protocol_version: Index = protocol.CURRENT
    events: tuple[TaskEvent, ...] = ()
    offsets: OffsetReport | None = None
    confirmed: tuple[RecordedOffset, ...] = ()
    asks_recorded: bool = False


class HeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`is_current` is the server's decision about the sender's (lease, attempt); None: the server cannot decide now.

    accepted_events: ids of the events that are stored; the sender removes these.
    answered_ms: by the server's clock, from before it read the heartbeat. offsets_stored: its `offsets` are stored.
    recorded: the recorded offsets of the group, on request; None: not requested, or not available.
    drill: the order to the sender's own process in a drill; repeated until it is claimed or void.
    """

    protocol_version: int = protocol.CURRENT
    desired: DesiredTaskState
    is_current: bool | None
    database_epoch: str
    accepted_events: tuple[str, ...] = ()
    answered_ms: int | None = None
    offsets_stored: bool = False
    drill: DrillOrder | None = None
    recorded: tuple[RecordedOffset, ...] | None = None


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of a driver: the claim of its lease. The same application id is granted again on a retry."""

    protocol_version: int = protocol.CURRENT
    fenceline_version: str
    python_version: str
    run_id: str
    ordinal: int
    lease: int
    application_id: str
    host: str
    jvm_pid: int | None
    python_pid: int
    process_started_at_ms: int


class ClaimAnswer(msgspec.Struct, frozen=True, kw_only=True):
    protocol_version: int = protocol.CURRENT
    granted: bool
    reason: str = ""


class GoneAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a task whose process has ended without an outcome, as Spark reports; repeated for a minute."""

    task: int
    attempt: int
    by: GoneBy


class DriverHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """`tasks_running` is the number of tasks that run now; `tasks_waiting` the number that wait for a core.

    gone: for each task the newest attempt that Spark reports as ended, if that was lately.
    tasks_crashing: the number of tasks that failed several times in a row and were not healthy for a while since.
    """

    protocol_version: Index = protocol.CURRENT
    run_id: str
    ordinal: Index
    lease: Index
    application_id: str
    host: str
    sent_at_ms: MomentMs
    executors: Index
    tasks_running: Index
    tasks_waiting: Index
    gone: tuple[GoneAttempt, ...] = ()
    tasks_crashing: Index = 0


class DriverAnswer(msgspec.Struct, frozen=True, kw_only=True):
    protocol_version: int = protocol.CURRENT
    desired: DesiredTaskState
    is_current: bool | None
    database_epoch: str


class ReportedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the application as it reports it; Spark's master reports FINISHED for every end.

    application_id: the reporting application; one whose claim was refused ends nothing.
    """

    protocol_version: int = protocol.CURRENT
    run_id: str
    ordinal: int
    lease: int
    kind: OutcomeKind
    message: str = ""
    application_id: str = ""
