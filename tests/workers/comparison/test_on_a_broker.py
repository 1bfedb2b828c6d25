"""Comparisons of two topics on a real broker: planted differences, the window's edges, times, unreadable records."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import msgspec
import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.products.audits.comparison import FileFormat, FilesBaseline, TopicBaseline
from app.products.audits.result import AuditVerdict, FindingTally, GapReason, IdFinding, verdict
from app.products.audits.specification import Everything, RecordKey
from tests.conftest import MakeTopic
from tests.support.audits import Writer, examples_of, ids_of
from tests.support.comparisons import BEGIN_MS, Record, a_comparison, assert_planted, compare_here, planted, records


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


def write(writer: Writer, topic: str, several: Sequence[Record]) -> None:
    values = [(str(record.get("id")).encode(), msgspec.json.encode(record)) for record in several]
    writer.write_values(topic, values, at_ms=lambda index: _time(several[index]))


def _time(record: Record) -> int:
    return record["at"] if isinstance(record["at"], int) else BEGIN_MS


def test_planted_differences_are_found_between_topics(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    old, new = make_topic(), make_topic()
    there, here = planted()
    write(writer, old, there)
    write(writer, new, here)
    for rules in ({}, {"time_field": None, "baseline_time_field": None}):
        specification = a_comparison(new, TopicBaseline(topic=old), rules=rules)
        result = compare_here(specification, kafka.bootstrap_servers)
        assert_planted(result)
        assert verdict(result) is AuditVerdict.BROKEN
        assert ids_of(result, IdFinding.LOST) == ["3", "4"]
        assert ids_of(result, IdFinding.UNEXPECTED) == ["1000", "1001"]
        (twice,) = examples_of(result, IdFinding.DUPLICATED)
        assert (twice.id, len(twice.inputs), len(twice.outputs)) == ("7", 1, 2)
    everything = a_comparison(new, TopicBaseline(topic=old), window=Everything())
    assert compare_here(everything, kafka.bootstrap_servers).counts.expected == 301


def test_equal_outputs_are_clean(kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer) -> None:
    """The control of the test before: the other order and 1.0 for 1 are no differences."""
    old, new = make_topic(), make_topic()
    there = records()
    write(writer, old, there)
    write(writer, new, [{**record, "n": record["n"] + 0.0} for record in reversed(there)])
    result = compare_here(a_comparison(new, TopicBaseline(topic=old)), kafka.bootstrap_servers)
    assert verdict(result) is AuditVerdict.CLEAN
    assert (result.counts.expected, result.counts.outputs) == (200, 200)


def test_records_at_the_edge_are_found_within_the_padding(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    """The second system is two seconds late. Without padding two records at each edge are false alarms."""
    old, new = make_topic(), make_topic()
    there = records()
    write(writer, old, there)
    write(writer, new, [{**record, "at": record["at"] + 2_000} for record in there])
    without = compare_here(a_comparison(new, TopicBaseline(topic=old)), kafka.bootstrap_servers)
    assert without.counts.lost == FindingTally(ids=2, records=2)
    assert ids_of(without, IdFinding.LOST) == ["198", "199"]
    with_padding = compare_here(a_comparison(new, TopicBaseline(topic=old), padding_ms=5_000), kafka.bootstrap_servers)
    assert verdict(with_padding) is AuditVerdict.CLEAN
    assert with_padding.counts.late == FindingTally(ids=2, records=2)


def test_early_outputs_are_false_alarms_without_padding(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    old, new = make_topic(), make_topic()
    there = records()
    write(writer, old, there)
    write(writer, new, [{**record, "at": record["at"] - 2_000} for record in there])
    without = compare_here(a_comparison(new, TopicBaseline(topic=old)), kafka.bootstrap_servers)
    assert ids_of(without, IdFinding.LOST) == ["0", "1"]
    assert ids_of(without, IdFinding.UNEXPECTED) == ["200", "201"]
    with_padding = compare_here(a_comparison(new, TopicBaseline(topic=old), padding_ms=5_000), kafka.bootstrap_servers)
    assert verdict(with_padding) is AuditVerdict.CLEAN


def test_field_with_the_time_may_lie_far_before_the_writing(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    """A replay writes old events under new timestamps."""
    old, new = make_topic(), make_topic()
    there, here = planted()
    write(writer, old, there)
    values = [(None, msgspec.json.encode(record)) for record in here]
    writer.write_values(new, values, at_ms=BEGIN_MS + 3_000_000)
    assert_planted(compare_here(a_comparison(new, TopicBaseline(topic=old)), kafka.bootstrap_servers))


def test_unreadable_records_are_counted_and_shown_with_offsets(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    old, new = make_topic(), make_topic()
    write(writer, old, [{"id": 1, "at": BEGIN_MS}, {"at": BEGIN_MS}, {"id": 2, "at": "yesterday"}])
    write(writer, new, [{"id": 1, "at": BEGIN_MS}])
    beyond = BEGIN_MS + 500_000
    for at_ms in (BEGIN_MS, beyond):
        writer.write_values(new, [(None, b"no JSON"), (None, b"[1]"), (None, None)], at_ms=at_ms)
    rules = {"baseline_time_field": None}
    result = compare_here(a_comparison(new, TopicBaseline(topic=old), rules=rules), kafka.bootstrap_servers)
    assert (result.counts.unreadable_input, result.counts.unreadable_output) == (1, 3)
    assert [one.outputs[0].offset for one in examples_of(result, IdFinding.UNREADABLE_OUTPUT)] == [2, 3, 4]
    by_field = compare_here(a_comparison(new, TopicBaseline(topic=old)), kafka.bootstrap_servers)
    assert by_field.counts.unreadable_input == 2, "a record whose time is unreadable counts by its timestamp"
    assert verdict(by_field) is AuditVerdict.NOT_SHOWN


def test_key_identifies_records_on_one_side(kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer) -> None:
    old, new = make_topic(), make_topic()
    there, here = planted()
    write(writer, old, there)
    write(writer, new, here)
    specification = a_comparison(new, TopicBaseline(topic=old), source_id=RecordKey())
    assert_planted(compare_here(specification, kafka.bootstrap_servers))


def test_open_transaction_of_the_output_proves_no_loss(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    old, new = make_topic(), make_topic()
    write(writer, old, [{"id": number, "at": BEGIN_MS} for number in range(5)])
    writer.write(new, [0, 1], at_ms=BEGIN_MS, end="open")
    write(writer, new, [{"id": 2, "at": BEGIN_MS}])
    result = compare_here(a_comparison(new, TopicBaseline(topic=old)), kafka.bootstrap_servers)
    assert [gap.reason for gap in result.gaps] == [GapReason.OPEN_TRANSACTION]
    assert (result.counts.lost.ids, result.counts.missing.ids) == (0, 5)
    assert verdict(result) is AuditVerdict.NOT_SHOWN


def test_records_of_another_store_are_compared_with_the_topic(
    kafka: KafkaCluster, make_topic: MakeTopic, writer: Writer
) -> None:
    new = make_topic()
    there, here = planted()
    write(writer, new, here)
    baseline = FilesBaseline(format=FileFormat.CSV, location="file:///old")
    texts = [{name: str(value) for name, value in record.items()} for record in there]
    assert_planted(compare_here(a_comparison(new, baseline), kafka.bootstrap_servers, texts))
