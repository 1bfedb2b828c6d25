"""A sink on a real broker: files in a folder, references to them in transactions that a test ends as it wants."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from app.core.wire import file_references
from app.core.wire.file_references import FileReference
from app.edges.embedded.kafka import KafkaCluster
from app.products.files.reader.topic import Topic
from tests.support.avro_files import write_file
from tests.support.topics import unique_name
from tests.support.transactions import producer
from tests.support.waiting import wait_for

_TIMEOUT_S = 30.0
_NUMBERS = itertools.count(1)


class Sink:
    """Writes at the time `now_ms`, which is the test's: records and files have it, the broker has its own."""

    def __init__(self, bootstrap_servers: str, topic: str, root: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.root = root
        root.mkdir(exist_ok=True)
        self.now_ms = 1_400_000_000_000
        self.transactional_id = unique_name("fl")
        self._look = Topic(topic, {"bootstrap.servers": bootstrap_servers})
        self.producer: Producer = producer({"bootstrap.servers": bootstrap_servers}, self.transactional_id)

    def upload(self, *ids: int, **options: Any) -> FileReference:
        return self.upload_records([{"id": one} for one in ids], **options)

    def upload_records(self, records: Sequence[Any], **options: Any) -> FileReference:
        # No two sinks of a folder give a file the same name.
        reference = write_file(self.root, next(_NUMBERS), records, uploaded_at_ms=self.now_ms, **options)
        os.utime(self.root / reference.path, (self.now_ms / 1000, self.now_ms / 1000))
        return reference

    def write(self, value: FileReference | bytes | None, *, partition: int = 0) -> None:
        encoded = file_references.encode(value) if isinstance(value, FileReference) else value
        self.producer.produce(self.topic, encoded, partition=partition, timestamp=self.now_ms)
        assert self.producer.flush(_TIMEOUT_S) == 0

    def commit(self, *values: FileReference | bytes | None, partition: int = 0) -> None:
        self.producer.begin_transaction()
        for value in values:
            self.write(value, partition=partition)
        self.end(commits=True, partition=partition)

    def abort(self, *values: FileReference | bytes | None, partition: int = 0) -> None:
        self.producer.begin_transaction()
        for value in values:
            self.write(value, partition=partition)
        self.end(commits=False, partition=partition)

    def end(self, *, commits: bool, partition: int = 0) -> None:
        """The producer has its answer before the markers are written; a test goes on when they are."""
        end = self._look.ends()[partition]
        if commits:
            self.producer.commit_transaction(_TIMEOUT_S)
        else:
            self.producer.abort_transaction(_TIMEOUT_S)
        wait_for(lambda: self._look.last_stable()[partition] > end, _TIMEOUT_S, "the marker of the transaction")

    def close(self) -> None:
        self._look.close()


MakeSink = Callable[..., Sink]


@pytest.fixture
def make_sink(kafka: KafkaCluster, tmp_path: Path, make_topic: Callable[..., str]) -> Generator[MakeSink]:
    made: list[Sink] = []

    def make(*, partitions: int = 1, topic: str | None = None) -> Sink:
        # Its records are as old as the test's clock: retention would take them.
        name = topic or make_topic(partitions=partitions, prefix="files", retention_ms="-1")
        made.append(Sink(kafka.bootstrap_servers, name, tmp_path / "lake"))
        return made[-1]

    yield make
    for sink in made:
        sink.close()


@pytest.fixture
def open_topic() -> Generator[Callable[[Sink], Topic]]:
    opened: list[Topic] = []

    def open_it(sink: Sink) -> Topic:
        topic = Topic(sink.topic, {"bootstrap.servers": sink.bootstrap_servers}, stall_s=20)
        opened.append(topic)
        return topic

    yield open_it
    for topic in opened:
        topic.close()
