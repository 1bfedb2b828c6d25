"""The audit as Spark runs it: steps that return only data bounded by their number of tasks.

    list      only with files: a task for 50,000 references ─▶ the files of each task, and their number of records
    read      a task for each split         records ─▶ rows of 24 bytes, in pieces by bucket
    shuffle   Spark                          all rows of an id meet in one bucket
    compare   a task for each bucket        rows ─▶ counts, and the first few ids of each finding
    describe  one task                       those few once more, for their text and timestamps

A hundred million ids are two hundred million rows. At a million offsets a task, 200 tasks keep 24 MB each, with 4.8 GB
of shuffle on disk. A task keeps one of 250 buckets: 400,000 ids, about 100 MB of Python. Only the number of tasks and
the disk space grow with the number of ids.

Files are read by tasks of a million of their records, or a thousand files. A task's memory is bounded in the same way.
It also holds a few files that it fetches ahead (4 MB of each in memory, the rest on the disk).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec
from pyspark import RDD, SparkContext

from app.core.clusters import secret_reference
from app.core.pipelines.pipeline import FailurePolicy
from app.products.audits.result import Example, RangeRead
from app.products.audits.specification import AuditSpecification
from app.products.audits.wire import AuditOrder
from workers import versions
from workers.audit import listing
from workers.audit.collecting import SplitCollector, SplitReport
from workers.audit.comparing import BucketReport, Deviation, compare
from workers.audit.describing import describe
from workers.audit.file_collecting import FileCollector
from workers.audit.listing import FilesListed, list_files
from workers.audit.reading import committed_records, reader
from workers.audit.references import ReferenceScope
from workers.audit.splits import Split, SplitPlan, splits_of, splits_of_references
from workers.audit.stores import FileStores
from workers.spark.tasks import read_secret
from workers.versions import Versions

Keyed = tuple[int, bytes]


class AuditLuggage(msgspec.Struct, frozen=True, kw_only=True):
    """The input of tasks, as JSON: another Python could not read a pickle of it."""

    versions: Versions
    order: AuditOrder
    scope: ReferenceScope | None = None


def resolved(client_config: dict[str, str]) -> dict[str, str]:
    """The cluster's settings with their secrets, from this process. Raises InvalidError."""
    return secret_reference.resolve(client_config, environment=os.environ, read_file=read_secret)


