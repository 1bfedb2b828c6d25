"""The child process that tries a query on sample records: `python -I -m workers.spark.try_query`.

It starts Spark and answers like check_plan.py, with the same limits. The request has the records: no broker is asked,
no streaming query is started, and nothing can be written.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from app.core.journals.log_content import MAX_CONTENT_BYTES, Content, RecordHeader, content
from app.core.pipelines.pipeline import DataframeQuery, Stream
from app.core.transforms.trying import (
    CONTENT_BYTES,
    LONGEST_MESSAGE,
    LONGEST_TOPIC,
    MOST_ROWS,
    QueryAnswer,
    SampleRecord,
    TriedOutput,
    fitting,
)
from workers.spark.check_plan import PlanRequest, limit, limit_processes, start_spark
from workers.spark.query_failure import FailureKind, PlanError, QueryFailedError, failure_of
from workers.spark.spark_errors import sentence
from workers.transforms.check_file import Answer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SETTINGS = {
    # As in the streaming query (app/edges/spark/conf.py).
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    # Each of these would start threads.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.cleaner.referenceTracking": "false",
}
_NO_INTERPRETER = "/nowhere/python"
"""A process for rows of Python cannot start, even where the limits would permit it: next to them, Spark would hang."""
_RECORD = "key BINARY, value BINARY, topic STRING, partition STRING, offset STRING, at_ms STRING"
_SOURCE = (
    *("key", "value", "topic", "CAST(partition AS INT) AS partition", "CAST(offset AS BIGINT) AS offset"),
    *("timestamp_millis(CAST(at_ms AS BIGINT)) AS timestamp", "0 AS timestampType"),
)
"""The columns of Spark's Kafka source. Py4J sends a number as an INT or a BIGINT by its value, so these are texts."""
_ORDER = ("timestamp", "key", "value", "topic", "partition", "headers")
_CUT = ("key", "value")
_CALLS_PYTHON = re.compile(r"Python(UDF|UDAF|UDTF|FuncExpression)|.*In(Pandas|Arrow|PySpark).*")
"""Nodes of a plan for which Spark starts a process of Python."""
_NO_PYTHON = (
    "Try starts no process of Python for rows, so it cannot run a UDF or a function such as mapInPandas. "
    "Check without saving checks its plan."
)
_NO_ROOM = ("Cannot run program", "error=2, No such file or directory", "unable to create native thread")
"""Parts of Java's sentences about a process or thread that cannot start."""
_STARTS_MORE = "The query starts a process, such as Python's for its rows, or more threads than Try permits."
_JAVA_ENDED = "Spark ended while it ran the query. Its limits are 512 MB of memory and 16 MB in a file."
_CUT_BYTES = MAX_CONTENT_BYTES + 4
"""The first bytes of a key or value. Four more than are shown have the last character whole."""


class QueryTrialRequest(PlanRequest, frozen=True, kw_only=True):
    """records: of the source topics, which the streams read."""

    records: tuple[SampleRecord, ...]


