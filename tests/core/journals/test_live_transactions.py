"""The state computed from `__transaction_state`: recorded journals, compaction and repetition, and kept steps."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.live_transactions import (
    MAX_STEPS,
    ClientProtocol,
    EpochStepKind,
    LiveTransaction,
    LiveTransactions,
    fold,
)
from app.core.journals.record_batch import RecordBatch, UnreadableBatch, split_batches
from app.core.journals.transaction_state import TransactionState, TransactionStatus, encode_key, encode_value
from tests.core.journals.batches import batch_of
from tests.support.recordings import TRANSACTIONS, VERSION_NAMES, recorded_bytes

both_versions = pytest.mark.parametrize("version", VERSION_NAMES)
NEW, OLD = VERSION_NAMES
LARGEST_ID_BYTES = 1_500


def recorded(version: str) -> list[RecordBatch | UnreadableBatch]:
    return list(split_batches(recorded_bytes(version, TRANSACTIONS)))


def folded(batches: list[RecordBatch | UnreadableBatch]) -> LiveTransactions:
    live = LiveTransactions()
    for batch in batches:
        live.apply(0, batch)
    return live


def steps_of(live: LiveTransaction) -> list[tuple[EpochStepKind, int]]:
    return [(step.kind, step.producer_epoch) for step in live.steps]


def state(status: TransactionStatus, *, epoch: int = 0, client: int = 0, producer_id: int = 7) -> TransactionState:
    return TransactionState(
        producer_id, epoch, 60_000, status, last_update_ms=1, start_ms=1, client_transaction_version=client
    )


@both_versions
def test_open_transaction_is_known_with_its_partitions_and_its_timeout(version: str) -> None:
    live = folded(recorded(version)).ids["open-0"]
    assert live.is_open
    assert live.state.status is TransactionStatus.ONGOING
    assert {at.topic for at in live.state.partitions or ()} == {"orders.copied", "__consumer_offsets"}
    assert live.times_out_at_ms == live.state.start_ms + 60_000
    assert [one.transactional_id for one in folded(recorded(version)).ids.values() if one.is_open] == ["open-0"]


@both_versions
def test_commits_and_aborts_are_counted(version: str) -> None:
    ids = folded(recorded(version)).ids
    assert (ids["loop-0"].commits, ids["loop-0"].aborts) == (2, 1)
    assert (ids["taken-0"].commits, ids["taken-0"].aborts) == (1, 1)
    assert (ids["late-0"].commits, ids["late-0"].aborts) == (0, 1)
    assert ids["copier-0"].commits == 3


@both_versions
def test_takeover_leaves_its_steps(version: str) -> None:
    """Aborted at the next epoch, initialised at the one after; then an init without an open transaction."""
    assert steps_of(folded(recorded(version)).ids["taken-0"]) == [
        (EpochStepKind.INITIALISED, 0),
        (EpochStepKind.ABORTED, 1),
        (EpochStepKind.INITIALISED, 2),
        (EpochStepKind.INITIALISED, 3),
    ]


@both_versions
def test_step_keeps_the_records_around_it(version: str) -> None:
    """The record before, the record itself, and the new producer's first one."""
    _, aborted, taken, _ = folded(recorded(version)).ids["taken-0"].steps
    statuses = [
        (record.offset, record.status)
        for step in (aborted, taken)
        for record in (step.before, step.record, step.then)
        if record is not None
    ]
    assert statuses == [
        (31, TransactionStatus.ONGOING),
        (32, TransactionStatus.PREPARE_ABORT),
        (33, TransactionStatus.COMPLETE_ABORT),
        (34, TransactionStatus.EMPTY),
        (35, TransactionStatus.ONGOING),
    ]
    assert aborted.before is not None
    assert aborted.before.timestamp_ms <= aborted.record.timestamp_ms
    assert [at.topic for at in aborted.before.partitions] == ["orders.copied"]


@both_versions
def test_timeout_leaves_an_abort_and_no_init(version: str) -> None:
    late = folded(recorded(version)).ids["late-0"]
    assert steps_of(late) == [(EpochStepKind.INITIALISED, 0), (EpochStepKind.ABORTED, 1)]
    assert late.state.last_update_ms - late.state.start_ms >= late.state.timeout_ms


def test_epoch_of_every_kip_890_commit_is_routine() -> None:
    copier = folded(recorded(NEW)).ids["copier-0"]
    assert copier.state.producer_epoch == 3
    assert steps_of(copier) == [(EpochStepKind.INITIALISED, 0)]


def test_client_protocol_is_known_from_version_1_on() -> None:
    new, old = folded(recorded(NEW)).ids, folded(recorded(OLD)).ids
    assert new["copier-0"].client_protocol is ClientProtocol.TV_2
    # The coordinator's own abort says TV_2; the client does not.
    assert new["late-0"].client_protocol is ClientProtocol.TV_0
    assert {one.client_protocol for one in old.values()} == {ClientProtocol.UNKNOWN}


