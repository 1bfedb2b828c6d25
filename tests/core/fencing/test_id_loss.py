"""Timeout or takeover: the journals of both, as a broker writes them for a client before KIP-890."""

from __future__ import annotations

import functools

import pytest

from app.core.fencing.id_loss import IdLoss, judge_id_loss
from app.core.journals.transaction_state import TransactionState, TransactionStatus, Undecodable

S = TransactionStatus
judged = functools.partial(judge_id_loss, producer_id=7, producer_epoch=3)


def state(status: TransactionStatus, epoch: int, *, producer_id: int = 7, lasted_ms: int = 100) -> TransactionState:
    return TransactionState(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=10_000,
        status=status,
        start_ms=1_000_000,
        last_update_ms=1_000_000 + lasted_ms,
    )


BEFORE = [state(S.EMPTY, 3), state(S.ONGOING, 3), state(S.PREPARE_COMMIT, 3), state(S.COMPLETE_COMMIT, 3)]
TIMED_OUT = [
    *BEFORE,
    state(S.ONGOING, 3),
    state(S.PREPARE_ABORT, 4, lasted_ms=10_400),
    state(S.COMPLETE_ABORT, 4, lasted_ms=10_410),
]
ABORTED_EARLY = [*BEFORE, state(S.ONGOING, 3), state(S.PREPARE_ABORT, 4), state(S.COMPLETE_ABORT, 4)]


@pytest.mark.parametrize(
    ("history", "loss"),
    [
        (TIMED_OUT, IdLoss.TIMED_OUT),
        (TIMED_OUT[:-1], IdLoss.TIMED_OUT),
        ([*TIMED_OUT, state(S.EMPTY, 5)], IdLoss.TAKEN_OVER),
        (ABORTED_EARLY, IdLoss.UNSETTLED),
        ([*ABORTED_EARLY, state(S.EMPTY, 5)], IdLoss.TAKEN_OVER),
        ([*ABORTED_EARLY, state(S.EMPTY, 5), state(S.ONGOING, 5)], IdLoss.TAKEN_OVER),
        ([*BEFORE, state(S.EMPTY, 4)], IdLoss.TAKEN_OVER),
        ([*BEFORE, state(S.EMPTY, 0, producer_id=8)], IdLoss.TAKEN_OVER),
        ([*BEFORE, state(S.EMPTY, 4), state(S.ONGOING, 4)], IdLoss.TAKEN_OVER),
        ([*TIMED_OUT, None], IdLoss.TIMED_OUT),
        (BEFORE, IdLoss.UNKNOWN),
        ([], IdLoss.UNKNOWN),
        ([*BEFORE, Undecodable("unknown value version 2", b"")], IdLoss.UNKNOWN),
    ],
)
def test_loss(history: list[TransactionState | Undecodable | None], loss: IdLoss) -> None:
    assert judged(history).loss is loss


def test_compacted_journal_with_only_the_takers_record_suffices() -> None:
    assert judged([state(S.COMPLETE_COMMIT, 6)]).loss is IdLoss.TAKEN_OVER


def test_records_of_a_predecessor_are_ignored() -> None:
    """An earlier producer may have had any producer id; only records after the task's own count."""
    history = [state(S.EMPTY, 0, producer_id=99), state(S.COMPLETE_COMMIT, 0, producer_id=99), *TIMED_OUT]
    assert judged(history).loss is IdLoss.TIMED_OUT


def test_evidence_names_the_record() -> None:
    verdict = judged([*ABORTED_EARLY, state(S.EMPTY, 5)])
    assert "EMPTY of producer 7 epoch 5, this task had 7 epoch 3" in verdict.evidence


@pytest.mark.parametrize(
    ("history", "loss"),
    [
        ([*BEFORE, state(S.EMPTY, 4)], IdLoss.OWN_EPOCH),
        ([*BEFORE, state(S.EMPTY, 4), state(S.EMPTY, 4)], IdLoss.OWN_EPOCH),
        ([*ABORTED_EARLY, state(S.EMPTY, 5)], IdLoss.OWN_EPOCH),
        ([*TIMED_OUT, state(S.EMPTY, 5)], IdLoss.OWN_EPOCH),
        ([*BEFORE, state(S.EMPTY, 4), state(S.ONGOING, 4)], IdLoss.TAKEN_OVER),
        ([*BEFORE, state(S.EMPTY, 4), state(S.EMPTY, 5)], IdLoss.TAKEN_OVER),
        ([*BEFORE, state(S.EMPTY, 6)], IdLoss.TAKEN_OVER),
        ([*BEFORE, state(S.EMPTY, 0, producer_id=8)], IdLoss.TAKEN_OVER),
        (TIMED_OUT, IdLoss.TIMED_OUT),
        (BEFORE, IdLoss.UNKNOWN),
    ],
)
def test_epoch_that_the_producers_own_client_may_have_requested(
    history: list[TransactionState | Undecodable | None], loss: IdLoss
) -> None:
    assert judged(history, may_have_bumped=True).loss is loss
