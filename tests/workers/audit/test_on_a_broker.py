"""Deviations planted in real topics are found with their places; correct records are reported as such."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy, Filter, Route, StepOperator, Steps
from app.edges.embedded.kafka import KafkaCluster
from app.products.audits.result import AuditSide, AuditVerdict, FindingTally, GapReason, IdFinding, verdict
from app.products.audits.specification import OffsetRange, OffsetWindow, TimeWindow
from tests.conftest import MakeTopic
from tests.support.audits import Writer, a_specification, audit_here, examples_of, ids_of
from tests.support.odd_records import OddRecord, now_ms, write_raw
from tests.support.topics import unique_name

pytestmark = pytest.mark.faults(keep=5, of="audits on a broker")

HOUR_MS = 3_600_000
NOON_MS = 1_790_000_000_000
MINUTE_MS = 60_000


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


def commit(bootstrap_servers: str, topic: str, offset: int) -> str:
    """A group that has processed partition 0 so far."""
    group = unique_name("group")
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
    return group


def test_planted_losses_duplicates_and_unexpected_ids_are_found_between_aborted_transactions(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink = make_topic(partitions=2), make_topic(partitions=3)
    ids = [f"id-{number}" for number in range(400)]
    for partition in (0, 1):
        writer.write(source, ["ghost-1", "ghost-2"], partition=partition, end="abort")
        writer.write(source, ids[partition::2], partition=partition)
    lost, doubled = {"id-7", "id-200", "id-399"}, ["id-8", "id-8", "id-300"]
    for partition in (0, 1, 2):
        writer.write(sink, [*lost, "phantom"], partition=partition, end="abort")
        writer.write(sink, [id_ for id_ in ids[partition::3] if id_ not in lost], partition=partition)
    writer.write(sink, doubled, partition=1)
    writer.write(sink, ["stranger"], partition=2, end="none")
    writer.write(sink, ["id-1"], partition=2, end="abort")
    result = audit_here(a_specification(source, sink), kafka.bootstrap_servers)
    assert verdict(result) is AuditVerdict.BROKEN
    assert result.gaps == ()
    counts = result.counts
    assert (counts.inputs, counts.expected, counts.outputs) == (400, 400, 401)
    assert counts.lost == FindingTally(ids=3, records=3)
    assert counts.duplicated == FindingTally(ids=2, records=3)
    assert counts.unexpected == FindingTally(ids=1, records=1)
    assert (counts.late, counts.repeated) == (FindingTally(), 0)
    assert ids_of(result, IdFinding.LOST) == sorted(lost)
    assert ids_of(result, IdFinding.DUPLICATED) == ["id-300", "id-8"]
    assert ids_of(result, IdFinding.UNEXPECTED) == ["stranger"]
    seventh = next(example for example in examples_of(result, IdFinding.LOST) if example.id == "id-7")
    # Two ghosts and their marker come first.
    assert [(place.topic, place.partition, place.offset) for place in seventh.inputs] == [(source, 1, 3 + 3)]
    assert seventh.outputs == ()
    eighth = next(example for example in examples_of(result, IdFinding.DUPLICATED) if example.id == "id-8")
    assert (eighth.expected, eighth.found, len(eighth.inputs), len(eighth.outputs)) == (1, 3, 1, 3)
    assert all(place.timestamp_ms is not None for place in eighth.inputs + eighth.outputs)
    by_partition = {(one.topic, one.partition, one.finding): one.records for one in result.partitions}
    assert by_partition[source, 1, IdFinding.LOST] == 2
    assert by_partition[sink, 2, IdFinding.UNEXPECTED] == 1


def test_a_clean_pipeline_between_gaps_of_offsets_is_clean(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink = make_topic(), make_topic()
    for number in range(0, 120, 10):
        batch = list(range(number, number + 10))
        writer.write(source, batch, end="abort" if number % 20 else "commit")
    for number in range(0, 120, 20):
        batch = list(range(number, number + 10))
        writer.write(sink, batch, end="abort")
        writer.write(sink, batch)
    # The last thing in both is a run of offsets that no reader is given.
    writer.write(source, list(range(500, 560)), end="abort")
    writer.write(sink, list(range(500, 560)), end="abort")
    result = audit_here(a_specification(source, sink), kafka.bootstrap_servers)
    assert verdict(result) is AuditVerdict.CLEAN
    assert (result.counts.inputs, result.counts.outputs) == (60, 60)
    assert [one.records for one in result.ranges] == [60, 60]


def test_records_behind_an_open_transaction_are_missing_and_not_lost(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink = make_topic(), make_topic()
    writer.write(source, list(range(10)))
    writer.write(sink, list(range(5)))
    writer.write(sink, ["another client"], end="open")
    writer.write(sink, list(range(5, 10)))
    result = audit_here(a_specification(source, sink), kafka.bootstrap_servers)
    assert result.counts.lost == FindingTally()
    assert result.counts.missing == FindingTally(ids=5, records=5)
    assert [(gap.reason, gap.topic, gap.start, gap.end) for gap in result.gaps] == [
        (GapReason.OPEN_TRANSACTION, sink, 6, 13)
    ]
    assert verdict(result) is AuditVerdict.NOT_SHOWN


def test_an_output_of_a_late_hour_is_late_and_one_without_padding_is_lost(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink = make_topic(), make_topic()

    def minutes(index: int) -> int:
        return NOON_MS - HOUR_MS + index * MINUTE_MS

    numbers = list(range(180))
    writer.write(source, numbers, at_ms=minutes)
    # Records read at 12:50 and later come out 20 minutes after they were read, all others at once.
    writer.write(
        sink,
        numbers,
        at_ms=lambda index: minutes(index) + (20 * MINUTE_MS if minutes(index) >= NOON_MS + 50 * MINUTE_MS else 0),
    )
    window = TimeWindow(start_ms=NOON_MS, end_ms=NOON_MS + HOUR_MS)
    padded = audit_here(
        a_specification(source, sink, window=window, padding_ms=30 * MINUTE_MS), kafka.bootstrap_servers
    )
    assert (padded.counts.inputs, padded.counts.outputs) == (60, 50)
    assert padded.counts.late == FindingTally(ids=10, records=10)
    assert verdict(padded) is AuditVerdict.CLEAN
    assert ids_of(padded, IdFinding.LATE) == [str(number) for number in range(110, 120)]
    bare = audit_here(a_specification(source, sink, window=window, padding_ms=0), kafka.bootstrap_servers)
    assert bare.counts.lost == FindingTally(ids=10, records=10)


def test_outputs_with_the_time_of_writing_are_found_however_late_and_prove_nothing_unexpected(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    """Three hours behind, with five minutes of padding."""
    source, sink = make_topic(), make_topic(message_timestamp_type="LogAppendTime")
    now_ms = int(time.time() * 1000)
    numbers = list(range(60))
    writer.write(source, numbers, at_ms=lambda index: now_ms - 3 * HOUR_MS + index * MINUTE_MS)
    writer.write(sink, [one for one in numbers if one != 35])
    behind = TimeWindow(start_ms=now_ms - 3 * HOUR_MS + 30 * MINUTE_MS, end_ms=now_ms - 2 * HOUR_MS)
    late = audit_here(a_specification(source, sink, window=behind), kafka.bootstrap_servers)
    assert (late.counts.late, late.counts.lost) == (FindingTally(ids=29, records=29), FindingTally(ids=1, records=1))
    assert ids_of(late, IdFinding.LOST) == ["35"], "all that was written since was read, so this one is proven"
    catching_up = TimeWindow(start_ms=now_ms - HOUR_MS, end_ms=now_ms + HOUR_MS)
    caught_up = audit_here(a_specification(source, sink, window=catching_up), kafka.bootstrap_servers)
    assert (caught_up.counts.unexplained, caught_up.counts.unexpected) == (
        FindingTally(ids=59, records=59),
        FindingTally(),
    )
    assert [(gap.side, gap.reason) for gap in caught_up.gaps] == [(AuditSide.SOURCE, GapReason.TIME_OF_WRITING)]


def test_offsets_of_a_topic_that_was_deleted_say_nothing_of_the_new_one(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    """The old one's offset is 30, and all but a few outputs are of it."""
    source, sink = make_topic(), make_topic()
    group = commit(kafka.bootstrap_servers, source, 30)
    writer.write(sink, list(range(30)), at_ms=NOON_MS, end="none")
    writer.write(source, list(range(30, 40)), at_ms=NOON_MS + MINUTE_MS, end="none")
    window = TimeWindow(start_ms=NOON_MS, end_ms=NOON_MS + HOUR_MS)
    specification = a_specification(source, sink, group_id=group, window=window)
    shorter = audit_here(specification, kafka.bootstrap_servers)
    assert [gap.reason for gap in shorter.gaps] == [GapReason.MADE_ANEW]
    writer.write(source, list(range(40, 70)), at_ms=NOON_MS + MINUTE_MS, end="none")
    longer = audit_here(specification, kafka.bootstrap_servers)
    assert {GapReason.MADE_ANEW, GapReason.BEGINS} <= {gap.reason for gap in longer.gaps}
    for result in (shorter, longer):
        assert verdict(result) is AuditVerdict.NOT_SHOWN
        assert result.counts.unexplained == FindingTally(ids=30, records=30)


