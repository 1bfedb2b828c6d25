"""The end of a range, and the report where it cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from app.products.audits.result import AuditSide
from workers.audit.reading import AuditReadError, committed_records
from workers.audit.splits import Split

EOF = KafkaError._PARTITION_EOF
GONE = KafkaError._AUTO_OFFSET_RESET
AWAY = KafkaError._TRANSPORT


def a_split(start: int, end: int) -> Split:
    return Split(
        number=0,
        side=AuditSide.SOURCE,
        topic="t",
        partition=0,
        start=start,
        end=end,
        window_start=start,
        window_end=end,
    )


def record(offset: int) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=b"{}")


def told(code: int, offset: int = -1001) -> Message:
    return Message(topic="t", partition=0, offset=offset, error=KafkaError(code))


class Script:
    """Gives one batch after the other, then nothing for ever; a second passes with each call."""

    def __init__(self, *batches: Sequence[Message], beginning: int = 0) -> None:
        self._batches = list(batches)
        self._beginning = beginning
        self.now_s = 0.0
        self.assigned: list[int] = []

    def assign(self, partitions: list[TopicPartition], /) -> None:
        self.assigned += [one.offset for one in partitions]

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self.now_s += 1
        return list(self._batches.pop(0)) if self._batches else []

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int] | None:
        return self._beginning, 100


def offsets(script: Script, start: int, end: int, deleted: list[tuple[int, int]] | None = None) -> list[int | None]:
    heard = [] if deleted is None else deleted
    batches = committed_records(
        script,
        a_split(start, end),
        stall_s=5,
        deleted=lambda first, last: heard.append((first, last)),
        clock=lambda: script.now_s,
    )
    return [message.offset() for batch in batches for message in batch]


def test_a_record_behind_the_end_ends_it_and_is_not_part_of_it() -> None:
    assert offsets(Script([record(3), record(4), record(9)]), 3, 6) == [3, 4]


def test_the_end_of_the_partition_ends_it_where_nothing_more_is_delivered() -> None:
    assert offsets(Script([record(3)], [], [told(EOF, 8)]), 3, 8) == [3]


def test_an_end_of_the_partition_before_the_end_is_waited_out() -> None:
    assert offsets(Script([told(EOF, 4)], [], [record(4), record(5)]), 3, 6) == [4, 5]


def test_records_deleted_meanwhile_are_reported_and_skipped() -> None:
    deleted: list[tuple[int, int]] = []
    script = Script([record(3)], [told(GONE)], [record(7)], beginning=7)
    assert offsets(script, 3, 8, deleted) == [3, 7]
    assert deleted == [(4, 7)]
    assert script.assigned == [3, 7]


def test_all_of_it_deleted_is_an_end_too() -> None:
    deleted: list[tuple[int, int]] = []
    assert offsets(Script([told(GONE)], beginning=50), 3, 8, deleted) == []
    assert deleted == [(3, 8)]


def test_an_offset_that_is_refused_though_it_is_there_is_an_error() -> None:
    with pytest.raises(AuditReadError, match="t-0 cannot be read at offset 3"):
        offsets(Script([told(GONE)], beginning=2), 3, 8)


def test_brokers_that_are_away_are_waited_for_and_then_named() -> None:
    with pytest.raises(AuditReadError, match=r"t-0 cannot be read at offset 4: .*transport.* for 5 s"):
        offsets(Script([record(3)], [told(AWAY)]), 3, 8)
    assert offsets(Script([record(3)], [told(AWAY)], [], [], [record(4), record(5)]), 3, 6) == [3, 4, 5]


def test_a_right_that_is_missing_is_not_waited_for() -> None:
    script = Script([told(KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(AuditReadError):
        offsets(script, 3, 8)
    assert script.now_s == 1
