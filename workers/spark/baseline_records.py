"""The records of files and tables that another system wrote, as Spark reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from pyspark import RDD, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

from app.core.clusters import secret_reference
from app.core.pipelines.file_root import is_local
from app.core.transforms import field_path
from app.products.audits.comparison import FileFormat, FilesBaseline, TableBaseline, driver_of
from app.products.audits.specification import AuditSpecification, TimeWindow
from workers.comparison.avro import records_of
from workers.comparison.collecting import comparison_of
from workers.spark.tasks import read_secret

Found = tuple[dict[str, Any], str | None]
"""A record, and the file that has it."""

_FETCH_SIZE = "10000"
_JSON = {"ignoreNullFields": "false"}


def baseline_records(context: SparkContext, specification: AuditSpecification) -> RDD[Found] | None:
    """Return the records of the baseline; None if it is a topic.

    Raises Spark's errors, and InvalidError for a secret that cannot be resolved.
    """
    match comparison_of(specification).baseline:
        case FilesBaseline(format=FileFormat.AVRO) as files:
            return _files_of(context, files).mapPartitions(_avro_records)
        case FilesBaseline() as files:
            return _rows(_files(_session(context), files), specification, has_files=True)
        case TableBaseline() as table:
            return _rows(_table(_session(context), table), specification, has_files=False)
        case _:
            return None


def _files_of(context: SparkContext, files: FilesBaseline) -> RDD[tuple[str, bytes]]:
    java: Any = context._jsc  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the only way to Hadoop's settings
    java.hadoopConfiguration().set("mapreduce.input.fileinputformat.input.dir.recursive", "true")
    return context.binaryFiles(_address(files.location))


def _session(context: SparkContext) -> SparkSession:
    session = SparkSession(context)
    # Times without a zone are UTC, as everywhere in a comparison.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _files(session: SparkSession, files: FilesBaseline) -> DataFrame:
    reading = session.read.option("recursiveFileLookup", "true")
    if files.format is FileFormat.CSV:
        # As RFC 4180: two quotes in a quoted text are one, and it may have lines.
        # Not FAILFAST: its error quotes the line.
        reading = reading.option("header", "true").option("escape", '"').option("multiLine", "true")
    return reading.format(files.format.value).load(_address(files.location))


def _table(session: SparkSession, table: TableBaseline) -> DataFrame:
    secrets = {name: value for name in ("user", "password") if (value := getattr(table, name)) is not None}
    options = {
        **secret_reference.resolve(secrets, environment=os.environ, read_file=read_secret),
        "url": table.url,
        "dbtable": table.table,
        "driver": driver_of(table) or "",
        "fetchsize": _FETCH_SIZE,
        # Otherwise such a time depends on the zone of the driver's host.
        "preferTimestampNTZ": "true",
    }
    return session.read.format("jdbc").options(**options).load()


def _address(location: str) -> str:
    """Spark's name for the store."""
    return location if is_local(location) else location.replace("s3://", "s3a://", 1)


def _rows(frame: DataFrame, specification: AuditSpecification, *, has_files: bool) -> RDD[Found]:
    file = sql.col("_metadata.file_path") if has_files else sql.lit(None).cast("string")
    narrowed = _narrowed(frame, specification)
    return narrowed.select(sql.to_json(sql.struct("*"), _JSON), file).rdd.mapPartitions(_decoded)


def _narrowed(frame: DataFrame, specification: AuditSpecification) -> DataFrame:
    """Leave out rows beyond the padding where the database or the file can tell; the rest is done by the collector."""
    window, path = specification.window, comparison_of(specification).baseline_time_field
    if not isinstance(window, TimeWindow) or path is None:
        return frame
    names = field_path.parse(path)
    types = {field.name: field.dataType for field in frame.schema.fields}
    if len(names) != 1 or names[0] not in types:
        return frame
    column, kind = sql.col(f"`{names[0].replace('`', '``')}`"), types[names[0]]
    padding_ms = 2 * specification.padding_ms
    start_ms, end_ms = window.start_ms - padding_ms, window.end_ms + padding_ms
    if isinstance(kind, NumericType):
        inside = (column >= start_ms) & (column < end_ms)
    elif isinstance(kind, TimestampType | TimestampNTZType):
        start, end = (sql.lit(_text_of(at_ms)).cast(kind) for at_ms in (start_ms, end_ms))
        inside = (column >= start) & (column < end)
    else:
        return frame
    # A row without a time may belong to the window.
    return frame.where(column.isNull() | inside)


def _text_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _decoded(rows: Iterable[Any]) -> Iterator[Found]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for value, file in rows:
        yield decode(value), file


def _avro_records(files: Iterable[tuple[str, bytes]]) -> Iterator[Found]:
    for name, content in files:
        for record in records_of(name, content):
            yield record, name
