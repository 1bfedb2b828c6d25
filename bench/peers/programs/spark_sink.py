"""Spark Structured Streaming from topic to topic by its own Kafka source and sink, which promises at least once.

python spark_sink.py BOOTSTRAP SOURCE SINK TASKS COMPRESSION FOLDER JARS best|defaults; runs until it is killed.
"""

import sys

from pyspark.sql import SparkSession

# Without a bound the first micro-batch is the whole topic, and nothing is committed before its end.
_EACH = {"maxOffsetsPerTrigger": "1000000"}
_READS_BEST = {"kafka.max.poll.records": "5000"}
_WRITES_BEST = {"kafka.linger.ms": "5", "kafka.batch.size": "1000000", "kafka.buffer.memory": "134217728"}


def main() -> None:
    bootstrap_servers, source, sink, tasks, compression, folder, jars, settings = sys.argv[1:]
    is_best = settings == "best"
    session = (
        SparkSession.builder.master(f"local[{tasks}]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.local.dir", folder)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("WARN")
    query = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .options(**_EACH, **(_READS_BEST if is_best else {}))
        .load()
        .select("key", "value", "partition")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", sink)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .option("kafka.acks", "all")
        .options(**(_WRITES_BEST if is_best else {}))
        .option("kafka.compression.type", compression)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
