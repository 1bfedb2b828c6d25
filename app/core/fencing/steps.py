"""From the steps of a transactional id to cases: which records belong to the loss of which producer.

The journal may begin anywhere and be compacted, so records may be missing between any two that are there. A case is
made only of records that fit without a gap: the same producer id, epochs that follow each other, and for an abort the
same begin of the transaction. Where they do not fit nothing is said, because a wrong cause is worse than none.
"""

from __future__ import annotations

from app.core.fencing.evidence import CoordinatorRecord
from app.core.fencing.fencing_event import Case, FencingKey, FencingKind
from app.core.journals.live_transactions import LiveTransaction, RecordedState, Step, StepKind
from app.core.journals.transaction_state import TransactionStatus

LAST_EPOCH = 32_766
"""A producer id that has reached it is not used on. The one after it is for the coordinator's own abort."""

IDLE = frozenset({TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})


def cases_of(live: LiveTransaction, *, kafka_cluster_id: str) -> list[Case]:
    """A case for each producer of this id that was ended, as far as its steps tell; the same steps, the same cases."""
    cases: list[Case] = []
    steps = live.steps
    for index, step in enumerate(steps):
        before = step.before
        if before is None:
            continue
        previous = steps[index - 1] if index else None
        following = steps[index + 1] if index + 1 < len(steps) else None
        if step.kind is StepKind.ABORTED and is_ended_by(before, step.record):
            records = [before, step.record, *_what_followed(step, following, live)]
        elif step.kind is StepKind.INITIALISED and is_init_after(before, step.record) and _is_owned(before, previous):
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
    """Whether the abort, at the next epoch, is that of the very transaction that `own` had open."""
    return (
        own.status is TransactionStatus.ONGOING
        and abort.status.is_abort
        and abort.producer_id == own.producer_id
        and abort.producer_epoch == own.producer_epoch + 1
        and abort.start_ms == own.start_ms
    )


def is_init_after(before: RecordedState, init: RecordedState) -> bool:
    """Whether InitProducerId was answered right after this state, which had nothing open."""
    return before.status in IDLE and is_next_owner(before, init)


def is_next_owner(before: RecordedState, init: RecordedState) -> bool:
    """Whether the answer to InitProducerId is the next one after this epoch, with none between them."""
    if init.status is not TransactionStatus.EMPTY:
        return False
    if init.producer_id == before.producer_id:
        return init.producer_epoch == before.producer_epoch + 1
    return before.producer_epoch >= LAST_EPOCH and init.producer_epoch == 0


def _is_owned(state: RecordedState, previous: Step | None) -> bool:
    """Whether a producer ever held this epoch: that of an abort may have been the coordinator's alone.

    A client before KIP-890 aborts at its own epoch, which then began otherwise than with the abort.
    """
    if state.status is not TransactionStatus.COMPLETE_ABORT:
        return True
    if previous is None or (previous.producer_id, previous.producer_epoch) != (state.producer_id, state.producer_epoch):
        return False
    return not previous.record.status.is_abort


def _what_followed(abort: Step, following: Step | None, live: LiveTransaction) -> list[RecordedState]:
    """The end of the abort, and the init that came next with what its producer did, or what the old one did."""
    if abort.then is not None:
        return [abort.then]
    if following is None:
        return [live.newest] if live.offset != abort.offset else []
    end = following.before
    if end is None or not end.status.is_abort or end.producer_epoch != abort.producer_epoch:
        return []
    found = [end] if end.offset != abort.offset else []
    if following.kind is StepKind.INITIALISED and is_next_owner(end, following.record):
        found += [following.record, *([following.then] if following.then else ())]
    return found
