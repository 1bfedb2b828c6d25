"""The recomputation as Spark runs it: the pipeline's query as a batch, then a comparison (comparison_job.py).

plan      the streaming query, without starting it     the rules of its rows, or a refusal
bound     the checkpoint's newest committed batch      the offsets to read, and the watermark
measure   one job of Spark SQL                         event times of each partition ─▶ the comparable rows
compare   the batch query and the sink topic           rows ─▶ findings
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import DataframeQuery, Stream
from app.products.audits.result import AuditResult, AuditSide, AuditVersions, RangeRead
from app.products.audits.wire import AuditOrder
from workers.audit.brokers import ClusterBrokers
from workers.audit.collecting import SplitReport
from workers.comparison.judging import judge_sides
from workers.comparison.recomputable import NotRecomputableError, recomputable
from workers.comparison.recomputing import (
    CommittedBatch,
    TimesRead,
    committed_batch,
    comparable_rows,
    padding_of,
    resolve_range,
)
from workers.spark import comparison_job
from workers.spark.audit_job import resolved
from workers.spark.java_client import java_settings
from workers.spark.query_plan import batch_plan, empty_source, is_deterministic, nodes_of, stream_plan
from workers.spark.spark_errors import first_line

Row = tuple[bytes | None, bytes | None]


def run(
    context: SparkContext,
    order: AuditOrder,
    *,
    on_range: Callable[[int], None],
    started_at_ms: int,
    duration_ms: Callable[[], int],
    versions: AuditVersions,
) -> AuditResult:
    """Recompute the rows of a range and compare them with the committed ones.

    Args:
        on_range: gets the number of offsets to read, once it is known.

    Raises:
        NotRecomputableError: the rows of the query prove nothing, or its checkpoint has no committed batch.
        PlanError: the query has no plan.
        UnresolvableError: the range does not exist.
    """
    specification = order.specification
    query = specification.transform
    if not isinstance(query, DataframeQuery):
        raise NotRecomputableError("the pipeline is not of kind dataframe")
    session = SparkSession(context)
    # As in the streaming query (app/edges/spark/conf.py).
    session.conf.set("spark.sql.session.timeZone", "UTC")
    source = specification.transform_source
    streaming = stream_plan(query, session, lambda _: empty_source(session), transform_source=source)
    if not is_deterministic(streaming):
        raise NotRecomputableError("The query has functions such as rand(), so a batch job has other rows.")
    rules = recomputable(nodes_of(streaming), query, columns=streaming.columns)
    padding_ms = padding_of(specification, query)
    config = resolved(order.client_config)
    committed = _committed(context, query.checkpoint)
    plan = resolve_range(
        specification,
        ClusterBrokers(config, audit_id=specification.audit_id),
        committed,
        rules=rules,
        padding_ms=padding_ms,
        is_timed="timestamp" in streaming.columns,
    )
    on_range(plan.offsets)
    kafka = {f"kafka.{key}": value for key, value in java_settings(config).items()}
    batch = batch_plan(
        query, session, lambda stream: _records(session, stream, plan.ranges, kafka), transform_source=source
    )
    numbers = {Partition(one.topic, one.partition): number for number, one in enumerate(plan.ranges)}
    read, reports = _measured(query, batch.streams, numbers)
    rows = comparable_rows(plan.ranges, read, committed, rules=rules, padding_ms=padding_ms)
    # From here on it is a comparison of a window of event time.
    compared = msgspec.structs.replace(specification, window=rows.window, padding_ms=0)
    splits, buckets = comparison_job.run(
        context,
        msgspec.structs.replace(order, specification=compared),
        plan,
        recomputed=_rows(batch.rows),
        span=rows.span,
        keeps_last=rules.keeps_last,
    )
    return judge_sides(
        compared,
        msgspec.structs.replace(plan, gaps=(*plan.gaps, *rows.gaps)),
        [*reports, *splits],
        buckets,
        started_at_ms=started_at_ms,
        duration_ms=duration_ms,
        versions=versions,
        compared=rows.times,
    )


def _committed(context: SparkContext, checkpoint: str) -> CommittedBatch:
    """Return the newest committed batch of the query. Raises NotRecomputableError."""
    jvm: Any = cast(Any, context)._jvm  # noqa: SLF001 - Hadoop's file systems are not offered in Python
    java: Any = cast(Any, context)._jsc  # noqa: SLF001
    folder = jvm.org.apache.hadoop.fs.Path(checkpoint)
    try:
        files = folder.getFileSystem(java.hadoopConfiguration())
        names = [
            str(one.getPath().getName()) for one in files.listStatus(jvm.org.apache.hadoop.fs.Path(folder, "commits"))
        ]
        batch = max((int(name) for name in names if name.isdecimal()), default=None)
        if batch is None:
            raise NotRecomputableError(f"the query has committed no batch: {checkpoint} has no commits")
        stream = files.open(jvm.org.apache.hadoop.fs.Path(folder, f"offsets/{batch}"))
        try:
            entry = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise NotRecomputableError(f"the checkpoint {checkpoint} cannot be read: {first_line(error)}") from error
    return committed_batch(entry)


def _records(session: SparkSession, stream: Stream, ranges: Iterable[RangeRead], kafka: dict[str, str]) -> DataFrame:
    """Return the records of the range, as the streaming query reads them."""
    of_topic = [one for one in ranges if one.side is AuditSide.SOURCE and one.topic == stream.topic]
    bounds = {
        name: json.dumps({stream.topic: {str(one.partition): getattr(one, field) for one in of_topic}})
        for name, field in (("startingOffsets", "read_start"), ("endingOffsets", "read_end"))
    }
    options = {
        **kafka,
        **{f"kafka.{key}": str(value).lower() for key, value in NEVER_CREATE_TOPICS.items()},
        **bounds,
        "assign": json.dumps({stream.topic: [one.partition for one in of_topic]}),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }
    return session.read.format("kafka").options(**options).load()


def _measured(
    query: DataframeQuery, streams: dict[str, DataFrame], numbers: dict[Partition, int]
) -> tuple[list[TimesRead], list[SplitReport]]:
    """Return the event times of each partition with some, and the number of records that were read."""
    read: list[TimesRead] = []
    records: dict[Partition, int] = {}
    for stream in query.streams:
        at_ms = f.unix_millis(f.col(f"`{stream.event_time or '_timestamp'}`"))
        offset = f.when(at_ms.isNotNull(), f.col("_offset"))
        measures = (f.count(f.lit(1)), f.min_by(at_ms, offset), f.max_by(at_ms, offset), f.min(at_ms), f.max(at_ms))
        found: list[Any] = streams[stream.name].groupBy("_topic", "_partition").agg(*measures).collect()
        for topic, partition, count, *times in found:
            at = Partition(topic, partition)
            records[at] = max(count, records.get(at, 0))
            if None not in times:
                read.append(TimesRead(at, *times))
    return read, [SplitReport(number=numbers[at], records=count) for at, count in records.items()]


def _rows(rows: DataFrame) -> RDD[Row]:
    key = f.col("key").cast("binary") if "key" in rows.columns else f.lit(None).cast("binary")
    return rows.select(f.col("value").cast("binary"), key).rdd.mapPartitions(_as_bytes)


def _as_bytes(rows: Iterable[Any]) -> Iterator[Row]:
    for value, key in rows:
        yield None if value is None else bytes(value), None if key is None else bytes(key)
