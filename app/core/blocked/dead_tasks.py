"""Tasks whose process is gone: by whose word, and what may be done about a transaction that they left open.

Gone is not silent. A process that nobody hears may live and go on, and its session and transaction timeout are there
for that; only who manages it can say that there is none. Even then nothing is done but by the coordinator, and only
while the id is at the very producer that the dead one had: its successor's init, which needs nobody's permission, wins.
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
"""The executors of a driver that was killed live on for a moment, and what is theirs is not over yet."""

_LEFT_NOTHING = frozenset({TaskState.DRAINED, TaskState.SUPERSEDED})


class DeadProducer(msgspec.Struct, frozen=True, kw_only=True):
    """The producer that a dead attempt last reported, and `why` it is known to be dead."""

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
    """What became of the transaction of a dead producer.

    ENDED: by us. NOT_OURS: the pipeline does not own the id, whatever its worker told.
    NOTHING_OPEN: there was none, or it was decided already. MOVED_ON: the id has another producer or
    epoch, so that nothing was done. UNSUPPORTED: these brokers cannot end it at an epoch. REFUSED: a permission is
    missing. UNANSWERED: nobody said that it is done. The last two are tried again.
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
    """The sentence on an attempt of an application that lives; None: not yet, what it forked may live a moment."""
    if by is GoneBy.WORKER:
        return "its Python worker's process is gone, by its executor's word"
    if now - since < SETTLES_AFTER:
        return None
    return "its executor's process has exited, by the resource manager's word"


def why_gone(instance: Instance, seen: Observation, *, now: datetime) -> str | None:
    """Who says that no process of this lease runs any more, as a sentence; None while nobody can say so.

    | driver's process         | resource manager              | gone                                              |
    |--------------------------|-------------------------------|---------------------------------------------------|
    | lives, or another host's | whatever                      | no                                                |
    | gone                     | says that it has ended        | yes, 2 s later                                    |
    | gone                     | knows of no such application  | only if LOST: one that began anew knows of none   |
    | gone                     | counts it as running, silent  | no                                                |
    """
    if instance.state not in ENDED or instance.claimed_at is None or now - instance.since < SETTLES_AFTER:
        return None
    if seen.process is not ProcessWord.GONE:
        return None
    if seen.master is MasterWord.FINISHED:
        return "its driver's process is gone, and its application has ended by the resource manager's word"
    if seen.master is MasterWord.UNKNOWN and instance.state is InstanceState.LOST:
        return "its driver's process is gone, and the resource manager has known of no such application for long"
    return None


def dead_producer(report: TaskReport, *, pipeline: str, why: str) -> DeadProducer | None:
    """The producer of an attempt whose process is gone; None where it had none or says that it left nothing open."""
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
    """What its coordinator's word makes of it; None: it has left a transaction open, which is to be ended."""
    if known is None:
        return DeadEnd.NOTHING_OPEN
    if (known.producer_id, known.producer_epoch) != (dead.producer_id, dead.producer_epoch):
        return DeadEnd.MOVED_ON
    return None if known.state == ONGOING else DeadEnd.NOTHING_OPEN
