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
from workers.comparison.fields import FIRST_MS, LAST_MS
from workers.spark.tasks import read_secret

Found = tuple[dict[str, Any], str | None]
"""A record, and the file that has it."""

_FETCH_SIZE = "10000"
_PROPERTIES = {
    # Without a cursor the driver reads the whole table into memory.
    "jdbc:mysql:": ("useCursorFetch", "true"),
    # Spark quotes names as in standard SQL, which are texts without this mode.
    "jdbc:mariadb:": ("sessionVariables", "sql_mode='ANSI_QUOTES'"),
}
_ANY_ZONE_MS = 24 * 3_600_000
"""More than any zone differs from UTC by."""
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
    # Otherwise one of two fields would be read for both.
    session.conf.set("spark.sql.caseSensitive", "true")
    return session


def _files(session: SparkSession, files: FilesBaseline) -> DataFrame:
    reading = session.read.option("recursiveFileLookup", "true")
    if files.format is FileFormat.CSV:
        # As RFC 4180: two quotes in a quoted text are one, and it may have lines.
        # Not FAILFAST: its error quotes the line.
        reading = reading.option("header", "true").option("escape", '"').option("multiLine", "true")
        # Otherwise all files are read by the names of the first one.
        reading = reading.option("enforceSchema", "false")
    else:
        # Otherwise only the fields of one file are read.
        reading = reading.option("mergeSchema", "true")
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
        **{name: value for start, (name, value) in _PROPERTIES.items() if table.url.startswith(start)},
    }
    return session.read.format("jdbc").options(**options).load()


def _address(location: str) -> str:
    """Spark's name for the store."""
    return location if is_local(location) else location.replace("s3://", "s3a://", 1)


def _rows(frame: DataFrame, specification: AuditSpecification, *, has_files: bool) -> RDD[Found]:
    file = sql.col("_metadata.file_path") if has_files else sql.lit(None).cast("string")
    # The database reads a bound in a zone of its own.
    narrowed = _narrowed(frame, specification, zones_ms=0 if has_files else _ANY_ZONE_MS)
    return narrowed.select(sql.to_json(sql.struct("*"), _JSON), file).rdd.mapPartitions(_decoded)


def _narrowed(frame: DataFrame, specification: AuditSpecification, *, zones_ms: int) -> DataFrame:
    """Leave out rows beyond the padding where the database or the file can tell; the rest is done by the collector.

    zones_ms: a further padding for timestamps.
    """
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
        # Numbers that are no times are counted as unreadable, NaN among them: it is above all numbers.
        inside = (column >= start_ms) & (column < end_ms) | (column < FIRST_MS) | (column > LAST_MS)
    elif isinstance(kind, TimestampType | TimestampNTZType):
        start, end = (sql.lit(_text_of(at_ms)).cast(kind) for at_ms in (start_ms - zones_ms, end_ms + zones_ms))
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
