"""The plan of a pipeline of kind `dataframe`: from its definition to the DataFrame that the sink writes.

It starts no query and asks no broker, so the validation uses it too, with sources of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from app.core.pipelines.pipeline import DataframeQuery, OutputMode, PipelineDefinition, Stream
from workers.spark.query_failure import PlanError
from workers.spark.spark_errors import sentence
from workers.transforms import TransformError
from workers.transforms.user_code import UserCodeError, load_function, place_of, sha256_of

SourceOf = Callable[[Stream], DataFrame]
"""Makes the streaming DataFrame of a stream, with the columns of Spark's Kafka source."""

_SINK_COLUMNS = ("value", "key", "headers", "topic", "partition", "timestamp")
_OWN_COLUMNS = ("_key", "_topic", "_partition", "_offset", "_timestamp")
_CORRUPT = "_fenceline_corrupt"
_READS_STREAMS_ONLY = {
    *("StreamingRelationV2", "StreamingRelation", "StreamingDataSourceV2Relation"),
    *("LocalRelation", "OneRowRelation", "CTERelationDef", "CTERelationRef"),
}
_SOURCE = (
    "CAST(NULL AS BINARY) AS key",
    "CAST('{}' AS BINARY) AS value",
    "'' AS topic",
    "0 AS partition",
    "value AS offset",
    "timestamp",
    "0 AS timestampType",
)
_KEEPS_ORDER = {"Project", "SubqueryAlias", "GlobalLimit", "LocalLimit"}
_RUNS_CODE = {
    "CallMethodViaReflection": "`reflect` and `java_method` are not allowed in SQL.",
    "ScriptTransformation": "`TRANSFORM … USING` is not allowed in SQL.",
}


def plan(
    definition: PipelineDefinition, spark: SparkSession, source_of: SourceOf, *, transform_source: str | None
) -> DataFrame:
    """Return the rows for the sink: `value`, and the sink's other columns as far as the query has them.

    Each stream becomes a view of its name in `spark`. A function of an uploaded file is run.

    Args:
        source_of: called once for each stream.
        transform_source: text of the uploaded file; None for SQL.

    Raises:
        PlanError: with the field that has to change. An error of `source_of` is passed on.
    """
    query = definition.dataframe
    if query is None:
        raise PlanError("transform.kind", "The pipeline is not of kind dataframe.")
    rows = stream_plan(query, spark, source_of, transform_source=transform_source)
    if definition.tasks_per_instance > 1 and not is_deterministic(rows):
        raise PlanError(
            "tasks_per_instance",
            "Several writers need a deterministic plan. Use one writer, or remove functions such as rand().",
        )
    return rows


def stream_plan(
    query: DataframeQuery, spark: SparkSession, source_of: SourceOf, *, transform_source: str | None
) -> DataFrame:
    """Return the rows of a query with any number of writers. Arguments and errors are those of `plan`."""
    field, result = _result(query, spark, _streams(query, source_of), transform_source)
    if not result.isStreaming:
        raise PlanError(field, "The result reads no stream.")
    if query.sql is not None:
        _refuse_more_than_streams(result)
    rows = _with_value(result, field)
    _check_output_mode(spark, rows, query.output_mode, field)
    return rows


class BatchPlan(NamedTuple):
    """The rows for the sink, and the streams that they are of."""

    rows: DataFrame
    streams: dict[str, DataFrame]


def batch_plan(
    query: DataframeQuery, spark: SparkSession, source_of: SourceOf, *, transform_source: str | None
) -> BatchPlan:
    """Return the rows of the same query over batches, after `stream_plan` has checked it.

    Arguments and errors are those of `plan`.
    """
    streams = _streams(query, source_of)
    field, result = _result(query, spark, streams, transform_source)
    return BatchPlan(rows=_with_value(result, field), streams=streams)


def empty_source(spark: SparkSession) -> DataFrame:
    """Return a stream with the columns of Spark's Kafka source, without a jar of Kafka."""
    return spark.readStream.format("rate").load().selectExpr(*_SOURCE)


def is_deterministic(rows: DataFrame) -> bool:
    """Return whether Spark computes the same rows again."""
    return bool(_analyzed(rows).deterministic())


def nodes_of(rows: DataFrame) -> list[dict[str, Any]]:
    """Return the analyzed plan as Spark's JSON: its nodes with their expressions."""
    return json.loads(_analyzed(rows).toJSON())