def buckets_of(plan: SplitPlan, specification: AuditSpecification) -> int:
    """Each has about as many ids as a task may keep, an id being in the source and in a sink."""
    return max(specification.cores, -(-plan.offsets // (2 * specification.bounds.ids_per_task)))


def with_files(context: SparkContext, order: AuditOrder, plan: SplitPlan) -> SplitPlan:
    """The plan with the splits of its references; unchanged without any. Raises Spark's errors."""
    if plan.files is None:
        return plan
    splits = splits_of_references(plan, references_per_task=order.specification.bounds.references_per_task)
    packed = [msgspec.json.encode(split) for split in splits]
    if not packed:
        return plan
    listed: RDD[bytes] = context.parallelize(packed, len(packed)).mapPartitions(
        partial(_list, pack(order, plan.files.scope))
    )
    return listing.with_files(
        plan, plan.files, [msgspec.json.decode(data, type=FilesListed) for data in listed.collect()]
    )


def run(context: SparkContext, order: AuditOrder, plan: SplitPlan) -> tuple[list[SplitReport], list[BucketReport]]:
    """Read and compare; return a small report of each task. Raises Spark's errors."""
    specification = order.specification
    splits = list(splits_of(plan, offsets_per_task=specification.bounds.offsets_per_task))
    if not splits:
        return [], []
    buckets = buckets_of(plan, specification)
    luggage = pack(order, None if plan.files is None else plan.files.scope)
    packed = [msgspec.json.encode(split) for split in splits]
    reports: list[tuple[bool, bytes]] = (
        context.parallelize(packed, len(packed))
        .mapPartitions(partial(_read, luggage, buckets))
        # The reports of splits come in a bucket of their own.
        .partitionBy(buckets + 1, int)
        .mapPartitionsWithIndex(partial(_compare, luggage, buckets))
        .collect()
    )
    return (
        [msgspec.json.decode(data, type=SplitReport) for is_split, data in reports if is_split],
        [msgspec.json.decode(data, type=BucketReport) for is_split, data in reports if not is_split],
    )


def describe_on(
    context: SparkContext, order: AuditOrder, ranges: Sequence[RangeRead]
) -> Callable[[Sequence[Deviation]], list[Example]]:
    """Reads the examples in a task, where the transform may run that the driver does not run."""

    def on(deviations: Sequence[Deviation]) -> list[Example]:
        if not deviations:
            return []
        work = msgspec.json.encode((list(ranges), list(deviations)))
        described: RDD[bytes] = context.parallelize([work], 1).mapPartitions(partial(_describe, pack(order)))
        return [msgspec.json.decode(data, type=Example) for data in described.collect()]

    return on


def pack(order: AuditOrder, scope: ReferenceScope | None = None) -> bytes:
    # Data that only the driver needs stay with it.
    own = msgspec.structs.replace(order, token="", server_urls=())
    return msgspec.json.encode(AuditLuggage(versions=versions.of_this_process(), order=own, scope=scope))


def unpack(data: bytes) -> AuditLuggage:
    """Raises VersionMismatchError where driver and task differ."""
    versions.check_same(msgspec.json.decode(data, type=_JobHeader).versions, versions.of_this_process())
    return msgspec.json.decode(data, type=AuditLuggage)


class _JobHeader(msgspec.Struct):
    versions: Versions


def _list(luggage: bytes, packed: Iterable[bytes]) -> Iterator[bytes]:
    unpacked = unpack(luggage)
    specification, scope = unpacked.order.specification, unpacked.scope
    config = resolved(unpacked.order.client_config)
    for data in packed:
        split = msgspec.json.decode(data, type=Split)
        with reader(config, audit_id=specification.audit_id) as consumer:
            # Files that are deleted meanwhile are reported by the tasks that read them.
            batches = committed_records(
                consumer, split, stall_s=specification.bounds.stall_ms / 1000, deleted=lambda _start, _end: None
            )
            yield msgspec.json.encode(list_files(specification, known(scope), split, batches))


def _read(luggage: bytes, buckets: int, packed: Iterable[bytes]) -> Iterator[Keyed]:
    unpacked = unpack(luggage)
    order, scope = unpacked.order, unpacked.scope
    specification = order.specification
    config = resolved(order.client_config)
    stores = stores_of(specification)
    for data in packed:
        split = msgspec.json.decode(data, type=Split)
        collector = (
            FileCollector(specification, split, buckets=buckets, scope=known(scope), stores=stores)
            if split.is_of_files
            else SplitCollector(specification, split, buckets=buckets)
        )
        with reader(config, audit_id=specification.audit_id) as consumer:
            collector.collect(
                committed_records(
                    consumer, split, stall_s=specification.bounds.stall_ms / 1000, deleted=collector.deleted
                )
            )
        yield from collector.pieces.by_bucket()
        yield buckets, msgspec.json.encode(collector.report)


def known(scope: ReferenceScope | None) -> ReferenceScope:
    if scope is None:
        raise ValueError("a split of references came without their scope; this is a bug in the audit")
    return scope


def _compare(luggage: bytes, buckets: int, bucket: int, pieces: Iterable[Keyed]) -> Iterator[tuple[bool, bytes]]:
    if bucket == buckets:
        return ((True, data) for _, data in pieces)
    specification = unpack(luggage).order.specification
    report = compare(
        (data for _, data in pieces),
        letters=_letters(specification),
        examples=specification.bounds.examples,
        places=specification.bounds.places,
    )
    return iter([(False, msgspec.json.encode(report))])


def stores_of(specification: AuditSpecification) -> FileStores:
    return FileStores(specification.file_roots, stall_s=specification.bounds.stall_ms / 1000)


def _letters(specification: AuditSpecification) -> int | None:
    errors = specification.errors
    if errors.policy is not FailurePolicy.DEAD_LETTER or errors.dead_letter_topic not in specification.sink_topics:
        return None
    return specification.sink_topics.index(errors.dead_letter_topic)


def _describe(luggage: bytes, packed: Iterable[bytes]) -> Iterator[bytes]:
    order = unpack(luggage).order
    config = resolved(order.client_config)
    specification = order.specification
    for data in packed:
        ranges, deviations = msgspec.json.decode(data, type=tuple[list[RangeRead], list[Deviation]])
        for example in describe(
            specification,
            ranges,
            deviations,
            open_reader=partial(reader, config, audit_id=specification.audit_id),
            stores=stores_of(specification),
        ):
            yield msgspec.json.encode(example)
