"""The comparison as Spark runs it: as an audit (audit_job.py), with rows that hold the compared fields.

    list      only for a pipeline with files: the files of its references
    read      a task for each split of a topic, and Spark's own tasks for files and tables of the other system
    shuffle   Spark                          all rows of an id meet in one bucket
    compare   a task for each bucket        rows ─▶ counts, differences by field, and the first few of each finding

Spark SQL is used for Parquet, CSV and tables only, since its session takes three seconds more than the context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
from pyspark import RDD, SparkContext

from app.products.audits.result import AuditSide
from app.products.audits.specification import AuditSpecification
from app.products.audits.wire import AuditOrder
from workers.audit.collecting import SplitReport
from workers.audit.reading import committed_records, reader
from workers.audit.splits import Split, SplitPlan, splits_of
from workers.comparison.collecting import (
    BaselineCollector,
    Keyed,
    OutputFileCollector,
    RecomputedCollector,
    TopicCollector,
    comparison_of,
)
from workers.comparison.comparing import SidesReport, compare_sides
from workers.comparison.fields import FIRST_MS, LAST_MS
from workers.comparison.judging import rules_of
from workers.spark.audit_job import known, pack, resolved, stores_of, unpack
from workers.spark.baseline_records import Found, baseline_records


def buckets_of(plan: SplitPlan, specification: AuditSpecification) -> int:
    """Each has about as many ids as a task may keep; a baseline without offsets is as large as the output."""
    sides = 2 if comparison_of(specification).is_of_records else 1
    return max(specification.cores, -(-plan.offsets // (sides * specification.bounds.ids_per_task)))


def run(
    context: SparkContext,
    order: AuditOrder,
    plan: SplitPlan,
    *,
    recomputed: RDD[tuple[bytes | None, bytes | None]] | None = None,
    span: tuple[int, int] = (FIRST_MS, LAST_MS),
    keeps_last: bool = False,
) -> tuple[list[SplitReport], list[SidesReport]]:
    """Read and compare; return a small report of each task. Raises Spark's errors, and InvalidError for a secret.

    recomputed: value and key of the recomputed rows, whose batch has read the source. span: as in RecomputedCollector.
    keeps_last: as in Rules.
    """
    specification = order.specification
    buckets = buckets_of(plan, specification)
    luggage = pack(order, None if plan.files is None else plan.files.scope)
    packed = [
        msgspec.json.encode(split)
        for split in splits_of(plan, offsets_per_task=specification.bounds.offsets_per_task)
        if recomputed is None or split.side is AuditSide.SINK
    ]
    sides: list[RDD[Keyed]] = []
    if packed:
        sides.append(context.parallelize(packed, len(packed)).mapPartitions(partial(_read, luggage, buckets)))
    found = baseline_records(context, specification)
    if recomputed is not None:
        sides.append(recomputed.mapPartitions(partial(_read_recomputed, luggage, buckets, span)))
    if found is not None:
        sides.append(found.mapPartitions(partial(_read_baseline, luggage, buckets)))
    if not sides:
        return [], []
    reports: list[tuple[bool, bytes]] = (
        (sides[0] if len(sides) == 1 else context.union(sides))
        # The reports of splits come in a bucket of their own.
        .partitionBy(buckets + 1, int)
        .mapPartitionsWithIndex(partial(_compare, luggage, buckets, keeps_last))
        .collect()
    )
    return (
        [msgspec.json.decode(data, type=SplitReport) for is_split, data in reports if is_split],
        [msgspec.json.decode(data, type=SidesReport) for is_split, data in reports if not is_split],
    )


def _read(luggage: bytes, buckets: int, packed: Iterable[bytes]) -> Iterator[Keyed]:
    unpacked = unpack(luggage)
    order, scope = unpacked.order, unpacked.scope
    specification = order.specification
    config = resolved(order.client_config)
    for data in packed:
        split = msgspec.json.decode(data, type=Split)
        collector = (
            OutputFileCollector(
                specification, split, buckets=buckets, scope=known(scope), stores=stores_of(specification)
            )
            if split.is_of_files
            else TopicCollector(specification, split, buckets=buckets)
        )
        with reader(config, audit_id=specification.audit_id) as consumer:
            yield from collector.keyed(
                committed_records(
                    consumer, split, stall_s=specification.bounds.stall_ms / 1000, deleted=collector.deleted
                )
            )
        yield buckets, msgspec.json.encode(collector.report)


def _read_baseline(luggage: bytes, buckets: int, found: Iterable[Found]) -> Iterator[Keyed]:
    collector = BaselineCollector(unpack(luggage).order.specification, buckets=buckets)
    yield from collector.keyed(found)
    yield buckets, msgspec.json.encode(collector.report)


def _read_recomputed(
    luggage: bytes, buckets: int, span: tuple[int, int], rows: Iterable[tuple[bytes | None, bytes | None]]
) -> Iterator[Keyed]:
    collector = RecomputedCollector(unpack(luggage).order.specification, buckets=buckets, span=span)
    yield from collector.keyed(rows)
    yield buckets, msgspec.json.encode(collector.report)


def _compare(
    luggage: bytes, buckets: int, keeps_last: bool, bucket: int, pieces: Iterable[Keyed]
) -> Iterator[tuple[bool, bytes]]:
    if bucket == buckets:
        return ((True, data) for _, data in pieces)
    specification = unpack(luggage).order.specification
    rules = msgspec.structs.replace(rules_of(specification), keeps_last=keeps_last)
    report = compare_sides((data for _, data in pieces), rules)
    return iter([(False, msgspec.json.encode(report))])
