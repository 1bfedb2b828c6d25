"""Lag, and the records that consumers receive."""

from __future__ import annotations

from app.core.blocked.stretch import measure
from app.core.journals.record_batch import MarkerType, UnreadableBatch
from tests.core.journals.batches import batch_of, marker

VALUE = (None, b"value")


def written(base_offset: int, records: int, producer_id: int):
    return batch_of(
        [VALUE] * records,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=producer_id >= 0,
    )


def test_records_markers_and_aborted_records_are_counted_apart() -> None:
    log = [
        written(0, 2, -1),
        written(2, 3, 7),
        written(5, 1, 8),
        marker(MarkerType.ABORT, base_offset=6, producer_id=7),
        marker(MarkerType.COMMIT, base_offset=7, producer_id=8),
        written(8, 2, 7),
    ]
    found = measure(log, first_offset=0, end_offset=10)
    assert (found.records, found.aborted, found.undecided, found.markers) == (3, 3, 2, 2)
    assert (found.first_ms, found.next_offset, found.is_whole) == (1_000, 10, True)


def test_only_offsets_inside_the_range_are_counted() -> None:
    log = [written(0, 5, -1), written(5, 5, -1), written(10, 5, -1)]
    found = measure(log, first_offset=3, end_offset=7)
    assert (found.records, found.next_offset) == (4, 7)


def test_markers_alone_are_no_records() -> None:
    found = measure([marker(MarkerType.COMMIT, base_offset=4, producer_id=7)], first_offset=4, end_offset=5)
    assert (found.records, found.undecided, found.markers, found.first_ms) == (0, 0, 1, -1)


def test_range_that_was_read_in_part_is_not_whole() -> None:
    found = measure([written(0, 2, -1)], first_offset=0, end_offset=1_000, is_whole=False)
    assert (found.records, found.next_offset, found.is_whole) == (2, 2, False)


def test_old_format_counts_as_a_record() -> None:
    found = measure([UnreadableBatch(0, 80, "message format 1")], first_offset=0, end_offset=1)
    assert found.records == 1
