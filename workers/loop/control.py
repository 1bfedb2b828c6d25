"""The exchange of a task with its control: desired states, snapshots and events, without a wait on the data path."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.task import LoopStatus
from app.core.wire.heartbeat import Counters, DesiredTaskState, EventKind
from app.core.wire.specification import MappedPartition
from workers.loop.telling.offset_recorder import OffsetRecorder


class TaskSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one attempt of one task. Secrets in `client_config` are resolved already.

    transactional_id: the task's own; None where it has none (exactly_once, at_least_once).
    mappings: the ids of input partitions, as far as the server knew them when the instance was leased (exactly_once).
    recorded: confirmed offsets of the group, as far as the server knew them then.
    native_records: whether C may hold the records.
    """

    pipeline: str
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    definition: PipelineDefinition
    client_config: dict[str, str]
    transactional_id: str | None
    mappings: tuple[MappedPartition, ...] = ()
    recorded: tuple[RecordedOffset, ...] = ()
    transform_source: str | None = None
    start_paused: bool = False
    native_records: bool = True


class ProducerIdentity(msgspec.Struct, frozen=True):
    """The coordinator's answer to this producer's init; with its id, where a task has several."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


class TaskSnapshot(LoopStatus, frozen=True, kw_only=True):
    """The state of the loop; a new object each time, so that another thread may read it."""

    confirmed: tuple[RecordedOffset, ...] = ()


class Control(Protocol):
    """Every method except the two that ask returns at once and never raises."""

    def desired(self) -> DesiredTaskState:
        """The latest request of server, driver or signal. DRAIN is final."""
        ...

    def publish(self, snapshot: TaskSnapshot) -> None:
        """Send `snapshot` with the next heartbeat."""
        ...

    def event(
        self,
        kind: EventKind,
        message: str,
        *,
        partitions: tuple[str, ...] = (),
        generation: int | None = None,
        error: str | None = None,
        producer: ProducerIdentity | None = None,
    ) -> None:
        """Keep an event for delivery; bounded, the oldest are dropped and counted.

        error: Kafka's name of the error. producer: its owner; the one of the last snapshot if not given.
        """
        ...

    def tell_offsets(self, recorder: OffsetRecorder) -> None:
        """Report this recorder's events from now on, on a thread of the control's own."""
        ...

    def ask_is_current(self, *, timeout_s: float) -> bool | None:
        """Ask the server if our (lease, attempt) is current; None: no answer within `timeout_s` (rule 5)."""
        ...

    def ask_recorded(self, *, timeout_s: float) -> Sequence[RecordedOffset] | None:
        """Ask the server for the group's recorded offsets; None: no answer within `timeout_s`."""
        ...


class TaskEnd(StrEnum):
    """An attempt's end without an exception. SUPERSEDED is a normal result: after an exception Spark would retry."""

    DRAINED = "drained"
    SUPERSEDED = "superseded"


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    end: TaskEnd
    message: str
    counters: Counters