def test_a_transform_decides_the_dropped_records_and_the_topics_to_read(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink, aside, letters = make_topic(), make_topic(), make_topic(), make_topic()
    writer.write(source, list(range(20)), fields={"keep": False})
    writer.write(source, list(range(20, 50)), fields={"keep": True})
    writer.write(source, list(range(50, 60)), fields={"keep": True, "aside": 1})
    writer.write(source, list(range(60, 65)), fields={"keep": True, "aside": "no number"})
    transform = Steps(
        steps=(
            Filter(field="keep", operator=StepOperator.EQ, value=True),
            Route(field="aside", operator=StepOperator.GE, value=1, topic=aside),
        )
    )
    writer.write(sink, list(range(20, 49)))
    # 49 is refused by the brokers and put aside, 50 is in the wrong topic, 64 is in none.
    writer.write(sink, [50])
    writer.write(aside, list(range(51, 60)))
    writer.write(letters, [49, *range(60, 64)], headers=[("fenceline.topic", source.encode())])
    writer.write(letters, ["not ours"], headers=[("fenceline.topic", b"another")])
    specification = a_specification(
        source,
        sink,
        transform=transform,
        sink_topics=(sink, aside, letters),
        errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=letters),
    )
    result = audit_here(specification, kafka.bootstrap_servers)
    counts = result.counts
    assert (counts.inputs, counts.dropped, counts.dead_lettered, counts.undelivered) == (65, 20, 5, 1)
    assert counts.lost == FindingTally(ids=2, records=2)
    assert counts.unexpected == FindingTally(ids=1, records=1)
    assert [(one.id, one.topic) for one in examples_of(result, IdFinding.LOST)] == [("50", aside), ("64", letters)]
    assert [(one.id, one.topic) for one in examples_of(result, IdFinding.UNEXPECTED)] == [("50", sink)]


