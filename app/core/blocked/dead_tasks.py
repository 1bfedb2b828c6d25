"""Tasks whose process is reported dead, and the rules for the transactions that they left open.

A task without heartbeats may be alive; session and transaction timeouts cover it. Only the manager of its process can
report its end. Even then, the coordinator ends the transaction only if the id still has the dead task's producer id and
epoch. So a successor's init, which needs no permission from Fenceline, always wins.
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
    """The producer that a dead attempt last reported, and the report of its death (`why`)."""

    pipeline: str
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
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


def why_attempt_gone(by: GoneBy, *, since: datetime, now: datetime) -> str | None:
    """Return the report of an attempt's death in a live application; None if its child processes may still live."""
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


def dead_producer(report: TaskReport, *, pipeline: str, why: str) -> DeadProducer | None:
    """Return the producer of a dead attempt; None if it had none or reported that nothing was left open."""
    if report.state in _LEFT_NOTHING:
        return None
    if report.transactional_id is None or report.producer_id is None or report.producer_epoch is None:
        return None
    return DeadProducer(
        pipeline=pipeline,
        run_id=report.run_id,
        ordinal=report.ordinal,
        lease=report.lease,
        task=report.task,
        attempt=report.attempt,
        transactional_id=report.transactional_id,
        producer_id=report.producer_id,
        producer_epoch=report.producer_epoch,
        why=why,
    )


def left_by(dead: DeadProducer, known: KnownTransaction | None) -> DeadEnd | None:
    """Judge the coordinator's answer. None: the dead producer has left a transaction open, which is to be ended."""
    if known is None:
        return DeadEnd.NOTHING_OPEN
    if (known.producer_id, known.producer_epoch) != (dead.producer_id, dead.producer_epoch):
        return DeadEnd.MOVED_ON
    return None if known.state == ONGOING else DeadEnd.NOTHING_OPEN
