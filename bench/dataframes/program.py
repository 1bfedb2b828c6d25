"""A Structured Streaming query from topic to topic, by Spark's own Kafka sink or by Fenceline's.

python program.py '{"bootstrap_servers": …, "source": …, "sink": …, "system": "spark" | "fenceline", "writers": …,
"each": …, "trigger": …, "folder": …, "jars": …}'

A line of JSON for each micro-batch: its number, rows, end (seconds since 1970) and the durations of its parts. Without
`trigger` it ends with the last record that is there; with it, it runs until it is killed.
"""

import json
import sys
from datetime import datetime
from typing import Any

from fenceline_spark import exactly_once
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.readwriter import DataStreamWriter

# The same for both sinks: those with which Spark's own is at its best (bench/peers/programs/spark_sink.py).
_WRITES = {"kafka.linger.ms": "5", "kafka.batch.size": "1000000", "kafka.buffer.memory": "134217728"}
_READS = {"kafka.max.poll.records": "5000"}


class Telling(StreamingQueryListener):
    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        found = event.progress
        parts = {name: int(ms) for name, ms in found.durationMs.items()}
        begun = datetime.fromisoformat(found.timestamp).timestamp()
        told = {"batch": found.batchId, "rows": found.numInputRows, "begun": begun, "parts_ms": parts}
        print(json.dumps(told), flush=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def writer(order: dict[str, Any], df: DataFrame) -> DataStreamWriter:
    if order["system"] == "fenceline":
        return exactly_once(
            df,
            topic=order["sink"],
            bootstrap_servers=order["bootstrap_servers"],
            name=order["sink"],
            checkpoint=f"{order['folder']}/checkpoint",
            writers=order["writers"],
            options=_WRITES,
        )
    return (
        df.writeStream.format("kafka")
        .options(**{**_WRITES, "kafka.bootstrap.servers": order["bootstrap_servers"], "kafka.acks": "all"})
        .option("topic", order["sink"])
        .option("checkpointLocation", f"{order['folder']}/checkpoint")
    )


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", order["jars"])
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", f"{order['folder']}/local")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("WARN")
    session.streams.addListener(Telling())
    df = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", order["bootstrap_servers"])
        .option("subscribe", order["source"])
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", str(order["each"]))
        .options(**_READS)
        .load()
        .select("key", "value")
    )
    trigger = {"processingTime": order["trigger"]} if order["trigger"] else {"availableNow": True}
    query = writer(order, df).trigger(**trigger).start()
    query.awaitTermination()
    # The listener's last events come after the query's end.
    session.stop()


if __name__ == "__main__":
    main()
