"""The outcome of each batch: with its marker in the range, without it, and unknown outcomes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.log_entries import Decided, EntryState, LogEntry, entries_of, named
from app.core.journals.log_look import LogBounds, LogLook
from app.core.journals.record_batch import MarkerType, UnreadableBatch, split_batches
from tests.core.journals.dumps import assert_as_dumped
from tests.core.journals.logs import WrittenLog
from tests.support.recordings import SINK, VERSION_NAMES, dumped, recorded_bytes

COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT


def states(entries: tuple[LogEntry, ...]) -> list[EntryState]:
    return [entry.state for entry in entries]


def test_takeover_is_an_abort_at_the_next_epoch_and_a_commit_at_the_one_after() -> None:
    log = WrittenLog()
    log.data(0, epoch=5)
    log.mark(0, ABORT, epoch=6)
    log.data(0, epoch=7)
    log.mark(0, COMMIT, epoch=7)
    first, abort, second, commit = entries_of(log.look())
    assert (first.state, first.producer_epoch, first.decided_at) == (EntryState.ABORTED, 5, 1)
    assert (abort.marker, abort.producer_epoch, abort.coordinator_epoch) == ("ABORT", 6, 3)
    assert abort.decides == Decided(first_offset=0, record_count=1, is_whole=True)
    assert abort.note is not None
    assert "initialised again" in abort.note
    assert (second.state, second.producer_epoch, second.decided_at) == (EntryState.COMMITTED, 7, 3)
    assert second.note is not None
    assert second.note.startswith("epoch 6 → 7")
    assert (commit.marker, commit.note) == ("COMMIT", None)


def test_different_ids_leave_the_first_transaction_open_without_fencing() -> None:
    log = WrittenLog()
    log.data(0)
    log.data(1)
    log.mark(1, COMMIT)
    found = entries_of(log.look())
    assert states(found) == [EntryState.OPEN, EntryState.COMMITTED, EntryState.MARKER]
    assert [entry.note for entry in found] == [None, None, None]


def test_commit_at_the_next_epoch_is_routine() -> None:
    log = WrittenLog()
    log.data(0, epoch=3)
    log.mark(0, COMMIT, epoch=4)
    log.data(0, epoch=4)
    note = entries_of(log.look())[1].note
    assert note is not None
    assert "no producer was fenced" in note
    assert entries_of(log.look())[2].note is None


def test_brokers_list_decides_a_transaction_longer_than_the_range() -> None:
    log = WrittenLog()
    log.data(0)
    log.data(1)
    log.data(0)
    log.mark(0, ABORT)
    log.mark(1, COMMIT)
    found = entries_of(log.look(1, 3))
    assert states(found) == [EntryState.COMMITTED, EntryState.ABORTED]
    told = "by the broker's list of aborted transactions; its marker is after offset 2, the end of this range"
    assert [entry.note for entry in found] == [told, told]


def test_note_on_the_outcome_does_not_replace_the_note_on_the_epoch() -> None:
    log = WrittenLog()
    log.data(0, epoch=0)
    log.mark(0, ABORT, epoch=1)
    log.data(0, epoch=2)
    log.mark(0, COMMIT, epoch=2)
    *_, last = entries_of(log.look(0, 3))
    assert last.note is not None
    assert last.note.startswith("epoch 1 → 2")
    assert "by the broker's list" in last.note


@pytest.mark.parametrize(("first", "second"), [(COMMIT, ABORT), (ABORT, COMMIT)])
def test_aborted_transaction_does_not_affect_the_committed_one_beside_it(first: MarkerType, second: MarkerType) -> None:
    log = WrittenLog()
    log.data(0)
    log.mark(0, first)
    log.data(0)
    log.mark(0, second)
    assert states(entries_of(log.look(0, 3))) == log.truth[:3]


def test_transaction_at_the_last_stable_offset_is_open_in_any_range() -> None:
    log = WrittenLog()
    log.data(0)
    log.data(1)
    log.data(0)
    log.mark(1, COMMIT)
    first, unknown, again = entries_of(log.look(0, 3))
    assert (first.state, unknown.state, again.state) == (EntryState.OPEN, EntryState.UNKNOWN, EntryState.OPEN)
    assert unknown.note == "no marker up to offset 2, the end of this range"


def test_batch_decided_during_the_reading_is_not_open() -> None:
    log = WrittenLog()
    log.data(0)
    look = msgspec.structs.replace(log.look(0, 1), decided_until=0)
    log.mark(0, COMMIT)
    log.data(1)
    moved = msgspec.structs.replace(look, bounds=log.look().bounds)
    (entry,) = entries_of(moved)
    assert entry.state is EntryState.UNKNOWN
    assert entry.note == "decided, by a marker after offset 0, the end of this range"


@pytest.mark.parametrize(
    ("kind", "log_starts_at", "is_whole"), [(COMMIT, 0, False), (COMMIT, 2, True), (ABORT, 0, True), (ABORT, 2, True)]
)
def test_marker_reports_records_before_the_range(kind: MarkerType, log_starts_at: int, *, is_whole: bool) -> None:
    log = WrittenLog()
    log.plain(records=2)
    log.data(0, records=3)
    log.mark(0, kind)
    decides = entries_of(log.look(1, log_starts_at=log_starts_at))[1].decides
    assert decides == Decided(first_offset=2, record_count=3, is_whole=is_whole)


def test_abort_of_a_transaction_from_before_the_range_is_not_whole() -> None:
    log = WrittenLog()
    log.data(0)
    log.data(0)
    log.mark(0, ABORT)
    decides = entries_of(log.look(1))[1].decides
    assert decides == Decided(first_offset=1, record_count=1, is_whole=False)


def test_marker_without_data_has_a_reason() -> None:
    log = WrittenLog()
    log.mark(0, COMMIT)
    (here,) = entries_of(log.look())
    assert here.note is not None
    assert "its transaction has none in this log" in here.note
    log.data(1)
    log.mark(1, COMMIT)
    (behind,) = entries_of(log.look(2))
    assert behind.note == "the records that it decides, if any, are before this range"


def test_marker_beyond_the_limit_still_decides() -> None:
    log = WrittenLog()
    log.data(0)
    log.data(0)
    log.mark(0, COMMIT)
    (entry,) = entries_of(log.look(), limit=1)
    assert (entry.state, entry.decided_at) == (EntryState.COMMITTED, 2)


def test_only_transactional_batches_get_ids() -> None:
    log = WrittenLog()
    log.plain()
    log.data(7)
    log.data(8)
    found = named(entries_of(log.look()), {7: "payments"})
    assert [entry.transactional_id for entry in found] == [None, "payments", None]


def test_unreadable_batches_and_unknown_control_records_have_a_reason() -> None:
    log = WrittenLog()
    log.mark(0, COMMIT)
    strange = msgspec.structs.replace(log.batches[0], records=b"")
    look = msgspec.structs.replace(
        log.look(), batches=(UnreadableBatch(0, 70, "message format 1, which is not supported"), strange)
    )
    old, control = entries_of(look)
    assert (old.state, control.state) == (EntryState.UNREADABLE, EntryState.UNREADABLE)
    assert old.note is not None
    assert control.note is not None


def test_keys_and_values_are_included_on_request() -> None:
    log = WrittenLog()
    log.data(0, records=2)
    log.mark(0, COMMIT)
    (without, _), (keyed, control) = entries_of(log.look()), entries_of(log.look(), keys=True)
    assert without.records == ()
    assert control.records == ()
    assert [(record.offset, record.key and record.key.text, record.value) for record in keyed.records] == [
        (0, "k", None),
        (1, "k", None),
    ]


steps = st.lists(
    st.tuples(st.sampled_from(["plain", "data", "data", "commit", "abort"]), st.integers(0, 1), st.integers(1, 3)),
    min_size=1,
    max_size=25,
)


@given(steps, st.data())
def test_any_range_has_no_false_outcome(plan: list[tuple[str, int, int]], data: st.DataObject) -> None:
    log = WrittenLog()
    for what, producer_id, records in plan:
        match what:
            case "plain":
                log.plain(records=records)
            case "data":
                log.data(producer_id, records=records)
            case _:
                log.mark(producer_id, COMMIT if what == "commit" else ABORT)
    first = data.draw(st.integers(0, len(log.batches) - 1))
    after = data.draw(st.integers(first + 1, len(log.batches)))
    look = log.look(first, after)
    for entry, truth in zip(entries_of(look), log.truth[first:after], strict=True):
        is_beyond = not look.is_at_end and entry.base_offset >= log.last_stable_offset
        assert entry.state is truth or (entry.state is EntryState.UNKNOWN and is_beyond), entry


@pytest.mark.parametrize("version", VERSION_NAMES)
def test_recorded_log_reads_as_kafkas_tool_reads_it(version: str) -> None:
    """The headers equal those of `kafka-dump-log.sh`; the states follow from its markers."""
    batches = tuple(split_batches(recorded_bytes(version, SINK)))
    end = batches[-1].last_offset + 1
    dump = dumped(version, SINK)
    decided: dict[str, str] = {}
    expected: list[str] = []
    for theirs in reversed(dump):
        producer = theirs.header["producerId"]
        if theirs.is_control:
            decided[producer] = {"COMMIT": "committed", "ABORT": "aborted"}[theirs.records[0].marker[0]]
            expected.append("marker")
        else:
            expected.append(decided.get(producer, "open") if theirs.header["isTransactional"] == "true" else "plain")
    # The one that the recording leaves open holds the last stable offset.
    lso = int(dump[-1].header["baseOffset"])
    bounds = LogBounds(first_offset=0, last_stable_offset=lso, high_watermark=end)
    entries = entries_of(LogLook(start=0, next_offset=end, bounds=bounds, batches=batches))
    assert [str(state) for state in states(entries)] == expected[::-1]
    assert {"committed", "aborted", "open", "marker"} <= set(expected)
    assert_as_dumped(entries, dump)
