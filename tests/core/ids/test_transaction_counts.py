"""Counts of a journal: commits, aborts, and fenced transactions."""

from __future__ import annotations

from app.core.ids.transaction_counts import TransactionCounts, count_transactions
from app.core.journals.transaction_state import JournalRecord, TransactionState, TransactionStatus, Undecodable

S = TransactionStatus


def journal(
    transactional_id: str, *steps: tuple[TransactionStatus, int] | None, lasted_ms: int = 5, client: int = 0
) -> list[JournalRecord]:
    return [
        JournalRecord(
            transactional_id=transactional_id,
            partition=0,
            offset=offset,
            timestamp_ms=0,
            state=None
            if step is None
            else TransactionState(
                producer_id=1,
                producer_epoch=step[1],
                timeout_ms=1_000,
                status=step[0],
                start_ms=0,
                last_update_ms=lasted_ms,
                client_transaction_version=client,
            ),
        )
        for offset, step in enumerate(steps)
    ]


COMMIT = [(S.ONGOING, 0), (S.PREPARE_COMMIT, 0), (S.COMPLETE_COMMIT, 0)]
OWN_ABORT = [(S.ONGOING, 0), (S.PREPARE_ABORT, 0), (S.COMPLETE_ABORT, 0)]
TAKEN = [(S.ONGOING, 0), (S.PREPARE_ABORT, 1), (S.COMPLETE_ABORT, 1), (S.EMPTY, 2)]


def test_commits_and_own_aborts_are_no_fencings() -> None:
    records = journal("fl.t.a.0.0", (S.EMPTY, 0), *COMMIT, *OWN_ABORT, *COMMIT)
    counts = count_transactions(records, prefixes=("fl.t.a.",))
    assert counts == TransactionCounts(committed=2, aborted=1, inits=1)
    assert counts.fencings == 0


def test_age_of_the_transaction_distinguishes_takeover_and_timeout() -> None:
    taken = journal("fl.t.a.0.0", (S.EMPTY, 0), *TAKEN)
    timed_out = journal("fl.t.a.0.1", (S.EMPTY, 0), *TAKEN, lasted_ms=1_200)
    counts = count_transactions([*taken, *timed_out], prefixes=("fl.",))
    assert counts == TransactionCounts(aborted=2, takeovers=1, timeouts=1, inits=4)
    assert counts.fencings == 2


def test_epoch_bumps_of_kip_890_clients_are_no_fencings() -> None:
    records = journal("fl.t.a.0.0", (S.EMPTY, 0), (S.ONGOING, 0), (S.PREPARE_ABORT, 1), (S.COMPLETE_ABORT, 1), client=2)
    assert count_transactions(records, prefixes=("fl.",)).fencings == 0


def test_other_ids_tombstones_and_unknown_versions_do_not_count() -> None:
    strange = JournalRecord(
        transactional_id="fl.t.a.0.0", partition=0, offset=9, timestamp_ms=0, state=Undecodable("unknown", b"")
    )
    records = [*journal("fl.t.b.0.0", *COMMIT), *journal("fl.t.a.0.0", None), strange]
    assert count_transactions(records, prefixes=("fl.t.a.",)) == TransactionCounts()
