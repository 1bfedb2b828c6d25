"""Why a producer was fenced, as its coordinator's journal tells it: a timeout of its own, or a taker of its id.

librdkafka says `_FENCED` to both. The journal tells them apart, for clients before KIP-890 (which librdkafka is: its
epoch moves only when it is taken from it):
  taken over, transaction open    ONGOING e, PREPARE_ABORT e+1, COMPLETE_ABORT e+1, EMPTY e+2
  taken over, nothing open        EMPTY e+1
  timed out                       ONGOING e, PREPARE_ABORT e+1, COMPLETE_ABORT e+1, and nothing until somebody inits
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from app.domain.journals.transaction_state import TransactionState, TransactionStatus, Undecodable

_ABORTS = frozenset({TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT})


class FencingCause(StrEnum):
    """UNSETTLED: the coordinator aborted before the timeout was over, so an init is probably on its way: look again.
    UNKNOWN: the journal shows nothing that could have fenced this producer.
    """

    TIMED_OUT = "timed_out"
    TAKEN_OVER = "taken_over"
    UNSETTLED = "unsettled"
    UNKNOWN = "unknown"


class Verdict(msgspec.Struct, frozen=True):
    cause: FencingCause
    evidence: str


def judge(
    history: Sequence[TransactionState | Undecodable | None], *, producer_id: int, producer_epoch: int
) -> Verdict:
    """Say what ended the producer (producer_id, producer_epoch).

    Args:
        history: the states of its transactional id in journal order; None is a tombstone. It may begin anywhere before
            the fencing: what lies before the producer's own last record is ignored, and compaction may have removed
            that record, since the newest one of an id always stays.
    """
    later = _after_own_records(history, producer_id, producer_epoch)
    for state in later:
        if isinstance(state, TransactionState) and _is_of_a_later_owner(state, producer_id, producer_epoch):
            return Verdict(
                FencingCause.TAKEN_OVER,
                f"the journal shows {state.status.name} of producer {state.producer_id} epoch {state.producer_epoch}, "
                f"ours was {producer_id} epoch {producer_epoch}: another producer has initialised this id",
            )
    if not later:
        return Verdict(
            FencingCause.UNKNOWN, f"no record follows those of producer {producer_id} epoch {producer_epoch}"
        )
    last = later[-1]
    if isinstance(last, Undecodable):
        return Verdict(FencingCause.UNKNOWN, f"the newest record cannot be read: {last.reason}")
    if last is None:
        return Verdict(FencingCause.TIMED_OUT, "the id has expired, and nobody has initialised it since")
    lasted_ms = last.last_update_ms - last.start_ms
    ended = f"the coordinator ended the transaction at epoch {last.producer_epoch} after {lasted_ms} ms"
    if last.start_ms < 0 or lasted_ms < last.timeout_ms:
        return Verdict(FencingCause.UNSETTLED, f"{ended}, before its timeout of {last.timeout_ms} ms")
    return Verdict(FencingCause.TIMED_OUT, f"{ended} (timeout {last.timeout_ms} ms), and nobody has initialised since")


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
    """Everything but the coordinator's own abort at the next epoch."""
    if state.producer_id != producer_id:
        return True
    return state.producer_epoch > producer_epoch + 1 or (
        state.producer_epoch == producer_epoch + 1 and state.status not in _ABORTS
    )
