"""Audits without Spark, on a real broker: the same functions as the job's, a split and a bucket after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from confluent_kafka import Producer

from app.products.audits.result import AuditResult, AuditVersions, Example, IdFinding
from app.products.audits.specification import AuditBounds, AuditSpecification, Everything, JsonField
from tests.support.topics import unique_name
from workers.audit.brokers import ClusterBrokers
from workers.audit.collecting import SplitCollector, SplitReport
from workers.audit.comparing import compare
from workers.audit.describing import describe
from workers.audit.file_collecting import FileCollector
from workers.audit.judging import judge
from workers.audit.listing import FilesListed, list_files, with_files
from workers.audit.reading import committed_records, reader
from workers.audit.resolving import resolve
from workers.audit.splits import splits_of, splits_of_references
from workers.audit.stores import FileStores

VERSIONS = AuditVersions(fenceline="test", python="3", spark="none", confluent_kafka="2")
QUICK = AuditBounds(
    settle_ms=2_000, stall_ms=10_000, offsets_per_task=150, files_per_task=4, references_per_task=7, ids_per_task=50
)
"""Small tasks, so that many splits and buckets are met."""


def a_specification(source: str, sink: str, **changes: Any) -> AuditSpecification:
    """All of an identity pipeline's topics, by the field `id`."""
    specification = AuditSpecification(
        audit_id=unique_name("audit"),
        pipeline="pipeline",
        revision=1,
        source_topics=(source,),
        group_id=None,
        sink_topic=sink,
        sink_topics=(sink,),
        id=JsonField(path="id"),
        window=Everything(),
        bounds=QUICK,
    )
    return msgspec.structs.replace(specification, **changes)


def audit_here(specification: AuditSpecification, bootstrap_servers: str) -> AuditResult:
    config = {"bootstrap.servers": bootstrap_servers}
    plan = resolve(specification, ClusterBrokers(config, audit_id=specification.audit_id))
    stores = FileStores(specification.file_roots, stall_s=5)
    if plan.files is not None:
        listed: list[FilesListed] = []
        for split in splits_of_references(plan, references_per_task=specification.bounds.references_per_task):
            with reader(config, audit_id=specification.audit_id) as consumer:
                batches = committed_records(consumer, split, stall_s=10, deleted=lambda _start, _end: None)
                listed.append(list_files(specification, plan.files.scope, split, batches))
        plan = with_files(plan, plan.files, listed)
    buckets = 3
    pieces: defaultdict[int, list[bytes]] = defaultdict(list)
    reports: list[SplitReport] = []
    for split in splits_of(plan, offsets_per_task=specification.bounds.offsets_per_task):
        collector = SplitCollector(specification, split, buckets=buckets)
        if split.is_of_files and plan.files is not None:
            collector = FileCollector(specification, split, buckets=buckets, scope=plan.files.scope, stores=stores)
        with reader(config, audit_id=specification.audit_id) as consumer:
            collector.collect(committed_records(consumer, split, stall_s=10, deleted=collector.deleted))
        for bucket, piece in collector.pieces.by_bucket():
            pieces[bucket].append(piece)
        reports.append(collector.report)
    errors = specification.errors
    letters = (
        specification.sink_topics.index(errors.dead_letter_topic)
        if errors.dead_letter_topic in specification.sink_topics
        else None
    )
    return judge(
        specification,
        plan,
        reports,
        [compare(several, letters=letters, examples=20, places=5) for several in pieces.values()],
        describe=lambda deviations: list(
            describe(
                specification,
                plan.ranges,
                deviations,
                open_reader=partial(reader, config, audit_id=specification.audit_id),
                stores=stores,
            )
        ),
        started_at_ms=0,
        duration_ms=lambda: 0,
        versions=VERSIONS,
    )


def examples_of(result: AuditResult, finding: IdFinding) -> list[Example]:
    return [example for example in result.examples if example.finding is finding]


def ids_of(result: AuditResult, finding: IdFinding) -> list[str | None]:
    return sorted((example.id for example in examples_of(result, finding)), key=str)


class Writer:
    """Writes records with an `id`, in transactions that commit, abort, or stay open."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._producers: dict[str, Producer] = {}

    def write(
        self,
        topic: str,
        ids: Sequence[str | int],
        *,
        partition: int = 0,
        at_ms: int | Callable[[int], int] = 0,
        end: str = "commit",
        fields: dict[str, Any] | None = None,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """`end`: `commit`, `abort`, `open`, or `none` for records outside of any transaction."""
        values = [(str(id_).encode(), msgspec.json.encode({"id": id_, **(fields or {})})) for id_ in ids]
        self.write_values(topic, values, partition=partition, at_ms=at_ms, end=end, headers=headers)

    def write_values(
        self,
        topic: str,
        values: Sequence[tuple[bytes | None, bytes | None]],
        *,
        partition: int = 0,
        at_ms: int | Callable[[int], int] = 0,
        end: str = "commit",
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """`values`: key and value of each record."""
        producer = self._producer(end)
        if end != "none":
            producer.begin_transaction()
        for index, (key, value) in enumerate(values):
            producer.produce(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp=at_ms if isinstance(at_ms, int) else at_ms(index),
                headers=headers or [],
            )
        assert producer.flush(30) == 0
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)

    def close(self) -> None:
        if "open" in self._producers:
            self._producers["open"].abort_transaction(30)

    def _producer(self, end: str) -> Producer:
        """One for all transactions that end, since it takes a while until one has its id."""
        kind = end if end in ("open", "none") else "ended"
        if kind not in self._producers:
            settings: dict[str, Any] = {"bootstrap.servers": self._bootstrap_servers, "linger.ms": 5}
            if kind != "none":
                settings["transactional.id"] = unique_name("writer")
            self._producers[kind] = Producer(settings)
            if kind != "none":
                self._producers[kind].init_transactions(30)
        return self._producers[kind]
