"""How a task hears what is wanted of it and says how it is, without ever waiting for anybody on the data path."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.task import LoopStatus
from app.core.wire.heartbeat import Counters, DesiredTaskState, EventKind
from app.core.wire.specification import PartitionMapping
from workers.loop.telling.offset_recorder import OffsetRecorder


class TaskSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt of one task needs. `client_config` has its secrets resolved already.

    transactional_id: the task's own; None where it has none (exactly_once, at_least_once).
    mappings: the ids of input partitions, as far as the server knew them when the instance was leased (exactly_once).
    recorded: what was confirmed of the group's offsets, as far as the server knew it then.
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
    mappings: tuple[PartitionMapping, ...] = ()
    recorded: tuple[RecordedOffset, ...] = ()
    transform_source: str | None = None
    start_paused: bool = False


class ProducerIdentity(msgspec.Struct, frozen=True):
    """What the coordinator gave this producer at its init; under which id, where a task has several."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


class TaskSnapshot(LoopStatus, frozen=True, kw_only=True):
    """What the loop knows about itself; a new object each time, so that another thread may read it."""

    confirmed: tuple[RecordedOffset, ...] = ()


class Control(Protocol):
    """Every method but those that ask returns at once and never raises."""

    def desired(self) -> DesiredTaskState:
        """What server, driver or signal last asked for. DRAIN is final."""
        ...

    def publish(self, snapshot: TaskSnapshot) -> None:
        """Make `snapshot` what the next heartbeat says."""
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

        error: Kafka's name of what was answered. producer: whose it is; the one of the last snapshot if not given.
        """
        ...

    def tell_offsets(self, recorder: OffsetRecorder) -> None:
        """Tell from now on what this records, on a thread of the control's own."""
        ...

    def ask_is_current(self, *, timeout_s: float) -> bool | None:
        """The server's word on our (lease, attempt); None when it cannot be had within `timeout_s` (rule 5)."""
        ...

    def ask_recorded(self, *, timeout_s: float) -> Sequence[RecordedOffset] | None:
        """What the server has recorded of the group's offsets; None when it cannot be had within `timeout_s`."""
        ...


class TaskEnd(StrEnum):
    """How an attempt ends without an exception. SUPERSEDED is a normal result: an exception would make Spark retry."""

    DRAINED = "drained"
    SUPERSEDED = "superseded"


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    end: TaskEnd
    message: str
    counters: Counters
