"""A fencing event: the victim, the cause, the confidence and the evidence."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from app.core.fencing.evidence import Evidence
from app.kit.storable import moment_of_ms


class FencingKind(StrEnum):
    """The kind of loss. It is part of an event's identity and never changes; the cause may be corrected.

    EPOCH: the producer's epoch ended. MEMBERSHIP: the group continues without the member, or refused its offsets; the
    producer may continue. MARKER: its transaction was ended in one partition, without its coordinator.
    """

    EPOCH = "epoch"
    MEMBERSHIP = "membership"
    MARKER = "marker"


class FencingCause(StrEnum):
    """docs/fencing.md has a row for each: the evidence, the alternatives and the confidence.

    The last four are not fencing. They have names because they look like it.
    """

    TAKEOVER = "takeover"
    APPLICATION_RETURNED = "application_returned"
    NEWER_DRIVER = "newer_driver"
    NEWER_ATTEMPT = "newer_attempt"
    TIMEOUT = "timeout"
    OPERATOR_FENCE = "operator_fence"
    DEAD_TASK = "dead_task"
    COORDINATOR_ABORT = "coordinator_abort"
    ZOMBIE_REFUSED = "zombie_refused"
    UNEXPLAINED = "unexplained"
    STALE_GENERATION = "stale_generation"
    STALE_MEMBER_EPOCH = "stale_member_epoch"
    OPERATOR_ABORT = "operator_abort"
    HANGING_ENDED = "hanging_ended"
    CLEAN_RESTART = "clean_restart"
    OWN_ABORT = "own_abort"
    OWN_EPOCH = "own_epoch"
    EPOCHS_USED_UP = "epochs_used_up"

    @property
    def is_fencing(self) -> bool:
        return self not in _NO_FENCING


_NO_FENCING = frozenset(
    {FencingCause.CLEAN_RESTART, FencingCause.OWN_ABORT, FencingCause.OWN_EPOCH, FencingCause.EPOCHS_USED_UP}
)


class Confidence(StrEnum):
    """CERTAIN: the evidence allows no other cause. LIKELY: the alternatives are rarer. OPEN: the evidence cannot
    decide.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    OPEN = "open"


class FencingKey(msgspec.Struct, frozen=True, kw_only=True):
    """The victim: the producer (id and epoch) that was ended, not its successor.

    transactional_id: "" if no coordinator knows one for the producer id, as with a hanging transaction.
    """

    kafka_cluster_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    kind: FencingKind


class Case(msgspec.Struct, frozen=True):
    """Evidence that belongs to one key; sufficient for an event or not."""

    key: FencingKey
    evidence: tuple[Evidence, ...]


class FencingVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """sentence: for a person on call. at_ms: the time of the event, by the clock of its first record."""

    cause: FencingCause
    confidence: Confidence
    at_ms: int
    sentence: str
    alternatives: tuple[FencingCause, ...] = ()


class FencingEvent(msgspec.Struct, frozen=True, kw_only=True):
    key: FencingKey
    verdict: FencingVerdict
    evidence: tuple[Evidence, ...]

    @property
    def at(self) -> datetime:
        """The time of the event."""
        return moment_of_ms(self.verdict.at_ms)
