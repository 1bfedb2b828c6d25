"""The colours of states of transactions, groups and records of a log, and of grades of double processing."""

from __future__ import annotations

from app.core.journals.double_processing import OverlapGrade
from app.core.journals.live_groups import GroupState
from app.core.journals.log_entries import EntryState
from app.core.journals.transaction_state import TransactionStatus

TONES: tuple[tuple[str, str], ...] = (
    (EntryState.PLAIN, "idle"),
    (EntryState.OPEN, "busy"),
    (EntryState.COMMITTED, "good"),
    (EntryState.ABORTED, "warn"),
    (EntryState.UNKNOWN, "idle"),
    (EntryState.MARKER, "idle"),
    (EntryState.UNREADABLE, "bad"),
    (TransactionStatus.EMPTY.word, "idle"),
    (TransactionStatus.ONGOING.word, "busy"),
    (TransactionStatus.PREPARE_COMMIT.word, "busy"),
    (TransactionStatus.PREPARE_ABORT.word, "warn"),
    (TransactionStatus.COMPLETE_COMMIT.word, "good"),
    (TransactionStatus.COMPLETE_ABORT.word, "warn"),
    (TransactionStatus.DEAD.word, "bad"),
    (TransactionStatus.PREPARE_EPOCH_FENCE.word, "warn"),
    (GroupState.EMPTY, "idle"),
    (GroupState.STABLE, "good"),
    (GroupState.ASSIGNING, "busy"),
    (GroupState.RECONCILING, "busy"),
    (GroupState.PREPARING_REBALANCE, "busy"),
    (GroupState.COMPLETING_REBALANCE, "busy"),
    (GroupState.UNKNOWN, "warn"),
    (OverlapGrade.PROVED, "bad"),
    (OverlapGrade.LIKELY, "warn"),
    (OverlapGrade.POSSIBLE, "idle"),
    (OverlapGrade.INTENDED, "idle"),
)