def classes_of(rows: DataFrame) -> set[str]:
    """Return the names of all classes in the analyzed plan, of expressions and subqueries too."""
    found: set[str] = set()
    waiting: list[object] = [*nodes_of(rows)]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            of = cast("dict[str, object]", here)
            found.add(str(of.get("class", "")).rpartition(".")[2])
            waiting += of.values()
        elif isinstance(here, list):
            waiting += cast("list[object]", here)
    return found


def is_ordered(rows: DataFrame) -> bool:
    """Return whether the query sorts its result."""
    # Spark's own answer leaves out a sort by columns that are in the value only.
    names = (str(node["class"]).rpartition(".")[2] for node in nodes_of(rows))
    return next((name for name in names if name not in _KEEPS_ORDER), None) == "Sort"


def _result(
    query: DataframeQuery, spark: SparkSession, streams: dict[str, DataFrame], transform_source: str | None
) -> tuple[str, DataFrame]:
    """The query's result, and the field that has the query."""
    if query.sql is not None:
        return "transform.sql", _by_sql(spark, query.sql)
    return "transform.function", _by_function(spark, query, streams, transform_source)


def _streams(query: DataframeQuery, source_of: SourceOf) -> dict[str, DataFrame]:
    found: dict[str, DataFrame] = {}
    for index, stream in enumerate(query.streams):
        field = f"transform.streams.{index}"
        if stream.name.lower() in map(str.lower, found):
            raise PlanError(f"{field}.name", f"Two streams are named {stream.name}.")
        rows = _stream(stream, source_of(stream), field)
        try:
            rows.createOrReplaceTempView(stream.name)
        except PySparkException as error:
            raise PlanError(f"{field}.name", f"{stream.name} is no name of a view: {sentence(error)}") from error
        found[stream.name] = rows
    return found


def _stream(stream: Stream, rows: DataFrame, field: str) -> DataFrame:
    schema = _schema(stream.schema, f"{field}.schema")
    # PERMISSIVE with this column finds the same records as FAILFAST, and the error can name the record.
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = f.from_json(f.col("value").cast("string"), StructType([*schema.fields]).add(_CORRUPT, "string"), options)
    own = [
        f.col("key").alias("_key"),
        *(f.col(name.removeprefix("_")).alias(name) for name in ("_topic", "_partition", "_offset", "_timestamp")),
    ]
    checked = f.when(f.col(f"_parsed.{_CORRUPT}").isNull(), f.col("_parsed")).otherwise(_not_of_schema(stream))
    columns = [f.col("_value").getField(column.name).alias(column.name) for column in schema.fields]
    found = (
        rows.select(parsed.alias("_parsed"), *own)
        .select(checked.alias("_value"), *_OWN_COLUMNS)
        .select(*columns, *_OWN_COLUMNS)
    )
    if stream.event_time is None:
        return found
    try:
        return found.withWatermark(stream.event_time, f"{stream.watermark_ms or 0} milliseconds")
    except PySparkException as error:
        raise PlanError(f"{field}.event_time", sentence(error)) from error


def _not_of_schema(stream: Stream) -> Column:
    place = (f.col("_topic"), f.lit("-"), f.col("_partition"), f.lit("@"), f.col("_offset"))
    return f.raise_error(f.concat(f.lit("the value of "), *place, f.lit(f" does not fit the schema of {stream.name}")))


def _schema(text: str, field: str) -> StructType:
    try:
        schema = DataType.fromDDL(text)
    except PySparkException as error:
        raise PlanError(field, sentence(error)) from error
    if not isinstance(schema, StructType):
        raise PlanError(field, f"{text} is one type. Name columns with their types, such as `carrier STRING`.")
    known = {*_OWN_COLUMNS, _CORRUPT}
    for column in schema.fields:
        if column.name.lower() in known:
            raise PlanError(field, f"Column {column.name} exists twice.")
        known.add(column.name.lower())
    return schema


def _by_sql(spark: SparkSession, sql: str) -> DataFrame:
    """Only a query over the streams: SQL is no way to commands, files, tables and code of the driver's host."""
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    session: Any = getattr(spark, "_jsparkSession")  # noqa: B009 - classic Spark's session in Java
    try:
        session.sessionState().sqlParser().parseQuery(sql)
        found: DataFrame = cast(Any, spark).sql(sql)
    except PySparkException as error:
        raise PlanError("transform.sql", sentence(error)) from error
    return found


