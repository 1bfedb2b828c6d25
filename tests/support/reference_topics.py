"""A sink topic in memory, as a reader with `read_committed` gets it, and what is kept of files, as strict as ours."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.kit.errors import FencelineError
from app.products.files.reading import Portion, Reception, TopicMessage, TopicReading, WatchedPipeline
from app.products.files.store.files import Added, WrittenFileStore
from app.products.files.store.readings import FileReadingStore
from app.products.files.topic_ports import DescribedTopic, ReferenceConnection, TopicPortions
from app.products.files.totals import NOTHING, Total
from app.products.files.written_file import WrittenFile
from tests.support.unit_of import UnitOf

KAFKA_CLUSTER_ID = "a-kafka-cluster"


@dataclass
class PlayedTopic:
    """One partition; its messages by offset, from `start` on up to `end`."""

    topic_id: str = "id-1"
    messages: dict[int, TopicMessage] = field(default_factory=dict[int, TopicMessage])
    start: int = 0
    end: int = 0

    def put(self, *messages: TopicMessage) -> None:
        for one in messages:
            self.messages[one.offset] = one
            # A marker lies behind each.
            self.end = max(self.end, one.offset + 2)


class PlayedTopics:
    """The ReferenceTopics port. `trouble` is raised by every question while it is set."""

    def __init__(self, **topics: PlayedTopic) -> None:
        self.topics = topics
        self.trouble: FencelineError | None = None
        self.silent: dict[str, str] = {}
        self.kafka_cluster_id = KAFKA_CLUSTER_ID
        self.opened = 0
        self.open_now = 0
        self.reads: list[tuple[str, int]] = []

    def open_topics(
        self, connection: Mapping[str, str], *, timeout_s: float
    ) -> AbstractContextManager[ReferenceConnection]:
        del connection, timeout_s
        self._raise()
        return self._opened()

    @contextmanager
    def _opened(self) -> Generator[ReferenceConnection]:
        self.opened += 1
        self.open_now += 1
        try:
            yield cast(ReferenceConnection, self)
        finally:
            self.open_now -= 1

    def describe(self, topic: str) -> DescribedTopic:
        self._raise()
        known = self.topics.get(topic)
        if known is None:
            return DescribedTopic(refusal=f"the cluster has no topic {topic}, or hides it from this client")
        return DescribedTopic(known.topic_id, (0,))

    def read(self, topic: str, positions: Mapping[int, int], *, most_messages: int) -> TopicPortions:
        self._raise()
        self.reads.append((topic, positions[0]))
        if topic in self.silent:
            return TopicPortions((), self.silent[topic])
        return TopicPortions((self._portion(self.topics[topic], positions[0], most_messages),))

    def _portion(self, topic: PlayedTopic, asked: int, most: int) -> Portion:
        if not topic.start <= asked <= topic.end:
            return Portion(partition=0, start_offset=topic.start, next_offset=topic.start, end_offset=None)
        found = [topic.messages[offset] for offset in sorted(topic.messages) if offset >= asked][:most]
        is_all = not found or found[-1].offset == max(topic.messages)
        return Portion(
            partition=0,
            start_offset=asked,
            next_offset=topic.end if is_all else found[-1].offset + 1,
            end_offset=topic.end,
            messages=tuple(found),
        )

    def _raise(self) -> None:
        if self.trouble is not None:
            raise self.trouble


@dataclass
class KeptFiles:
    """The committed state. `statements` counts the units' requests; `trouble` is raised by the first of each."""

    pipelines: list[WatchedPipeline] = field(default_factory=list[WatchedPipeline])
    readings: dict[str, list[TopicReading]] = field(default_factory=dict[str, list[TopicReading]])
    files: dict[str, dict[str, WrittenFile]] = field(default_factory=dict[str, dict[str, WrittenFile]])
    totals: dict[str, Total] = field(default_factory=dict[str, Total])
    receptions: list[tuple[str, Reception]] = field(default_factory=list[tuple[str, Reception]])
    problems: dict[str, str] = field(default_factory=dict[str, str])
    looks: list[str] = field(default_factory=list[str])
    statements: int = 0
    trouble: FencelineError | None = None
    refused: dict[str, FencelineError] = field(default_factory=dict[str, FencelineError])
    now: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def unit_of_work(self) -> UnitOf:
        return _Unit(self)


