"""Count the committed, aborted and fenced transactions of a journal."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.core.journals.transaction_state import JournalRecord, TransactionState, TransactionStatus

_KIP_890 = 2
"""From this client transaction version on, every commit and abort raises the epoch, which no longer shows a fencing."""


class TransactionCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over some transactional ids.

    inits: the number of answers to InitProducerId, including the first start of each id.
    takeovers: open transactions that a new producer of the same id ended. A takeover with nothing open looks exactly
        like a clean restart in the journal, so it is in `inits` only.
    timeouts: open transactions that the coordinator ended because their timeout was over.
    """

    committed: int = 0
    aborted: int = 0
    takeovers: int = 0
    timeouts: int = 0
    inits: int = 0

    @property
    def fencings(self) -> int:
        return self.takeovers + self.timeouts


def count_transactions(records: Iterable[JournalRecord], *, prefixes: tuple[str, ...]) -> TransactionCounts:
    """Count for the ids that begin with one of `prefixes`, with records in the order of each journal partition.

    Compaction may have removed older records of an id: the counts are exact for the remaining records.
    """
    committed = aborted = takeovers = timeouts = inits = 0
    opened: dict[str, TransactionState] = {}
    for record in records:
        state = record.state
        if not record.transactional_id.startswith(prefixes) or not isinstance(state, TransactionState):
            continue
        match state.status:
            case TransactionStatus.EMPTY:
                inits += 1
            case TransactionStatus.ONGOING:
                opened[record.transactional_id] = state
            case TransactionStatus.COMPLETE_COMMIT:
                committed += 1
            case TransactionStatus.COMPLETE_ABORT:
                aborted += 1
                if _was_taken_away(state, opened.get(record.transactional_id)):
                    timed_out = state.last_update_ms - state.start_ms >= state.timeout_ms
                    timeouts += timed_out
                    takeovers += not timed_out
            case _:
                pass
    return TransactionCounts(committed=committed, aborted=aborted, takeovers=takeovers, timeouts=timeouts, inits=inits)


def _was_taken_away(aborted: TransactionState, opened: TransactionState | None) -> bool:
    """Return True if the coordinator ended it. Its record has the coordinator's version, not the client's."""
    return (
        opened is not None
        and opened.client_transaction_version < _KIP_890
        and aborted.producer_epoch == opened.producer_epoch + 1
    )
