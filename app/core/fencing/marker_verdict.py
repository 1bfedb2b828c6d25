"""Judge an abort marker that the coordinator did not decide: an operator wrote it.

`kafka-transactions.sh abort` (WriteTxnMarkers, KIP-664) writes an ABORT marker into one partition and leaves the
coordinator's journal unchanged. The coordinator's state at that time distinguishes a hanging transaction from a live
one.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.core.fencing.evidence import CommandVerb, CommandWord, CoordinatorRecord, Evidence, MarkerRecord
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingKey, FencingVerdict
from app.core.fencing.steps import IDLE
from app.core.journals.live_transactions import EpochStep, LiveTransaction, RecordedState
from app.core.journals.transaction_state import TransactionStatus


def record_beside(
    marker: MarkerRecord, producer_id: int, producer_epoch: int, live: LiveTransaction
) -> RecordedState | None:
    """Return the record that shows that the coordinator did not decide this ABORT; None if it may have.

    The transaction was open, or its epoch had ended, or its end was recorded before the marker was written. Two
    brokers' clocks are compared: a marker within their skew after a real end would be misjudged.
    """
    newest = live.newest
    if (newest.producer_id, newest.producer_epoch) == (producer_id, producer_epoch):
        is_over = newest.status in IDLE and newest.timestamp_ms < marker.at_ms
        return newest if newest.status is TransactionStatus.ONGOING or is_over else None
    steps = live.steps
    for step in steps:
        is_later = step.producer_id != producer_id or step.producer_epoch > producer_epoch
        if is_later and step.record.timestamp_ms < marker.at_ms and _was_held(steps, producer_id, producer_epoch, step):
            return step.record
    return None


def _was_held(steps: Sequence[EpochStep], producer_id: int, producer_epoch: int, until: EpochStep) -> bool:
    """Return True if the id had this epoch before that step, so that the step is its successor."""
    return any(
        (step.producer_id, step.producer_epoch) == (producer_id, producer_epoch) and step.offset < until.offset
        for step in steps
    )


def judge_marker(key: FencingKey, evidence: Sequence[Evidence]) -> FencingVerdict | None:
    """Judge the cause for evidence of kind MARKER; None without a marker and an answered command."""
    markers = [one for one in evidence if isinstance(one, MarkerRecord)]
    commands = [
        one
        for one in evidence
        if isinstance(one, CommandWord) and one.verb is CommandVerb.END and (one.partitions or markers)
    ]
    if not markers and not commands:
        return None
    is_answered = any(one.partitions for one in commands)
    known = [one.record for one in evidence if isinstance(one, CoordinatorRecord)]
    partitions = {f"{one.topic}-{one.partition}" for one in markers}.union(*(one.partitions for one in commands))
    is_alive = any(one.was_open for one in commands) or any(_has_open(record, key, partitions) for record in known)
    by = f"{commands[0].who} ended" if commands else "An unknown client ended"
    why = f", because: {commands[0].why}" if commands and commands[0].why else ""
    owner = key.transactional_id or "an id that no coordinator knows"
    where = ", ".join(sorted(partitions))
    what = f"of producer {key.producer_id} epoch {key.producer_epoch} ({owner}) in {where}{why}."
    at_ms = min(one.at_ms for one in markers or commands)
    if is_alive:
        return FencingVerdict(
            cause=FencingCause.OPERATOR_ABORT,
            confidence=Confidence.CERTAIN if is_answered else Confidence.LIKELY,
            at_ms=at_ms,
            sentence=f"{by} the open transaction {what} Its coordinator still had it open: its records there are "
            f"lost, and the rest of it may still be committed.",
        )
    return FencingVerdict(
        cause=FencingCause.HANGING_ENDED,
        confidence=Confidence.CERTAIN if is_answered or known else Confidence.LIKELY,
        at_ms=at_ms,
        sentence=f"{by} the hanging transaction {what} Its coordinator did not have it; consumers continue.",
        alternatives=() if is_answered or known else (FencingCause.OPERATOR_ABORT,),
    )


def _has_open(record: RecordedState, key: FencingKey, partitions: set[str]) -> bool:
    return (
        record.status is TransactionStatus.ONGOING
        and (record.producer_id, record.producer_epoch) == (key.producer_id, key.producer_epoch)
        and any(f"{at.topic}-{number}" in partitions for at in record.partitions for number in at.partitions)
    )
