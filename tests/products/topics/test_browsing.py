"""Records of invented logs: outcomes, bounds, merging by time, and pages that lose and repeat nothing."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest

from app.core.clusters.partition import Partition
from app.core.journals.log_entries import EntryState
from app.core.journals.log_look import FromTime, Landmark, LogBounds, LogLook
from app.core.journals.record_batch import MarkerType, RecordBatch
from app.kit.errors import InvalidError
from app.kit.page import encode_cursor
from app.products.topics.browsing import (
    LARGEST_BATCH_RECORDS,
    Scan,
    TopicRecord,
    cursor_of,
    merged,
    scan,
    starts_of,
)
from app.products.topics.record_filter import RecordFilter, filter_of
from tests.core.journals.batches import batch_of
from tests.core.journals.logs import WrittenLog

AT = Partition("t", 0)


def never() -> bool:
    return False


def scanned(
    look: LogLook,
    wanted: RecordFilter | None = None,
    *,
    at: Partition = AT,
    limit: int = 100,
    is_newest: bool = False,
    is_late: Callable[[], bool] = never,
) -> Scan:
    return scan(
        at,
        look,
        wanted or RecordFilter(),
        limit=limit,
        is_newest=is_newest,
        content_bytes=10,
        is_late=is_late,
    )


def look_of(batches: list[RecordBatch], *, start: int = 0, until: int | None = None) -> LogLook:
    """A range of a log of plain batches: those that begin before `until`."""
    end = batches[-1].last_offset + 1 if batches else 0
    shown = tuple(one for one in batches if one.last_offset >= start and (until is None or one.base_offset < until))
    return LogLook(
        start=start,
        next_offset=shown[-1].last_offset + 1 if shown else start,
        bounds=LogBounds(first_offset=0, last_stable_offset=end, high_watermark=end),
        batches=shown,
    )


def test_each_record_has_the_outcome_of_its_transaction() -> None:
    log = WrittenLog()
    log.plain()
    log.data(7, records=2)
    log.data(8)
    log.mark(7, MarkerType.ABORT)
    log.mark(8, MarkerType.COMMIT)
    log.data(9)
    found = scanned(log.look())
    assert [(one.offset, one.state.value, one.producer_id, one.decided_at) for one in found.records] == [
        (0, "plain", None, None),
        (1, "aborted", 7, 4),
        (2, "aborted", 7, 4),
        (3, "committed", 8, 5),
        (6, "open", 9, None),
    ]
    # A marker behind the range: committed or aborted by the broker's list, and not known above the last stable offset.
    assert [one.state.value for one in scanned(log.look(after=3)).records] == [
        "plain",
        "aborted",
        "aborted",
        "committed",
    ]
    log.data(10)
    part = msgspec.structs.replace(log.look(after=7), decided_until=0)
    states = {one.offset: one.state for one in scanned(msgspec.structs.replace(part, aborted=frozenset())).records}
    assert states[6] is EntryState.OPEN
    assert [one.offset for one in scanned(log.look(), filter_of(state="aborted")).records] == [1, 2]


def test_records_before_the_start_and_markers_are_left_out_and_long_contents_are_cut() -> None:
    look = look_of([batch_of([(b"k", b"x" * 50), (None, None), (b"k", b"\xff")], base_offset=0)], start=1)
    found = scanned(look)
    null, binary = found.records
    assert (null.key, null.value, null.size_bytes) == (None, None, 0)
    assert binary.value is not None
    assert (binary.value.text, binary.value.is_base64) == ("/w==", True)
    (whole,) = scanned(look_of(list(look.batches[:1])), filter_of(value="x")).records  # pyright: ignore[reportArgumentType]
    assert whole.value is not None
    assert (whole.value.text, whole.value.is_cut, whole.value.size_bytes) == ("x" * 10, True, 50)
    assert found.read == 2


def test_a_scan_ends_at_the_limit_and_goes_on_after_the_last_match() -> None:
    look = look_of([batch_of([(b"k", b"v")] * 10, base_offset=0), batch_of([(b"k", b"v")] * 10, base_offset=10)])
    found = scanned(look, limit=13)
    assert (len(found.records), found.next, found.is_at_end) == (13, 13, False)
    newest = scanned(look, limit=3, is_newest=True)
    assert ([one.offset for one in newest.records], newest.next, newest.is_at_end) == ([17, 18, 19], 20, True)


def test_a_late_scan_keeps_its_place() -> None:
    look = look_of([batch_of([(b"k", b"v")] * 10, base_offset=offset) for offset in (0, 10, 20)])
    answers = iter([False, False, True])
    found = scanned(look, is_late=lambda: next(answers))
    assert (found.read, found.next, found.is_at_end) == (20, 20, False)


def test_a_batch_that_claims_too_many_records_or_is_damaged_is_skipped_and_named() -> None:
    good = batch_of([(b"k", b"v")], base_offset=0)
    hostile = msgspec.structs.replace(good, base_offset=1, last_offset=1, record_count=LARGEST_BATCH_RECORDS + 1)
    damaged = msgspec.structs.replace(good, base_offset=2, last_offset=2, records=b"\x7f")
    last = batch_of([(b"k", b"v")], base_offset=3)
    found = scanned(look_of([good, hostile, last]))
    assert [one.offset for one in found.records] == [0, 3]
    assert "offset 1 was skipped: it has 500,001 records" in found.skipped
    assert "offset 2 was skipped" in scanned(look_of([good, damaged, last])).skipped


def walked(rng: random.Random, logs: dict[Partition, list[RecordBatch]], *, limit: int) -> list[list[TopicRecord]]:
    """All pages, each of which reads a random part of each log."""
    positions = dict.fromkeys(logs, 0)
    pages: list[list[TopicRecord]] = []
    while True:
        scans = {
            at: scanned(look_of(log, start=positions[at], until=positions[at] + rng.randint(1, 12)), at=at, limit=limit)
            for at, log in logs.items()
        }
        records, ranges = merged(scans, limit=limit, is_newest=False)
        assert len(records) <= limit
        before, positions = positions, {Partition("t", one.partition): one.next for one in ranges}
        pages.append(list(records))
        if all(one.is_at_end for one in ranges):
            return pages
        assert positions != before, "a page without progress"


@pytest.mark.parametrize("case", range(30))
def test_pages_have_each_record_once_and_all_of_them_are_in_the_order_of_time(rng: random.Random, case: int) -> None:
    rng.seed(f"{rng.random()}/{case}")
    logs: dict[Partition, list[RecordBatch]] = {}
    for number in range(rng.randint(1, 4)):
        time_ms, offset = 0, 0
        log: list[RecordBatch] = []
        for _ in range(rng.randint(1, 12)):
            time_ms += rng.choice([0, 1, 50])
            size = rng.randint(1, 4)
            log.append(batch_of([(b"k", b"v")] * size, base_offset=offset, timestamp_ms=time_ms))
            offset += size
        logs[Partition("t", number)] = log
    records = [one for page in walked(rng, logs, limit=rng.randint(1, 9)) for one in page]
    offsets = sorted((one.partition, one.offset) for one in records)
    assert offsets == [(at.partition, offset) for at, log in logs.items() for offset in range(log[-1].last_offset + 1)]
    times = [one.timestamp_ms for one in records]
    assert times == sorted(times)


def test_a_later_record_waits_for_a_partition_that_was_read_to_an_earlier_time_only() -> None:
    early = [batch_of([(b"k", b"v")], base_offset=offset, timestamp_ms=10 + offset) for offset in range(5)]
    late = [batch_of([(b"k", b"v")], base_offset=0, timestamp_ms=12)]
    one, two = Partition("t", 0), Partition("t", 1)
    scans = {one: scanned(look_of(early, until=1), at=one), two: scanned(look_of(late), at=two)}
    records, ranges = merged(scans, limit=10, is_newest=False)
    assert [(found.partition, found.offset) for found in records] == [(0, 0)]
    assert [found.next for found in ranges] == [1, 0]


def test_the_newest_records_are_those_of_the_latest_times() -> None:
    one, two = Partition("t", 0), Partition("t", 1)
    logs = {
        one: [batch_of([(b"k", b"v")], base_offset=offset, timestamp_ms=offset) for offset in range(5)],
        two: [batch_of([(b"k", b"v")], base_offset=offset, timestamp_ms=100 + offset) for offset in range(5)],
    }
    scans = {at: scanned(look_of(log), at=at, is_newest=True) for at, log in logs.items()}
    records, ranges = merged(scans, limit=6, is_newest=True)
    assert [found.timestamp_ms for found in records] == [4, 100, 101, 102, 103, 104]
    assert all(found.is_at_end for found in ranges)


def test_a_cursor_is_read_as_it_was_written_and_another_one_is_refused() -> None:
    starts = {3: 7, 0: 2**40, 4: Landmark.LSO, 5: FromTime(1_795_819_845_579)}
    assert starts_of(cursor_of(starts)) == starts
    for wrong in ("orders", "0:-1", "0:1:2", "x:1", "0:", ""):
        with pytest.raises(InvalidError) as raised:
            starts_of(encode_cursor(wrong))
        assert raised.value.field == "after"
    for wrong in ("!!", encode_cursor("a", "b")):
        with pytest.raises(InvalidError, match="cursor"):
            starts_of(wrong)
