"""One start of a pipeline: its desired state, and its state, derived from its instances.

RUN ⇄ PAUSE ─▶ DRAIN ─▶ KILL: after a drain the desired state can only become a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.crash_loop import is_crash_looping
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.task import DesiredTaskState


class DesiredRunState(StrEnum):
    RUN = "run"
    PAUSE = "pause"
    DRAIN = "drain"
    KILL = "kill"


_D = DesiredRunState
DESIRES: dict[DesiredRunState, frozenset[DesiredRunState]] = {
    _D.RUN: frozenset({_D.PAUSE, _D.DRAIN, _D.KILL}),
    _D.PAUSE: frozenset({_D.RUN, _D.DRAIN, _D.KILL}),
    _D.DRAIN: frozenset({_D.KILL}),
    _D.KILL: frozenset(),
}
"""The next allowed requests. A drain cannot be cancelled: tasks that received it have left already."""


class RunState(StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DEGRADED = "degraded"
    CRASH_LOOPING = "crash-looping"
    BOUNCING = "bouncing"
    DRAINING = "draining"
    KILLING = "killing"
    STOPPED = "stopped"
    FAILED = "failed"


class RunEnd(StrEnum):
    """The end of a run, written once."""

    STOPPED = "stopped"
    FAILED = "failed"


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    revision: int
    desired: DesiredRunState
    state: RunState
    started_at: datetime
    started_by: str
    ended_at: datetime | None = None
    end_reason: str | None = None


class RestingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The group of a pipeline that a user has paused, is draining, or has stopped. is_over: its run has ended."""

    kafka_cluster_id: str
    group: str
    pipeline: str
    is_over: bool


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """`revision` is the goal of every instance; an instance with another one waits for its turn of the bounce.

    targets: the revision of the next lease of ordinals for which a migration has chosen another one.
    bounce_requested_at: instances that were leased before this are bounced, one at a time.
    starts_again: after the drain of this run, the next one starts at the pipeline's current revision.
    instances: the current lease of each ordinal, by ordinal.
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
    bounce_requested_at: datetime | None = None
    targets: dict[int, int] = {}
    starts_again: bool = False
    ended_at: datetime | None = None
    end: RunEnd | None = None
    end_reason: str | None = None
    instances: tuple[Instance, ...] = ()

    def target_of(self, ordinal: int) -> int:
        """Return the revision of the ordinal's next lease."""
        return self.targets.get(ordinal, self.revision)

    def summary(self) -> RunSummary:
        return RunSummary(
            id=self.id,
            revision=self.revision,
            desired=self.desired,
            state=self.state,
            started_at=self.started_at,
            started_by=self.started_by,
            ended_at=self.ended_at,
            end_reason=self.end_reason,
        )


def is_outdated(instance: Instance, *, revision: int, bounce_requested_at: datetime | None) -> bool:
    """Return whether the instance still waits for its turn of a rolling bounce."""
    return instance.revision != revision or (
        bounce_requested_at is not None and instance.leased_at < bounce_requested_at
    )


_S = InstanceState
_GONE = frozenset({_S.STOPPED, _S.FAILED, _S.LOST, _S.UNREACHABLE, _S.DRAINING})
_COMING = frozenset({_S.PENDING, _S.SUBMITTING, _S.STARTING})

Condition = Callable[[frozenset[InstanceState]], bool]
DERIVATION: tuple[tuple[str, Condition, RunState], ...] = (
    ("no instance has been leased, or all wait", lambda states: states <= {_S.PENDING}, RunState.PENDING),
    ("any has ended, is draining or unreachable", lambda states: bool(states & _GONE), RunState.DEGRADED),
    ("any is starting", lambda states: bool(states & _COMING), RunState.STARTING),
    ("all are paused", lambda states: states <= {_S.PAUSED}, RunState.PAUSED),
    ("all run, or some still pause", lambda _: True, RunState.RUNNING),
)
"""The first line that matches the states of the current instances, while the desired state is run or pause."""


def derive_state(
    *,
    desired: DesiredRunState,
    end: RunEnd | None,
    revision: int,
    bounce_requested_at: datetime | None,
    instances: Sequence[Instance],
    targets: Mapping[int, int] = MappingProxyType({}),
) -> RunState:
    """Return a run's state: its end, else a requested end, else a crash loop, else an unfinished bounce, else
    DERIVATION.
    """
    if end is not None:
        return RunState(end.value)
    if desired is DesiredRunState.DRAIN:
        return RunState.DRAINING
    if desired is DesiredRunState.KILL:
        return RunState.KILLING
    if any(is_crash_looping(instance, bounce_requested_at=bounce_requested_at) for instance in instances):
        return RunState.CRASH_LOOPING
    if any(
        is_outdated(i, revision=targets.get(i.ordinal, revision), bounce_requested_at=bounce_requested_at)
        for i in instances
    ):
        return RunState.BOUNCING
    states = frozenset(instance.state for instance in instances)
    return next(state for _, holds, state in DERIVATION if holds(states))


def desired_of_tasks(desired: DesiredRunState, instance: InstanceState) -> DesiredTaskState:
    """Return the desired state of an instance's tasks: a bounce drains one instance while the run continues."""
    if instance is InstanceState.DRAINING or desired in (DesiredRunState.DRAIN, DesiredRunState.KILL):
        return DesiredTaskState.DRAIN
    return DesiredTaskState.PAUSE if desired is DesiredRunState.PAUSE else DesiredTaskState.RUN


NEEDS_FULL_RESTART = (
    "cluster",
    "group_id",
    "group_protocol",
    "transactional_id_prefix",
    "processing_guarantee",
    "offset_fencing",
)
"""Fields that must be equal in all instances of a group: two values at once could duplicate a record."""


def fields_that_need_full_restart(before: PipelineDefinition, after: PipelineDefinition) -> tuple[str, ...]:
    """Return the changed fields that no rolling bounce can apply, in the order of the definition; empty: it can.

    More instances can be added one by one. With fewer, the others would stay in the run as stopped for ever. Then a
    complete bounce could not be distinguished from one that waits.
    """
    fields = [field for field in NEEDS_FULL_RESTART if getattr(before, field) != getattr(after, field)]
    return (*fields, "instances") if after.instances < before.instances else tuple(fields)