def _refuse_more_than_streams(result: DataFrame) -> None:
    classes = classes_of(result)
    for name, message in _RUNS_CODE.items():
        if name in classes:
            raise PlanError("transform.sql", message)
    foreign = {name for name in classes if "Relation" in name} - _READS_STREAMS_ONLY
    if foreign:
        raise PlanError("transform.sql", f"The query reads more than the streams ({', '.join(sorted(foreign))}).")


def _by_function(
    spark: SparkSession, query: DataframeQuery, streams: dict[str, DataFrame], source: str | None
) -> DataFrame:
    file_name, name = query.file_name or "", query.function or ""
    if source is None:
        raise PlanError("transform.file_name", "The uploaded file is missing.")
    if sha256_of(source) != (query.sha256 or "").lower():
        raise PlanError("transform.sha256", f"{file_name} is not the file of this revision. Upload it again.")
    try:
        function = load_function(source, function=name, file_name=file_name, arguments=2)
    except UserCodeError as error:
        raise PlanError(f"transform.{error.field}", str(error)) from error
    except TransformError as error:
        raise PlanError("transform.file_name", str(error)) from error
    try:
        returned: object = function(spark, dict(streams))
    except (Exception, SystemExit) as error:
        # Spark's own sentence is about columns. Another error may quote all that the file could read.
        said = f": {sentence(error)}" if isinstance(error, PySparkException) else ""
        raise PlanError("transform.function", f"{file_name}, {place_of(error, file_name)}{said}") from error
    if not isinstance(returned, DataFrame):
        kind = type(returned).__name__
        raise PlanError("transform.function", f"`{name}` in {file_name} returned {kind}. It must return a DataFrame.")
    return returned


def _with_value(result: DataFrame, field: str) -> DataFrame:
    """The columns of the sink; without `value`, a JSON object of the columns that the sink does not have."""
    schema = result.schema
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise PlanError(field, f"The result has two columns of one name: {', '.join(schema.names)}.")
    others = [name for name in schema.names if name not in _SINK_COLUMNS]
    if "value" in schema.names and others:
        raise PlanError(field, f"The result has `value`, so column {others[0]} is not written. Drop one of them.")
    for column in schema.fields:
        wanted = _unfit(column.name, column.dataType)
        if wanted is not None:
            kind = column.dataType.simpleString()
            raise PlanError(field, f"Column {column.name} is {kind}. It must be {wanted}.")
    if "value" in schema.names:
        return result
    if not others:
        raise PlanError(field, "The result has no column for the value of the records.")
    kept = [_column(name) for name in schema.names if name in _SINK_COLUMNS]
    try:
        return result.select(*kept, f.to_json(f.struct(*map(_column, others))).alias("value"))
    except PySparkException as error:
        raise PlanError(field, sentence(error)) from error


def _unfit(name: str, kind: DataType) -> str | None:
    """The required type, if the sink does not take this one in this column (workers/dataframes/java: Rows)."""
    match name:
        case "key" | "value":
            return None if isinstance(kind, StringType | BinaryType) else "string or binary"
        case "topic":
            return None if isinstance(kind, StringType) else "string"
        case "partition":
            return None if isinstance(kind, IntegerType) else "int"
        case "timestamp":
            return None if isinstance(kind, TimestampType) else "timestamp"
        case "headers":
            return None if _is_headers(kind) else "array<struct<key: string, value: binary>>"
        case _:
            return None


def _is_headers(kind: DataType) -> bool:
    header = kind.elementType if isinstance(kind, ArrayType) else None
    return isinstance(header, StructType) and [type(each.dataType) for each in header] == [StringType, BinaryType]


def _column(name: str) -> Column:
    return f.col(f"`{name.replace('`', '``')}`")


def _check_output_mode(spark: SparkSession, rows: DataFrame, mode: OutputMode, field: str) -> None:
    """Spark's own check, which `start` would do."""
    spark_sql: Any = cast(Any, spark).sparkContext._jvm.org.apache.spark.sql  # noqa: SLF001 - not offered in Python
    java_mode = getattr(spark_sql.streaming.OutputMode, mode.value.capitalize())()
    try:
        spark_sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(_analyzed(rows), java_mode)
    except PySparkException as error:
        is_mode = (error.getCondition() or "").startswith("STREAMING_OUTPUT_MODE")
        raise PlanError("transform.output_mode" if is_mode else field, sentence(error)) from error


def _analyzed(rows: DataFrame) -> Any:
    return cast(Any, rows)._jdf.queryExecution().analyzed()  # noqa: SLF001 - not offered in Python