def run(request: QueryTrialRequest, spark: SparkSession) -> QueryAnswer:
    """Run the query over the records as a batch, in this process."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import AnalysisException, PySparkException

    query = request.definition.dataframe
    if query is None:
        return QueryAnswer(message="The pipeline is not of kind dataframe.", field="transform.kind")
    code = "transform.sql" if query.sql is not None else "transform.function"
    try:
        return _answer(_batch(query, spark, request, code), request.definition.sink_topic)
    except PlanError as error:
        return QueryAnswer(message=error.message[:LONGEST_MESSAGE], field=error.field)
    except AnalysisException as error:
        message = f"Spark cannot run it as a batch, as Try does: {sentence(error)}"
        return QueryAnswer(message=message[:LONGEST_MESSAGE], field=code)
    except (Py4JNetworkError, OSError, EOFError):
        message = _JAVA_ENDED
    except (PySparkException, Py4JError) as error:
        message = failure_of(getattr(error, "java_exception", None) or error).message
    except QueryFailedError as error:
        message = error.message
    if any(part in message for part in _NO_ROOM):
        message = _STARTS_MORE
    return QueryAnswer(error=message[:LONGEST_MESSAGE])


def _batch(query: DataframeQuery, spark: SparkSession, request: QueryTrialRequest, code: str) -> DataFrame:
    """Return the rows of the batch, after the plan of the streaming query. Raises PlanError."""
    from workers.spark.query_plan import batch_plan, classes_of, empty_source, stream_plan

    empty = empty_source(spark)
    stream_plan(query, spark, lambda _: empty, transform_source=request.source)
    rows = batch_plan(
        query, spark, lambda stream: _records(spark, stream, request.records), transform_source=request.source
    ).rows
    if any(_CALLS_PYTHON.fullmatch(name) for name in classes_of(rows)):
        raise PlanError(code, _NO_PYTHON)
    return rows


def _records(spark: SparkSession, stream: Stream, records: Iterable[SampleRecord]) -> DataFrame:
    """Return the records of a stream. PySpark's own way from rows to a DataFrame would start a process of Python."""
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    context: Any = spark.sparkContext
    java, gateway = context._jvm, context._gateway  # noqa: SLF001 - not offered in Python
    session: Any = getattr(spark, "_jsparkSession")  # noqa: B009 - classic Spark's session in Java
    rows = java.java.util.ArrayList()
    for one in records:
        if one.topic == stream.topic:
            columns = (one.key, one.value, one.topic, str(one.partition), str(one.offset), str(one.timestamp_ms))
            row = gateway.new_array(java.Object, len(columns))
            for index, column in enumerate(columns):
                row[index] = column
            rows.add(java.org.apache.spark.sql.RowFactory.create(row))
    schema = session.parseDataType(DataType.fromDDL(_RECORD).json())
    return DataFrame(session.createDataFrame(rows, schema), spark).selectExpr(*_SOURCE)


def _answer(rows: DataFrame, sink_topic: str) -> QueryAnswer:
    """Run the batch. Raises errors of Spark, and QueryFailedError for a row that the sink refuses."""
    from workers.spark.query_plan import is_ordered

    shown = rows.select(*_columns(rows.columns))
    if not is_ordered(rows):
        shown = shown.orderBy(*_ORDER)
    outputs, _ = fitting((_output(row, sink_topic) for row in shown.limit(MOST_ROWS).collect()), CONTENT_BYTES)
    return QueryAnswer(rows=tuple(outputs), count=rows.count())


def _columns(names: Collection[str]) -> list[Column]:
    """Return all columns of the sink, with nulls for those that the query does not have, and the sizes of two.

    Long keys and values are cut here: Spark would write a large result to a file.
    """
    from pyspark.sql import functions as f

    found = {name: f.col(name) if name in names else f.lit(None) for name in _ORDER}
    return [
        f.unix_millis(found["timestamp"].cast("timestamp")).alias("timestamp"),
        *(f.substring(found[name].cast("binary"), 1, _CUT_BYTES).alias(name) for name in _CUT),
        *(found[name].alias(name) for name in ("topic", "partition", "headers")),
        *(f.octet_length(found[name].cast("binary")).alias(f"{name}_bytes") for name in _CUT),
    ]


def _output(row: Any, sink_topic: str) -> TriedOutput:
    headers: list[tuple[str | None, bytearray | None]] = row["headers"] or []
    if any(name is None for name, _ in headers):
        raise QueryFailedError(FailureKind.REFUSAL, "a header has no key.")
    return TriedOutput(
        topic=(sink_topic if row["topic"] is None else row["topic"])[:LONGEST_TOPIC],
        partition=row["partition"],
        timestamp_ms=row["timestamp"],
        key=_content(row["key"], row["key_bytes"]),
        value=_content(row["value"], row["value_bytes"]),
        headers=tuple(
            RecordHeader(name=name or "", value=None if value is None else content(bytes(value)))
            for name, value in headers
        ),
    )


def _content(first: bytearray | None, size_bytes: int) -> Content | None:
    """first: the first bytes of all."""
    if first is None:
        return None
    data = bytes(first)
    if len(data) < size_bytes:
        # Without a partial character at the end, which would make bytes of a text.
        with suppress(UnicodeDecodeError):
            data = codecs.getincrementaldecoder("utf-8")().decode(data).encode()
    found = content(data)
    return None if found is None else msgspec.structs.replace(found, size_bytes=size_bytes)


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=QueryTrialRequest)
    answer = Answer(keeps_errors=True)
    limit(request)
    os.environ["PYSPARK_PYTHON"] = _NO_INTERPRETER
    spark = start_spark(request, _SETTINGS)
    if request.is_isolated:
        limit_processes(spark)
    answer.start()
    answer.end_with(run(request, spark))


if __name__ == "__main__":
    main()