def test_input_that_the_group_has_not_committed_is_not_lost(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink = make_topic(), make_topic()
    writer.write(source, list(range(30)), at_ms=NOON_MS)
    writer.write(sink, list(range(20)), at_ms=NOON_MS)
    group = commit(kafka.bootstrap_servers, source, 20)
    result = audit_here(a_specification(source, sink, group_id=group), kafka.bootstrap_servers)
    assert (result.counts.inputs, result.counts.pending, result.counts.lost) == (20, 10, FindingTally())
    assert verdict(result) is AuditVerdict.CLEAN
    window = TimeWindow(start_ms=NOON_MS, end_ms=NOON_MS + MINUTE_MS)
    asked = audit_here(a_specification(source, sink, group_id=group, window=window), kafka.bootstrap_servers)
    assert [(gap.reason, gap.start) for gap in asked.gaps] == [(GapReason.NOT_PROCESSED, 20)]
    assert verdict(asked) is AuditVerdict.NOT_SHOWN


def test_behind_the_committed_offset_a_marker_is_no_record_to_wait_for(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink = make_topic(), make_topic()
    writer.write(source, list(range(30)), at_ms=NOON_MS)
    writer.write(sink, list(range(30)), at_ms=NOON_MS)
    group = commit(kafka.bootstrap_servers, source, 30)
    window = TimeWindow(start_ms=NOON_MS, end_ms=NOON_MS + MINUTE_MS)
    result = audit_here(a_specification(source, sink, group_id=group, window=window), kafka.bootstrap_servers)
    assert verdict(result) is AuditVerdict.CLEAN


def test_a_window_of_offsets_is_those_offsets(kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer) -> None:
    source, sink = make_topic(partitions=2), make_topic()
    for partition, first in ((0, 0), (1, 1000)):
        writer.write(
            source,
            [first + number for number in range(100)],
            partition=partition,
            at_ms=lambda index: NOON_MS + index * 1000,
            end="none",
        )
    found = [*range(100), *range(1000, 1100)]
    writer.write(sink, [one for one in found if one not in (45, 70)], at_ms=lambda index: NOON_MS + index * 500)
    window = OffsetWindow(ranges=(OffsetRange(topic=source, partition=0, start=40, end=60),))
    result = audit_here(a_specification(source, sink, window=window, padding_ms=60_000), kafka.bootstrap_servers)
    assert result.counts.inputs == 20
    assert [example.id for example in examples_of(result, IdFinding.LOST)] == ["45"]
    assert result.counts.lost == FindingTally(ids=1, records=1)
    assert result.counts.unexpected == FindingTally()


def test_an_audit_with_deleted_records_is_not_shown(kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer) -> None:
    source, sink = make_topic(), make_topic()
    writer.write(source, list(range(30)), end="none")
    writer.write(sink, list(range(29)), end="none")
    # Its answers are futures of nothing in particular: there is no type to keep.
    admin: Any = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(source, 0, 10)]).values():
        future.result(10)
    result = audit_here(a_specification(source, sink), kafka.bootstrap_servers)
    assert [(gap.reason, gap.topic) for gap in result.gaps] == [(GapReason.DELETED, source)]
    assert result.counts.unexplained == FindingTally(ids=10, records=10)
    assert result.counts.unexpected == FindingTally()
    # All of the output was read, so this one is proven.
    assert result.counts.lost == FindingTally(ids=1, records=1)