CLUSTERS = [
    Cluster(
        name=name,
        kafka_cluster_id=KAFKA_CLUSTER_ID,
        bootstrap_servers="127.0.0.1:9",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        created_by="anna",
    )
    for name in ("test", "other")
]


class _Unit(UnitOf):
    """One transaction: what it did is there for others once it is committed."""

    def __init__(self, kept: KeptFiles) -> None:
        super().__init__(
            {
                WrittenFileStore: self,
                FileReadingStore: self,
                ClusterStore: SimpleNamespace(list_all=self._clusters),
            }
        )
        self._kept = kept
        self._on_commit: list[Any] = []

    async def _clusters(self) -> list[Cluster]:
        self._ask()
        return CLUSTERS

    async def watched(self) -> list[WatchedPipeline]:
        self._ask()
        return list(self._kept.pipelines)

    async def readings(self, pipelines: Collection[str]) -> dict[str, list[TopicReading]]:
        self._ask()
        return {name: list(self._kept.readings.get(name, [])) for name in pipelines}

    async def begin(self, pipeline: str, *, now: datetime) -> bool:
        del now
        self._ask()
        if pipeline in self._kept.refused:
            raise self._kept.refused[pipeline]
        return any(one.name == pipeline for one in self._kept.pipelines)

    async def move(self, pipeline: str, steps: Sequence[tuple[TopicReading | None, TopicReading]]) -> bool:
        self._ask()
        known = {(one.topic, one.partition): one for one in self._kept.readings.get(pipeline, [])}
        for before, after in steps:
            there = known.get((after.topic, after.partition))
            if (there is None) != (before is None):
                return False
            if there is not None and before is not None and there.next_offset != before.next_offset:
                return False
            known[after.topic, after.partition] = after
        self._on_commit.append(lambda: self._kept.readings.update({pipeline: list(known.values())}))
        return True

    async def add(self, pipeline: str, files: Sequence[WrittenFile]) -> Added:
        self._ask()
        there = dict(self._kept.files.get(pipeline, {}))
        new: list[WrittenFile] = []
        repeated: list[tuple[WrittenFile, str]] = []
        for file in files:
            if file.path in there:
                repeated.append((file, there[file.path].place))
            else:
                there[file.path] = file
                new.append(file)
        self._on_commit.append(lambda: self._kept.files.update({pipeline: there}))
        return Added(tuple(new), tuple(repeated))

    async def count(self, pipeline: str, files: Sequence[WrittenFile]) -> None:
        del pipeline, files
        self._ask(3)

    async def keep_schemas(self, pipeline: str, schemas: Sequence[object]) -> None:
        del pipeline, schemas
        self._ask()

    async def note_look(self, pipeline: str, total: Total, received: Reception, *, now: datetime) -> None:
        del now
        self._ask()

        def done() -> None:
            self._kept.totals[pipeline] = self._kept.totals.get(pipeline, NOTHING) + total
            self._kept.receptions.append((pipeline, received))
            self._kept.looks.append(pipeline)

        self._on_commit.append(done)

    async def note_problem(self, pipelines: Collection[str], problem: str, *, now: datetime) -> None:
        del now
        self._ask()
        names = list(pipelines)
        self._on_commit.append(lambda: self._kept.problems.update(dict.fromkeys(names, problem)))

    async def commit(self) -> None:
        for done in self._on_commit:
            done()

    def _ask(self, statements: int = 1) -> None:
        self._kept.statements += statements
        if self._kept.trouble is not None:
            raise self._kept.trouble