def test_used_up_epochs_continue_with_the_next_producer_id() -> None:
    before = fold(
        None, "t", state(TransactionStatus.ONGOING, epoch=32_766, client=2), partition=0, offset=0, timestamp_ms=1
    )
    rotated = state(TransactionStatus.COMPLETE_COMMIT, epoch=0, client=2, producer_id=8)
    after = fold(before, "t", rotated, partition=0, offset=1, timestamp_ms=1)
    assert after.steps == before.steps
    assert (after.state.producer_id, after.commits) == (8, 1)


@both_versions
def test_records_read_twice_count_once(version: str) -> None:
    batches = recorded(version)
    once, twice = folded(batches), LiveTransactions()
    for batch in [*batches[:20], *batches[5:], *batches]:
        twice.apply(0, batch)
    assert twice == once


@both_versions
def test_restart_continues_from_the_saved_state(version: str) -> None:
    batches = recorded(version)
    first = folded(batches[:17])
    restarted = msgspec.msgpack.decode(msgspec.msgpack.encode(first), type=LiveTransactions)
    # It may begin a little earlier, at the last position that was saved.
    for batch in batches[10:]:
        restarted.apply(0, batch)
    assert restarted == folded(batches)


@pytest.mark.parametrize("start", range(0, 40, 3))
def test_tail_that_starts_in_the_middle_ends_with_the_same_states(start: int) -> None:
    whole, tail = folded(recorded(NEW)), folded(recorded(NEW)[start:])
    assert tail.reading.positions[0].first_offset == start
    for transactional_id, live in tail.ids.items():
        assert live.state == whole.ids[transactional_id].state
        # What is first seen is not called anything else.
        assert live.steps[0].kind in (EpochStepKind.FIRST_SEEN, EpochStepKind.INITIALISED)


@given(st.sets(st.integers(0, 45)))
def test_compaction_changes_no_present_state(removed: set[int]) -> None:
    """It removes any record but the newest one of an id."""
    batches = recorded(NEW)
    newest = {live.offset for live in folded(batches).ids.values()}
    kept = [batch for batch in batches if batch.last_offset not in removed or batch.last_offset in newest]
    assert {name: one.state for name, one in folded(kept).ids.items()} == {
        name: one.state for name, one in folded(batches).ids.items()
    }


def test_expired_id_is_removed() -> None:
    live = folded(recorded(NEW))
    end = live.reading.positions[0].next_offset
    assert live.apply(0, batch_of([(encode_key("late-0"), None)], base_offset=end)) == ["late-0"]
    assert "late-0" not in live.ids
    assert live.expired == 1


def test_unreadable_records_are_counted_and_skipped() -> None:
    live = LiveTransactions()
    good = (encode_key("t"), encode_value(state(TransactionStatus.EMPTY)))
    live.apply(0, batch_of([(b"\0\7x", b""), (encode_key("u"), b"\0\x09rest"), good], base_offset=0))
    live.apply(0, UnreadableBatch(9, 100, "message format 1, which is not supported"))
    assert list(live.ids) == ["t"]
    assert live.reading.unreadable == {
        "unknown key version 7": 1,
        "unknown value version 9": 1,
        "message format 1, which is not supported": 1,
    }
    assert live.reading.positions[0].next_offset == 10


def test_history_of_an_id_is_bounded() -> None:
    live = None
    for epoch in range(MAX_STEPS + 5):
        empty = state(TransactionStatus.EMPTY, epoch=epoch)
        live = fold(live, "t", empty, partition=0, offset=epoch, timestamp_ms=1)
    assert live is not None
    assert (len(live.steps), live.steps_dropped, live.steps[0].producer_epoch) == (MAX_STEPS, 5, 5)


def test_id_with_a_takeover_takes_little_memory() -> None:
    """There are tens of thousands of them; the values of its steps alone would take twice as much.

    Measured in a process of its own: threads and imports of other tests take memory, too.
    """
    ask = "from tests.core.journals.test_live_transactions import bytes_of_an_id; print(bytes_of_an_id())"
    root = Path(__file__).parents[3]
    told = subprocess.run([sys.executable, "-c", ask], cwd=root, check=True, capture_output=True, text=True)
    assert 0 < float(told.stdout) < LARGEST_ID_BYTES


def bytes_of_an_id() -> float:
    """The memory of an id with a takeover, as the mean of a hundred."""
    ids = 100
    folded(recorded(NEW))
    tracemalloc.start()
    taken = [folded(recorded(NEW)).ids["taken-0"] for _ in range(ids)]
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(len(live.steps) == 4 for live in taken)
    return used / ids