@pytest.mark.parametrize("is_carried", [True, False])
def test_header_names_that_only_native_records_carry_are_named_and_not_compared(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer, is_carried: bool
) -> None:
    """The input is in the sink where C held it, and a dead letter elsewhere. A lost record beside it is found."""
    source, sink, dead = make_topic(), make_topic(), make_topic()
    odd = OddRecord(b"k", b'{"id": "odd"}', ((b"\xff", b"1"),), now_ms())
    write_raw(kafka.bootstrap_servers, source, [odd])
    writer.write(source, ["kept", "lost"])
    letter = odd._replace(headers=((b"fenceline.unreadable-header-0", b"1"), (b"fenceline.topic", source.encode())))
    write_raw(kafka.bootstrap_servers, sink if is_carried else dead, [odd if is_carried else letter])
    writer.write(sink, ["kept"])
    errors = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=dead)
    result = audit_here(a_specification(source, sink, errors=errors), kafka.bootstrap_servers)
    assert ids_of(result, IdFinding.LOST) == ["lost"]
    assert result.counts.unexpected == FindingTally()
    assert {(gap.side, gap.reason) for gap in result.gaps} == {
        (AuditSide.SOURCE, GapReason.HEADER_NAMES),
        (AuditSide.SINK, GapReason.HEADER_NAMES),
    }


def test_records_without_an_id_are_counted_and_named(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    source, sink = make_topic(), make_topic()
    writer.write(source, [1, None, 2], end="none")  # pyright: ignore[reportArgumentType] - an id that is none
    writer.write(sink, [1, None, 2], end="none")  # pyright: ignore[reportArgumentType]
    result = audit_here(a_specification(source, sink), kafka.bootstrap_servers)
    assert (result.counts.unreadable_input, result.counts.unreadable_output) == (1, 1)
    (example,) = examples_of(result, IdFinding.UNREADABLE_OUTPUT)
    assert [(place.topic, place.offset) for place in example.outputs] == [(sink, 1)]
    assert verdict(result) is AuditVerdict.NOT_SHOWN
