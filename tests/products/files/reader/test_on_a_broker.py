"""References and the collector on a real broker."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from app.core.wire.file_references import FileReference
from app.edges.embedded.kafka import KafkaCluster
from app.kit.cli.errors import CommandError
from app.products.files.cli import app
from app.products.files.cli.pipeline_topics import PipelineTopics, opened
from app.products.files.orphans import Margin, OrphanStanding
from app.products.files.reader.collecting import OrphanCollector
from app.products.files.reader.errors import ReferencesUnreadableError
from app.products.files.reader.reading import Stores, all_records
from app.products.files.reader.references import Located, ReferenceReading, ReferenceWindow, committed_references
from app.products.files.reader.store import open_store
from app.products.files.reader.topic import Topic
from tests.products.files.reader.conftest import MakeSink, Sink
from tests.support.quiet import QUIET
from tests.support.topics import unique_name

OpenTopic = Callable[[Sink], Topic]
MARGIN = Margin(rotation_ms=1_000, upload_ms=1_000, standstill_ms=1_000, transaction_ms=1_000, clocks_ms=1_000)


def ids(found: list[Located]) -> list[int]:
    return [record["id"] for _, record in all_records(found, Stores())]


def nothing(_: str) -> None:
    pass


def collector(
    sink: Sink, topic: Topic, *, patience_s: float = 20.0, step: Callable[[str], None] = nothing
) -> OrphanCollector:
    return OrphanCollector(
        open_store(f"file://{sink.root}"),
        [topic],
        pipeline="flights",
        margin=MARGIN,
        created_ms=0,
        is_first_incarnation=True,
        patience_s=patience_s,
        now_ms=lambda: sink.now_ms,
        step=step,
    )


def delete_records(sink: Sink, before: int) -> None:
    admin: Any = AdminClient({"bootstrap.servers": sink.bootstrap_servers, **QUIET})
    for future in admin.delete_records([TopicPartition(sink.topic, 0, before)]).values():
        future.result(30)


def test_records_of_committed_references_are_read_once(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    """Aborted ones are not, nor those of a transaction that is open; over several partitions, to the very end."""
    sink = make_sink(partitions=3)
    sink.commit(sink.upload(1, 2), sink.upload(3))
    sink.abort(sink.upload(100))
    sink.commit(sink.upload(4), partition=2)
    sink.commit(b"no reference", None, partition=1)
    other = make_sink(topic=sink.topic)
    other.producer.begin_transaction()
    other.write(other.upload(200), partition=2)
    told: list[ReferenceReading] = []

    found = list(committed_references(open_topic(sink), heard=told.append))

    assert ids(found) == [1, 2, 3, 4]
    assert [located.place for located in found] == [f"{sink.topic}-0@0", f"{sink.topic}-0@1", f"{sink.topic}-2@0"]
    assert (told[-1].references, told[-1].others, told[-1].passed) == (3, 2, told[-1].expected)
    other.end(commits=True, partition=2)
    assert ids(list(committed_references(open_topic(sink)))) == [1, 2, 3, 4, 200]


def test_a_window_is_by_the_times_of_the_references(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    sink = make_sink()
    begin = sink.now_ms
    for number, after_ms in enumerate((0, 30, 10, 20)):
        sink.now_ms = begin + after_ms
        sink.commit(sink.upload(number))

    def read(window: ReferenceWindow) -> list[int]:
        return ids(list(committed_references(open_topic(sink), window)))

    assert read(ReferenceWindow(from_ms=begin + 10)) == [1, 2, 3]
    assert read(ReferenceWindow(from_ms=begin + 10, to_ms=begin + 30)) == [2, 3]
    assert read(ReferenceWindow(to_ms=begin + 20)) == [0, 2]
    assert read(ReferenceWindow(from_ms=begin + 31)) == []


def test_what_is_gone_from_the_topic_is_passed_over(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    sink = make_sink()
    for number in range(3):
        sink.commit(sink.upload(number))
    delete_records(sink, before=3)
    assert ids(list(committed_references(open_topic(sink)))) == [2]
    assert open_topic(sink).begins() == {0: 3}


def test_what_is_deleted_while_it_is_read_is_an_error_and_no_gap(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    sink = make_sink()
    for number in range(3):
        sink.commit(sink.upload(number))
    topic = open_topic(sink)
    begin, end = topic.begins(), topic.last_stable()
    delete_records(sink, before=3)
    with pytest.raises(ReferencesUnreadableError, match=f"{sink.topic} cannot be read: partition 0 at offset 0"):
        list(topic.committed(begin, end))


def test_a_topic_that_is_not_there_and_brokers_that_are_away_are_said(
    make_sink: MakeSink, open_topic: OpenTopic
) -> None:
    sink = make_sink()
    sink.topic = unique_name("nowhere")
    with pytest.raises(ReferencesUnreadableError, match=f"the references in {sink.topic} cannot be read"):
        list(committed_references(open_topic(sink)))


def test_the_brokers_tell_their_longest_transaction(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    assert open_topic(make_sink()).transaction_max_timeout_ms() == 900_000


def test_commands_read_no_other_cluster_than_the_one_that_was_registered(
    make_sink: MakeSink, kafka: KafkaCluster
) -> None:
    sink = make_sink()
    known = PipelineTopics(
        pipeline="flights",
        connections={("local", sink.topic): {"bootstrap.servers": sink.bootstrap_servers}},
        cluster_ids={"local": kafka.cluster_id},
        roots=(f"file://{sink.root}",),
        definitions=(),
        created_at=None,
    )
    with opened(known) as (topic,):
        assert topic.name == sink.topic
    other = msgspec.structs.replace(known, cluster_ids={"local": "another-one"})
    with pytest.raises(CommandError, match="local is registered with another-one"), opened(other):
        pass


def test_an_open_transaction_blocks_the_collector_which_names_it(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    sink = make_sink()
    sink.commit(sink.upload(1))
    orphan = sink.upload(2)
    sink.producer.begin_transaction()
    sink.write(sink.upload(3))
    began_ms = sink.now_ms
    sink.now_ms += MARGIN.total_ms

    findings = collector(sink, open_topic(sink), patience_s=0.5).look()

    (blocked,) = findings.blocked
    assert (blocked.topic, blocked.partition, blocked.offset) == (sink.topic, 0, 2)
    assert blocked.since_ms == began_ms
    assert blocked.transactional_id == "fl.t.flights.0.0"
    assert findings.orphans == ()
    sink.end(commits=False)
    paths = {stored.path for stored in collector(sink, open_topic(sink)).look().orphans}
    assert orphan.path in paths
    assert len(paths) == 2


def test_orphans_are_deleted_and_what_is_referenced_stays(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    sink = make_sink(partitions=2)
    kept = [sink.upload(1), sink.upload(2)]
    sink.commit(kept[0])
    sink.commit(kept[1], partition=1)
    aborted = sink.upload(3)
    sink.abort(aborted)
    never = sink.upload(4)
    sink.now_ms += MARGIN.total_ms
    young = sink.upload(5)
    topic = open_topic(sink)

    collecting = collector(sink, topic)
    outcome = collecting.delete(collecting.look())

    assert outcome.deleted.files == 2
    there = {reference.path: (sink.root / reference.path).exists() for reference in (*kept, aborted, never, young)}
    assert there == {kept[0].path: True, kept[1].path: True, aborted.path: False, never.path: False, young.path: True}
    assert ids(list(committed_references(topic))) == [1, 2]


def test_files_whose_references_are_gone_are_left_alone(make_sink: MakeSink, open_topic: OpenTopic) -> None:
    sink = make_sink()
    for number in range(3):
        sink.commit(sink.upload(number))
    delete_records(sink, before=4)
    sink.now_ms += MARGIN.total_ms
    findings = collector(sink, open_topic(sink)).look()
    assert findings.orphans == ()
    assert findings.tallies[OrphanStanding.UNKNOWN].files == 2
    assert f"{sink.topic}-0 begins at offset 4" in findings.since.why


@pytest.mark.slow
def test_files_are_uploaded_and_referenced_at_each_step_of_the_collector(
    make_sink: MakeSink, open_topic: OpenTopic, rng: random.Random
) -> None:
    """Orders drawn by chance of what test_collecting_races.py tries in memory, all of them. A sink keeps its times."""
    sink = make_sink(partitions=2)
    topic = open_topic(sink)
    uploaded: list[FileReference] = []
    committed: list[FileReference] = []
    aborted: list[FileReference] = []

    def upload() -> None:
        uploaded.append(sink.upload(0))

    def end() -> None:
        """Every transaction that there is to come."""
        for reference in uploaded:
            commits = rng.random() < 0.7
            (committed if commits else aborted).append(reference)
            (sink.commit if commits else sink.abort)(reference, partition=rng.randrange(2))
        uploaded.clear()

    def pass_time() -> None:
        end()
        sink.now_ms += MARGIN.total_ms

    def meanwhile(_: str) -> None:
        for act in rng.choices((upload, end, pass_time), weights=(3, 2, 1), k=rng.randrange(3)):
            act()

    for _ in range(10):
        collecting = collector(sink, topic, step=meanwhile)
        findings = collecting.look()
        assert findings.missing == ()
        collecting.delete(findings)
    pass_time()
    collecting = collector(sink, topic)
    collecting.delete(collecting.look())
    assert [one.path for one in committed if not (sink.root / one.path).exists()] == []
    assert [one.path for one in aborted if (sink.root / one.path).exists()] == []
    assert len(committed) > 5
    assert len(aborted) > 0


def test_the_commands_read_without_a_server(make_sink: MakeSink) -> None:
    sink = make_sink()
    sink.commit(sink.upload(1, 2), sink.upload(3, partition={"day": "2"}))
    sink.abort(sink.upload(100))
    brokers = ["--bootstrap-server", sink.bootstrap_servers, "--topic", sink.topic]

    found = CliRunner().invoke(app, ["read", "flights", *brokers])
    assert found.exit_code == 0, found.exception
    assert [json.loads(line)["id"] for line in found.stdout.splitlines()] == [1, 2, 3]
    listed = CliRunner().invoke(app, ["list", "flights", *brokers, "--partition", "day=2", "--json"])
    assert [item["records"] for item in json.loads(listed.stdout)["items"]] == [1]
