"""Decide, before a worker initialises its id again, whether another producer has initialised it since.

The result is no fencing event and has no cause: `cause.py` judges those, with all evidence. A worker has the journal of
its own id alone, and must not fence its successor.

librdkafka reports `_FENCED` after a timeout and after a takeover. The journal distinguishes them for clients before
KIP-890, which librdkafka is. Their epoch changes only by another init of the id. The init of their own client (KIP-360:
in an abort after failed outputs) looks like a takeover:
  taken over, transaction open    ONGOING e, PREPARE_ABORT e+1, COMPLETE_ABORT e+1, EMPTY e+2
  taken over, nothing open        EMPTY e+1
  timed out                       ONGOING e, PREPARE_ABORT e+1, COMPLETE_ABORT e+1, and nothing until the next init
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from app.core.journals.transaction_state import TransactionState, TransactionStatus, Undecodable


class IdLoss(StrEnum):
    """
    TIMED_OUT  the coordinator ended the transaction at its timeout, and no producer initialised the id since
    TAKEN_OVER another producer initialised the id
    UNSETTLED  the coordinator aborted before the timeout was over, so an init probably follows: read again
    OWN_EPOCH  an init that the producer's own client may have sent, with no record under it
    UNKNOWN    the journal shows nothing that could have fenced this producer
    """

    TIMED_OUT = "timed_out"
    TAKEN_OVER = "taken_over"
    UNSETTLED = "unsettled"
    OWN_EPOCH = "own_epoch"
    UNKNOWN = "unknown"


class IdLossVerdict(msgspec.Struct, frozen=True):
    loss: IdLoss
    evidence: str


def judge_id_loss(
    history: Sequence[TransactionState | Undecodable | None],
    *,
    producer_id: int,
    producer_epoch: int,
    may_have_bumped: bool = False,
) -> IdLossVerdict:
    """Judge the history of the id after the producer (producer_id, producer_epoch) had it.

    Args:
        history: the states of its transactional id in journal order; None is a tombstone. It may begin anywhere before
            the fencing. States before the producer's own last record are ignored. Compaction may have removed that
            record, since only the newest one of an id always stays.
        may_have_bumped: the producer's own client may have requested its next epoch, and no answer was received.
    """
    later = _after_own_records(history, producer_id, producer_epoch)
    others = [
        state
        for state in later
        if isinstance(state, TransactionState) and _is_of_a_later_owner(state, producer_id, producer_epoch)
    ]
    if others:
        seen = (
            f"the journal shows {others[0].status.name} of producer {others[0].producer_id} epoch "
            f"{others[0].producer_epoch}, this task had {producer_id} epoch {producer_epoch}"
        )
        if may_have_bumped and _is_one_bump(others, producer_id, producer_epoch):
            return IdLossVerdict(IdLoss.OWN_EPOCH, f"{seen}: its own client may have requested that")
        return IdLossVerdict(IdLoss.TAKEN_OVER, f"{seen}: another producer has initialised this id")
    if not later:
        return IdLossVerdict(
            IdLoss.UNKNOWN, f"no record follows those of producer {producer_id} epoch {producer_epoch}"
        )
    last = later[-1]
    if isinstance(last, Undecodable):
        return IdLossVerdict(IdLoss.UNKNOWN, f"the newest record cannot be read: {last.reason}")
    if last is None:
        return IdLossVerdict(IdLoss.TIMED_OUT, "the id has expired, and has not been initialised since")
    lasted_ms = last.last_update_ms - last.start_ms
    ended = f"the coordinator ended the transaction at epoch {last.producer_epoch} after {lasted_ms} ms"
    if last.start_ms < 0 or lasted_ms < last.timeout_ms:
        return IdLossVerdict(IdLoss.UNSETTLED, f"{ended}, before its timeout of {last.timeout_ms} ms")
    return IdLossVerdict(IdLoss.TIMED_OUT, f"{ended} (timeout {last.timeout_ms} ms); no init followed")


def _after_own_records(
    history: Sequence[TransactionState | Undecodable | None], producer_id: int, producer_epoch: int
) -> Sequence[TransactionState | Undecodable | None]:
    for index in range(len(history) - 1, -1, -1):
        state = history[index]
        if (
            isinstance(state, TransactionState)
            and state.producer_id == producer_id
            and state.producer_epoch == producer_epoch
        ):
            return history[index + 1 :]
    return history


def _is_of_a_later_owner(state: TransactionState, producer_id: int, producer_epoch: int) -> bool:
    """Return True for each state except the coordinator's own abort at the next epoch."""
    if state.producer_id != producer_id:
        return True
    return state.producer_epoch > producer_epoch + 1 or (
        state.producer_epoch == producer_epoch + 1 and not state.status.is_abort
    )


def _is_one_bump(others: Sequence[TransactionState], producer_id: int, producer_epoch: int) -> bool:
    """Return True for one init to the next epoch (two higher if it ended a transaction) without a later write.

    Its answer may be lost and the request repeated; that adds a record at the same epoch.
    """
    epoch = others[0].producer_epoch
    return epoch <= producer_epoch + 2 and all(
        (state.status, state.producer_id, state.producer_epoch) == (TransactionStatus.EMPTY, producer_id, epoch)
        for state in others
    )
