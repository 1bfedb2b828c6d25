"""Spark Structured Streaming from a topic of JSON to Avro files partitioned by user and hour, by its own writer.

python spark_avro.py BOOTSTRAP SOURCE FOLDER CORES RECORDS_EACH JARS; runs until it is killed. A line of JSON for each
micro-batch that is committed: its records, and when that was. It is told the schema, and names its files in a log.
"""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, date_format, from_json
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

_SCHEMA = (
    "id STRING, user STRING, at TIMESTAMP, amount DOUBLE, quantity BIGINT, place STRING, paid BOOLEAN, note STRING"
)


class Telling(StreamingQueryListener):
    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        print(json.dumps({"records": event.progress.numInputRows, "at": time.time()}), flush=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def main() -> None:
    bootstrap_servers, source, folder, cores, records_each, jars = sys.argv[1:]
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", cores)
        .config("spark.sql.avro.compression.codec", "zstandard")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", f"{folder}/local")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("WARN")
    session.streams.addListener(Telling())
    record = from_json(col("value").cast("string"), _SCHEMA)
    query = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", "5000")
        .option("maxOffsetsPerTrigger", records_each)
        .load()
        .select(record.alias("record"))
        .select("record.*")
        .withColumn("by_user", col("user"))
        .withColumn("by_hour", date_format(col("at"), "yyyy-MM-dd-HH"))
        # Without it every task writes a file for every user and hour, four times as many in all.
        .repartition("by_user", "by_hour")
        .writeStream.format("avro")
        .partitionBy("by_user", "by_hour")
        .option("path", f"{folder}/files")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
