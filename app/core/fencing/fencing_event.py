"""A fencing event: what was taken from whom, why, how sure that is, and what proves it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from app.core.fencing.evidence import Evidence
from app.kit.storable import moment_of_ms


class FencingKind(StrEnum):
    """What was taken. It is part of an event's identity and never changes; the cause may be corrected.

    EPOCH: the producer's epoch is over. MEMBERSHIP: the group goes on without the member, or refused its offsets; the
    producer itself may go on. MARKER: its transaction was ended in a partition behind the coordinator's back.
    """

    EPOCH = "epoch"
    MEMBERSHIP = "membership"
    MARKER = "marker"


class Cause(StrEnum):
    """docs/fencing.md has a row for each: what is required for it, what else it could be, how sure it is.

    The last four are not fencing. They are named because they look like it.
    """

    TAKEOVER = "takeover"
    APPLICATION_RETURNED = "application_returned"
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


_NO_FENCING = frozenset({Cause.CLEAN_RESTART, Cause.OWN_ABORT, Cause.OWN_EPOCH, Cause.EPOCHS_USED_UP})


class Confidence(StrEnum):
    """CERTAIN: the records allow nothing else. LIKELY: the alternatives are rarer. OPEN: the records do not tell."""

    CERTAIN = "certain"
    LIKELY = "likely"
    OPEN = "open"


class FencingKey(msgspec.Struct, frozen=True, kw_only=True):
    """Whose loss it is: the producer (id and epoch) that was ended, not the one that came after.

    transactional_id: "" where no coordinator knows one for the producer id, as of a hanging transaction.
    """

    kafka_cluster_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    kind: FencingKind


class Case(msgspec.Struct, frozen=True):
    """Evidence that belongs to one key; enough for an event or not."""

    key: FencingKey
    evidence: tuple[Evidence, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """sentence: what a person on call reads. at_ms: when it happened, by the clock of whoever wrote it down."""

    cause: Cause
    confidence: Confidence
    at_ms: int
    sentence: str
    alternatives: tuple[Cause, ...] = ()


class FencingEvent(msgspec.Struct, frozen=True, kw_only=True):
    key: FencingKey
    verdict: Verdict
    evidence: tuple[Evidence, ...]

    @property
    def at(self) -> datetime:
        """When it happened."""
        return moment_of_ms(self.verdict.at_ms)
