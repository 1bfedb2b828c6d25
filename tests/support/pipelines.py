"""A pipeline on a real broker for a test: its topics, records with ids, and the specification of its tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from confluent_kafka import Producer

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.wire.specification import MappedPartition
from tests.support import verifier
from tests.support.quiet import QUIET
from tests.support.topics import create_topic, unique_name
from tests.support.verifier import Audit, audit, make_id
from workers.loop.control import TaskSpecification

SESSION_TIMEOUT_MS = 4_000
PADDING = b" " + b"x" * 80


def padded(identity: str) -> bytes:
    """The id, a space, and padding."""
    return identity.encode() + PADDING


@dataclass(slots=True)
class TestPipeline:
    """A source filled with ids, a sink, and a group of its own.

    `fed` keeps what went in; `audit` asks the verifier what came out.
    """

    __test__ = False

    bootstrap_servers: str
    definition: PipelineDefinition
    partitions: int
    value_of: Callable[[str], bytes] = padded
    fed: list[str] = field(default_factory=list[str])
    _next: dict[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def create(
        cls,
        bootstrap_servers: str,
        *,
        partitions: int = 2,
        sink_partitions: int | None = None,
        sink_config: dict[str, str] | None = None,
        source_config: dict[str, str] | None = None,
        value_of: Callable[[str], bytes] = padded,
        **settings: Any,
    ) -> TestPipeline:
        """Fresh topics, alike by default, and a definition; `settings` are fields of PipelineDefinition.

        value_of: the record that is written for an id.
        """
        name = unique_name("p")
        source, sink = f"{name}.in", f"{name}.out"
        create_topic(bootstrap_servers, source, partitions=partitions, config=source_config)
        create_topic(bootstrap_servers, sink, partitions=sink_partitions or partitions, config=sink_config)
        chosen: dict[str, Any] = {
            "cluster": "test",
            "source_topics": (source,),
            "group_id": f"{name}.group",
            "sink_topic": sink,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            **settings,
        }
        return cls(bootstrap_servers, PipelineDefinition(**chosen), partitions, value_of)

    @property
    def source(self) -> str:
        return self.definition.source_topics[0]

    @property
    def sink(self) -> str:
        return self.definition.sink_topic

    def transactional_id(self, task: int) -> str:
        return f"fl.t.{self.definition.group_id.replace('.', '-')}.0.{task}"

    def specification(self, *, task: int = 0, attempt: int = 0, **changes: Any) -> TaskSpecification:
        """One attempt of one task; `changes` are fields of the definition that differ for it."""
        return TaskSpecification(
            pipeline=self.definition.group_id,
            run_id="run",
            ordinal=0,
            lease=1,
            task=task,
            attempt=attempt,
            definition=msgspec.structs.replace(self.definition, **changes),
            client_config={"bootstrap.servers": self.bootstrap_servers},
            transactional_id=self.transactional_id(task),
            native_records=os.environ.get("FENCELINE_NATIVE_RECORDS") != "false",
        )

    @staticmethod
    def changed(specification: TaskSpecification, **changes: Any) -> TaskSpecification:
        """The same with other fields of its definition."""
        definition = msgspec.structs.replace(specification.definition, **changes)
        return msgspec.structs.replace(specification, definition=definition)

    def specification_with_mappings(self, *mappings: MappedPartition) -> TaskSpecification:
        return msgspec.structs.replace(self.specification(), mappings=mappings)

    def feed(self, each: int, *, partitions: Iterable[int] | None = None) -> list[str]:
        """Write `each` more records with ids into every partition (or those named); returns their ids."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **QUIET, "linger.ms": 1})
        ids: list[str] = []
        for partition in range(self.partitions) if partitions is None else partitions:
            begin = self._next.get(partition, 0)
            self._next[partition] = begin + each
            for sequence in range(begin, begin + each):
                identity = make_id(partition, sequence)
                ids.append(identity)
                producer.produce(self.source, self.value_of(identity), partition=partition)
            producer.poll(0)
        assert producer.flush(30) == 0
        self.fed += ids
        return ids

    def feed_value(
        self,
        value: bytes,
        *,
        partition: int = 0,
        compression: str = "none",
        size_limit: int = 10_000_000,
        **fields: Any,
    ) -> None:
        """Write one record as it is; it is not among the expected ids."""
        sizes = {"message.max.bytes": size_limit, "compression.type": compression}
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **QUIET, **sizes})
        producer.produce(self.source, value, partition=partition, **fields)
        assert producer.flush(30) == 0

    def audit(self, expected: Iterable[str] | None = None) -> Audit:
        """The verifier's word on the sink; what was fed is expected unless other ids are named."""
        return audit(verifier.read_all(self.bootstrap_servers, self.sink), self.fed if expected is None else expected)

    def assert_whole(self) -> None:
        """After a drain: every id once and in order, the group at the source's ends, nothing open."""
        found = self.audit()
        assert found.is_exact, str(found)
        assert not verifier.has_open_transaction(self.bootstrap_servers, self.sink)
        ends = verifier.end_offsets(self.bootstrap_servers, self.source, verifier.READ_COMMITTED)
        committed = verifier.committed_offsets(self.bootstrap_servers, self.definition.group_id)
        # Where nothing has been written yet, 0 may be committed, or nothing.
        assert {at: offset for at, offset in committed.items() if offset} == {
            (self.source, number): end for number, end in ends.items() if end
        }
