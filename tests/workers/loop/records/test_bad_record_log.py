"""Bad records by cause: a flood is a few rows and one event, and aborted ones are forgotten."""

from __future__ import annotations

from typing import Any

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy
from app.core.runs.bad_records import MOST_CAUSES, MOST_REPORTED, OTHER
from app.core.wire.heartbeat import EventKind
from tests.support.messages import a_message
from workers.loop.records.bad_record_log import BadRecord, BadRecordLog, error_name
from workers.loop.records.failures import BadRecords
from workers.loop.telling.tally import Work
from workers.transforms import RecordError

NOW_MS = 1_800_000_000_000


def bad(offset: int, *, partition: int = 0, error: str = "no number", is_skipped: bool = True) -> BadRecord:
    return BadRecord("flights", partition, offset, error, is_skipped)


def test_thousand_of_one_cause_are_one_row_with_first_and_last_offset() -> None:
    log = BadRecordLog()
    assert log.add([bad(offset) for offset in range(40, 540)], now_ms=NOW_MS)
    assert not log.add([bad(offset) for offset in range(540, 1_040)], now_ms=NOW_MS + 61_000), "no new cause"
    (cause,) = log.causes()
    assert (cause.records, cause.first_offset, cause.last_offset) == (1_000, 40, 1_039)
    assert (cause.first_at_ms, cause.last_at_ms) == (NOW_MS, NOW_MS + 61_000)
    assert [(one.skipped, one.dead_lettered) for one in log.minutes()] == [(500, 0), (500, 0)]


def test_other_partition_and_other_error_have_rows_of_their_own() -> None:
    log = BadRecordLog()
    log.add([bad(1), bad(2, partition=1), bad(3, error="too large")], now_ms=NOW_MS)
    assert [(one.partition, one.error) for one in log.causes()] == [
        (0, "no number"),
        (1, "no number"),
        (0, "too large"),
    ]


def test_causes_rows_and_minutes_are_bounded() -> None:
    log = BadRecordLog()
    log.add([bad(number, error=f"error {number}") for number in range(1_000)], now_ms=NOW_MS)
    assert len(log.causes()) == MOST_CAUSES + 1
    assert {one.error: one.records for one in log.causes()}[OTHER] == 1_000 - MOST_CAUSES
    log.add([bad(1, partition=number) for number in range(1_000)], now_ms=NOW_MS)
    assert len(log.causes()) == MOST_REPORTED
    for minute in range(200):
        log.add([bad(1, is_skipped=False)], now_ms=NOW_MS + 60_000 * minute)
    assert sum(one.dead_lettered for one in log.minutes()) == 60


def test_error_of_another_class_is_its_class_as_its_text_may_quote_the_record() -> None:
    assert error_name(ValueError("invalid literal: 4711")) == "ValueError"
    assert error_name(RecordError("mine.py, line 2: ValueError", contents="4711")) == "mine.py, line 2: ValueError"


def test_only_a_new_cause_is_an_event_and_an_aborted_checkpoint_adds_nothing() -> None:
    events: list[str] = []

    def announce(kind: EventKind, message: str, **_: Any) -> None:
        assert kind is EventKind.BAD_RECORD
        events.append(message)

    log = BadRecordLog()
    records = BadRecords(ErrorHandling(policy=FailurePolicy.SKIP), announce=announce, told=log)
    for offset in range(300):
        records.treat(a_message(b"x", offset=offset), ValueError("x"), Work())
        if offset % 3 == 0:
            records.aborted()
        else:
            records.committed()
    assert len(events) == 1
    assert [one.records for one in log.causes()] == [200]
    assert log.causes()[0].last_offset == 299
