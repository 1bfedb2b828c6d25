"""Tasks whose process has ended, and the rules for the transactions and memberships that they left.

A task without heartbeats may be alive; session and transaction timeouts cover it. Only the manager of its process can
report its end, or a server that has seen the process itself. Even then, the coordinator ends the transaction only if
the id still has the dead task's producer id and epoch. So a successor's init, which needs no permission from Fenceline,
always wins. No other process has the member id, so its removal affects no other member.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from app.core.blocked.facts import ONGOING, KnownTransaction
from app.core.runs.instance import ENDED, Instance, InstanceState
from app.core.runs.observation import MasterWord, Observation, ProcessWord
from app.core.runs.task import GoneBy, TaskReport, TaskState

SETTLES_AFTER = timedelta(seconds=2)
"""Executors outlive a killed driver by a moment, so that their work may not be over yet."""

_LEFT_NOTHING = frozenset({TaskState.DRAINED, TaskState.SUPERSEDED})


class DeadProducer(msgspec.Struct, frozen=True, kw_only=True):
    """The producer that a dead attempt last reported as its own."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class DeadTask(msgspec.Struct, frozen=True, kw_only=True):
    """A dead attempt, and the evidence of its death (`why`).

    producer: None with at_least_once, with a producer for each partition, and before its init.
    group: the pipeline's. member_id: as last reported; None before it has joined.
    """

    pipeline: str
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    producer: DeadProducer | None
    group: str
    member_id: str | None
    why: str

    @property
    def task_name(self) -> str:
        return f"instance {self.ordinal} task {self.task} attempt {self.attempt}"


class DeadEnd(StrEnum):
    """The result for the transaction of a dead producer.

    ENDED: Fenceline ended it. NOT_OURS: the pipeline does not own the id that its worker reported. NOTHING_OPEN: no
    transaction was open, or it was complete. MOVED_ON: the id has another producer or epoch; nothing was changed.
    UNSUPPORTED: these brokers cannot end a transaction at an epoch. REFUSED: a permission is missing. UNANSWERED: the
    brokers did not confirm the end. The last two are repeated.
    """

    ENDED = "ended"
    NOT_OURS = "not_ours"
    NOTHING_OPEN = "nothing_open"
    MOVED_ON = "moved_on"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    UNANSWERED = "unanswered"

    @property
    def is_final(self) -> bool:
        return self not in (DeadEnd.REFUSED, DeadEnd.UNANSWERED)


class DeadMember(StrEnum):
    """The result for the membership of a dead task.

    REMOVED: Fenceline removed it from the group. NOT_A_MEMBER: it has left, or its session has ended. REFUSED: a
    permission is missing. UNANSWERED: the brokers did not confirm the removal. The last two are repeated.
    """

    REMOVED = "removed"
    NOT_A_MEMBER = "not_a_member"
    REFUSED = "refused"
    UNANSWERED = "unanswered"

    @property
    def is_final(self) -> bool:
        return self not in (DeadMember.REFUSED, DeadMember.UNANSWERED)


def why_attempt_gone(by: GoneBy | None, *, since: datetime, now: datetime) -> str | None:
    """Return the evidence of an attempt's death in a live application; None if its child processes may still live.

    by: None if this server had found the attempt's own process, and finds that it has ended.
    """
    if by is None:
        return "its own process on this host has ended"
    if by is GoneBy.WORKER:
        return "its executor reports that its Python worker's process has ended"
    if now - since < SETTLES_AFTER:
        return None
    return "the cluster manager reports that its executor's process has exited"


def why_gone(instance: Instance, seen: Observation, *, now: datetime) -> str | None:
    """Return the report that no process of this lease runs, as a sentence; None without such a report.

    | driver's process         | cluster manager               | dead                                              |
    |--------------------------|-------------------------------|---------------------------------------------------|
    | alive, or on another host| any answer                    | no                                                |
    | ended                    | application has ended         | yes, 2 s later                                    |
    | ended                    | application is unknown        | only if LOST: a restarted manager knows none      |
    | ended                    | application runs, or no answer| no                                                |
    """
    if instance.state not in ENDED or instance.claimed_at is None or now - instance.since < SETTLES_AFTER:
        return None
    if seen.process is not ProcessWord.GONE:
        return None
    if seen.master is MasterWord.FINISHED:
        return "its driver's process has ended, and the cluster manager reports that its application has ended"
    if seen.master is MasterWord.UNKNOWN and instance.state is InstanceState.LOST:
        return "its driver's process has ended, and the cluster manager has not known its application for long"
    return None


def dead_task(report: TaskReport, *, pipeline: str, group: str, why: str) -> DeadTask | None:
    """Return what a dead attempt has left; None if it had neither producer nor member, or reported that it left both.

    group: the pipeline's, by its definition: a worker cannot name another one.
    """
    producer = _producer(report)
    if report.state in _LEFT_NOTHING or (producer is None and report.member_id is None):
        return None
    return DeadTask(
        pipeline=pipeline,
        run_id=report.run_id,
        ordinal=report.ordinal,
        lease=report.lease,
        task=report.task,
        attempt=report.attempt,
        producer=producer,
        group=group,
        member_id=report.member_id,
        why=why,
    )


def _producer(report: TaskReport) -> DeadProducer | None:
    if report.transactional_id is None or report.producer_id is None or report.producer_epoch is None:
        return None
    return DeadProducer(
        transactional_id=report.transactional_id,
        producer_id=report.producer_id,
        producer_epoch=report.producer_epoch,
    )


def left_by(dead: DeadProducer, known: KnownTransaction | None) -> DeadEnd | None:
    """Judge the coordinator's answer. None: the dead producer has left a transaction open, which is to be ended."""
    if known is None:
        return DeadEnd.NOTHING_OPEN
    if (known.producer_id, known.producer_epoch) != (dead.producer_id, dead.producer_epoch):
        return DeadEnd.MOVED_ON
    return None if known.state == ONGOING else DeadEnd.NOTHING_OPEN
