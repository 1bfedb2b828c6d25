"""Turn the steps of a transactional id into cases: assign the records to the producer that was fenced.

The journal may begin anywhere and be compacted, so records may be missing between any two others. A case has only
records without a gap: the same producer id, consecutive epochs, and for an abort the same begin of the transaction.
Other records make no case, because a wrong cause is worse than none.
"""

from __future__ import annotations

from app.core.fencing.evidence import CoordinatorRecord
from app.core.fencing.fencing_event import Case, FencingKey, FencingKind
from app.core.journals.live_transactions import EpochStep, EpochStepKind, LiveTransaction, RecordedState
from app.core.journals.transaction_state import TransactionStatus

LAST_EPOCH = 32_766
"""The last epoch of a producer id for its producer. The next one is for the coordinator's own abort."""

IDLE = frozenset({TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})


def cases_of(live: LiveTransaction, *, kafka_cluster_id: str) -> list[Case]:
    """Return a case for each fenced producer of this id that its steps show; the same steps give the same cases."""
    cases: list[Case] = []
    steps = live.steps
    for index, step in enumerate(steps):
        before = step.before
        if before is None:
            continue
        previous = steps[index - 1] if index else None
        following = steps[index + 1] if index + 1 < len(steps) else None
        if step.kind is EpochStepKind.ABORTED and is_ended_by(before, step.record):
            records = [before, step.record, *_what_followed(step, following, live)]
        elif (
            step.kind is EpochStepKind.INITIALISED
            and is_init_after(before, step.record)
            and _is_owned(before, previous)
        ):
            records = [before, step.record, *([step.then] if step.then else ())]
        else:
            continue
        key = FencingKey(
            kafka_cluster_id=kafka_cluster_id,
            transactional_id=live.transactional_id,
            producer_id=before.producer_id,
            producer_epoch=before.producer_epoch,
            kind=FencingKind.EPOCH,
        )
        cases.append(Case(key, tuple(CoordinatorRecord(live.partition, record) for record in records)))
    return cases


def is_ended_by(own: RecordedState, abort: RecordedState) -> bool:
    """Return True if the abort, at the next epoch, is that of the transaction that `own` had open."""
    return (
        own.status is TransactionStatus.ONGOING
        and abort.status.is_abort
        and abort.producer_id == own.producer_id
        and abort.producer_epoch == own.producer_epoch + 1
        and abort.start_ms == own.start_ms
    )


def is_init_after(before: RecordedState, init: RecordedState) -> bool:
    """Return True if InitProducerId was answered right after this state, which had no transaction open."""
    return before.status in IDLE and is_next_owner(before, init)


def is_next_owner(before: RecordedState, init: RecordedState) -> bool:
    """Return True if the answer to InitProducerId directly follows this epoch."""
    if init.status is not TransactionStatus.EMPTY:
        return False
    if init.producer_id == before.producer_id:
        return init.producer_epoch == before.producer_epoch + 1
    return before.producer_epoch >= LAST_EPOCH and init.producer_epoch == 0


def _is_owned(state: RecordedState, previous: EpochStep | None) -> bool:
    """Return True if a producer had this epoch: the epoch of an abort may be the coordinator's alone.

    A client before KIP-890 aborts at its own epoch, whose first record is not the abort.
    """
    if state.status is not TransactionStatus.COMPLETE_ABORT:
        return True
    if previous is None or (previous.producer_id, previous.producer_epoch) != (state.producer_id, state.producer_epoch):
        return False
    return not previous.record.status.is_abort


def _what_followed(abort: EpochStep, following: EpochStep | None, live: LiveTransaction) -> list[RecordedState]:
    """Return the end of the abort, and the next init with its producer's action, or the old producer's next action."""
    if abort.then is not None:
        return [abort.then]
    if following is None:
        return [live.newest] if live.offset != abort.offset else []
    end = following.before
    if end is None or not end.status.is_abort or end.producer_epoch != abort.producer_epoch:
        return []
    found = [end] if end.offset != abort.offset else []
    if following.kind is EpochStepKind.INITIALISED and is_next_owner(end, following.record):
        found += [following.record, *([following.then] if following.then else ())]
    return found
