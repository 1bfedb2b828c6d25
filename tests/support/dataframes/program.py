"""A driver of DataFrames for tests: reads orders, a line of JSON each, and answers `ANSWER {…}`.

It stands for somebody's own PySpark job: nothing of the server is imported.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from fenceline_spark import exactly_once, markers, settle, start_over, starting_offsets, write_once
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, Row, StringType, StructField, StructType

OTHER_TOPIC = os.environ.get("FENCELINE_TEST_OTHER_TOPIC", "")
EVENT = "id LONG, carrier STRING, delay LONG, t LONG"


def events(df: DataFrame) -> DataFrame:
    parsed = df.select("key", f.from_json(f.col("value").cast("string"), EVENT).alias("e")).select("key", "e.*")
    return parsed.withColumn("at", f.timestamp_seconds("t")).withWatermark("at", "5 seconds")


def stateless(df: DataFrame) -> DataFrame:
    return df.select("key", "value")


def random_rows(df: DataFrame) -> DataFrame:
    """Not deterministic: a computed batch has other values each time."""
    return df.select("key", f.concat(f.col("value").cast("string"), f.lit(" "), f.rand().cast("string")).alias("value"))


def random_keys(df: DataFrame) -> DataFrame:
    """Not deterministic: a row is another writer's each time."""
    return df.select(f.rand().cast("string").alias("key"), "value")


def no_keys(df: DataFrame) -> DataFrame:
    return df.select(f.lit(None).cast("binary").alias("key"), "value")


def all_columns(df: DataFrame) -> DataFrame:
    """Each column of the sink, of the columns that the source has."""
    number = f.get_json_object(f.col("value").cast("string"), "$.id").cast("int")
    header = f.struct(f.lit("id").alias("key"), number.cast("string").cast("binary").alias("value"))
    return df.select(
        f.when(number % 2 == 0, f.col("key")).alias("key"),
        f.when(number % 5 != 0, f.col("value")).alias("value"),
        f.when(number % 3 == 0, f.array(header)).alias("headers"),
        f.when(number % 7 == 0, f.lit(OTHER_TOPIC)).alias("topic"),
        f.when(number % 11 == 0, f.lit(2)).alias("partition"),
        f.timestamp_seconds(f.lit(1_600_000_000) + number).alias("timestamp"),
    )


def unknown_column(df: DataFrame) -> DataFrame:
    return df.select("value", f.col("topic").alias("origin"))


def number_as_value(df: DataFrame) -> DataFrame:
    return df.select(f.col("offset").alias("value"))


def window(df: DataFrame) -> DataFrame:
    found = (
        events(df)
        .groupBy(f.window("at", "10 seconds"), "carrier")
        .agg(f.count("*").alias("n"), f.sum("delay").alias("delay"))
    )
    return found.select(
        f.col("carrier").alias("key"),
        f.to_json(f.struct(f.col("window.start").cast("long").alias("start"), "carrier", "n", "delay")).alias("value"),
    )


def join(df: DataFrame) -> DataFrame:
    """Pairs of an event and the one with the next id."""
    left = events(df).select("id", "at", "carrier").alias("l")
    right = events(df).select((f.col("id") - 1).alias("id"), f.col("at").alias("then"), f.col("delay")).alias("r")
    pairs = left.join(
        right, f.expr("l.id = r.id AND r.then BETWEEN l.at - INTERVAL 2 SECONDS AND l.at + INTERVAL 2 SECONDS")
    )
    return pairs.select(
        f.col("carrier").alias("key"), f.to_json(f.struct(f.col("l.id").alias("id"), "carrier", "delay")).alias("value")
    )


def dedup(df: DataFrame) -> DataFrame:
    """Every event is in the stream twice: as itself, and as the copy that a union adds."""
    twice = events(df.unionAll(df)).dropDuplicatesWithinWatermark(["id"])
    return twice.select("key", f.to_json(f.struct("id", "carrier", "delay")).alias("value"))


class RunningTotal(StatefulProcessor):
    """The number and the delay of a carrier's events so far, after each batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType([StructField("n", LongType()), StructField("delay", LongType())])
        self.total: Any = handle.getValueState("total", schema)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        n, delay = self.total.get() if self.total.exists() else (0, 0)
        for row in rows:
            n, delay = n + 1, delay + row.delay
        self.total.update((n, delay))
        yield Row(key=key[0], value=f"{key[0]} {n} {delay}")

    def close(self) -> None:
        pass


def transform_with_state(df: DataFrame) -> DataFrame:
    schema = StructType([StructField("key", StringType()), StructField("value", StringType())])
    return events(df).groupBy("carrier").transformWithState(RunningTotal(), schema, "update", "none")


KINDS: dict[str, Callable[[DataFrame], DataFrame]] = {
    kind.__name__: kind
    for kind in (
        *(stateless, random_rows, random_keys, no_keys, all_columns, unknown_column, number_as_value),
        *(window, join, dedup, transform_with_state),
    )
}
OUTPUT_MODES = {"transform_with_state": "update"}


def source(spark: SparkSession, order: dict[str, Any]) -> DataFrame:
    reading = spark.readStream if "checkpoint" in order else spark.read
    return (
        reading.format("kafka")
        .option("kafka.bootstrap.servers", order["bootstrap_servers"])
        .option("subscribe", order["source"])
        .option("startingOffsets", order.get("starting_offsets", "earliest"))
        .option("kafka.isolation.level", "read_committed")
        .options(**({"maxOffsetsPerTrigger": order["each"]} if "each" in order else {}))
        .load()
    )


def run(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    kind = order["kind"]
    query = (
        exactly_once(
            KINDS[kind](source(spark, order)),
            output_mode=order.get("output_mode", OUTPUT_MODES.get(kind, "append")),
            **{key: order[key] for key in ("bootstrap_servers", "name", "checkpoint")},
            **{key: order[key] for key in ("topic", "writers", "options") if key in order},
        )
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"progress": [json.loads(progress.json) for progress in query.recentProgress]}


def write(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    df = KINDS[order["kind"]](source(spark, order))
    write_once(df, **{key: order[key] for key in ("bootstrap_servers", "name", "topic", "idempotence_key")})
    return {}


def ask(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    calls = {"markers": markers, "settle": settle, "start_over": start_over, "starting_offsets": starting_offsets}
    found: Any = calls[order["call"]](spark, **order["arguments"])
    return {"answer": [vars(marker) for marker in found] if order["call"] == "markers" else found}


ORDERS = {"run": run, "write": write, "ask": ask}


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    sys.stdout.write("ANSWER {}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = ORDERS[order["do"]](spark, order)
        except Exception as error:  # noqa: BLE001 - the test judges it
            answer = {"error": type(error).__name__, "text": str(error)}
        sys.stdout.write(f"ANSWER {json.dumps(answer)}\n")
        sys.stdout.flush()
    spark.stop()


main()
